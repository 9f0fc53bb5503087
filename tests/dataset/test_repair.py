"""A corrected copy: every change is in the log, nothing else changes, and the source is never written."""

import hashlib
import json
from pathlib import Path

import pytest
from PIL import Image

from diag.dataset.repair import write_fixed
from diag.dataset.resolve import resolve
from diag.errors import InputError
from tests.dataset.conftest import Maker
from tests.dataset.test_audit_images import encoded, photos, picture
from tests.dataset.test_audit_rows import BOX, GOOD, POLYGON, POSE, YAML, audited

__all__ = ["photos"]


def digest(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(str(path).encode() + (path.read_bytes() if path.is_file() else b""))
    return found.hexdigest()


def fixed(yaml: Path, out: Path, task: str = "detect") -> tuple[dict[str, int], list[dict[str, object]]]:
    spec = resolve(str(yaml), task, cwd=Path.cwd(), datasets_dir=Path("/nowhere"))
    actions = write_fixed(spec, audited(yaml, task, level="look"), out)
    return actions, [json.loads(line) for line in (out / "changes.jsonl").read_text().splitlines()]


def test_rows_are_mended_one_by_one_and_the_copy_is_sound(photos: Path, tmp_path: Path) -> None:
    labels = photos.parent / "labels" / "train"
    (labels / "0.txt").write_text(f"{BOX}\n0 0.5 0.5 0 0.1\n1 0.95 0.3 0.2 0.1\n{BOX}\n")
    (labels / "1.txt").write_text("0 160 120 32 24\ncat 0 0 0 0\n0,0.3,0.3,0.1,0.1\n")
    (labels / "2.txt").write_bytes(f"{BOX}\n".encode("utf-16"))
    before = digest(photos.parent)
    out = tmp_path / "out"
    actions, log = fixed(photos, out)
    assert (out / "labels/train/0.txt").read_text() == f"{BOX}\n1 0.925 0.3 0.15 0.1\n"
    assert (out / "labels/train/1.txt").read_text() == "0 0.5 0.5 0.1 0.1\n0 0.3 0.3 0.1 0.1\n"
    assert (out / "labels/train/2.txt").read_text() == f"{BOX}\n"
    assert (out / "labels/train/3.txt").read_text() == BOX + "\n"
    assert actions == {"removed": 3, "changed": 3, "rewritten": 1}
    assert {
        "fault": "data.coord_oob",
        "line": 1,
        "before": "0 160 120 32 24",
        "after": "0 0.5 0.5 0.1 0.1",
    }.items() <= next(e for e in log if e["fault"] == "data.coord_oob").items()
    assert audited(out / "data.yaml", level="look").faults.places == {}
    assert digest(photos.parent) == before


def test_images_are_linked_converted_or_left_out(photos: Path, tmp_path: Path) -> None:
    train = photos.parent / "images" / "train"
    (train / "0.jpg").write_bytes(b"")
    (train / "1.jpg").write_bytes(encoded(picture(1).convert("CMYK")))
    (train / "2.jpg").write_bytes((photos.parent / "images" / "val" / "1.jpg").read_bytes())
    out = tmp_path / "out"
    actions, _ = fixed(photos, out)
    assert actions == {"left out": 2, "converted": 1}
    assert sorted(p.name for p in (out / "images" / "train").iterdir()) == ["1.jpg", "3.jpg", "4.jpg", "5.jpg"]
    assert Image.open(out / "images" / "train" / "1.jpg").mode == "RGB"
    assert (out / "images" / "train" / "3.jpg").is_symlink()
    assert not (out / "labels" / "train" / "0.txt").exists()


def test_a_label_of_another_case_gets_its_name(photos: Path, tmp_path: Path) -> None:
    labels = photos.parent / "labels" / "train"
    (labels / "0.txt").rename(labels / "0.TXT")
    fixed(photos, tmp_path / "out")
    assert (tmp_path / "out" / "labels" / "train" / "0.txt").read_text() == BOX + "\n"


def test_a_place_inside_the_set_or_with_files_is_refused(photos: Path) -> None:
    with pytest.raises(InputError, match="never written"):
        fixed(photos, photos.parent / "out")
    with pytest.raises(InputError, match="not empty"):
        fixed(photos, Path(__file__).parent)


TURNED = "0 0.5 0.25 0.6875 0.5 0.5 0.75 0.3125 0.5"  # square on pictures of 320 x 240
MENDED = {
    # task: (row, what becomes of it; None: it is removed)
    "segment": [
        (POLYGON, POLYGON),
        (BOX, None),
        ("0 0.1 0.1 0.4 0.1 0.4", None),
        ("0 0.1 0.1 0.2 0.2 0.3 0.3", None),
        ("0 0.6 0.6 0.9 0.6 1.2 0.9", "0 0.6 0.6 0.9 0.6 1 0.9"),
        ("0 160 24 320 24 320 120", "0 0.5 0.1 1 0.1 1 0.5"),
        ("7 0.1 0.1 0.4 0.1 0.4 0.4", None),
    ],
    "pose": [
        (POSE, POSE),
        ("1 0.3 0.3 0.2 0.2 1.4 0.3 2 0.3 0.3 1 0 0 0", "1 0.3 0.3 0.2 0.2 0 0 0 0.3 0.3 1 0 0 0"),
        ("1 0.3 0.7 0.2 0.2 0.3 0.7 3 0.3 0.7 1 0 0 0", "1 0.3 0.7 0.2 0.2 0.3 0.7 2 0.3 0.7 1 0 0 0"),
        ("0 0.95 0.5 0.2 0.2 0.95 0.5 2 0.9 0.5 1 0 0 0", "0 0.925 0.5 0.15 0.2 0.95 0.5 2 0.9 0.5 1 0 0 0"),
        ("0 160 24 64 24 160 24 2 144 24 1 0 0 0", "0 0.5 0.1 0.2 0.1 0.5 0.1 2 0.45 0.1 1 0 0 0"),
        ("0 0.5 0.5 0.2 0.2 0.5 0.5", None),
    ],
    "obb": [
        (TURNED, TURNED),
        ("0 0.5 0.5 0.2 0.2", None),
        ("1 0.1 0.1 0.4 0.1 0.4 0.1 0.1 0.1", None),
        ("1 0.7 0.1 1.1 0.1 1.1 0.3 0.7 0.3", "1 0.8 0.15 1 0.15 1 0.25 0.8 0.25"),
        ("1 32 24 64 24 64 48 32 48", "1 0.1 0.1 0.2 0.1 0.2 0.2 0.1 0.2"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("task", list(MENDED))
def test_every_task_is_mended_row_by_row_and_audits_clean(make_set: Maker, tmp_path: Path, task: str) -> None:
    rows = MENDED[task]
    good = TURNED if task == "obb" else GOOD[task]
    yaml = make_set({"train": ["".join(f"{row}\n" for row, _ in rows), *[good] * 9], "val": [good] * 2}, YAML)
    for number, image in enumerate(sorted((yaml.parent / "images").rglob("*.jpg"))):
        picture(number).save(image, quality=90)
    before = digest(yaml.parent)
    out = tmp_path / "out"
    _, log = fixed(yaml, out, task)
    wanted = [after for _, after in rows if after is not None]
    assert (out / "labels/train/0.txt").read_text().splitlines() == wanted
    changed = {number for number, (row, after) in enumerate(rows, 1) if row != after}
    assert {entry["line"] for entry in log} == changed
    assert {entry["line"] for entry in log if entry["action"] == "removed"} == {
        number for number, (_, after) in enumerate(rows, 1) if after is None
    }
    assert audited(out / "data.yaml", task, level="look").faults.places == {}
    assert all(image.is_symlink() for image in (out / "images").rglob("*.jpg"))
    assert digest(yaml.parent) == before


def test_folders_of_classes_are_mended(tmp_path: Path) -> None:
    root = tmp_path / "set"
    for k, (split, name) in enumerate((s, n) for s in ("train", "val") for n in ("cat", "dog")):
        for number in range(4):
            image = root / split / name / f"{k}{number}.jpg"
            image.parent.mkdir(parents=True, exist_ok=True)
            picture(10 * k + number).save(image, quality=90)
    train = root / "train" / "cat"
    (train / "00.jpg").write_bytes(b"")
    (train / "01.jpg").write_bytes(encoded(picture(1).convert("CMYK")))
    (train / "copy.jpg").write_bytes((train / "02.jpg").read_bytes())
    (root / "train" / "dog" / "leak.jpg").write_bytes((root / "val" / "dog" / "30.jpg").read_bytes())
    (root / "train" / "loose.jpg").write_bytes((train / "03.jpg").read_bytes())
    before = digest(root)
    out = tmp_path / "out"
    actions, log = fixed(root, out, "classify")
    assert actions == {"left out": 4, "converted": 1}
    assert {str(e["file"]) for e in log} == {
        "train/cat/00.jpg", "train/cat/01.jpg", "train/cat/copy.jpg", "train/dog/leak.jpg", "train/loose.jpg",
    }  # fmt: skip
    assert sorted(p.name for p in (out / "train" / "cat").iterdir()) == ["01.jpg", "02.jpg", "03.jpg"]
    assert (out / "train/cat/02.jpg").is_symlink()
    assert audited(out, "classify", level="look").faults.places == {}
    assert digest(root) == before
