"""What the learning curves of a run say, boiled down once so that every rule speaks of the same numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Curves:
    """The last training in a results.csv and its noise-aware figures.

    A results file may hold several trainings (resumed, appended, interleaved); only the last long
    chain of rising epochs is judged, `chains` counts all. "Score" is the main metric: mAP50-95 of
    boxes, top-1 accuracy for classification. Names ending in `_at` are positions in the judged
    chain, 1 = its first row; 0 = unknown. Sums are over all loss components of a row and nan where
    one of them is no number; "smooth" is a centred mean of five rows.
    """

    file: str
    first_row: int
    """Row of the file (1 = first below the header) at position 1."""
    rows: int
    chains: int
    metric: str
    """Column of the score; empty when the file has none."""
    epochs: tuple[float, ...]
    """The file's own epoch numbers; they start at 0 or 1."""
    score: tuple[float, ...]
    score50: tuple[float, ...]
    """mAP50 of boxes (top-5 for classification); empty without such a column."""
    train: Mapping[str, tuple[float, ...]]
    """Training losses by component (`box_loss`)."""
    val: Mapping[str, tuple[float, ...]]
    train_sum: tuple[float, ...]
    val_sum: tuple[float, ...]
    lr: tuple[float, ...]
    """The learning rate of the weights: the column with the smallest first value (the bias group starts near 0.1)."""
    window: int
    """Number of rows that "last" figures are a mean of."""
    best: float
    best_at: int
    smooth_best: float
    smooth_best_at: int
    last: float
    noise: float
    """Spread of the score around its own trend in the last third."""
    gain: float
    """Mean score of the last fifth minus that of the fifth before, as a share of the best score."""
    val_gain: float
    """The same for the validation loss, counted as a fall: positive while it still improves."""
    val_min: float
    """Minimum of the smoothed validation loss."""
    val_min_at: int
    val_last: float
    train_first: float
    train_last: float
    stop_at: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Positions of the best fitness (first and last of equal ones) by definition of the fitness; early
    stopping counts patience from it."""
    lines: tuple[int, ...] = ()
    """Lines of the file at each position."""
    columns: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """All `metrics/` columns of the judged rows, by full name."""
    clock: tuple[float, ...] = ()
    """The `time` column; it restarts when a run is resumed."""
    bias_lr: tuple[float, ...] = ()
    """The learning rate of the biases: the column with the largest first value, where it differs from `lr`."""
    long_gain: float = 0.0
    """Mean score of the last fifth minus that of the third fifth, as a share of the best score."""
    repeated: int = 0
    """Rows that a resume replaced: epochs that were trained twice."""

    @property
    def metric_name(self) -> str:
        """The score's name as people say it: `mAP50-95`, `accuracy_top1`."""
        return self.metric.removeprefix("metrics/").removesuffix("(B)")

    def epoch(self, at: int) -> int:
        """The file's epoch number at a position."""
        return round(self.epochs[at - 1]) if 0 < at <= self.rows else 0

    def line(self, at: int) -> int:
        """Line of the file (the header is line 1) at a position."""
        return self.lines[at - 1] if 0 < at <= len(self.lines) else self.first_row + at

    @property
    def excerpt(self) -> bool:
        """The file begins in the middle of the training: its first row says nothing of the start."""
        return bool(self.epochs) and self.epochs[0] > 1

    @property
    def trained(self) -> int:
        """Epochs that were trained by the last row: the last epoch number counted from 1, at least the rows.

        Rows may be lost at the start (an excerpt) or in between (a full disk, a paste with a hole). Numbers start at 0
        in YOLOv5, YOLOv9 and old Ultralytics; a file that begins later does not tell, and is believed.
        """
        return max(self.rows, self.epoch(self.rows) + (bool(self.epochs) and self.epochs[0] == 0))

    @property
    def drop(self) -> float:
        """How far the last scores lie below the smoothed best, as a share of it; 0 without a score."""
        return (self.smooth_best - self.last) / self.smooth_best if self.smooth_best > 0 else 0.0

    @property
    def drop_noise(self) -> float:
        """The part of `drop` that noise alone explains (one standard error of the last mean)."""
        return self.noise / self.window**0.5 / self.smooth_best if self.smooth_best > 0 else 0.0

    @property
    def val_rise(self) -> float:
        """Last validation loss relative to its minimum, minus 1; nan without a positive loss."""
        return self.val_last / self.val_min - 1 if self.val_min > 0 else float("nan")

    @property
    def train_fall(self) -> float:
        """Fall of the training loss from its first to its last rows, as a share; nan without one."""
        return 1 - self.train_last / self.train_first if self.train_first > 0 else float("nan")
