"""Faults of image files, copies, and files without partner."""

import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFilter

from diag.dataset.headers import read_header
from tests.dataset.conftest import Maker
from tests.dataset.test_audit_rows import BOX, audited


def picture(seed: int, size: tuple[int, int] = (320, 240)) -> Image.Image:
    """Something with layout and detail, different for every seed."""
    rng = random.Random(seed)
    coarse = Image.frombytes("RGB", (8, 6), rng.randbytes(144)).resize(size, Image.Resampling.BICUBIC)
    fine = Image.frombytes("RGB", (80, 60), rng.randbytes(14400)).resize(size, Image.Resampling.BICUBIC)
    return Image.blend(coarse, fine.filter(ImageFilter.GaussianBlur(1)), 0.4)


def encoded(image: Image.Image, form: str = "JPEG", **how: Any) -> bytes:
    data = io.BytesIO()
    image.save(data, form, **how)
    return data.getvalue()


@pytest.fixture
def photos(make_set: Maker) -> Path:
    """Six sound images in train, two in val."""
    yaml = make_set({"train": [BOX] * 6, "val": [BOX] * 2})
    for number, image in enumerate(sorted((yaml.parent / "images").rglob("*.jpg"))):
        picture(number).save(image, quality=90)
    return yaml


def test_sound_images_are_quiet(photos: Path) -> None:
    assert audited(photos, level="deep").faults.places == {}


@pytest.mark.parametrize(
    ("data", "fault", "kind"),
    [
        (b"", "corrupt_images", "zero_byte"),
        (b"<!DOCTYPE html><html>", "corrupt_images", "not_image"),
        (b"\x00\x01garbage", "corrupt_images", "not_image"),
        (encoded(picture(50))[:4000], "corrupt_images", "truncated"),
        (encoded(picture(51), "PNG"), "image_format", "suffix"),
        (encoded(picture(52).convert("CMYK")), "image_format", "cmyk"),
        (encoded(picture(53).convert("L")), "image_format", "grey"),
        (encoded(picture(54, (8, 8))), "image_extreme", "small"),
        (encoded(picture(55, (900, 60))), "image_extreme", "narrow"),
        (encoded(Image.new("RGB", (320, 240), (7, 7, 7))), "image_extreme", "flat"),
    ],
)
def test_a_fault_of_an_image_is_named(photos: Path, data: bytes, fault: str, kind: str) -> None:
    (photos.parent / "images" / "train" / "3.jpg").write_bytes(data)
    found = audited(photos, level="look").faults.places
    assert [(p.file, p.kind) for p in found.pop(fault)] == [("images/train/3.jpg", kind)]
    assert found == {}


def test_exif_rotation_turns_the_size(photos: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    image = photos.parent / "images" / "train" / "3.jpg"
    picture(3).save(image, exif=exif.tobytes())
    header = read_header(image)
    assert (header.rotation, header.shown_size) == (6, (240, 320))
    assert [p.file for p in audited(photos).faults.places["exif_rotated"]] == ["images/train/3.jpg"]


@pytest.mark.parametrize("form", ["JPEG", "PNG", "BMP", "WEBP", "TIFF", "GIF"])
def test_a_header_is_what_pillow_says(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(encoded(picture(1), form))
    header = read_header(path)
    assert (header.format, header.width, header.height, header.error) == (form, 320, 240, "")


def test_bytes_after_the_end_of_a_jpeg_are_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(encoded(picture(1)) + b"appended by the camera" * 20)
    assert read_header(path).error == ""


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda i: encoded(i, quality=90), "bytes"),
        (lambda i: encoded(i, quality=50), "same"),
        (lambda i: encoded(i.resize((160, 120))), "same"),
        (lambda i: encoded(i.transpose(Image.Transpose.FLIP_LEFT_RIGHT)), "mirrored"),
        (lambda i: encoded(i.crop((12, 10, 305, 228))), "cropped"),
    ],
)
def test_a_copy_in_the_other_split_is_a_leak(photos: Path, change: Callable[[Image.Image], bytes], kind: str) -> None:
    (photos.parent / "images" / "val" / "1.jpg").write_bytes(change(picture(2)))
    found = audited(photos, level="look").faults.places["train_val_leak"]
    assert [(p.file, p.other, p.kind) for p in found] == [("images/train/2.jpg", "images/val/1.jpg", kind)]


def test_a_copy_within_a_split_is_a_duplicate(photos: Path) -> None:
    train = photos.parent / "images" / "train"
    (train / "5.jpg").write_bytes((train / "2.jpg").read_bytes())
    found = audited(photos).faults.places
    assert [(p.file, p.other) for p in found["dup_images"]] == [("images/train/5.jpg", "images/train/2.jpg")]
    assert "train_val_leak" not in found


def test_train_as_val_is_told_once(photos: Path) -> None:
    photos.write_text(photos.read_text().replace("images/val", "images/train"))
    found = audited(photos, level="look").faults.places
    assert {f: len(p) for f, p in found.items()} == {"val_equals_train": 1}


def test_files_without_partner_are_named(photos: Path) -> None:
    labels, images = photos.parent / "labels" / "train", photos.parent / "images" / "train"
    (labels / "0.txt").rename(labels / "0.TXT")
    (labels / "nobody.txt").write_text(BOX)
    (labels / "classes.txt").write_text("cat\ndog\n")
    (labels / "in.jpg").write_bytes((images / "1.jpg").read_bytes())
    (images / "2.jpg").rename(images / "2.jfif")
    found = audited(photos).faults.places
    assert sorted((p.file, p.kind) for p in found["orphan_label"]) == [
        ("labels/train/0.TXT", "suffix"),
        ("labels/train/in.jpg", "image"),
        ("labels/train/nobody.txt", "no_image"),
    ]
    assert [p.file for p in found["image_format"]] == ["images/train/2.jfif"]
    assert [p.file for p in found["missing_labels"]] == ["images/train/0.jpg"]


def test_two_images_on_one_label_are_named(photos: Path) -> None:
    picture(99).save(photos.parent / "images" / "train" / "3.png")
    found = audited(photos).faults.places
    assert [(p.file, p.other) for p in found["duplicate_stem"]] == [("images/train/3.png", "images/train/3.jpg")]


def test_labels_in_another_folder_are_found(photos: Path) -> None:
    (photos.parent / "labels").rename(photos.parent / "annotations")
    found = audited(photos).faults.places
    assert found["path_mismatch"][0].file.startswith("annotations/")


def test_class_folders_are_compared(tmp_path: Path) -> None:
    for number, place in enumerate(("train/cat", "train/dog", "val/cat", "val/Dog")):
        (tmp_path / place).mkdir(parents=True)
        picture(number).save(tmp_path / place / "a.jpg")
    picture(9).save(tmp_path / "train" / "loose.jpg")
    (tmp_path / "train" / "cow").mkdir()
    found = audited(tmp_path, "classify").faults.places["cls_folder_mismatch"]
    assert sorted((p.file, p.kind) for p in found) == [
        ("train/cow", "empty"),
        ("train/loose.jpg", "loose"),
        ("val/Dog", "extra"),
        ("val/cow", "missing"),
        ("val/dog", "missing"),
    ]


def test_one_strong_shape_on_different_ground_is_no_copy(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2):
        ground = Image.blend(picture(70 + number), Image.new("RGB", (320, 240), (50, 50, 50)), 0.5)
        ImageDraw.Draw(ground).polygon([(150, 60), (220, 180), (80, 180)], fill=(255, 240, 200))
        ground.save(photos.parent / "images" / "train" / f"{number}.jpg", quality=90)
    assert "dup_images" not in audited(photos, level="look").faults.places
    monkeypatch.setattr("diag.dataset.looks._everywhere", lambda a, b: True)
    assert audited(photos, level="look").faults.places["dup_images"]  # the shape alone would make it one
