"""A corrected copy: every change is in the log, nothing else changes, and the source is never written."""

import hashlib
import json
from pathlib import Path

import pytest
from PIL import Image

from diag.dataset.repair import write_fixed
from diag.dataset.resolve import resolve
from diag.errors import InputError
from tests.dataset.test_audit_images import encoded, photos, picture
from tests.dataset.test_audit_rows import BOX, audited

__all__ = ["photos"]


def digest(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(str(path).encode() + (path.read_bytes() if path.is_file() else b""))
    return found.hexdigest()


def fixed(yaml: Path, out: Path) -> tuple[dict[str, int], list[dict[str, object]]]:
    spec = resolve(str(yaml), "detect", cwd=Path.cwd(), datasets_dir=Path("/nowhere"))
    actions = write_fixed(spec, audited(yaml, level="look"), out)
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
