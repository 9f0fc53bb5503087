"""What the audit says Ultralytics would leave out is what Ultralytics leaves out."""

import random

import pytest
from PIL import Image

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
