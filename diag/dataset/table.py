"""All label rows of a data set as arrays, so that checks run over a million rows at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from diag.dataset.faults import Faults
from diag.dataset.labels import Rows

if TYPE_CHECKING:  # numpy costs a quarter of a second, which `diag --help` must not pay
    from typing import Any

    from numpy.typing import NDArray

    # numpy's own annotations lose the element type in every second expression
    Floats = NDArray[Any]
    Ints = NDArray[Any]
    Mask = NDArray[Any]


@dataclass
class Table:
    """Label rows: `file` indexes `files` and `splits`; row i is `flat[start[i] : start[i] + count[i]]`."""

    files: Sequence[Path]
    splits: Sequence[str]
    sizes: "Floats"
    """Width and height of each file's image as it is shown (EXIF applied); nan where not known."""
    file: "Ints"
    line: "Ints"
    count: "Ints"
    start: "Ints"
    flat: "Floats"
    cls: "Floats"
    box: "Floats"
    """x, y, w, h of each row: as written, or the bounds of its polygon; nan where there is none."""
    shape: "Mask"
    """Rows that are polygons or corners rather than boxes."""

    def row(self, i: int) -> "Floats":
        """The numbers of a row after the class."""
        return self.flat[self.start[i] + 1 : self.start[i] + self.count[i]]

    def points(self, i: int) -> "Floats":
        """The corners of a polygon row."""
        return self.row(i).reshape(-1, 2)

    def quote(self, i: int, limit: int = 9) -> str:
        """The row as text, shortened."""
        values = self.flat[self.start[i] : self.start[i] + min(self.count[i], limit)]
        return " ".join(f"{v:.6g}" for v in values) + (" ..." if self.count[i] > limit else "")


@dataclass
class Marks:
    """Reports faults of rows by their number in the table."""

    table: Table
    faults: Faults

    def add(self, i: int, fault: str, kind: str, value: str, *, fix: str = "", other: int | None = None) -> None:
        """Row i has this fault; `other` is the row that it clashes with."""
        file = self.table.file[i]
        clash = "" if other is None else self.at(other)
        split = self.table.splits[file]
        self.faults.add(
            fault, kind, self.table.files[file], int(self.table.line[i]), value, fix=fix, split=split, other=clash
        )

    def at(self, i: int) -> str:
        """`file:line` of a row."""
        return f"{self.faults.name(self.table.files[self.table.file[i]])}:{self.table.line[i]}"


def make_table(
    labels: Sequence[Rows],
    files: Sequence[Path],
    splits: Sequence[str],
    sizes: Sequence[tuple[int, int]],
    task: str,
    *,
    keypoints: int = 0,
) -> Table:
    """Put the rows of all label files together. `sizes` are (0, 0) where not known.

    Rows of `keypoints` fields are boxes with points, not polygons.
    """
    # Late: see above.
    import numpy as np

    def joined(parts: list[bytes], kind: type) -> "Floats":
        return np.frombuffer(b"".join(parts), dtype=kind)

    count = joined([r.counts.tobytes() for r in labels], np.int32).astype(np.int64)
    line = joined([r.lines.tobytes() for r in labels], np.int32).astype(np.int64)
    flat = joined([r.flat.tobytes() for r in labels], np.float64)
    file = np.repeat(np.arange(len(labels)), [len(r.lines) for r in labels])
    start = np.cumsum(count) - count
    cls = flat[start] if len(count) else np.zeros(0)
    box = np.full((len(count), 4), np.nan)
    boxed = count >= 5
    for k in range(4):
        box[boxed, k] = flat[start[boxed] + 1 + k]
    shape = (count >= 7) & (count % 2 == 1) & (count != keypoints) & (task != "pose")
    if shape.any():
        box[shape] = _bounds(flat, start[shape], count[shape])
    known = np.array(sizes, dtype=float).reshape(-1, 2)
    known[known <= 0] = np.nan
    return Table(files, splits, known, file, line, count, start, flat, cls, box, shape)


def _bounds(flat: "Floats", start: "Ints", count: "Ints") -> "Floats":
    """x, y, w, h around polygons, as Ultralytics' segments2boxes makes them."""
    import numpy as np

    index, first = polygon_index(start, count)
    xs, ys = flat[index], flat[index + 1]
    left, right = np.minimum.reduceat(xs, first), np.maximum.reduceat(xs, first)
    top, bottom = np.minimum.reduceat(ys, first), np.maximum.reduceat(ys, first)
    return np.stack([(left + right) / 2, (top + bottom) / 2, right - left, bottom - top], 1)


def polygon_index(start: "Ints", count: "Ints") -> tuple["Ints", "Ints"]:
    """Where the x of every corner of these rows lies in `flat`, and where each row begins in that list."""
    import numpy as np

    corners = (count - 1) // 2
    first = np.cumsum(corners) - corners
    within = np.arange(int(corners.sum())) - np.repeat(first, corners)
    return np.repeat(start + 1, corners) + 2 * within, first
