"""Small pictures of offending items with their boxes drawn, as data: addresses for the page."""

import base64
import io
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from diag.dataset.audit import Audit
from diag.dataset.gather import Item
from diag.dataset.looks import MAX_PIXELS
from diag.dataset.table import Table
from diag.model.audit import Place

SIDE = 240
"""Longer side of a picture."""

MARGIN = 1.0
"""A small object is shown with this many times its size around it."""

LEAST = 0.1
"""A box without size is shown as if it had this share of the image, so that one sees where it lies."""

EACH = 8
"""Pictures of each fault."""


HINTS = "label_noise"
EACH_HINT = 20
"""Pictures of hints, which a person has to judge one by one."""


def thumbnails(audit: Audit) -> dict[str, list[tuple[Place, str]]]:
    """For every fault its first places with a picture; the address is empty where the image can't be shown."""
    by_image = {audit.faults.name(i.image): i for i in audit.items}
    by_label = {audit.faults.name(i.label): i for i in audit.items}
    lines: dict[tuple[str, int], int] = {}
    wanted = {p.file for f in audit.dataset.faults.values() for p in f.places[:EACH_HINT]}
    for i, (file, line) in enumerate(zip(audit.table.file.tolist(), audit.table.line.tolist(), strict=True)):
        name = audit.faults.name(audit.table.files[file])
        if name in wanted:
            lines[name, line] = i
    found: dict[str, list[tuple[Place, str]]] = defaultdict(list)
    for fault, summary in audit.dataset.faults.items():
        for place in summary.places[: EACH_HINT if fault == HINTS else EACH]:
            item = by_image.get(place.file) or by_label.get(place.file)
            row = lines.get((place.file, place.line)) if place.line else None
            found[fault].append((place, _picture(item, row, place, lines, audit) if item else ""))
            if place.other in by_image:
                found[fault].append((Place(place.other), _picture(by_image[place.other], None, place, lines, audit)))
    return found


def _picture(item: Item, row: int | None, place: Place, lines: dict[tuple[str, int], int], audit: Audit) -> str:
    """One picture as a data: address; the row's box in red, what it clashes with in green."""
    # Late: only the page needs Pillow.
    import warnings

    from PIL import Image, ImageDraw, ImageOps

    header = item.header
    if header.error in {"zero_byte", "missing", "not_image", "unreadable"} or header.width * header.height > MAX_PIXELS:
        return ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(item.real) as opened:
                opened.draft("RGB", (2 * SIDE, 2 * SIDE) if row is None and not place.box else opened.size)
                image = ImageOps.exif_transpose(opened).convert("RGB")
    except Exception:  # damaged files are what is shown here
        return ""
    width, height = image.size
    view = (0.0, 0.0, 1.0, 1.0)
    table = audit.table
    if row is not None:
        view = _view(table.box[row].tolist())
    elif place.box:
        view = _view(list(place.box))
    left, top, right, bottom = view
    image = image.crop((round(left * width), round(top * height), round(right * width), round(bottom * height)))
    image.thumbnail((SIDE, SIDE))
    if (row is not None or place.box) and max(image.size) < SIDE and min(image.size) > 0:
        factor = SIDE / max(image.size)
        image = image.resize((max(1, round(image.width * factor)), max(1, round(image.height * factor))))
    draw = ImageDraw.Draw(image)
    file, _, line = place.other.rpartition(":")
    clash = lines.get((file, int(line))) if line.isdigit() else None
    for i, colour in ((clash, "#00c853"), (row, "#ff1744")):
        if i is not None:
            _outline(draw, table, i, colour, view=view, size=image.size)
    if place.box:
        _frame(draw, place.box, "#2979ff", view=view, size=image.size)
    data = io.BytesIO()
    image.save(data, "JPEG", quality=70)
    return "data:image/jpeg;base64," + base64.b64encode(data.getvalue()).decode()


def _view(box: list[float]) -> tuple[float, float, float, float]:
    """The part of the image around a box, as shares; all of it for a box that is nowhere."""
    x, y, w, h = box
    if not all(-0.5 <= v <= 1.5 for v in box):
        return 0.0, 0.0, 1.0, 1.0
    half_w, half_h = max(w, LEAST) * (0.5 + MARGIN / 2), max(h, LEAST) * (0.5 + MARGIN / 2)
    left, top = min(max(x - half_w, 0), 0.98), min(max(y - half_h, 0), 0.98)
    return left, top, max(min(x + half_w, 1), left + 0.02), max(min(y + half_h, 1), top + 0.02)


def _outline(
    draw: Any, table: Table, i: int, colour: str, *, view: tuple[float, float, float, float], size: tuple[int, int]
) -> None:
    left, top, right, bottom = view

    def at(x: float, y: float) -> tuple[float, float]:
        return (x - left) / (right - left) * size[0], (y - top) / (bottom - top) * size[1]

    if table.shape[i]:
        points = [at(x, y) for x, y in table.points(i).tolist()]
        draw.line([*points, points[0]], fill=colour, width=2)
        return
    if not _frame(draw, table.box[i].tolist(), colour, view=view, size=size):
        return
    for k in range(5, int(table.count[i]) - 1, 3):
        px, py = at(*table.flat[table.start[i] + k : table.start[i] + k + 2].tolist())
        draw.ellipse([px - 2, py - 2, px + 2, py + 2], fill=colour)


def _frame(
    draw: Any, box: Sequence[float], colour: str, *, view: tuple[float, float, float, float], size: tuple[int, int]
) -> bool:
    """A box as a frame; False if it lies too far away to draw."""
    x, y, w, h = box
    if not all(-2 <= v <= 3 for v in (x, y, w, h)):
        return False
    left, top, right, bottom = view
    across, down = size[0] / (right - left), size[1] / (bottom - top)
    a = ((x - abs(w) / 2 - left) * across, (y - abs(h) / 2 - top) * down)
    b = ((x + abs(w) / 2 - left) * across, (y + abs(h) / 2 - top) * down)
    draw.rectangle([a, b], outline=colour, width=2)
    return True
