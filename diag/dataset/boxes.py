"""Faults of boxes: fields, classes, coordinates, size, copies. Every check runs over the whole set at once."""

from typing import TYPE_CHECKING

from diag.dataset.resolve import DataSpec
from diag.dataset.table import Marks, Table

if TYPE_CHECKING:
    from diag.dataset.table import Mask

OVERSHOOT = 0.01
"""How far outside 0..1 a coordinate may lie: Ultralytics' own tolerance (verify_image_label: points.max() <= 1.01)."""

PIXELS = 2.0
"""From here on a coordinate is taken for pixels: no box that is meant as a share reaches twice the image."""

BORDER = 0.005
"""How far a box may hang over the border, as a share of the image, beside `BORDER_PX`: rounding to three digits."""

BORDER_PX = 1.5
"""The same in pixels: converters from formats that count from 1 (Pascal VOC) are off by one."""

TINY_PX = 2.0
"""Boxes under two pixels at the training size are dropped by Ultralytics' augmentation (box_candidates: wh_thr=2)."""

FULL = 0.995
"""A box that covers this share of both sides is the whole image."""

SAME_IOU = 0.90
"""From this overlap on two boxes of a class are one object annotated twice (measured on bccd, docs/data.md)."""

MAX_NEIGHBOURS = 200
"""Neighbours along x that a box is compared with; bounds the work for a file of a million equal rows."""


def field_faults(marks: Marks, spec: DataSpec) -> "Mask":
    """Rows with a wrong number of fields; returns those that fit the task."""
    import numpy as np

    table = marks.table
    polygon = (table.count >= 7) & (table.count % 2 == 1)
    expected = "5 (class x y w h) or a polygon of at least 3 points"
    if spec.task == "pose":
        need = pose_fields(spec)
        good = (table.count == need) if need else table.count >= 5
        if need and _other_shape(marks, need, spec):
            return np.asarray(good)
        expected = f"{need} (kpt_shape {spec.extra.get('kpt_shape')})"
    elif spec.task == "obb":
        good, expected = polygon, "9 (class and 4 corners)"
    else:
        good = (table.count == 5) | polygon
        if spec.task == "detect":  # Ultralytics takes the boxes of a pose set and drops the points
            good |= table.count == (pose_fields(spec) or 5)
    for i in np.flatnonzero(~good).tolist():
        value = f"{table.count[i]} fields, expected {expected}"
        marks.add(i, "bad_rows", "fields", value, fix="drop_row")
    return np.asarray(good)


def pose_fields(spec: DataSpec) -> int:
    """Fields of a pose row; 0 if kpt_shape is not usable."""
    shape = spec.extra.get("kpt_shape")
    if not isinstance(shape, list) or len(shape) != 2 or not all(isinstance(n, int) and n > 0 for n in shape):
        return 0
    return 5 + int(shape[0]) * int(shape[1])


def _other_shape(marks: Marks, need: int, spec: DataSpec) -> bool:
    """True if most rows agree on another number of fields: then kpt_shape is wrong, not the rows."""
    import numpy as np

    table = marks.table
    counts, numbers = np.unique(table.count, return_counts=True)
    if len(counts) == 0 or numbers.max() < 0.9 * len(table.count) or counts[numbers.argmax()] == need:
        return False
    found = int(counts[numbers.argmax()])
    value = f"kpt_shape {spec.extra.get('kpt_shape')}: {need} fields; {int(numbers.max())} rows: {found}"
    marks.faults.add("kpt_out", "kpt_shape", spec.source, None, value, fix="yaml")
    return True


def class_faults(marks: Marks, spec: DataSpec, good: "Mask") -> "Mask":
    """Rows whose class does not exist; returns the others."""
    import numpy as np

    table = marks.table
    known = np.array([c in spec.names for c in table.cls.tolist()], dtype=bool)  # np.isin imports half of numpy
    wrong = np.flatnonzero(good & ~known)
    ids = sorted(set(table.cls[wrong].tolist()))
    short = ids and ids == list(range(len(spec.names), len(spec.names) + len(ids)))
    too_few = bool(short and len(set(table.file[wrong].tolist())) >= 2)
    if too_few:
        value = f"{len(spec.names)} names, class {ids[-1]:g} in {len(wrong)} rows"
        marks.faults.add("class_oob", "names_short", spec.source, None, value, fix="yaml")
    for i in wrong.tolist():
        c = table.cls[i]
        kind = "fraction" if c != int(c) else "negative" if c < 0 else "range"
        value = f"class {c:g}, but names has {len(spec.names)} classes"
        marks.add(i, "class_oob", kind, value, fix="" if too_few else "drop_row")
    return np.asarray(good & known)


def coordinate_faults(marks: Marks, spec: DataSpec, good: "Mask") -> "Mask":
    """Rows with coordinates outside 0..1 or in pixels; returns the others."""
    import numpy as np

    table = marks.table
    lowest, highest = _extremes(table, spec)
    wrong = good & ((lowest < -OVERSHOOT) | (highest > 1 + OVERSHOOT))
    for i in np.flatnonzero(wrong).tolist():
        low, high = lowest[i], highest[i]
        size = table.box[i, 2:]
        worst = low if low < -OVERSHOOT else high
        kind, fix = ("pixels", "divide") if high >= PIXELS else ("outside", "clip")
        if not table.shape[i] and min(size) < -OVERSHOOT:
            kind, fix = "negative_size", "drop_row"
        value = f"coordinate {worst:g} outside 0..1"
        fault = "kpt_out" if spec.task == "pose" and _box_fits(table, i) else "coord_oob"
        if fault == "kpt_out":
            kind, fix = "outside", "hide_point"
        marks.add(i, fault, kind, value, fix=fix)
    return np.asarray(good & ~wrong)


def _box_fits(table: Table, i: int) -> bool:
    box = table.box[i]
    return bool(box.min() >= -OVERSHOOT and box.max() <= 1 + OVERSHOOT)


def _extremes(table: Table, spec: DataSpec) -> "tuple[Mask, Mask]":
    """Smallest and largest coordinate of every row (for pose without visibility)."""
    import numpy as np

    if not len(table.count):
        return np.zeros(0), np.zeros(0)
    flat = table.flat.copy()
    flat[table.start] = 0.5  # the class is no coordinate
    if spec.task in {"pose", "detect"} and (need := pose_fields(spec)):
        rows = table.start[table.count == need]
        dims = spec.extra["kpt_shape"][1]
        for k in range(5, need):
            if spec.task == "detect" or (k - 5) % dims == 2:
                flat[rows + k] = 0.5
    lowest = np.minimum.reduceat(flat, table.start)
    highest = np.maximum.reduceat(flat, table.start)
    return lowest, highest


def box_faults(marks: Marks, spec: DataSpec, good: "Mask", imgsz: int) -> "Mask":
    """Boxes without area, over the border, tiny or as large as the image; returns those that have an area."""
    import numpy as np

    table = marks.table
    x, y, w, h = table.box.T
    plain = good & ~table.shape
    empty = good & ((w <= 0) | (h <= 0))
    for i in np.flatnonzero(empty).tolist():
        marks.add(i, "zero_area", "shape" if table.shape[i] else "box", table.quote(i), fix="drop_row")
    sound = good & ~empty
    width, height = table.sizes[table.file].T
    tolerance_x = np.fmax(BORDER, np.nan_to_num(BORDER_PX / width))
    tolerance_y = np.fmax(BORDER, np.nan_to_num(BORDER_PX / height))
    over_x = np.maximum(w / 2 - x, x + w / 2 - 1)
    over_y = np.maximum(h / 2 - y, y + h / 2 - 1)
    over = plain & sound & ((over_x > tolerance_x) | (over_y > tolerance_y))
    for i in np.flatnonzero(over).tolist():
        corners = w[i] > x[i] and h[i] > y[i]  # reads as x1 y1 x2 y2, too
        kind = "corners" if corners and _fits_as_corners(x[i], y[i], w[i], h[i]) else "over"
        marks.add(i, "box_over_border", kind, table.quote(i), fix="clip")
    if spec.task != "obb":
        scale = imgsz / np.fmax(width, height)
        tiny = sound & (np.minimum(w * width, h * height) * scale < TINY_PX)
        for i in np.flatnonzero(tiny).tolist():
            value = f"{w[i] * width[i]:.1f} x {h[i] * height[i]:.1f} px"
            marks.add(i, "tiny_boxes", "tiny", value)
    full = sound & ~over & (w >= FULL) & (h >= FULL)
    for i in np.flatnonzero(full & ~table.shape).tolist():
        marks.add(i, "pose_fullimage_boxes" if spec.task == "pose" else "fullimage_boxes", "full", table.quote(i))
    return np.asarray(sound)


def _fits_as_corners(x1: float, y1: float, x2: float, y2: float) -> bool:
    """True if the numbers also make a box inside the image when they are read as x1 y1 x2 y2."""
    return 0 <= x1 < x2 <= 1 and 0 <= y1 < y2 <= 1


def copy_faults(marks: Marks, sound: "Mask") -> None:
    """The same row twice, different polygons with one box, and one object annotated twice."""
    import numpy as np

    table = marks.table
    rows = np.flatnonzero(sound)
    if len(rows) < 2:
        return
    x, y, w, h = table.box[rows].T
    order = np.lexsort((table.line[rows], h, w, y, x, table.cls[rows], table.file[rows]))
    rows = rows[order]
    key = np.column_stack([table.file[rows], table.cls[rows], table.box[rows]])
    equal = np.all(key[1:] == key[:-1], axis=1)
    later: set[int] = set()
    begins = np.where(np.append([True], ~equal), np.arange(len(equal) + 1), 0)
    first = np.maximum.accumulate(begins)
    for k in (np.flatnonzero(equal) + 1).tolist():
        i, j = int(rows[k]), int(rows[first[k]])
        same = np.array_equal(table.row(i), table.row(j))
        fault, kind = (
            ("dup_labels", "row")
            if same
            else ("dup_same_bbox", "polygons")
            if table.shape[i]
            else ("double_annotation", "box")
        )
        later.add(i)
        marks.add(i, fault, kind, table.quote(i, 5), fix="drop_row" if same else "", other=j)
    rows = np.array([i for i in rows if i not in later], dtype=np.int64) if later else rows
    for i, j, iou in _overlapping(table, rows):
        marks.add(i, "double_annotation", "overlap", f"IoU {iou:.2f}: {table.quote(i, 5)}", other=j)


def _overlapping(table: Table, rows: "Mask") -> list[tuple[int, int, float]]:
    """Pairs (later row, earlier row, IoU) of one file and class that overlap from `SAME_IOU` on.

    `rows` are sorted by file, class and x: two such boxes lie close in x, so only near neighbours are compared.
    """
    import numpy as np

    file, cls, box = table.file[rows], table.cls[rows], table.box[rows]
    pairs = []
    for step in range(1, min(MAX_NEIGHBOURS, len(rows))):
        a, b = box[:-step], box[step:]
        near = (file[:-step] == file[step:]) & (cls[:-step] == cls[step:])
        # IoU >= 0.9 holds the centres within 0.053 of the width; more is never needed
        near &= b[:, 0] - a[:, 0] <= 0.06 * np.maximum(a[:, 2], b[:, 2])
        if not near.any():
            break
        index = np.flatnonzero(near)
        a, b = a[index], b[index]
        low = np.maximum(a[:, :2] - a[:, 2:] / 2, b[:, :2] - b[:, 2:] / 2)
        high = np.minimum(a[:, :2] + a[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2)
        shared = np.prod(np.clip(high - low, 0, None), axis=1)
        iou = shared / (np.prod(a[:, 2:], axis=1) + np.prod(b[:, 2:], axis=1) - shared)
        for k in np.flatnonzero(iou >= SAME_IOU).tolist():
            i, j = sorted((int(rows[index[k]]), int(rows[index[k] + step])))
            pairs.append((j, i, float(iou[k])))
    return sorted(pairs)
