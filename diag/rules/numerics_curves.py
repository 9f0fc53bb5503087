"""num.*: curves that broke: collapse, divergence, and what comes before it."""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from diag.model.curves import Curves
from diag.model.finding import Fix, Hit, Severity, Skip, Source, Value, Verdict
from diag.model.foreign import Tables
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.facts import from_scratch, whole
from diag.stats import finite, mean, smooth


@rule("num.bias_warmup_lr", Severity.HIGH, explained_by=("num.lr_too_high",))
def bias_warmup(
    curves: Curves, args: TrainArgs, *, min_factor: float = 20.0, dip: float = 0.3, absurd: float = 1.0
) -> Verdict:
    """warmup_bias_lr is far above lr0 and wrecks the biases of a fine-tune: the score falls in the first epochs.

    min_factor: of the later rate (ultralytics#14359: 0.1 against 1e-3 and less); dip: of the first score is
    lost within warm-up. absurd: ten times the default of 0.1 wrecks the biases within the first epoch, so that there
    is no good first score to compare with; a start from weights that scores about 0 is the harm. From scratch there is
    nothing to wreck.
    """
    if curves.excerpt:
        return Skip("excerpt")
    lr = max(finite(curves.lr), default=math.nan)
    bias = args.get("warmup_bias_lr", 0.1)
    first = curves.score[0] if curves.score else math.nan
    if math.isnan(lr) or lr <= 0 or not isinstance(bias, (int, float)):
        return Skip("no_lr")
    warm = (
        max(
            1,
            min(int(args.get("warmup_epochs", 3) if isinstance(args.get("warmup_epochs", 3), (int, float)) else 3), 10),
        )
        + 2
    )
    low = min(finite(curves.score[1:warm]), default=math.nan)
    peak = max(finite(curves.bias_lr), default=0.0)
    bias = max(float(bias), peak)
    at_once = bias >= max(absurd, min_factor * lr) and first <= 0.05 and not from_scratch(args)
    at_once = at_once and args.get("warmup_epochs", 3) != 0
    if at_once:
        peak = bias
    if peak < min_factor * lr or not (at_once or (first > 0.05 and low < (1 - dip) * first)):
        return None
    return Hit(
        values={
            "case": "at_once" if at_once else None,
            "bias": peak,
            "lr": lr,
            "first": first,
            "low": low if math.isfinite(low) else first,
        },
        fixes=(Fix("lower", {"warmup_bias_lr": float(f"{lr:.1g}")}),),
        evidence=(Source(curves.file, curves.line(1)),),
    )


@rule(
    "num.collapse",
    Severity.CRITICAL,
    explained_by=("num.nan_loss", "num.seg_nan", "num.lr_too_high", "train.ddp_metrics_broken", "num.amp_overflow"),
)
def collapse(curves: Curves, *, min_best: float = 0.05, gone: float = 0.1, growth: float = 1.3) -> Verdict:
    """The score fell to about 0 and stays there after it had worked (yolov7#741).

    min_best: it had worked. gone: the last rows, and all after the fall, are below this share of the best: a dip that
    recovers is none. growth: training losses that far above their minimum by then (num.diverged) were no sudden fall,
    and half precision is not the reason.
    """
    scores = [(i, v) for i, v in enumerate(curves.score, 1) if math.isfinite(v)]
    if not scores:
        return Skip("no_score")
    after = [(i, v) for i, v in scores if i > curves.best_at]
    if curves.best < min_best or not after or after[-1][1] >= gone * curves.best:
        return None
    first = next(i for i, v in after if all(x < 2 * gone * curves.best for j, x in after if j >= i))
    val = (
        curves.val_sum[first - 1] / curves.val_min if curves.val_min > 0 and len(curves.val_sum) >= first else math.nan
    )
    train = (
        curves.train_sum[first - 1] / curves.train_sum[first - 2] - 1
        if first > 1 and curves.train_sum and curves.train_sum[first - 2] > 0
        else math.nan
    )
    known = math.isfinite(val) and math.isfinite(train)
    least = min(finite(curves.train_sum[:first]), default=0.0)
    rising = known and curves.train_sum[first - 1] >= growth * least > 0
    if rising:
        train = curves.train_sum[first - 1] / least
    return Hit(
        values={
            "case": "rising" if rising else "losses" if known else None,
            "best": curves.best,
            "epoch": curves.epoch(first),
            "last": after[-1][1],
            "val": val if known else None,
            "train": train if known else None,
            "metric": curves.metric_name,
        },
        fixes=(Fix("resume_before"), *(() if rising else (Fix("fp32", {"amp": False}),))),
        evidence=(Source(curves.file, curves.line(first)),),
    )


@rule("num.diverged", Severity.CRITICAL, explained_by=("num.lr_too_high", "num.nan_loss", "num.collapse"))
def diverged(
    curves: Curves, *, min_epochs: int = 8, growth: float = 1.3, drop: float = 0.5, swings: float = 2.0
) -> Verdict:
    """Training losses rise and the score falls, for good.

    growth: the last losses over the smoothed minimum; drop: of the best score is lost at the end. A rising
    validation loss alone is overfitting. Of 92 public runs none ended with a training loss of more than 1.22 times
    its minimum. swings: of the usual change from one epoch to the next; with a batch or two in an epoch the losses are
    as loud as that, and a smoothed minimum lies far below any end. Reported in yolov5#3870.
    """
    if curves.rows < min_epochs:
        return Skip("too_few_epochs", {"have": curves.rows, "need": min_epochs})
    losses = [v for v in smooth(curves.train_sum) if math.isfinite(v)]
    if not losses or not curves.best_at:
        return Skip("no_losses")
    least = min(losses)
    if not curves.train_last >= growth * least > 0 or curves.drop < drop:
        return None  # losses that are no numbers at the end are num.nan_loss
    steps = [abs(b - a) for a, b in pairwise(finite(curves.train_sum))]
    if curves.train_last - least < swings * median(steps or [0.0]):
        return None
    return Hit(
        values=_diverged(curves, least),
        fixes=(Fix("lower_lr"), Fix("best_pt")),
        evidence=(Source(curves.file, curves.line(curves.rows)),),
    )


def _diverged(curves: Curves, least: float) -> dict[str, Value]:
    return {"growth": curves.train_last / least, "drop": curves.drop, "best": curves.best, "last": curves.last}


@rule(
    "num.divergence_precursor",
    Severity.HIGH,
    explained_by=(
        "num.lr_too_high",
        "num.diverged",
        "num.collapse",
        "train.close_mosaic_step",
        "train.frozen_untrained",
    ),
)
def precursor(
    curves: Curves, args: TrainArgs | None, *, rows: int = 4, growth: float = 1.2, quick_rows: int = 2,
    quick_growth: float = 2.0,
) -> Verdict:  # fmt: skip
    """Training losses are growing for the last epochs in a way that ends in NaN.

    rows: in each of so many last steps; growth: together. quick_rows, quick_growth: or they doubled within fewer
    steps, the first epoch left out (a head that has not found anything yet has next to no box loss): no epoch of the 96
    public runs follows such two (the steepest healthy pair has 1.5). A jump at the mosaic switch is no series.
    """
    losses = finite(curves.train_sum)
    if len(losses) <= quick_rows + 1:
        return Skip("too_few_epochs", {"have": len(losses), "need": quick_rows + 2})
    tail = _rise(losses, rows, growth) or _rise(losses[1:], quick_rows, quick_growth)
    if not tail or not tail[-1] > mean(losses[: -len(tail)][-5:] or [0.0]):
        return None
    return Hit(
        values={"rows": len(tail) - 1, "growth": tail[-1] / tail[0]},
        fixes=(Fix("lower_lr"), Fix("warmup", {"warmup_epochs": 5})),
        evidence=(Source(curves.file, curves.line(curves.rows)),),
    )


def _rise(losses: Sequence[float], rows: int, growth: float) -> Sequence[float]:
    """The last rows + 1 losses if each is above the one before and they grew by `growth`; else empty."""
    tail = losses[-rows - 1 :]
    rising = len(tail) > rows and tail[0] > 0 and all(b > a for a, b in pairwise(tail))
    return tail if rising and tail[-1] / tail[0] >= growth else ()


@rule("num.grad_clip_storm", Severity.MEDIUM, explained_by=("num.lr_too_high", "num.nan_loss", "num.amp_overflow"))
def grad_clip_storm(
    tables: Tables, *, storm: float = 20_000.0, clip: float = 10.0, min_share: float = 0.9, min_rows: int = 20
) -> Verdict:
    """Gradients are clipped in nearly every step, and by thousands: the direction of a step is what the noise leaves.

    Being clipped alone is no fault: Ultralytics clips at a norm of 10, and healthy trainings have norms of hundreds to
    thousands before it. storm: the median norm, some ten times that, a guess without public recordings; clip: the
    limit, where the table has none; min_share: of the rows lie above it, of min_rows or more.
    """
    table = tables.having(_NORM)
    if table is None:
        return Skip("no_column", {"column": "grad_norm"})
    norms = finite(table.numbers(_NORM))
    if len(norms) < min_rows:
        return Skip("too_few_epochs", {"have": len(norms), "need": min_rows})
    limit = next(iter(finite(table.numbers(r"max_?norm|clip_?(?:at|norm|value|grad)"))), clip)
    above = sum(v > limit for v in norms) / len(norms)
    middle = sorted(norms)[len(norms) // 2]
    if above < min_share or middle < storm * limit / clip:
        return None
    return Hit(
        values={"median": middle, "limit": limit, "share": above},
        fixes=(Fix("lower_lr"), Fix("warmup", {"warmup_epochs": 5})),
        evidence=(whole(table),),
    )


_NORM = r"grad(?:ient)?s?_?norm|^(?:total|global)_norm|norm_of_grad"
