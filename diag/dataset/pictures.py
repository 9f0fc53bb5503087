"""Faults of image files, from their headers and, where they were decoded, from what they show."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from diag.dataset.faults import Faults
from diag.dataset.gather import Item
from diag.dataset.headers import KINDS
from diag.dataset.looks import FLAT, SIDE, as_floats
from diag.dataset.walk import is_utf8, shown

MIN_SIDE = 10
"""Ultralytics leaves out images with a side under ten pixels (check_image)."""

MAX_SIDE = 8000
MAX_PIXELS = 50_000_000
"""Larger images take a second and hundreds of MB each to decode; Pillow itself warns from 89 million pixels on."""

MAX_ASPECT = 10.0
"""Letterboxed to a square, such an image fills less than a tenth of it."""

READABLE = {
    ("JPEG", ".mpo"), ("MPO", ".jpg"), ("MPO", ".jpeg"), ("JPEG", ".jpeg2000"), ("TIFF", ".dng"),
}  # fmt: skip
"""Suffixes that differ from the content without harm."""

RARE = 0.5
"""Grey images are named while they are the smaller part of the set; else grey is what the set is."""


def picture_faults(items: Sequence[Item], faults: Faults, imgsz: int) -> dict[str, float]:
    """Judge every image once; returns figures over the set."""
    seen: dict[Path, Item] = {}
    for item in items:
        seen.setdefault(item.image, item)
    modes = Counter(item.header.mode for item in seen.values())
    grey = modes["L"] < RARE * len(seen)
    for item in seen.values():
        _one(item, faults, grey)
    _flat(list(seen.values()), faults)
    sides = sorted(max(i.header.width, i.header.height) for i in seen.values() if i.header.width)
    figures = {"image_bytes": float(sum(i.header.bytes for i in seen.values()))}
    if sides:
        figures["median_side"] = float(sides[len(sides) // 2])
        figures["side_ratio"] = figures["median_side"] / imgsz
    return figures


def _one(item: Item, faults: Faults, grey: bool) -> None:
    header, image, split = item.header, item.image, item.split
    if not is_utf8(str(image)):
        faults.add("encoding", "name", image, None, shown(image.name), fix="rename", split=split)
    if header.error:
        faults.add("corrupt_images", header.error, image, None, header.value, fix="drop_image", split=split)
        if header.error != "truncated":
            return
    elif item.look.error and item.look.error != "too_large":
        faults.add("corrupt_images", "undecodable", image, None, item.look.error, fix="drop_image", split=split)
    suffix = image.suffix.lower()
    expected = KINDS.get(suffix)
    if header.format and expected and header.format != expected and (header.format, suffix) not in READABLE:
        faults.add("image_format", "suffix", image, None, header.format, fix="convert", split=split)
    if header.mode in {"CMYK", "RGBA", "LA", "16"}:
        kind = {"CMYK": "cmyk", "16": "sixteen_bit"}.get(header.mode, "alpha")
        faults.add("image_format", kind, image, None, header.mode, fix="convert", split=split)
    elif header.mode == "L" and grey:
        faults.add("image_format", "grey", image, None, header.mode, split=split)
    if header.rotation != 1:
        faults.add("exif_rotated", "exif", image, None, f"orientation {header.rotation}", fix="turn", split=split)
    width, height = header.width, header.height
    if not width or not height:
        return
    size = f"{width} x {height}"
    if min(width, height) < MIN_SIDE:
        faults.add("image_extreme", "small", image, None, size, fix="drop_image", split=split)
    elif max(width, height) > MAX_SIDE or width * height > MAX_PIXELS:
        faults.add("image_extreme", "large", image, None, size, split=split)
    elif max(width, height) > MAX_ASPECT * min(width, height):
        faults.add("image_extreme", "narrow", image, None, size, split=split)


def _flat(items: Sequence[Item], faults: Faults) -> None:
    """Images that show one even colour."""
    looked = [item for item in items if item.look.thumb]
    if not looked:
        return
    spread = as_floats([item.look for item in looked]).std(axis=1)
    for item, deviation in zip(looked, spread, strict=True):
        if deviation < FLAT / SIDE and not item.header.error and min(item.header.width, item.header.height) >= MIN_SIDE:
            faults.add("image_extreme", "flat", item.image, None, f"deviation {deviation:.2f}", split=item.split)
