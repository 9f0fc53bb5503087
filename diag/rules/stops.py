"""train.*: early stops that came at the wrong time, resumes, and curves that look like faults and are none."""

import math
from itertools import pairwise

from diag.model.curves import Curves
from diag.model.evidence import Console
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import TrainLog
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.curve_facts import head_gain
from diag.rules.ending import head_noise, patience_too_short, stopped_early
from diag.rules.facts import sources
from diag.stats import finite, mean, smooth


@rule("train.es_early_spike", Severity.HIGH)
def early_spike(
    curves: Curves,
    args: TrainArgs | None,
    console: Console | None,
    *,
    first: float = 0.1,
    drop: float = 0.3,
    climb: float = 0.3,
) -> Verdict:
    """Early stopping counted from a spike in warm-up while the score was climbing again.

    yolov5#5971, ultralytics#14742: pretrained weights score well until the full learning rate arrives. first:
    the best epoch lies in this part of the run; drop: of it was lost right after; climb: this share of the best
    was regained, and the last third still rose.
    """
    said = bool(console and console.of("early_stop"))
    if not said and not stopped_early(curves, args):
        return None
    if curves.excerpt:
        return Skip("excerpt")
    if not curves.best_at or curves.rows < 10:
        return Skip("too_few_epochs", {"have": curves.rows, "need": 10})
    after = finite(curves.score[curves.best_at :])
    smoothed = smooth(curves.score)
    third = smoothed[-max(3, curves.rows // 3)]
    rising = smoothed[-1] > third
    if (
        curves.best_at > max(3, first * curves.rows)
        or not after
        or min(after[:10]) > (1 - drop) * curves.best
        or not rising
        or smoothed[-1] - min(after) < climb * curves.best
    ):
        return None
    patience = args.get("patience") if args else None
    more = {"patience": patience * 2} if isinstance(patience, int) else {}
    return Hit(
        values={
            "epoch": curves.epoch(curves.best_at),
            "best": curves.best,
            "low": min(after),
            "last": smoothed[-1],
            "rows": curves.rows,
        },
        fixes=(Fix("patience", more), Fix("lower_lr", {"lr0": 0.001, "optimizer": "SGD"})),
        evidence=(Source(curves.file, curves.line(curves.best_at)), *sources(console, ("early_stop",), limit=1)),
    )


@rule("train.es_premature", Severity.MEDIUM, explained_by=("train.es_early_spike",), unless=("train.overfit",))
def premature(
    curves: Curves,
    args: TrainArgs,
    console: Console | None,
    *,
    max_patience: int = 20,
    lr_left: float = 0.5,
    gain: float = 0.02,
    noise: float = 0.05,
) -> Verdict:
    """Early stopping ended a run that was still improving, or whose score is too noisy for its patience.

    max_patience: epochs; lr_left: of the learning rate, so that the schedule had hardly begun to anneal; gain: of
    the last fifth over the one before; noise: of the score as a share of its best. The patience of nine
    early-stopped public runs was 10 to 500 (default 100); max_patience takes the five shortest. Reported in
    ultralytics#21123.
    """
    if not patience_too_short(curves, args, max_patience=max_patience, lr_left=lr_left, gain=gain, noise=noise):
        return None
    patience, lrs = args.get("patience", 0), finite(curves.lr)
    left = lrs[-1] / max(lrs)
    score, swing = max(curves.gain, head_gain(curves)), max(curves.noise / curves.best, *head_noise(curves))
    case = None if score >= gain else "noisy" if swing >= noise else "val"
    return Hit(
        values={
            "case": case,
            "patience": patience,
            "rows": curves.rows,
            "left": left,
            "gain": score,
            "val_gain": curves.val_gain,
            "noise": swing,
        },
        fixes=(Fix("patience", {"patience": max(50, 3 * patience)}),),
        evidence=(Source(curves.file, curves.line(curves.rows)),),
        confidence=Confidence.MEDIUM,
    )


@rule("train.es_on_saturated_metric", Severity.HIGH)
def es_saturated(
    curves: Curves, args: TrainArgs | None, *, ceiling: float = 0.99, spread: float = 0.01, fall: float = 0.05
) -> Verdict:
    """Early stopping watched a metric at its ceiling while the losses were still falling.

    ceiling, spread: the score since the best epoch lies above it and within this; fall: of the validation loss
    since then. The limits are proposals. Reported in ultralytics#21123.
    """
    if not stopped_early(curves, args) or not curves.best_at:
        return None
    tail = finite(curves.score[curves.best_at - 1 :])
    losses = [v for v in smooth(curves.val_sum)[curves.best_at - 1 :] if math.isfinite(v)]
    if (
        min(tail) < ceiling
        or max(tail) - min(tail) > spread
        or len(losses) < 3
        or losses[0] <= 0
        or 1 - losses[-1] / losses[0] < fall
    ):
        return None
    return Hit(
        values={"score": curves.best, "fall": 1 - losses[-1] / losses[0], "epoch": curves.epoch(curves.best_at)},
        fixes=(Fix("harder_val"), Fix("patience", {"patience": 0})),
        evidence=(Source(curves.file, curves.line(curves.best_at)),),
    )


@rule(
    "train.best_not_last",
    Severity.INFO,
    explained_by=(
        "train.overfit",
        "train.early_peak",
        "train.oscillation",
        "num.nan_loss",
        "num.lr_too_high",
        "num.collapse",
        "num.diverged",
        "data.val_too_small",
    ),
)
def best_not_last(curves: Curves, *, min_epochs: int = 10, drop: float = 0.05, min_score: float = 0.02) -> Verdict:
    """best.pt is clearly better than last.pt: use best. drop: of the smoothed best score, beyond the noise.

    min_score: below it neither is of use (train.not_learning has the same limit). Of 81 public runs 12 ended so
    far below their best.
    """
    if curves.rows < min_epochs:
        return Skip("too_few_epochs", {"have": curves.rows, "need": min_epochs})
    if not curves.best_at:
        return Skip("no_score")
    if curves.drop < max(drop, 2 * curves.drop_noise) or curves.best_at > 0.95 * curves.rows or curves.best < min_score:
        return None
    return Hit(
        values={"best": curves.best, "last": curves.last, "epoch": curves.epoch(curves.best_at)},
        fixes=(Fix("best_pt"),),
        evidence=(Source(curves.file, curves.line(curves.best_at)),),
    )


@rule("train.resumed", Severity.INFO)
def resumed(curves: Curves, console: Console | None, *, back: float = 0.5) -> Verdict:
    """The run was resumed: epochs repeat, or the time column starts again. back.

    Of the time before it, at most, where it starts again. Half is far from any jitter of a clock.
    """
    said = sources(console, ("resume",), limit=1)
    times = list(curves.clock)
    at = next((i for i, (a, b) in enumerate(pairwise(times), 2) if a > 60 and b < back * a), 0)
    if not said and not at and not curves.repeated:
        return None
    return Hit(
        values={
            "case": "time" if at else "rows" if curves.repeated else None,
            "epoch": curves.epoch(at) if at else None,
            "rows": curves.repeated,
        },
        evidence=said or (Source(curves.file, curves.line(at or 1)),),
    )


@rule("train.finetune_dip", Severity.INFO, explained_by=("train.resume_fresh_lr", "train.es_early_spike"))
def finetune_dip(curves: Curves, *, rows: int = 8, dip: float = 0.08, min_start: float = 0.15) -> Verdict:
    """Metrics dip at the start of a fine-tune and recover: warm-up over pretrained weights; no fault. dip.

    Of the first score within so many rows; min_start: weights that knew something. 10 of 26 public runs that began
    above min_start dipped so far. Reported in yolov5#12065.
    """
    scores = finite(curves.score)
    if curves.excerpt:
        return Skip("excerpt")
    if len(scores) < rows + 4:
        return Skip("too_few_epochs", {"have": len(scores), "need": rows + 4})
    low = min(scores[1:rows])
    if scores[0] < min_start or low > (1 - dip) * scores[0] or curves.last < scores[0]:
        return None
    return Hit(
        values={"first": scores[0], "low": low, "epoch": curves.epoch(scores.index(low) + 1), "last": curves.last},
        fixes=(Fix("lower_lr"),),
        evidence=(Source(curves.file, curves.line(scores.index(low) + 1)),),
    )


@rule("train.cls_val_loss_floor", Severity.INFO)
def cls_floor(curves: Curves, log: TrainLog | None, *, near: float = 0.02, min_epochs: int = 3) -> Verdict:
    """The validation loss of a classifier stands at a floor because softmax is applied twice in old releases.

    ln(1 + (classes - 1) / e): 0.3133 for two classes (ultralytics#20014). near: of such a value for 2 to 1000
    classes, while accuracy is high: judge by accuracy.
    """
    losses = finite(curves.val.get("loss", ()))
    if "accuracy" not in curves.metric or len(losses) < min_epochs:
        return Skip("no_losses")
    least = mean(losses[-max(1, len(losses) // 5) :])
    classes = round((math.exp(least) - 1) * math.e + 1) if least < 20 else 0
    if classes < 2 or classes > 1000:
        return None
    floor = math.log(1 + (classes - 1) / math.e)
    trained = curves.train_last < 0.5 * least
    if abs(least / floor - 1) > near / 4 or curves.last < 0.9 or not trained:
        return None
    return Hit(
        values={"loss": least, "floor": floor, "classes": classes, "accuracy": curves.last},
        fixes=(Fix("accuracy"), Fix("update")),
        evidence=(Source(curves.file, curves.line(curves.rows)),),
    )


@rule("train.val_loss_placeholder", Severity.INFO)
def placeholder(curves: Curves, *, min_epochs: int = 3) -> Verdict:
    """Validation losses are zero by design of this repository or version (YOLOv9, sem_loss, rle_loss,

    Dis_loss), while training losses are not. Exact zeros need no limit; min_epochs: a single zero may be chance.
    """
    if curves.rows < min_epochs or not curves.val:
        return Skip("no_losses")
    zero = [
        n
        for n, v in curves.val.items()
        if v and all(x == 0.0 for x in v) and any(x > 0 for x in curves.train.get(n, ()))
    ]
    if not zero or (curves.best_at and curves.best < 0.02):
        return None
    return Hit(values={"losses": ", ".join(sorted(zero))}, evidence=(Source(curves.file, curves.line(1)),))
