"""What is truly wrong with real sets, and nothing else."""

from pathlib import Path

import pytest

from diag.dataset.report import findings_of
from tests.dataset.test_audit_rows import audited

DATA = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason="not run: no ../shared")


def test_bccd() -> None:
    """The two boxes without size, cells that are annotated twice, and one field photographed twice (seen by eye)."""
    result = audited(DATA / "bccd" / "data.yaml", level="look")
    found = result.faults.places
    assert [(p.file, p.line) for p in found["zero_area"]] == [
        ("labels/train/BloodImage_00343.txt", 4),
        ("labels/val/BloodImage_00338.txt", 13),
    ]
    assert len(found["double_annotation"]) == 7
    [leak] = found["train_val_leak"]
    assert (leak.file, leak.other) == ("images/train/BloodImage_00038.jpg", "images/val/BloodImage_00037.jpg")
    assert set(found) == {"zero_area", "double_annotation", "train_val_leak"}
    ids = {f.id: f for f in findings_of(result.dataset)}
    assert set(ids) == {f"data.{name}" for name in (*found, "class_imbalance")}
    assert ids["data.class_imbalance"].values["least"] == "Platelets"
    assert result.dataset.measures["dropped_images"] == 0


def test_coco128() -> None:
    result = audited(DATA / "coco128" / "data.yaml", level="look")
    counts = {name: fault.count for name, fault in result.dataset.faults.items()}
    assert counts == {"fullimage_boxes": 6, "image_format": 2, "missing_labels": 2, "orphan_label": 2, "tiny_boxes": 3}


def test_coco128_seg_follows_the_lost_link_and_is_not_flooded_by_crossing_polygons() -> None:
    result = audited(DATA / "coco128-seg" / "data.yaml", "segment")
    assert result.dataset.faults["missing_labels"].kinds == {"missing": 56, "empty": 2}
    assert result.dataset.faults["polygon_invalid"].count == 22  # a plain test alarms on every fifth of 1456
    assert {f.id for f in findings_of(result.dataset)} == {
        "data.class_imbalance",
        "data.image_format",
        "data.missing_labels",
        "data.polygon_invalid",
        "data.tiny_boxes",
    }
