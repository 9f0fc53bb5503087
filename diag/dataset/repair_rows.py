"""Correct the rows of one label file, each by its least invasive fix; lines without a fault stay as they are."""

import math
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from diag.dataset.boxes import pose_fields
from diag.dataset.gather import Item
from diag.dataset.resolve import DataSpec
from diag.model.audit import Place

Note = Callable[[Place, str, str, str, str], None]
"""Called with place, fault, action, text before and text after."""


def corrected(source: Path, places: list[tuple[str, Place]], item: Item, spec: DataSpec, note: Note) -> str | None:
    """The corrected text of a label file; None if there is none or it can't be read."""
    try:
        data = source.read_bytes()
        text = data.decode("utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None
    by_line: dict[int, list[tuple[str, Place]]] = defaultdict(list)
    for fault, place in places:
        if place.kind in {"utf16", "bom"}:
            note(place, fault, "rewritten", place.value, "UTF-8")
        elif place.line is not None:
            by_line[place.line].append((fault, place))
    kept = []
    for number, line in enumerate(text.splitlines(), 1):
        new: str | None = line
        for fault, place in by_line.get(number, ()):
            if new is None:
                break
            before, new = new, _apply(new, place.fix, item, spec)
            if new != before:
                note(place, fault, "removed" if new is None else "changed", before, new or "")
        if new is not None:
            kept.append(new)
    return "\n".join(kept) + ("\n" if kept else "")


def _apply(line: str, fix: str, item: Item, spec: DataSpec) -> str | None:
    """One line after one fix; None if it has to go."""
    if fix == "drop_row":
        return None
    if fix == "rewrite":
        return " ".join(line.replace(",", " ").replace(";", " ").split())
    try:
        numbers = [float(field) for field in line.split()]
    except ValueError:
        return None
    if fix == "divide":
        width, height = item.header.shown_size
        if not width or not height:
            return None
        sides = {"x": width, "y": height}
        numbers[1:] = [v / sides.get(axis, 1) for v, axis in zip(numbers[1:], _axes(numbers, spec), strict=True)]
        fix = "clip"
    if fix == "clip":
        return _clipped(numbers, spec)
    if fix == "hide_point":
        return _hidden(numbers, spec)
    return line


def _axes(numbers: list[float], spec: DataSpec) -> list[str]:
    """`x`, `y` or "" (a visibility) for every number after the class."""
    if pose_fields(spec) != len(numbers):
        return ["xy"[k % 2] for k in range(len(numbers) - 1)]
    number, dims = spec.extra["kpt_shape"]
    return [*"xyxy", *(("x", "y", "")[:dims] * number)]


def _clipped(numbers: list[float], spec: DataSpec) -> str | None:
    """Box, polygon or turned box inside the image; None if nothing is left of it."""
    if spec.task == "obb" and len(numbers) == 9:
        return _shrunk(numbers)
    if len(numbers) != 5 and pose_fields(spec) != len(numbers):
        numbers[1:] = [min(max(v, 0.0), 1.0) for v in numbers[1:]]
        return _text(numbers)
    x, y, w, h = numbers[1:5]
    left, right = max(x - w / 2, 0.0), min(x + w / 2, 1.0)
    top, bottom = max(y - h / 2, 0.0), min(y + h / 2, 1.0)
    if right <= left or bottom <= top:
        return None
    numbers[1:5] = [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]
    return _text(numbers) if len(numbers) == 5 else _hidden(numbers, spec)


def _shrunk(numbers: list[float]) -> str | None:
    """A turned box made smaller around its centre until it fits: clipped corners would be no rectangle any more."""
    middle = [sum(numbers[1 + k :: 2]) / 4 for k in range(2)]
    if not all(0 < m < 1 for m in middle):
        return None
    factor = 1.0
    for k, value in enumerate(numbers[1:]):
        reach = value - middle[k % 2]
        room = (1 - middle[k % 2]) if reach > 0 else middle[k % 2]
        if abs(reach) > room:
            factor = min(factor, room / abs(reach))
    numbers[1:] = [middle[k % 2] + factor * (v - middle[k % 2]) for k, v in enumerate(numbers[1:])]
    return _text([numbers[0], *(min(max(v, 0.0), 1.0) for v in numbers[1:])])


def _hidden(numbers: list[float], spec: DataSpec) -> str:
    """Keypoints outside the image as not annotated; odd visibility values as visible."""
    if pose_fields(spec) != len(numbers):
        return _text(numbers)
    step = int(spec.extra["kpt_shape"][1])
    for k in range(5, len(numbers), step):
        if not (0 <= numbers[k] <= 1 and 0 <= numbers[k + 1] <= 1):
            numbers[k : k + step] = [0.0] * step
        elif step == 3 and numbers[k + 2] not in {0, 1, 2}:
            numbers[k + 2] = 2.0 if numbers[k + 2] > 0 else 0.0
    return _text(numbers)


def _text(numbers: list[float]) -> str:
    values = " ".join(f"{v:.6f}".rstrip("0").rstrip(".") for v in numbers[1:])
    return f"{int(numbers[0]) if math.isfinite(numbers[0]) else 0} {values}"
