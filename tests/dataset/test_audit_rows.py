"""Faults of label rows are named by file, line and value; sound rows are not."""

from pathlib import Path

import pytest
from PIL import Image

from diag.dataset.audit import Audit, audit
from diag.dataset.resolve import resolve
from diag.model.audit import Place
from tests.dataset.conftest import Maker

BOX = "0 0.5 0.5 0.2 0.2"
POLYGON = "0 0.1 0.1 0.4 0.1 0.4 0.4 0.1 0.4"
POSE = "0 0.5 0.5 0.2 0.2 0.5 0.5 2 0.45 0.5 1 0.55 0.5 0"
GOOD = {"detect": BOX, "segment": POLYGON, "obb": POLYGON, "pose": POSE}
YAML = "path: .\ntrain: images/train\nval: images/val\nnames: [cat, dog]\nkpt_shape: [3, 3]\nflip_idx: [0, 2, 1]\n"


def audited(yaml: Path, task: str = "detect", level: str = "header") -> Audit:
    return audit(resolve(str(yaml), task, cwd=Path.cwd(), datasets_dir=Path("/nowhere")), level=level)


def places(make_set: Maker, rows: str, task: str = "detect") -> dict[str, list[Place]]:
    """Faults of a training file with these rows, in a set of square images with sound labels otherwise."""
    good = GOOD[task]
    yaml = make_set({"train": [rows, good], "val": [good]}, YAML)
    for number, image in enumerate(sorted((yaml.parent / "images").rglob("*.jpg"))):
        Image.new("RGB", (400 + number, 400 + number), (90, 20 * number, 9)).save(image)
    return audited(yaml, task).faults.places


@pytest.mark.parametrize(
    ("row", "task", "fault", "kind"),
    [
        ("0 0.5 0.5 0 0.2", "detect", "zero_area", "box"),
        ("0 0.95 0.5 0.2 0.2", "detect", "box_over_border", "over"),
        ("0 0.6 0.6 0.9 0.9", "detect", "box_over_border", "corners"),
        ("0 1.005 0.5 0.1 0.1", "detect", "box_over_border", "over"),
        ("0 0.5 0.5 0.002 0.2", "detect", "tiny_boxes", "tiny"),
        ("0 0.5 0.5 1 1", "detect", "fullimage_boxes", "full"),
        ("0 0.5 0.5 0.2 -0.2", "detect", "coord_oob", "negative_size"),
        ("0 200 200 50 50", "detect", "coord_oob", "pixels"),
        ("0.5 0.5 0.5 0.2 0.2", "detect", "class_oob", "fraction"),
        ("0,0.5,0.5,0.2,0.2", "detect", "encoding", "separator"),
        ("0 0.5 0.5 0.2 inf", "detect", "bad_rows", "nan"),
        (BOX, "segment", "mixed_seg_box", "rows"),
        ("0 0.1 0.1 0.4 0.4 0.1 0.4 0.4 0.1", "segment", "polygon_invalid", "crossing"),
        ("0 0.1 0.1 0.2 0.2 0.3 0.3", "segment", "polygon_invalid", "collapsed"),
        ("0 0.3 0.3 0.3 0.3 0.3 0.3", "segment", "zero_area", "shape"),
        ("0 0.1 0.1 0.4 0.1 0.4", "segment", "bad_rows", "fields"),
        ("0 0.1 0.1 0.4 0.4 0.1 0.4 0.4 0.1", "obb", "obb_invalid", "crossed"),
        ("0 0.1 0.1 0.4 0.1 0.6 0.4 0.3 0.4", "obb", "obb_invalid", "slanted"),
        ("0 0.1 0.1 0.4 0.1 0.4 0.1 0.1 0.1", "obb", "zero_area", "shape"),
        (POSE.replace("0.5 0.5 2", "1.4 0.5 2"), "pose", "kpt_out", "outside"),
        (POSE.replace("0.5 0.5 2", "0.9 0.5 2"), "pose", "kpt_out", "far"),
        (POSE.replace("0.5 0.5 2", "0.5 0.5 3"), "pose", "kpt_out", "visibility"),
    ],
)
def test_a_fault_is_named_by_file_line_and_kind(make_set: Maker, row: str, task: str, fault: str, kind: str) -> None:
    good = {"detect": BOX, "pose": POSE.replace("0 ", "1 ", 1)}.get(task, "1 0.7 0.7 0.9 0.7 0.9 0.9 0.7 0.9")
    found = places(make_set, f"{good}\n{row}\n", task)
    assert [(p.file, p.line, p.kind) for p in found.pop(fault)] == [("labels/train/0.txt", 2, kind)]
    assert found == {}


@pytest.mark.parametrize("task", list(GOOD))
def test_sound_rows_are_quiet(make_set: Maker, task: str) -> None:
    assert places(make_set, f"{GOOD[task]}\r\n", task) == {}


def test_a_box_at_the_border_may_be_off_by_a_pixel(make_set: Maker) -> None:
    assert places(make_set, "0 0.9 0.5 0.204 0.2\n") == {}


def test_an_obb_is_judged_in_pixels_not_in_shares(make_set: Maker) -> None:
    """A square turned by 30 degrees in a wide image has slanted corners only when they are read as shares."""
    row = "0 0.55 0.4 0.60825 0.61651 0.54 0.73301 0.48175 0.51651"
    yaml = make_set({"train": [row], "val": [row]})
    for number, image in enumerate(sorted((yaml.parent / "images").rglob("*.jpg"))):
        Image.new("RGB", (2000, 1000 + number), (9, number * 90, 9)).save(image)
    assert "obb_invalid" not in audited(yaml, "obb").faults.places


def test_copies_of_a_row_name_the_first_one(make_set: Maker) -> None:
    moved = "0 0.502 0.5 0.2 0.2"
    found = places(make_set, f"{BOX}\n{BOX}\n{BOX}\n{moved}\n1 0.5 0.5 0.2 0.2\n")
    assert [(p.line, p.other) for p in found["dup_labels"]] == [
        (2, "labels/train/0.txt:1"),
        (3, "labels/train/0.txt:1"),
    ]
    assert [(p.line, p.other) for p in found["double_annotation"]] == [(4, "labels/train/0.txt:1")]
    assert "iou iou" not in f"{found['double_annotation'][0].kind} {found['double_annotation'][0].value}".lower()


def test_polygons_with_one_box_are_told_apart_from_copies(make_set: Maker) -> None:
    other = "0 0.1 0.1 0.4 0.1 0.25 0.25 0.4 0.4 0.1 0.4"
    found = places(make_set, f"{POLYGON}\n{other}\n{POLYGON}\n", "segment")
    assert sorted((f, p.line) for f in ("dup_labels", "dup_same_bbox") for p in found.get(f, [])) == [
        ("dup_labels", 3),
        ("dup_same_bbox", 2),
    ]


def test_a_wrong_kpt_shape_is_one_fault_not_one_a_row(make_set: Maker) -> None:
    rows = "0 0.5 0.5 0.2 0.2 0.5 0.5 2 0.45 0.5 1\n" * 3
    yaml = make_set({"train": [rows], "val": [rows]}, YAML)
    found = audited(yaml, "pose").faults.places
    assert [p.kind for p in found["kpt_out"]] == ["kpt_shape"]
    assert "bad_rows" not in found


def test_a_bad_flip_idx_is_told(make_set: Maker) -> None:
    yaml = make_set({"train": [POSE], "val": [POSE]}, YAML.replace("[0, 2, 1]", "[1, 2, 0]"))
    assert [p.kind for p in audited(yaml, "pose").faults.places["flip_idx_missing"]] == ["invalid"]


def test_a_short_list_of_names_is_told_first(make_set: Maker) -> None:
    rows = "2 0.5 0.5 0.2 0.2\n2 0.2 0.2 0.1 0.1\n"
    yaml = make_set({"train": [rows, rows, rows], "val": [rows]})
    fault = audited(yaml).dataset.faults["class_oob"]
    assert (fault.places[0].kind, fault.kinds["range"]) == ("names_short", 8)


def test_utf16_is_read_and_told(make_set: Maker) -> None:
    yaml = make_set({"train": [BOX], "val": [BOX]})
    (yaml.parent / "labels" / "train" / "0.txt").write_bytes(f"{BOX}\n".encode("utf-16"))
    result = audited(yaml)
    assert [p.kind for p in result.faults.places["encoding"]] == ["utf16"]
    assert result.dataset.splits["train"].instances == 1
    assert result.dataset.measures["dropped_images"] == 2  # both images are empty files


def test_boxes_of_a_pose_set_serve_detect(make_set: Maker) -> None:
    yaml = make_set({"train": [f"{POSE}\n0 0.2 0.2 0.1 0 0.2 0.2 2 0 0 0 0 0 0\n"], "val": [POSE]}, YAML)
    found = audited(yaml).faults.places
    assert {(f, p.line) for f, ps in found.items() for p in ps if p.line} == {("zero_area", 2)}


@pytest.mark.parametrize("task", [*GOOD])
def test_a_set_without_rows_or_images_has_an_answer(make_set: Maker, task: str) -> None:
    bare = audited(make_set({"train": [None, ""], "val": [None]}, YAML), task).dataset
    assert (bare.splits["train"].missing_labels, bare.splits["train"].background) == (1, 1)
    for image in (Path(bare.yaml).parent / "images").rglob("*.jpg"):
        image.unlink()
    assert audited(Path(bare.yaml), task, "look").dataset.splits["train"].images == 0
