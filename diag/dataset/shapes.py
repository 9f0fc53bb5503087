"""Faults of polygons, oriented boxes and keypoints."""

from typing import TYPE_CHECKING

from diag.dataset.boxes import FULL, pose_fields
from diag.dataset.resolve import DataSpec
from diag.dataset.table import Marks, Table, polygon_index

if TYPE_CHECKING:
    from diag.dataset.table import Floats, Mask

MIXED_UP = 0.25
"""A self-crossing polygon is a fault when filling it covers an area that differs by this share from the area that
its outline encloses. Small loops at the outline are usual: a plain test alarms on 20 % of COCO's polygons."""

MAX_CORNERS = 400
"""Larger polygons are not tested for crossing: the test takes the square of the corners."""

MAX_POLYGONS = 200_000
"""Polygons that are tested for crossing, so that a huge set stays quick; `measures` tells how many were."""

SQUARE_DEGREES = 15.0
"""How far an angle of an oriented box may be from 90 degrees, in pixels, not in shares of the image."""

FAR = 1.0
"""A keypoint further outside its box than the box is large belongs to something else."""


def polygon_faults(marks: Marks, spec: DataSpec, good: "Mask") -> dict[str, float]:
    """Box rows among polygons, polygons without area or with crossing lines."""
    import numpy as np

    table = marks.table
    boxes, polygons = good & ~table.shape, good & table.shape
    if spec.task == "segment" and boxes.any():
        kind = "rows" if polygons.any() else "all"
        for i in np.flatnonzero(boxes).tolist():
            marks.add(i, "mixed_seg_box", kind, table.quote(i), fix="drop_row" if kind == "rows" else "")
    elif spec.task == "detect" and boxes.any() and polygons.any():
        _mixed_files(marks, boxes, polygons)
    rows = np.flatnonzero(polygons & (table.box[:, 2] > 0) & (table.box[:, 3] > 0))
    if not len(rows) or spec.task == "obb":
        return {}
    area = _areas(table, rows)
    tested = 0
    for i, outline in zip(rows.tolist(), area.tolist(), strict=True):
        extent = table.box[i, 2] * table.box[i, 3]
        corners = table.points(i)
        if abs(outline) < 1e-4 * extent and not crosses(corners):
            marks.add(i, "polygon_invalid", "collapsed", table.quote(i), fix="drop_row")
        elif tested < MAX_POLYGONS and 4 <= len(corners) <= MAX_CORNERS:
            tested += 1
            if crosses(corners) and _differs(corners, abs(outline)):
                marks.add(i, "polygon_invalid", "crossing", table.quote(i))
    return {"polygons_tested": float(tested)}


def _mixed_files(marks: Marks, boxes: "Mask", polygons: "Mask") -> None:
    """Ultralytics drops an image whose file holds both; the rarer kind of row is named."""
    import numpy as np

    table = marks.table
    for file in np.intersect1d(table.file[boxes], table.file[polygons]):
        inside = table.file == file
        few = boxes if (inside & boxes).sum() <= (inside & polygons).sum() else polygons
        for i in np.flatnonzero(inside & few).tolist():
            marks.add(i, "mixed_seg_box", "file", table.quote(i))


def _areas(table: Table, rows: "Mask") -> "Floats":
    """Signed areas of polygon rows (shoelace formula)."""
    import numpy as np

    index, first = polygon_index(table.start[rows], table.count[rows])
    following = np.roll(index, -1)
    last = np.append(first[1:], len(index)) - 1
    following[last] = index[first]
    flat = table.flat
    cross = flat[index] * flat[following + 1] - flat[following] * flat[index + 1]
    return np.asarray(np.add.reduceat(cross, first) / 2)


def crosses(corners: "Floats") -> bool:
    """True if two edges of the polygon cross inside (touching ends don't count)."""
    import numpy as np

    a, b = corners, np.roll(corners, -1, axis=0)
    d = b - a
    # side[i, j]: on which side of edge i corner j lies
    rel = corners[None, :, :] - a[:, None, :]
    side = d[:, None, 0] * rel[..., 1] - d[:, None, 1] * rel[..., 0]
    side[np.abs(side) < 1e-12] = 0
    ends = side * np.roll(side, -1, axis=1)
    split = ends < 0
    return bool((split & split.T).any())


def _differs(corners: "Floats", outline: float) -> bool:
    """True if the filled area is far from the area that the outline encloses: loops are turned inside out."""
    # Late: only polygons that cross need it.
    import numpy as np
    from PIL import Image, ImageDraw

    low, high = corners.min(axis=0), corners.max(axis=0)
    scaled = (corners - low) / np.maximum(high - low, 1e-9) * 255
    canvas = Image.new("1", (256, 256))
    ImageDraw.Draw(canvas).polygon([tuple(p) for p in scaled.tolist()], fill=1)
    filled = np.asarray(canvas).mean() * float(np.prod(high - low))
    return bool(abs(filled - outline) > MIXED_UP * max(filled, outline))


def obb_faults(marks: Marks, good: "Mask") -> None:
    """Oriented boxes with crossed, collapsed or slanted corners; angles are taken in pixels."""
    import numpy as np

    table = marks.table
    rows = np.flatnonzero(good & (table.count == 9))
    if not len(rows):
        return
    corners = table.flat[table.start[rows][:, None] + 1 + np.arange(8)].reshape(-1, 4, 2)
    size = table.sizes[table.file[rows]]
    size = np.where(np.isnan(size), 1000.0, size)  # square when not known
    pixels = corners * size[:, None, :]
    edge = np.roll(pixels, -1, axis=1) - pixels
    after = np.roll(edge, -1, axis=1)
    cross = edge[..., 0] * after[..., 1] - edge[..., 1] * after[..., 0]
    length = np.linalg.norm(edge, axis=2)
    dot = (edge * after).sum(axis=2)
    angle = np.degrees(np.arctan2(np.abs(cross), -dot))
    area = (
        np.abs(
            (pixels[:, :, 0] * np.roll(pixels[:, :, 1], -1, 1) - np.roll(pixels[:, :, 0], -1, 1) * pixels[:, :, 1]).sum(
                1
            )
        )
        / 2
    )
    flat = (length.min(axis=1) < 0.5) | (area < 0.5)
    crossed = (np.sign(cross).min(axis=1) < 0) & (np.sign(cross).max(axis=1) > 0)
    slanted = np.abs(angle - 90).max(axis=1) > SQUARE_DEGREES
    for k in np.flatnonzero(flat | crossed | slanted).tolist():
        empty = table.box[rows[k], 2] <= 0 or table.box[rows[k], 3] <= 0
        kind = "collapsed" if flat[k] and not crossed[k] else "crossed" if crossed[k] else "slanted"
        if not empty:  # told as zero_area
            value = f"{np.abs(angle[k] - 90).max():.0f} deg off" if kind == "slanted" else table.quote(int(rows[k]))
            marks.add(int(rows[k]), "obb_invalid", kind, value, fix="drop_row" if kind == "collapsed" else "")


def keypoint_faults(marks: Marks, spec: DataSpec, good: "Mask") -> dict[str, float]:
    """Keypoints far from their box and odd visibility values; returns how many points are annotated at all."""
    import numpy as np

    table = marks.table
    need = pose_fields(spec)
    if not need:
        return {}
    number, dims = spec.extra["kpt_shape"]
    rows = np.flatnonzero(good & (table.count == need))
    if not len(rows):
        return {}
    points = table.flat[table.start[rows][:, None] + 5 + np.arange(need - 5)].reshape(-1, number, dims)
    xy = points[..., :2]
    seen = points[..., 2] > 0 if dims == 3 else ~np.all(xy == 0, axis=2)
    if dims == 3:
        odd = ~np.isin(points[..., 2], (0, 1, 2))
        for k in np.flatnonzero(odd.any(axis=1)).tolist():
            value = f"visibility {points[k, :, 2][odd[k]][0]:g}"
            marks.add(int(rows[k]), "kpt_out", "visibility", value, fix="hide_point")
    box = table.box[rows]
    outside = np.abs(xy - box[:, None, :2]) - box[:, None, 2:] / 2
    far = seen & (outside > FAR * np.maximum(box[:, None, 2:], 1e-9)).any(axis=2)
    for k in np.flatnonzero(far.any(axis=1)).tolist():
        p = int(np.flatnonzero(far[k])[0])
        value = f"point {p}: {xy[k, p, 0]:g} {xy[k, p, 1]:g}"
        marks.add(int(rows[k]), "kpt_out", "far", value)
    whole = (box[:, 2] >= FULL) & (box[:, 3] >= FULL)
    return {"kpt_visible": float(seen.mean()), "kpt_rows": float(len(rows)), "full_rows": float(whole.sum())}
