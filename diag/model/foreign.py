"""Facts from files that other programs wrote: console logs, captured tables, text captures, label files."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NAN = float("nan")
_WITH_UNIT = re.compile(
    r"([+-]?\d{1,15}(?:\.\d{1,15})?) ?(?:%|Mi?B|Gi?B|W|MHz|C|it/s|s/it|im(?:a?ge?s?)?/s|ms|sec|s|min|h|x)"
)
"""A cell as nvidia-smi writes it: `88 %`, `1010 MiB`, `297.31 W`."""


@dataclass(frozen=True)
class LogEpoch:
    """The last progress line of an epoch (or of a part of it, when something was said in between)."""

    epoch: int
    planned: int
    line: int
    gpu_mem_g: float | None = None
    losses: Mapping[str, float] = field(default_factory=dict)
    instances: int | None = None
    size: int | None = None
    done: int | None = None
    """Batches done; None when the line holds no bar."""
    total: int | None = None
    train_s: float | None = None
    step_s: float | None = None
    """Seconds per batch as the bar says it."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Names as in results.csv; empty when the epoch was not validated."""
    val_images: int | None = None
    val_instances: int | None = None
    val_s: float | None = None
    clock_s: float | None = None
    """Time of day of the last time stamp before this line."""

    @property
    def complete(self) -> bool:
        """The epoch's bar ran to its end, or it was validated."""
        return bool(self.metrics) or self.done is None or self.done == self.total


@dataclass(frozen=True)
class Scan:
    """A "Scanning labels" line. `total` counts images, `labelled` those with labels."""

    split: str
    total: int
    labelled: int
    missing: int | None
    """Images without a label file; None where the message counts them with the empty ones."""
    background: int
    corrupt: int
    line: int
    path: str = ""
    seconds: float | None = None
    done: int | None = None
    file: str = "console.log"

    @property
    def s_per_image(self) -> float | None:
        """Seconds per image of this scan."""
        return self.seconds / self.done if self.seconds is not None and self.done else None


@dataclass(frozen=True)
class ImageCache:
    """A "Caching images" line: how much was held after `done` of `total` images."""

    where: str
    gib: float
    done: int
    total: int
    line: int


@dataclass(frozen=True)
class Evaluation:
    """A validation outside of the epochs of a training: of best.pt at its end, or by val.py, test.py, `yolo val`."""

    file: str
    line: int
    score50: float
    images: int | None = None
    instances: int | None = None
    said: str = ""
    """The command or the words before it; empty for a log that holds nothing but the result."""
    size: int | None = None
    export: str = ""
    """The format of the weights where they were exported."""


@dataclass(frozen=True)
class TrainLog:
    """What a console log tells of the training in it; the longest run of the file is judged."""

    file: str = "console.log"
    epochs: tuple[LogEpoch, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    parts: tuple[LogEpoch, ...] = ()
    """Progress lines of unfinished epochs, in file order."""
    scans: tuple[Scan, ...] = ()
    caches: tuple[ImageCache, ...] = ()
    transferred: tuple[tuple[int, int], ...] = ()
    transferred_lines: tuple[int, ...] = ()  # one for each entry
    versions: tuple[str, ...] = ()
    """Ultralytics or YOLOv5 versions of the banners, each once, in order."""
    torch: str = ""
    python: str = ""
    gpu: str = ""
    gpu_mib: float | None = None
    gpus: int = 0
    args: Mapping[str, Any] = field(default_factory=dict)
    args_lines: Mapping[str, int] = field(default_factory=dict)  # where it was printed last
    optimizer: str = ""
    optimizer_lr: float | None = None
    autobatch_gib: tuple[float, ...] = ()
    """Memory at batch 1, 2, 4 ... of AutoBatch's table."""
    class_instances: Mapping[str, int] = field(default_factory=dict)
    """Instances of each class in the last validation table that lists them."""
    class_line: int = 0  # the first of that table; 0 without one
    hours: float | None = None
    runs: int = 0
    """Trainings in the file."""
    lines: int = 0
    windows: bool = False
    """A module path with backslashes."""
    oom_phase: str = ""
    """start, train or val: where the first CUDA out-of-memory error came."""
    ended: str = ""
    """completed, early_stop, error, interrupted or cut (the text just ends)."""
    joined: tuple[tuple[str, int], ...] = ()
    """Of a training that goes on in another file: the files and their lines, which are counted through."""

    def place(self, line: int | None) -> tuple[str, int | None]:
        """The file that such a line stands in, and its number there."""
        for file, lines in self.joined:
            if line is None or line <= lines:
                return file, line
            line -= lines
        return self.file, line


@dataclass(frozen=True)
class Table:
    """A small CSV of somebody's own: cells as text, columns by header."""

    file: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    line: int | None = None
    """Where the table begins in a text that holds more; None for a file that is one as a whole."""

    def find(self, pattern: str) -> str:
        """The first column whose name matches; empty without one."""
        return next((c for c in self.columns if re.search(pattern, c, re.I)), "")

    def texts(self, column: str) -> tuple[str, ...]:
        """The cells of a column."""
        at = self.columns.index(column)
        return tuple(row[at] for row in self.rows)

    def numbers(self, pattern: str) -> tuple[float, ...]:
        """The numbers of the first matching column, nan where a cell is none; empty without such a column."""
        column = self.find(pattern)
        return tuple(_number(cell) for cell in self.texts(column)) if column else ()


@dataclass(frozen=True)
class Tables:
    """All foreign tables of a run."""

    tables: tuple[Table, ...] = ()

    def series(self, pattern: str) -> tuple[float, ...]:
        """The finite numbers of the first column in any table whose name matches."""
        for table in self.tables:
            found = tuple(v for v in table.numbers(pattern) if v == v and abs(v) != float("inf"))  # noqa: PLR0124
            if found:
                return found
        return ()

    def having(self, *patterns: str) -> Table | None:
        """The first table that has a column for each pattern."""
        return next((t for t in self.tables if all(t.find(p) for p in patterns)), None)


@dataclass(frozen=True)
class Note:
    """A line of a captured text."""

    file: str
    line: int
    text: str


@dataclass(frozen=True)
class NotedGpu:
    """A GPU as some listing names it."""

    index: int
    name: str
    memory_mib: float | None = None
    used_mib: float | None = None


@dataclass(frozen=True)
class Disk:
    """A line of df. Sizes are None where the listing has none."""

    mount: str
    used_share: float
    free_bytes: float | None = None


@dataclass(frozen=True)
class Notes:
    """Captured texts: env, nvidia-smi, df, dmesg, mounts, package lists, folder listings."""

    lines: tuple[Note, ...] = ()
    gpus: tuple[NotedGpu, ...] = ()
    driver: str = ""
    driver_cuda: str = ""
    mounts: Mapping[str, str] = field(default_factory=dict)
    """Mount point -> file system type."""
    disks: tuple[Disk, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)

    def find(self, pattern: str, *, file: str = "") -> tuple[Note, ...]:
        """Lines that match, case-insensitively; `file` narrows by a pattern of the file name."""
        return tuple(
            n for n in self.lines if re.search(pattern, n.text, re.I) and (not file or re.search(file, n.file, re.I))
        )


@dataclass(frozen=True)
class DataYaml:
    """A data.yaml: only what rules ask for."""

    file: str
    names: Mapping[int, str]
    names_count: int = 0
    names_text: str = ""
    """What stands under `names` where it is neither a list nor a mapping."""
    nc: int | None = None
    train: str = ""
    val: str = ""
    kpt_shape: tuple[int, ...] = ()
    flip_idx: tuple[int, ...] = ()
    kpt_names: tuple[str, ...] = ()
    root: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)  # of each key at the margin


@dataclass(frozen=True)
class LabelFiles:
    """What the label files say by themselves, without the images. `problems` are `file:line: what`."""

    files: int
    rows: int = 0
    empty: int = 0
    box_rows: int = 0
    polygon_rows: int = 0
    class_counts: Mapping[int, int] = field(default_factory=dict)
    class_oob: int = 0
    coord_oob: int = 0
    over_border: int = 0
    bad_rows: int = 0
    zero_area: int = 0
    tiny: int = 0
    """Boxes under 0.5 % of a side."""
    duplicates: int = 0
    same_bbox: int = 0
    doubles: int = 0
    """Pairs of boxes of one class with an IoU of at least 0.9 that are not the same row."""
    few_points: int = 0
    full_image: int = 0
    """Rows with keypoints whose box is the whole image."""
    full_boxes: int = 0
    """Rows whose box is the whole image, with or without keypoints."""
    outlines: int = 0
    """Polygons that were tested for the following faults; a huge set is tested in part."""
    crossed: int = 0
    """Polygons whose lines cross so that the mask is another than the outline."""
    collapsed: int = 0
    """Polygons that enclose nothing."""
    box_first: int = 0
    """Rows that hold x y w h before the points of their polygon."""
    obb_flat: int = 0
    """Upright boxes (class and four numbers) where the task is obb."""
    obb_crossed: int = 0
    obb_collapsed: int = 0
    """Oriented boxes (task obb) with crossed corners, and without area."""
    kpt_far: int = 0
    """Labelled keypoints further outside their box than the box is large."""
    kpt_fields: tuple[int, ...] = ()
    """Fields that kpt_shape asks for, and those that nearly all rows have, where they differ."""
    kpt_rows: int = 0
    kpt_points: int = 0
    kpt_hidden: int = 0
    kpt_poor: int = 0
    """Rows with most keypoints hidden."""
    kpt_out: int = 0
    max_objects: int = 0
    mixed_files: int = 0
    """Files that hold boxes and polygons."""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """Something in which the runs that are compared differ: one value a run."""

    what: str
    values: tuple[str, ...]


def _number(cell: str) -> float:
    try:
        return float(cell.strip().rstrip("%"))
    except ValueError:
        found = _WITH_UNIT.fullmatch(cell.strip())
        return float(found[1]) if found else NAN


@dataclass(frozen=True)
class Phase:
    """A row of stages.csv: one phase of one epoch and where its seconds went."""

    epoch: int
    name: str
    iters: int
    seconds: Mapping[str, float]
    """Column without its unit -> seconds (`data_wait`, `forward`, `postproc`)."""
    wall_s: float

    def share(self, *columns: str) -> float:
        """Share of the phase's wall time in these columns."""
        return sum(self.seconds.get(c, 0.0) for c in columns) / self.wall_s if self.wall_s > 0 else 0.0


@dataclass(frozen=True)
class Phases:
    """All rows of a stages.csv."""

    rows: tuple[Phase, ...]
    file: str = "stages.csv"
    line: int | None = None
    """Where the table begins in a text that holds more."""

    def of(self, pattern: str) -> tuple[Phase, ...]:
        """The phases whose name starts so."""
        return tuple(row for row in self.rows if row.name.startswith(pattern))
