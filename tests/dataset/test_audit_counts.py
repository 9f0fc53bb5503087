"""Counts and faults of label files."""

from pathlib import Path

import pytest

from diag.dataset.audit import audit
from diag.dataset.resolve import resolve
from diag.model.evidence import Dataset, SplitCounts
from tests.dataset.conftest import Maker

BCCD = Path(__file__).parents[3] / "shared" / "data" / "bccd" / "data.yaml"


def counted(yaml: Path, task: str = "detect") -> Dataset:
    return audit(resolve(str(yaml), task, cwd=Path.cwd(), datasets_dir=Path("/nowhere"))).dataset


def test_everything_is_counted_once(make_set: Maker) -> None:
    rows: dict[str, list[str | None]] = {
        "train": ["0 .5 .5 .1 .1\n1 .5 .5 .1 .1\n", "", None, "\ufeff0 .5 .5 .1 .1\r\n"],
        "val": ["1 .5 .5 .1 .1"],
    }
    dataset = counted(make_set(rows))
    assert dataset.splits["train"] == SplitCounts(4, 2, 1, 1, 3)
    assert dataset.class_counts == {0: 2, 1: 2}
    assert dataset.problems == ()


@pytest.mark.parametrize(
    ("row", "task", "fault", "said"),
    [
        ("0 .5 .5 .1", "detect", "bad_rows", "4 fields, expected 5"),
        ("0 .5 .5 .1 .1 .9", "detect", "bad_rows", "6 fields"),
        ("cat .5 .5 .1 .1", "detect", "bad_rows", "not numbers"),
        ("0 nan .5 .1 .1", "detect", "bad_rows", "nan or inf"),
        ("2 .5 .5 .1 .1", "detect", "class_oob", "class 2, but names has 2 classes"),
        ("-1 .5 .5 .1 .1", "detect", "class_oob", "class -1"),
        ("0.5 .5 .5 .1 .1", "detect", "class_oob", "class 0.5"),
        ("0 320 240 50 50", "detect", "coord_oob", "coordinate 320 outside"),
        ("0 .5 .5 .1 -.2", "detect", "coord_oob", "coordinate -0.2"),
        ("0 .1 .1 .2 .1 .2 1.2", "segment", "coord_oob", "coordinate 1.2"),
        ("0 .1 .1 .2 .1", "obb", "bad_rows", "expected 9"),
    ],
)
def test_a_fault_is_counted_and_named_by_file_and_line(
    make_set: Maker, row: str, task: str, fault: str, said: str
) -> None:
    good = "0 .1 .1 .2 .1 .2 .2 .1 .2" if task in {"segment", "obb"} else "0 .5 .5 .1 .1"
    dataset = counted(make_set({"train": [f"{good}\n{row}\n"], "val": [good]}), task)
    assert getattr(dataset.splits["train"], fault) == 1
    assert dataset.problems[0].endswith("0.txt:2: " + dataset.problems[0].split(": ", 1)[1])
    assert said in dataset.problems[0]


def test_pose_rows_follow_kpt_shape(make_set: Maker) -> None:
    yaml = "train: images/train\nval: images/val\nnames: [p]\nkpt_shape: [2, 3]\n"
    good, bad = "0 .5 .5 .1 .1 .4 .4 2 .6 .6 0", "0 .5 .5 .1 .1 .4 .4 2"
    dataset = counted(make_set({"train": [good, bad], "val": [good]}, yaml), "pose")
    assert dataset.splits["train"].bad_rows == 1
    assert "8 fields, expected 11" in dataset.problems[0]


def test_a_small_overshoot_is_no_fault(make_set: Maker) -> None:
    assert counted(make_set({"train": ["0 1.005 .5 .1 .1"], "val": ["0 .5 .5 .1 .1"]})).problems == ()


def test_binary_labels_are_told_not_fatal(make_set: Maker) -> None:
    yaml = make_set({"train": [""], "val": ["0 .5 .5 .1 .1"]})
    (yaml.parent / "labels" / "train" / "0.txt").write_bytes(b"\xff\xfe\x00")
    dataset = counted(yaml)
    assert dataset.splits["train"].bad_rows == 1
    assert "not readable" in dataset.problems[0]


@pytest.mark.skipif(not BCCD.exists(), reason="not run: no ../shared")
def test_a_real_set_is_counted_right() -> None:
    dataset = counted(BCCD)
    assert {n: (s.images, s.instances) for n, s in dataset.splits.items()} == {
        "train": (205, 2805),
        "val": (87, 1138),
        "test": (72, 945),
    }
    assert dataset.class_counts == {0: 4155, 1: 372, 2: 361}
