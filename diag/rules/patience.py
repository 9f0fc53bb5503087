"""train.patience_saves: what early stopping would have made of a finished curve."""

import math

from diag.model.curves import Curves
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Value, Verdict
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.ending import patience_too_short
from diag.stats import would_stop

_SHOWN = 0.0005
"""A difference that three digits show."""
PATIENCES = (10, 15, 20, 30, 50, 75, 100)
"""Values that people use; the smallest one that loses almost nothing is told."""


def fitness(curves: Curves) -> tuple[float, ...]:
    """What best.pt is chosen by: 0.1 mAP50 + 0.9 mAP50-95, summed over the heads; for classes the accuracies."""
    columns = curves.columns
    heads = [h for h in "BMP" if f"metrics/mAP50-95({h})" in columns and f"metrics/mAP50({h})" in columns]
    if heads:
        pairs = [zip(columns[f"metrics/mAP50({h})"], columns[f"metrics/mAP50-95({h})"], strict=False) for h in heads]
        return tuple(sum(0.1 * a + 0.9 * b for a, b in row) for row in zip(*pairs, strict=False))
    tops = [values for name, values in columns.items() if name.startswith("metrics/accuracy_top")]
    return tuple(sum(row) for row in zip(*tops, strict=False)) if tops else curves.score


def shorter_patience(curves: Curves, *, saved: float = 0.15) -> tuple[int, int]:
    """The smallest usual patience with which the finished run would have ended sooner and lost nothing, and the row.

    Zeros where there is none. Nothing is lost where the best epoch comes before the stop. saved: share of the epochs
    (a proposal). Below 30 it ends runs that are still improving (train.es_premature).
    """
    for patience in (p for p in PATIENCES if p >= 30):
        stop = would_stop(fitness(curves), patience)
        if stop > curves.best_at and stop <= (1 - saved) * curves.rows:
            return patience, stop
    return 0, 0


@rule(
    "train.patience_saves",
    Severity.INFO,
    explained_by=("train.early_peak", "train.overfit", "num.collapse", "num.diverged", "num.nan_loss"),
)
def patience_saves(
    curves: Curves,
    args: TrainArgs | None,
    *,
    min_rows: int = 40,
    max_cost: float = 0.005,
    min_saved: float = 0.25,
) -> Verdict:
    """Early stopping with a smaller patience would have ended this run much earlier, with almost the same best.pt.

    Exact, not a guess: until it stops, a run with another patience is the same run. min_rows: below them there is
    little to save. max_cost: of the best score, about what two seeds differ by at least (0.5 %; proposal). min_saved:
    share of the epochs. Not told where train.es_premature calls the patience that the run had too short.
    """
    if not curves.best_at:
        return Skip("no_score")
    if curves.rows < min_rows:
        return Skip("too_few_epochs", {"have": curves.rows, "need": min_rows})
    values, asked = fitness(curves), args.get("patience", 100) if args else 100
    if patience_too_short(curves, args, max_patience=20, lr_left=0.5, gain=0.02, noise=0.05):
        return None
    for patience in PATIENCES:
        if isinstance(asked, int) and 0 < asked <= patience:
            break
        row = would_stop(values, patience) or curves.rows
        if row >= curves.rows or (1 - row / curves.rows) < min_saved:
            break  # a larger patience saves even less
        best = max((v for v in curves.score[:row] if math.isfinite(v)), default=0.0)
        if curves.best - best <= max_cost * curves.best:
            saved_s = _saved(curves, row)
            told: dict[str, Value] = {
                "case": _case(saved_s is not None, curves.best - best < _SHOWN),
                "patience": patience,
                "epoch": curves.epoch(row),
                "rows": curves.rows,
                "cost": max(0.0, curves.best - best),
                "metric": curves.metric_name,
                "saved": curves.rows - row,
                "saved_min": saved_s / 60 if saved_s else None,
            }
            return Hit(
                values=told,
                fixes=(Fix("patience", {"patience": patience}),),
                evidence=(Source(curves.file, curves.line(row)),),
                confidence=Confidence.MEDIUM,
            )
    return None


def _case(timed: bool, same: bool) -> str | None:
    return "_".join(("timed",) * timed + ("same",) * same) or None


def _saved(curves: Curves, row: int) -> float | None:
    """Seconds between that row and the last one by the time column, which restarts where a run was resumed."""
    clock = curves.clock
    if len(clock) != curves.rows:
        return None
    seconds = [b - a for a, b in zip(clock[row - 1 :], clock[row:], strict=False)]
    return sum(seconds) if seconds and all(s > 0 for s in seconds) else None
