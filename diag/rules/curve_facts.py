"""What the shape of a score says. No rules here."""

import math
from itertools import pairwise

from diag.model.curves import Curves
from diag.stats import finite, mean, smooth
from diag.stats import noise as noise_of


def rises_throughout(curves: Curves, *, min_epochs: int = 3) -> bool:
    """Score up and validation loss down from each epoch to the next: what three or four epochs can show."""
    scores, losses = list(pairwise(curves.score)), list(pairwise(curves.val_sum))
    up, down = all(a < b for a, b in scores), bool(losses) and all(a > b for a, b in losses)
    return curves.rows >= min_epochs and up and down


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
