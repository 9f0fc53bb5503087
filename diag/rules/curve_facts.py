"""What the shape of a score says. No rules here."""

from itertools import pairwise

from diag.model.curves import Curves
from diag.stats import finite, smooth


def rises_throughout(curves: Curves, *, min_epochs: int = 3) -> bool:
    """Score up and validation loss down from each epoch to the next: what three or four epochs can show."""
    scores, losses = list(pairwise(curves.score)), list(pairwise(curves.val_sum))
    up, down = all(a < b for a, b in scores), bool(losses) and all(a > b for a, b in losses)
    return curves.rows >= min_epochs and up and down


def recovers(curves: Curves, *, crash: float = 0.5, regained: float = 0.5) -> bool:
    """The score fell below `crash` of its smoothed best and has regained so much of that fall: a crash that heals."""
    smoothed = smooth(curves.score)
    low = min(finite(smoothed[curves.smooth_best_at - 1 :]), default=curves.smooth_best)
    fall = curves.smooth_best - low
    return low < crash * curves.smooth_best and smoothed[-1] - low >= regained * fall
