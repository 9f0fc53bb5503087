"""Child process that fetches a data set as Ultralytics does: `python -m diag.record.fetch DATA TASK`."""

import sys


def main(data: str, task: str) -> None:
    """Let Ultralytics check the data set, which downloads it into its datasets_dir when images are missing."""
    from ultralytics.data.utils import check_cls_dataset, check_det_dataset

    (check_cls_dataset if task == "classify" else check_det_dataset)(data)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
