"""data.yaml and label files, read without the images."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from diag.codec import parse_yaml
from diag.errors import InputError
from diag.load.label_shapes import far_from_box, outline_fault, pairs, starts_with_box
from diag.load.read import UnreadableError
from diag.model.foreign import DataYaml, LabelFiles

MAX_FILES = 20_000
_MAX_PROBLEMS = 10
"""Of each kind."""
_MAX_ROWS = 100_000
_KEY = re.compile(r"""["']?(\w{1,40})["']?\s*:""")
_MAX_WORK = 10_000_000
"""Sum of the squares of the corners of polygons that are tested for crossing: some seconds at worst."""
_FULL = 0.995
_MOST = 0.9
"""Share of the rows that agree on another number of fields than kpt_shape asks for: then kpt_shape is wrong."""
Row = tuple[float, ...]


def parse_data_yaml(text: str, *, name: str = "data.yaml") -> DataYaml:
    """The data set description; raises UnreadableError when it is none."""
    if text.count("&") + text.count("*") > 100:
        raise UnreadableError("full of YAML references; this is no data.yaml")
    try:
        raw = parse_yaml(text, name)
    except InputError as error:
        raise UnreadableError(str(error)) from error
    if not isinstance(raw, dict) or not {"names", "nc", "train", "val", "path"} & {str(k) for k in raw}:
        raise UnreadableError("no names, nc, train or val in it")
    named = raw.get("names")
    listed = enumerate(named) if isinstance(named, list) else named.items() if isinstance(named, dict) else ()
    keyed = [(int(k) if isinstance(k, str) and k.isdecimal() and len(k) < 10 else k, v) for k, v in listed]  # JSON
    pairs = [(k, str(v)) for k, v in keyed if isinstance(k, int) and not isinstance(k, bool)]
    nc = raw.get("nc")
    return DataYaml(
        file=name,
        names=dict(pairs),
        names_count=len(pairs),
        names_text=named[:100] if isinstance(named, str) else "",
        nc=nc if isinstance(nc, int) and not isinstance(nc, bool) else None,
        train=_path(raw.get("train")),
        val=_path(raw.get("val")),
        kpt_shape=_ints(raw.get("kpt_shape")),
        flip_idx=_ints(raw.get("flip_idx")),
        kpt_names=_words(raw.get("kpt_names")),
        root=_path(raw.get("path")),
        lines={m[1]: n for n, line in enumerate(text.splitlines(), 1) if (m := _KEY.match(line))},
    )


def _path(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value) if value is not None else ""


def _words(value: Any) -> tuple[str, ...]:
    """Names of keypoints: a list, or a list for each class."""
    first = next(iter(value.values()), None) if isinstance(value, dict) else value
    return tuple(str(v) for v in first[:1000]) if isinstance(first, list) else ()


def _ints(value: Any) -> tuple[int, ...]:
    return tuple(v for v in value if isinstance(v, int)) if isinstance(value, list) else ()


def parse_labels(files: Iterable[tuple[str, str]], data: DataYaml | None = None, task: str = "") -> LabelFiles | None:
    """Counts over all label files, given as (name, content). `task` is that of the arguments; empty if not known."""
    audit = _Audit(data, task)
    for name, text in files:
        audit.file(name, text)
    return audit.result()


class _Audit:
    def __init__(self, data: DataYaml | None, task: str) -> None:
        self.count: Counter[str] = Counter()
        self.fields: Counter[int] = Counter()
        self.task = task
        self.work = 0
        self.classes: Counter[int] = Counter()
        self.problems: list[str] = []
        self.told: Counter[str] = Counter()
        self.most = 0
        shape = data.kpt_shape if data else ()
        self.kpts = shape[0] * shape[1] if len(shape) == 2 and 0 < shape[0] < 1000 and shape[1] in {2, 3} else 0
        self.kpt_dim = shape[1] if self.kpts else 0
        # A data.yaml that only gives nc names its classes by number.
        self.nc = max(data.names, default=-1) + 1 or (data.nc or 0) if data else 0

    def file(self, name: str, text: str) -> None:
        self.count["files"] += 1
        rows: list[Row] = []
        said: dict[Row, tuple[int, str]] = {}
        for number, line in enumerate(text.lstrip("\ufeff").splitlines()[:_MAX_ROWS], 1):
            if not line.strip():
                continue
            row = self.row(f"{name}:{number}", line)
            if row is not None:
                rows.append(row)
                said.setdefault(row, (number, line))
        if not rows:
            self.count["empty"] += 1
            return
        self.most = max(self.most, len(rows))
        self.together(name, rows, said)

    def row(self, where: str, line: str) -> Row | None:
        self.count["rows"] += 1
        try:
            row = tuple(float(cell) for cell in line.split())
        except ValueError:
            self.bad(where, "not numbers", line)
            return None
        if not all(map(math.isfinite, row)):
            self.bad(where, "nan or inf", line)
            return None
        n = len(row)
        self.fields[n] += 1
        pose = self.kpts and n == 5 + self.kpts
        if not pose and n != 5 and (n < 5 or n % 2 == 0):
            self.bad(where, f"{n} fields", line)
            return None
        if row[0] != int(row[0]):
            self.bad(where, "class is no whole number", line)
            return None
        self.classes[int(row[0])] += 1
        if row[0] < 0 or (self.nc and row[0] >= self.nc):
            self.problem("class_oob", where, f"class {row[0]:g} but names 0 to {self.nc - 1}")
        if not pose and n > 5:
            self.count["polygon_rows"] += 1
            points = set(zip(row[1::2], row[2::2], strict=True))
            if len(points) < 3:
                self.problem("few_points", where, f"polygon of {len(points)} different points")
            else:
                self.outline(where, row, line)
        else:
            self.count["box_rows"] += 1
            self.box(where, row, line)
        if pose:
            self.keypoints(where, row, line)
        values = row[1:5] if pose else row[1:]
        wrong = [v for v in values if v < 0 or v > 1]
        if wrong:
            self.problem("coord_oob", where, f"{wrong[0]:g} is outside 0..1")
        return row

    def outline(self, where: str, row: Row, line: str) -> None:
        """Polygons that begin with their box, cross themselves or enclose nothing; oriented boxes likewise."""
        if self.task != "obb" and starts_with_box(row[1:]):
            self.seen("box_first", where, "x y w h stand before the points", line)
            return
        if self.work > _MAX_WORK:
            return
        self.work += (len(row) // 2) ** 2
        self.count["outlines"] += 1
        if fault := outline_fault(pairs(row[1:])):
            oriented = self.task == "obb" and len(row) == 9
            self.seen(f"obb_{fault}" if oriented else fault, where, f"{fault} corners", line)

    def box(self, where: str, row: Row, line: str) -> None:
        x, y, w, h = row[1:5]
        if self.task == "obb" and len(row) == 5:
            self.seen("obb_flat", where, "a box without corners", line)
        if w <= 0 or h <= 0:
            self.problem("zero_area", where, f"width {w:g}, height {h:g}")
        elif max(w, h) < 0.005:
            self.seen("tiny", where, "tiny", line)
        if min(w, h) >= _FULL:
            self.seen("full_boxes", where, "the whole image", line)
        inside = all(0 <= v <= 1 for v in row[1:5])
        if inside and (x - w / 2 < -0.01 or y - h / 2 < -0.01 or x + w / 2 > 1.01 or y + h / 2 > 1.01):
            self.seen("over_border", where, "hangs over the border", line)

    def keypoints(self, where: str, row: Row, line: str) -> None:
        self.count["kpt_rows"] += 1
        before = self.count["kpt_hidden"]
        if row[3] >= 0.99 and row[4] >= 0.99:
            self.seen("full_image", where, "a box for form's sake", line)
        for i in range(5, len(row), self.kpt_dim):
            x, y = row[i], row[i + 1]
            self.count["kpt_points"] += 1
            hidden = row[i + 2] == 0 if self.kpt_dim == 3 else x == 0 and y == 0
            self.count["kpt_hidden"] += hidden
            if not hidden and far_from_box((x, y), row[1:5]):
                self.problem("kpt_far", where, f"keypoint at {x:g}, {y:g} far from its box")
            if not (0 <= x <= 1 and 0 <= y <= 1):
                self.problem("kpt_out", where, f"keypoint at {x:g}, {y:g}")
        lost = self.count["kpt_hidden"] - before
        if 2 * lost > (len(row) - 5) // self.kpt_dim:
            self.seen("kpt_poor", where, f"{lost} points without a place", line)

    def together(self, name: str, rows: Sequence[Row], said: Mapping[Row, tuple[int, str]]) -> None:
        """Faults of several rows of a file; `said` has the line that a row stands in first, and its words."""
        polygons = [r for r in rows if not self.kpts and len(r) > 5]
        if polygons and len(polygons) < len(rows):
            number, line = next(said[r] for r in rows if len(r) == 5)
            what = f"{len(rows) - len(polygons)} boxes among {len(polygons)} polygons"
            self.seen("mixed_files", f"{name}:{number}", what, line)
        unique = set(rows)
        if len(unique) < len(rows):
            self.problem("duplicates", name, f"{len(rows) - len(unique)} rows twice", len(rows) - len(unique))
        boxes = Counter((r[0], *_bounds(r)) for r in unique if len(r) > 5 and not self.kpts)
        same = sum(n - 1 for n in boxes.values())
        if same:
            twice = [said[r] for r in unique if len(r) > 5 and boxes[(r[0], *_bounds(r))] > 1]
            number, line = max(twice)
            self.seen("same_bbox", f"{name}:{number}", f"{same} polygons with the box of another", line, same)
        plain = [r for r in unique if len(r) == 5 or self.kpts]
        if 1 < len(plain) <= 300:
            for a, b in combinations(plain, 2):
                if a[0] == b[0] and a[1:5] != b[1:5] and _iou(a, b) >= 0.9:
                    number, line = max(said[a], said[b])
                    self.seen("doubles", f"{name}:{number}", "annotated twice", line)

    def bad(self, where: str, what: str, line: str) -> None:
        self.seen("bad_rows", where, what, line)

    def seen(self, kind: str, where: str, what: str, line: str, count: int = 1) -> None:
        """A problem with the beginning of its row."""
        self.problem(kind, where, f"{what}: {line[:40]}", count)

    def problem(self, kind: str, where: str, what: str, count: int = 1) -> None:
        self.count[kind] += count
        self.told[kind] += 1
        if self.told[kind] <= _MAX_PROBLEMS:
            self.problems.append(f"{where}: {what}")

    def result(self) -> LabelFiles | None:
        if not self.count["files"]:
            return None
        most, rows = self.fields.most_common(1)[0] if self.fields else (0, 0)
        other = self.kpts and rows >= max(2, _MOST * sum(self.fields.values())) and most != 5 + self.kpts
        shape = (5 + self.kpts, most) if other else ()
        return LabelFiles(
            **dict(self.count),
            kpt_fields=shape,
            class_counts=dict(self.classes),
            max_objects=self.most,
            problems=tuple(self.problems),
        )


def _bounds(row: Row) -> tuple[float, float, float, float]:
    xs, ys = row[1::2], row[2::2]
    return (round(min(xs), 5), round(min(ys), 5), round(max(xs), 5), round(max(ys), 5))


def _iou(a: Row, b: Row) -> float:
    w = min(a[1] + a[3] / 2, b[1] + b[3] / 2) - max(a[1] - a[3] / 2, b[1] - b[3] / 2)
    h = min(a[2] + a[4] / 2, b[2] + b[4] / 2) - max(a[2] - a[4] / 2, b[2] - b[4] / 2)
    if w <= 0 or h <= 0:
        return 0.0
    both = a[3] * a[4] + b[3] * b[4] - w * h
    return w * h / both if both > 0 else 0.0
