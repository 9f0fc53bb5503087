"""What the audit says Ultralytics would leave out is what Ultralytics leaves out."""

import random
import re
import shutil
from pathlib import Path

import pytest
from PIL import Image

from diag.dataset.audit import Audit
from tests.dataset.conftest import Maker
from tests.dataset.test_audit_rows import BOX, POLYGON, audited

ROWS = [
    BOX,
    "",
    "0 0.5 0.5 0 0.1",
    "0 0.95 0.5 0.2 0.1",
    "0 1.005 0.5 0.1 0.1",
    "0 1.02 0.5 0.1 0.1",
    "0 0.5 0.5 0.1 -0.1",
    "0 -0.005 0.5 0.1 0.1",
    "2 0.5 0.5 0.1 0.1",
    "-1 0.5 0.5 0.1 0.1",
    "0.5 0.5 0.5 0.1 0.1",
    "0 0.5 0.5 0.1",
    "0 0.5 0.5 0.1 0.1 0.9",
    "0 nan 0.5 0.1 0.1",
    "cat 0.5 0.5 0.1 0.1",
    "0,0.5,0.5,0.1,0.1",
    "0 320 240 50 50",
    POLYGON,
    f"{BOX}\n{BOX}",
    f"{BOX}\n{POLYGON}",
    "0 0.1 0.1 0.2 0.1 0.2 0.2 0.3",
]


@pytest.mark.parametrize("row", ROWS)
def test_the_same_images_are_left_out(make_set: Maker, row: str) -> None:
    from ultralytics.data.utils import verify_image_label

    yaml = make_set({"train": [row], "val": [BOX]})
    for number, image in enumerate(sorted((yaml.parent / "images").rglob("*.jpg"))):
        noise = random.Random(number).randbytes(64 * 48)
        Image.frombytes("L", (64, 48), noise).convert("RGB").save(image)
    image, label = yaml.parent / "images" / "train" / "0.jpg", yaml.parent / "labels" / "train" / "0.txt"
    kept = verify_image_label((str(image), str(label), "", False, 2, 0, 0, False))[0] is not None
    assert audited(yaml).dataset.measures["dropped_images"] == (0 if kept else 1)


SHARED = Path(__file__).parents[3] / "shared" / "data"


def scanned(found: Audit) -> dict[str, int | set[str]]:
    """What Ultralytics' own scan says of every image of a set: its counts, and the files that it speaks of."""
    from ultralytics.data.utils import verify_image_label

    classes = len(found.dataset.names)
    tally: dict[str, int] = dict.fromkeys(("missing", "empty", "dropped", "duplicates", "other"), 0)
    named: set[str] = set()
    for item in found.items:
        *_, missing, _, empty, corrupt, said = verify_image_label(
            (str(item.real), str(item.label), "", False, classes, 0, 0, False)
        )
        tally["missing"] += missing
        tally["empty"] += empty
        tally["dropped"] += corrupt
        twice = re.search(r"(\d+) duplicate labels", said)
        tally["duplicates"] += int(twice[1]) if twice else 0
        tally["other"] += bool(said) and not corrupt and not twice
        if said:
            named.add(item.image.name)
    return {**tally, "named": named}


@pytest.mark.skipif(not SHARED.exists(), reason="not run: no ../shared")
@pytest.mark.parametrize(
    ("name", "task", "images"), [("bccd", "detect", 364), ("coco128", "detect", 256), ("coco128-seg", "segment", 256)]
)
def test_real_sets_line_by_line(name: str, task: str, images: int) -> None:
    """Every count of Ultralytics' scan is ours as well, and every image that it speaks of is named by us."""
    found = audited(SHARED / name / "data.yaml", task)
    assert len(found.items) == images
    compare(found, set())


@pytest.mark.skipif(not SHARED.exists(), reason="not run: no ../shared")
def test_one_bad_row_costs_the_same_images(tmp_path: Path) -> None:
    """Five real images with one bad row each, one with a row twice: Ultralytics drops five and mends one, as we say."""
    for folder in ("images", "labels"):
        shutil.copytree(SHARED / "coco128" / folder, tmp_path / folder)
    shutil.copy(SHARED / "coco128" / "data.yaml", tmp_path / "data.yaml")
    labels = [
        p for p in sorted((tmp_path / "labels").rglob("*.txt")) if p.stat().st_size and not p.stem.startswith("0_")
    ]
    bad = ["80 0.5 0.5 0.1 0.1", "0 1.2 0.5 0.1 0.1", "cat", "0 0.5 0.5 0.1", "0 nan 0.5 0.1 0.1", ""]
    for label, row in zip(labels[:6], bad, strict=True):
        label.chmod(0o644)
        text = label.read_text().rstrip("\n")
        label.write_text(f"{text}\n{row or text.splitlines()[0]}\n")
    broken = {label.stem for label in labels[:6]}
    compare(audited(tmp_path / "data.yaml"), broken)


def compare(found: Audit, broken: set[str]) -> None:
    """Their counts are ours, and the images that they speak of (all of `broken`) are named by us."""
    theirs = scanned(found)
    named = {Path(str(name)).stem for name in theirs.pop("named")}  # type: ignore[union-attr]
    assert named == broken
    splits = found.dataset.splits.values()
    ours = {
        "missing": sum(s.missing_labels for s in splits),
        "empty": sum(s.background for s in splits),
        "dropped": int(found.dataset.measures["dropped_images"]),
        "duplicates": found.dataset.faults["dup_labels"].count if "dup_labels" in found.dataset.faults else 0,
        "other": 0,
    }
    assert theirs == ours
    assert named <= {Path(place.file).stem for _, place in found.faults.all()}
