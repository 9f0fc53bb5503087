# ruff: noqa: E501  (real layouts have long lines)
"""Console logs as collectors, schedulers and repositories leave them: prefixes, one stream, other heads and banners."""

from pathlib import Path

import pytest

from diag.load.console import parse_log
from diag.load.foreign import log_epochs
from diag.load.prefix import sniff, strip_all
from diag.load.run import load_run
from diag.load.scans import scan

HEAD = "      Epoch    GPU_mem   box_loss   obj_loss   cls_loss  Instances       Size"
PREFIXES = [
    "1667892746021 gpu-host-6 error ",
    "2024-05-01T12:00:01.1234567Z stdout F ",
    "2024-05-01T12:00:01.123456789Z ",
    "Nov 30 20:26:26 gpu-host yolo[4711]: ",
    "[1,0]<stdout>: ",
    "[rank0]: ",
    "[default0]:",
    "trainer-1  | ",
]


def rows(epochs: int, planned: int) -> list[str]:
    lines = [f"Starting training for {planned + 1} epochs..."]
    for i in range(epochs):
        lines += [
            HEAD,
            f"      {i}/{planned}      10.9G     0.{90 - i}      0.0351          0         90        640: "
            "100%|██████████| 171/171 [02:10<00:00,  1.31it/s]",
            "                 Class     Images  Instances          P          R      mAP50   mAP50-95: "
            "100%|██████████| 5/5 [00:08<00:00,  1.60s/it]",
            f"                   all        311        608       0.44      0.293      0.{20 + i}      0.1{i % 10}",
        ]
    return lines


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_prefix_of_a_collector_is_no_part_of_the_line(prefix: str) -> None:
    _, log = parse_log("\n".join(prefix + line for line in rows(8, 7)))
    assert [e.epoch for e in log.epochs] == list(range(8))
    assert log.epochs[3].losses == {"box_loss": 0.87, "obj_loss": 0.0351, "cls_loss": 0.0}
    assert log.epochs[3].metrics["metrics/mAP50(B)"] == 0.23


def test_a_message_of_several_lines_has_one_prefix() -> None:
    text = "\n".join("\n".join([PREFIXES[0] + a, b]) for a, b in zip(rows(8, 7)[::2], rows(8, 7)[1::2], strict=False))
    _, log = parse_log(text)
    assert len(log.epochs) == 8


def test_few_such_lines_are_no_prefix() -> None:
    head = "\n".join([*rows(20, 19), "api-1  | started", "api-1  | ready"]).encode()
    assert not sniff(head)
    prefix = sniff(("api-1  | x\n" * 9).encode())
    assert len(prefix) == 1 and strip_all(prefix, b"ready\napi-1  | x") == b"ready\nx"


@pytest.mark.parametrize("epochs", [1, 4])
def test_standard_output_alone_has_no_losses(epochs: int) -> None:
    """`yolo train > train.log`: bars, and with them the losses, go to standard error."""
    lines = ["Starting training for 4 epochs..."]
    for i in range(epochs):
        lines += [
            "",
            "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size",
            f"                   all        178        149      0.588      0.428      0.559       0.3{i}",
        ]
    if epochs == 4:
        lines += [
            "4 epochs completed in 0.322 hours.",
            "                   all        178        149      0.9      0.9      0.9       0.9",
        ]
    _, log = parse_log("\n".join(lines))
    assert [(e.epoch, e.planned) for e in log.epochs] == [(i + 1, 4) for i in range(epochs)]
    assert log.ended == ("completed" if epochs == 4 else "cut")
    made = log_epochs(log)
    assert made is not None
    assert [r.values["metrics/mAP50-95(B)"] for r in made.rows] == [float(f"0.3{i}") for i in range(epochs)]


def test_a_validation_alone_is_no_training() -> None:
    _, log = parse_log("                   all        178        149      0.588      0.428      0.559       0.32")
    assert log_epochs(log) is None


def test_a_lost_bar_among_others_makes_no_row_without_losses() -> None:
    lines = rows(6, 5)
    del lines[1 + 4 * 3 + 1]
    _, log = parse_log("\n".join(lines))
    made = log_epochs(log)
    assert made is not None and all("train/box_loss" in r.values for r in made.rows)


@pytest.mark.parametrize(("head", "other"), [("seg_loss", "M"), ("pose_loss  kobj_loss", "P")])
def test_the_second_four_are_masks_or_keypoints(head: str, other: str) -> None:
    losses = "  ".join("1.5" for _ in head.split())
    _, log = parse_log(
        f"      Epoch    GPU_mem   box_loss  {head}   cls_loss   dfl_loss  Instances       Size\n"
        f"      1/2      9.75G      4.31  {losses}      2.8      1.2          6       1280: 100%|██| 9/9 [00:09<00:00]\n"
        "                   all         57         57       0.75       0.84      0.869      0.215       0.1  0.2  0.3  0.4"
    )
    assert log.epochs[0].metrics[f"metrics/mAP50-95({other})"] == 0.4


@pytest.mark.parametrize(
    ("banner", "version", "torch", "gpu"),
    [
        ("YOLOR 🚀 v0.1-70-g4c207e1 torch 1.10.1+cu111 CUDA:0 (NVIDIA GeForce RTX 3060, 12051.6875MB)", "0.1-70-g4c207e1", "1.10.1+cu111", "NVIDIA GeForce RTX 3060"),
        ("YOLOv5 🚀  torch 2.2.2+cu121 CUDA:0 (Quadro P2000, 5046.25MB)", "", "2.2.2+cu121", "Quadro P2000"),
        ("YOLO 🚀 v0.1-89-g93f1a28 Python-3.10.14 torch-2.2.0 CUDA:0 (Tesla T4, 14931MiB)", "0.1-89-g93f1a28", "2.2.0", "Tesla T4"),
    ],
)  # fmt: skip
def test_banners_of_the_older_repositories(banner: str, version: str, torch: str, gpu: str) -> None:
    _, log = parse_log("\n".join([banner, *rows(3, 2)]))
    assert (log.versions, log.torch, log.gpu) == ((version,) if version else (), torch, gpu)


def test_a_banner_that_another_one_followed_is_of_another_program() -> None:
    other = "YOLOv5 🚀 568ae86b torch 1.12.1+cu113 CUDA:0 (NVIDIA GeForce RTX 2060, 6144MB)"
    own = "YOLOR 🚀 v0.1-70-g4c207e1 torch 1.10.1+cu111 CUDA:0 (NVIDIA GeForce RTX 3060, 12051MB)"
    _, log = parse_log("\n".join([other, own, *rows(3, 2), other]))
    assert (log.torch, log.gpu) == ("1.10.1+cu111", "NVIDIA GeForce RTX 3060")
    assert log.versions[0] == "0.1-70-g4c207e1"


def test_each_training_ends_in_its_own_way() -> None:
    stopped = "Stopping training early as no improvement observed in last 2 epochs."
    first = [*rows(5, 49), stopped, "5 epochs completed in 0.1 hours."]
    _, log = parse_log("\n".join([*first, *rows(9, 49)]))
    assert (len(log.epochs), log.ended) == (9, "cut")
    _, log = parse_log("\n".join([*rows(9, 49), stopped, "9 epochs completed in 0.1 hours.", *rows(5, 49)]))
    assert (len(log.epochs), log.ended) == (9, "early_stop")


def _begun(data: str, optimizer: str, folder: str) -> list[str]:
    """What stands before the epochs of a training."""
    return [
        f"engine/trainer: task=detect, mode=train, model=yolov8n.pt, data={data}, epochs=50, optimizer=auto, lr0=0.01",
        f"optimizer: {optimizer} with parameter groups 57 weight(decay=0.0), 64 weight(decay=0.0005), 63 bias(decay=0.0)",
        f"train: Scanning {folder}... 90 images, 2 backgrounds, 0 corrupt: 100%|███| 92/92 [00:01<00:00, 80it/s]",
    ]


@pytest.mark.parametrize("longer_first", [True, False])
def test_scans_and_optimizer_are_those_of_the_training_that_is_judged(longer_first: bool) -> None:
    mine = [*_begun("a.yaml", "AdamW(lr=0.0007, momentum=0.9)", "/data/a/labels"), *rows(9, 49)]
    other = [*_begun("b.yaml", "SGD(lr=0.01, momentum=0.9)", "/content/drive/b/labels"), *rows(5, 49)]
    failed = [*_begun("c.yaml", "SGD(lr=0.02, momentum=0.9)", "/content/drive/c/labels"), "FileNotFoundError: c.yaml"]
    parts = [failed, mine, other] if longer_first else [other, failed, mine]
    _, log = parse_log("\n".join(line for part in parts for line in part))
    assert len(log.epochs) == 9
    assert [s.path for s in log.scans] == ["/data/a/labels"]
    assert (log.optimizer, log.optimizer_lr) == ("AdamW", 0.0007)


def test_an_earlier_scan_of_the_same_folder_counts() -> None:
    first = [*_begun("a.yaml", "SGD(lr=0.01)", "/data/a/labels"), *rows(5, 49)]
    text = "\n".join([*first, *_begun("a.yaml", "SGD(lr=0.01)", "/data/a/labels.cache"), *rows(9, 49)])
    assert [s.path for s in parse_log(text)[1].scans] == ["/data/a/labels", "/data/a/labels.cache"]


def test_without_printed_arguments_all_scans_are_kept() -> None:
    folders = ["/data/a/labels", "/data/b/labels"]
    text = "\n".join(line for f in folders for line in [*_begun("a.yaml", "SGD(lr=0.01)", f)[2:], *rows(5, 49)])
    assert [s.path for s in parse_log(text)[1].scans] == folders


@pytest.mark.parametrize("split", ["val", "test"])
def test_the_classifier_of_yolov5_prints_its_validation_in_the_row(split: str) -> None:
    text = "\n".join(
        [
            f"     Epoch   GPU_mem  train_loss   {split:>4}_loss    top1_acc    top5_acc",
            "       1/3     1.47G        1.05       0.974       0.828       0.975: 100% 148/148 [00:38<00:00,  3.82it/s]",
            "       2/3     1.73G       0.895       0.766       0.911       0.994: 100% 148/148 [00:36<00:00,  4.03it/s]",
            "       3/3     1.73G        0.82       0.704       0.934       0.996: 100% 148/148 [00:35<00:00,  4.20it/s]",
        ]
    )
    made = log_epochs(parse_log(text)[1])
    assert made is not None
    assert [dict(r.values) for r in made.rows][1] == {
        "train/loss": 0.895, "val/loss": 0.766, "metrics/accuracy_top1": 0.911, "metrics/accuracy_top5": 0.994
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("val: Scanning D:\\set\\test... 44 images, 0 corrupt: 100%|█████| 44/44 [00:00<00:00, 217it/s]", ("val", 44, 44, 0)),
        ("train: Scanning '/d/labels' images and labels... 90 found, 2 missing, 5 empty, 1 corrupted: 100%|█| 92/92 [00:01<00:00, 80it/s]", ("train", 92, 90, 1)),
        ("train: nothing", None),
    ],
)  # fmt: skip
def test_scans(line: str, expected: tuple[str, int, int, int] | None) -> None:
    made = scan(1, line, "console.log")
    assert (made and (made.split, made.total, made.labelled, made.corrupt)) == expected
    assert made is None or not made.path.endswith(("labels'", "images and labels"))


def test_source_lines_of_a_traceback_were_not_said() -> None:
    console, _ = parse_log(
        "Traceback (most recent call last):\n"
        '  File "/x/torch/amp/grad_scaler.py", line 350, in step\n'
        '    raise RuntimeError("CUDA out of memory. Tried to allocate")  # KeyboardInterrupt\n'
        "ValueError: no such thing\n"
    )
    assert not console.of("gpu_oom") and not console.of("interrupted")
    assert console.of("error")


def _streams(epochs: int) -> tuple[list[str], list[str]]:
    head = "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size"
    out, err = [f"Starting training for {epochs} epochs..."], []
    for i in range(1, epochs + 1):
        out += ["", head, f"                   all         64        412        0.5        0.4      0.4{i}      0.2{i}"]
        err += [
            f"      {i}/{epochs}      2.5G      1.{9 - i}      2.1      1.2         17        640: 100%|███| 4/4 [00:02<00:00,  1.9it/s]",
            "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|███| 2/2 [00:01<00:00,  1.9it/s]",
        ]
    return out, err


def test_two_streams_in_one_file_are_one_training() -> None:
    out, err = _streams(5)
    for text in (out + err, err + out):
        _, log = parse_log("\n".join(text))
        assert [e.losses["box_loss"] for e in log.epochs] == [1.8, 1.7, 1.6, 1.5, 1.4]
        assert [e.metrics["metrics/mAP50-95(B)"] for e in log.epochs] == [0.21, 0.22, 0.23, 0.24, 0.25]


def test_two_streams_in_two_files_are_one_training(tmp_path: Path) -> None:
    """A scheduler's job.out and job.err."""
    out, err = _streams(5)
    (tmp_path / "job.out").write_text("\n".join(out), encoding="utf-8")
    (tmp_path / "job.err").write_text("\n".join(err), encoding="utf-8")
    log = load_run(tmp_path).log
    assert log is not None and len(log.epochs) == 5
    assert all(e.losses and e.metrics for e in log.epochs)


def test_streams_of_two_trainings_stay_apart() -> None:
    out, _ = _streams(5)
    _, err = _streams(9)
    _, log = parse_log("\n".join(out + err))
    assert not any(e.losses and e.metrics for e in log.epochs)
