"""What the learning curves of a run say, boiled down once so that every rule speaks of the same numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Curves:
    """The last training in a results.csv and its noise-aware figures. Rows count from 1 within `file`.

    A results file may hold several trainings (resumed, appended, interleaved); only the last long
    chain of rising epochs is judged, the others are counted in `chains`. "Score" is the main metric:
    mAP50-95 of boxes, top-1 accuracy for classification.
    """

    file: str
    first_row: int
    rows: int
    chains: int
    metric: str
    """Column of the score; empty when the file has none."""
    epochs: tuple[float, ...]
    score: tuple[float, ...]
    score50: tuple[float, ...]
    """mAP50 of boxes (top-5 for classification); empty without such a column."""
    train: Mapping[str, tuple[float, ...]]
    """Training losses by component (`box_loss`)."""
    val: Mapping[str, tuple[float, ...]]
    train_sum: tuple[float, ...]
    """Sum of all training losses per row; nan where no component is a number."""
    val_sum: tuple[float, ...]
    lr: tuple[float, ...]
    """The learning rate of the weights: the column with the smallest first value (the bias group starts near 0.1)."""
    best: float
    best_row: int
    last: float
    """Mean score of the last `window` rows."""
    window: int
    noise: float
    """Spread of the score around its own trend in the last third."""
    slope: float
    """Gain of the score per epoch over the last fifth."""
    stop_rows: Mapping[str, int] = field(default_factory=dict)
    """Position (1 = first judged row) of the best fitness under each known definition; early stopping
    counts patience from it."""

    @property
    def last_row(self) -> int:
        """Row number of the last judged row."""
        return self.first_row + self.rows - 1
