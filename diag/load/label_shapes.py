"""Geometry of single label rows, in shares of the image: outlines that cross themselves, keypoints beside their box."""

from collections.abc import Sequence

Point = tuple[float, float]

MAX_CORNERS = 200
"""Larger outlines are not tested for crossing: the test takes the square of the corners."""

MIXED_UP = 0.25
"""A crossing outline is a fault when it encloses an area that differs by this share from the area that is filled; small
loops are usual (the same limit as in the data doctor, diag/dataset/shapes.py)."""

SAME = 0.01
"""A polygon that begins with its own box has it within this share of the image (rounding to two digits)."""

FAR = 1.0
"""A keypoint further outside its box than the box is large belongs to something else (as in the data doctor)."""

_LINES = 64


def pairs(values: Sequence[float]) -> list[Point]:
    """x y x y ... as points."""
    return list(zip(values[::2], values[1::2], strict=False))


def area(points: Sequence[Point]) -> float:
    """Signed area of an outline (shoelace formula)."""
    following = (*points[1:], *points[:1])
    return sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(points, following, strict=True)) / 2


def crosses(points: Sequence[Point]) -> bool:
    """True if two edges cross inside (touching ends don't count). Outlines above MAX_CORNERS are not tested."""
    n = len(points)
    if not 4 <= n <= MAX_CORNERS:
        return False
    edges = []
    for i, (a, b) in enumerate(zip(points, (*points[1:], points[0]), strict=True)):
        low, high = (a[0], b[0]) if a[0] < b[0] else (b[0], a[0])
        edges.append((low, high, i, a, b))
    edges.sort()  # from left to right: an edge only meets those that begin before it ends
    for at, (_, high, i, a, b) in enumerate(edges):
        for low, _, j, c, d in edges[at + 1 :]:
            if low > high:
                break
            if (a[1] > c[1] and a[1] > d[1] and b[1] > c[1] and b[1] > d[1]) or abs(i - j) in {1, n - 1}:
                continue
            if _side(a, b, c) * _side(a, b, d) < 0 and _side(c, d, a) * _side(c, d, b) < 0:
                return True
    return False


def _side(a: Point, b: Point, c: Point) -> float:
    value = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
    return 0.0 if abs(value) < 1e-12 else value


def filled(points: Sequence[Point]) -> float:
    """The area that filling the outline covers (even-odd), from `_LINES` scan lines."""
    low, high = min(p[1] for p in points), max(p[1] for p in points)
    total = 0.0
    for k in range(_LINES):
        y = low + (k + 0.5) * (high - low) / _LINES
        hits = sorted(
            a[0] + (y - a[1]) * (b[0] - a[0]) / (b[1] - a[1])
            for a, b in zip(points, (*points[1:], *points[:1]), strict=True)
            if (a[1] <= y) != (b[1] <= y)
        )
        total += sum(right - left for left, right in zip(hits[::2], hits[1::2], strict=False))
    return total * (high - low) / _LINES


def outline_fault(points: Sequence[Point]) -> str:
    """`crossed` or `collapsed` for an outline that is no area, else empty."""
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    extent = (max(xs) - min(xs)) * (max(ys) - min(ys))
    outline = abs(area(points))
    if not crosses(points):
        return "collapsed" if extent > 0 and outline < 1e-4 * extent else ""
    inside = filled(points)
    return "crossed" if abs(inside - outline) > MIXED_UP * max(inside, outline) else ""


def starts_with_box(values: Sequence[float]) -> bool:
    """True for `x y w h x1 y1 x2 y2 x3 y3 ...`: the first four are centre and size of the polygon that follows."""
    points = pairs(values[4:])
    if len(points) < 3:
        return False
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    box = ((min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2, max(xs) - min(xs), max(ys) - min(ys))
    return all(abs(a - b) <= SAME for a, b in zip(values[:4], box, strict=True)) and min(box[2:]) > SAME


def far_from_box(point: Point, box: Sequence[float]) -> bool:
    """True if a keypoint lies further outside its box (x y w h) than the box is large."""
    return any(
        size > 0 and abs(value - centre) - size / 2 > FAR * size
        for value, centre, size in zip(point, box[:2], box[2:4], strict=True)
    )
