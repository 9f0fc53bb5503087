"""What the shape of a score says. No rules here."""

import math
from collections.abc import Sequence
from itertools import pairwise

from diag.model.curves import Curves
from diag.stats import finite, line, mean, smooth
from diag.stats import noise as noise_of


def rises_throughout(curves: Curves, *, min_epochs: int = 3) -> bool:
    """Score up and validation loss down from each epoch to the next: what three or four epochs can show."""
    scores, losses = list(pairwise(curves.score)), list(pairwise(curves.val_sum))
    up, down = all(a < b for a, b in scores), bool(losses) and all(a > b for a, b in losses)
    return curves.rows >= min_epochs and up and down


def beyond_chance(values: Sequence[float], change: float, *, window: int, factor: float = 1.5) -> bool:
    """Whether a mean of the last `window` values lies further from the best mean of the run than chance explains.

    `change` is that distance in the unit of the values. The best of n/window means lies sqrt(2 ln(n/window)) standard
    errors above what all fluctuate around, so `factor` errors more are asked for. The error is that of the last half
    around its own trend, widened where neighbours resemble each other (validation works with averaged weights): of a
    sequence with a correlation r between neighbours a mean is sqrt((1 + r) / (1 - r)) less certain.
    """
    half = values[-max(8, len(values) // 2) :]
    slope, start = line(half)
    rest = [y - (start + slope * x) for x, y in enumerate(half)]
    whole = finite(rest)
    spread = math.sqrt(sum(v * v for v in whole) / (len(whole) - 2)) if len(whole) >= 4 else math.nan
    if not spread > 0:
        return spread == 0 and change > 0
    near = mean([a * b for a, b in pairwise(rest)]) / spread**2
    near += (1 + 4 * near) / len(rest)  # Kendall 1954: what a short sequence shows is too small by so much
    alike = min(max(near if math.isfinite(near) else 0.0, 0.0), 0.9)
    error = spread / math.sqrt(window) * math.sqrt((1 + alike) / (1 - alike))
    return change > (factor + math.sqrt(2 * math.log(max(1.0, len(values) / window)))) * error


def ends_in_nan(curves: Curves) -> bool:
    """A training loss is no number in the last row: what the score does then says nothing of the training."""
    return any(bool(v) and not math.isfinite(v[-1]) for v in curves.train.values())


def recovers(curves: Curves, *, crash: float = 0.5, regained: float = 0.5) -> bool:
    """The score fell below `crash` of its smoothed best and has regained so much of that fall: a crash that heals."""
    smoothed = smooth(curves.score)
    low = min(finite(smoothed[curves.smooth_best_at - 1 :]), default=curves.smooth_best)
    fall = curves.smooth_best - low
    return low < crash * curves.smooth_best and smoothed[-1] - low >= regained * fall


def head_gain(curves: Curves, *, best_after: float = 0.9, noise_factor: float = 2.0) -> float:
    """What the last fifth brought to the mAP50-95 of masks or keypoints, as a share of its best.

    0 within its noise, and where its best lies before the last tenth.
    """
    gains = [0.0]
    fifth = max(2, round(curves.rows / 5))
    for name, values in curves.columns.items():
        if not name.startswith("metrics/mAP50-95(") or name.endswith("(B)") or len(values) <= 2 * fifth:
            continue
        best = max(finite(values), default=0.0)
        change = mean(values[-fifth:]) - mean(values[-2 * fifth : -fifth])
        if best not in values[-max(2, round((1 - best_after) * len(values))) :]:
            continue
        if best > 0 and change > noise_factor * noise_of(values[-max(5, len(values) // 3) :]) / math.sqrt(fifth):
            gains.append(change / best)
    return max(gains)
