"""train.*: learning rates that stand still, restart or run out, and stops that came too early."""

import math
from itertools import accumulate, pairwise

from diag.model.curves import Curves
from diag.model.evidence import Console
from diag.model.finding import Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import Tables, TrainLog
from diag.model.run import RunRecord, TrainArgs
from diag.rules.base import rule
from diag.rules.ending import all_epochs, planned_epochs
from diag.rules.facts import sources
from diag.rules.warmup import epoch_batches
from diag.stats import finite

_TINY = 1e-7
_DEFAULT_WARMUP = 3.0
"""warmup_epochs of ultralytics/cfg/default.yaml and of the hyp files of YOLOv5 and YOLOv7."""


@rule("train.lr_stuck", Severity.HIGH)
def lr_stuck(
    curves: Curves,
    args: TrainArgs | None,
    console: Console | None,
    *,
    min_epochs: int = 5,
    blind_epochs: int = 8,
    change: float = 0.01,
    planned_change: float = 0.03,
) -> Verdict:
    """The learning rate never changes: the scheduler is not stepped, or it stands at about zero.

    change: all rates of min_epochs or more epochs after warm-up lie within this, while the schedule of the arguments
    (linear, or cosine, which hardly moves at first) changes by planned_change or more meanwhile. Without arguments
    blind_epochs are asked for. lrf=1 asks for a constant rate. Below 1e-7 nothing is learned whatever the scheduler
    does: that is a rate too low, never one too high.
    """
    lrs = finite(curves.lr)
    high = max(lrs, default=0.0)
    tiny = high < _TINY
    warm = args.get("warmup_epochs", 3.0) if args and not tiny else 0
    warm = math.ceil(warm) if isinstance(warm, (int, float)) and 0 < warm < len(lrs) else 0
    lrs = lrs[warm:]
    planned = planned_epochs(args)
    need = min_epochs if planned or tiny else blind_epochs
    if len(lrs) < need:
        return Skip("too_few_epochs", {"have": len(lrs), "need": need})
    if not tiny and max(lrs) - min(lrs) > change * max(lrs):
        return None
    if not tiny and args is not None:
        if args.get("lrf") == 1:
            return None
        first, last = (_schedule(args, planned or len(lrs), row) for row in (warm, warm + len(lrs) - 1))
        if planned and 1 - last / first < planned_change:
            return Skip("too_few_epochs", {"have": len(lrs), "need": planned})
    lrs, high = finite(curves.lr), max(lrs)
    order = sources(console, ("scheduler_order",), limit=1)
    return Hit(
        values={"case": "zero" if tiny else None, "lr": high, "epochs": len(lrs)},
        fixes=(Fix("lr0", {"lr0": 0.01, "optimizer": "SGD"}) if tiny else Fix("scheduler"), Fix("resume")),
        evidence=(Source(curves.file, curves.line(curves.rows)), *order),
    )


def _schedule(args: TrainArgs, epochs: int, row: int) -> float:
    """Share of lr0 in an epoch (from 0) as Ultralytics plans it (engine/trainer.py, `_setup_scheduler`)."""
    lrf = args.get("lrf", 0.01)
    lrf = float(lrf) if isinstance(lrf, (int, float)) else 0.01
    part = min(1.0, row / epochs)
    if args.get("cos_lr", False):
        return 1 + (lrf - 1) * (1 - math.cos(math.pi * part)) / 2
    return (1 - part) * (1 - lrf) + lrf


@rule("train.lr_too_low", Severity.MEDIUM, explained_by=("train.lr_stuck", "train.warmup_too_long"))
def lr_too_low(
    curves: Curves,
    args: TrainArgs | None,
    *,
    min_epochs: int = 10,
    max_lr: float = 5e-5,
    max_fall: float = 0.25,
    max_score: float = 0.6,
) -> Verdict:
    """Losses fall far too slowly at a very small learning rate.

    max_lr: a twentieth of what Ultralytics chooses for AdamW, and far below SGD's 0.01. max_fall: of the
    training loss over the run; max_score: a fine-tune that is good already may be slow.
    """
    lrs = finite(curves.lr)
    if not lrs:
        return Skip("no_lr")
    if curves.excerpt:
        return Skip("excerpt")  # every schedule ends at such rates
    if curves.rows < min_epochs:
        return Skip("too_few_epochs", {"have": curves.rows, "need": min_epochs})
    if max(lrs) > max_lr or max(lrs) < _TINY or not curves.train_fall < max_fall or curves.last > max_score:
        return None
    return Hit(
        values={"lr": max(lrs), "fall": curves.train_fall},
        fixes=(Fix("raise_lr", {"lr0": 0.001, "optimizer": "AdamW"}),),
        evidence=(Source(curves.file, curves.line(1)),),
    )


@rule(
    "train.lr_schedule_ok",
    Severity.INFO,
    unless=(
        "train.lr_stuck",
        "train.lr_restart",
        "train.lr0_ignored",
        "train.lr_too_low",
        "num.lr_too_high",
        "num.nan_loss",
        "num.diverged",
    ),
)
def lr_ok(curves: Curves, args: TrainArgs, *, min_epochs: int = 20, end: float = 0.1) -> Verdict:
    """The learning rate rises in warm-up and decays as configured: no fault. end.

    Of the maximum is left at the end, after min_epochs or more. Three of four public runs end below 0.115 of their
    maximum (lrf is 0.01 by default).
    """
    lrs = finite(curves.lr)
    if len(lrs) < min_epochs:
        return Skip("too_few_epochs", {"have": len(lrs), "need": min_epochs})
    top = lrs.index(max(lrs))
    falls = all(b <= a * 1.0001 for a, b in pairwise(lrs[top:]))
    if not falls or lrs[-1] > end * max(lrs) or top > len(lrs) // 3 or max(lrs) < _TINY:
        return None
    return Hit(
        values={"top": max(lrs), "last": lrs[-1], "epoch": curves.epoch(top + 1)},
        evidence=(Source(curves.file, curves.line(top + 1)),),
    )


@rule("train.lr_restart", Severity.MEDIUM, explained_by=("train.mixed_runs", "train.resume_fresh_lr"))
def lr_restart(
    curves: Curves, *, min_jump: float = 3.0, min_epochs: int = 10, small_jump: float = 1.3, harm: float = 0.05
) -> Verdict:
    """The learning rate jumps back up within a run. min_jump: from one epoch to the next, after it had decayed.

    Warm-up is over by min_epochs. From the tenth epoch on the largest rise in 8917 steps of 95 public runs was a
    factor of 1.09. The schedules only fall after it, so
    that a smaller jump (small_jump) is one, too, where the score falls by harm of itself with it or the rate of the
    biases starts anew. Reported in yolov5#292.
    """
    lrs = list(curves.lr)
    if len(finite(lrs)) < min_epochs:
        return Skip("too_few_epochs", {"have": len(finite(lrs)), "need": min_epochs})
    for at, (a, b) in enumerate(pairwise(lrs), 2):
        if max(at, curves.epoch(at)) <= min_epochs or not a > 0 or not b >= small_jump * a:
            continue
        if (b >= min_jump * a and a < 0.5 * max(finite(lrs[: at - 1]))) or _restarts(curves, at, harm):
            return Hit(
                values={"epoch": curves.epoch(at), "before": a, "after": b},
                fixes=(Fix("resume", {"resume": True}),),
                evidence=(Source(curves.file, curves.line(at)),),
            )
    return None


def _restarts(curves: Curves, at: int, harm: float) -> bool:
    """A warm-up begins at this position: the biases' rate jumps away from the weights', or the score falls with it."""
    bias = curves.bias_lr[at - 1] if len(curves.bias_lr) >= at else 0.0
    if len(curves.score) < at:
        return bias > 2 * curves.lr[at - 1]
    before, after = curves.score[at - 2], min(finite(curves.score[at - 1 : at + 2]), default=math.inf)
    return bias > 2 * curves.lr[at - 1] or (before > 0.05 and after < (1 - harm) * before)


@rule("train.resume_fresh_lr", Severity.HIGH)
def resume_fresh_lr(
    curves: Curves,
    args: TrainArgs | None,
    tables: Tables | None,
    log: TrainLog | None,
    *,
    min_dip: float = 0.05,
    min_start: float = 0.3,
    rows: int = 12,
    factor: float = 10.0,
) -> Verdict:
    """A new run from old weights repeats warm-up and the full learning rate, and loses part of what was learned.

    yolov5#9331, ultralytics#14359. The weights are a last.pt or best.pt of an earlier run, resume is false, and
    the score of the first rows falls by min_dip from a start above min_start within so many rows; or the tail
    of the earlier run shows a rate lower by factor. Where the log of the earlier run, finished after another number of
    epochs, is at hand, its last score is the start: the first epoch of the new run is behind it already
    (ultralytics#1441). A run that ends above its first score has lost time only: low.
    """
    if args is None:
        return Skip("no_evidence", {"missing": "args"})
    if curves.excerpt:
        return Skip("excerpt")
    model = str(args.get("model", args.get("weights", "")))
    own = model.replace("\\", "/").endswith(("/last.pt", "/best.pt")) or model in {"last.pt", "best.pt"}
    if not own or args.get("resume", False) not in (False, None, "False", "false"):
        return None
    scores = [v for v in curves.score[:rows] if math.isfinite(v)]
    lrs = finite(curves.lr)
    if len(scores) < 3 or not lrs:
        return Skip("too_few_epochs", {"have": len(scores), "need": 3})
    before = min(tables.series(r"lr/?\w*0$|^lr") if tables else (), default=0.0)
    earlier = _earlier(curves, planned_epochs(args), log)
    first = max(scores[0], earlier)
    low = min(scores[1:])
    dip = 1 - low / first if first > 0 else 0.0
    if first < min_start or dip < min_dip or (before and max(lrs) < factor * before):
        return None
    lr = float(f"{max(lrs) / 10:.1g}")
    recovered = curves.rows > rows and curves.last > first
    return Hit(
        values={
            "case": "recovered" if recovered else "before" if before else "earlier" if earlier else None,
            "first": first,
            "low": low,
            "lr": max(lrs),
            "before": before or None,
            "model": model,
        },
        fixes=(
            Fix("resume", {"resume": True}),
            Fix("fine_tune", {"lr0": lr, "warmup_bias_lr": lr, "optimizer": "SGD"}),
        ),
        evidence=(Source(curves.file, curves.line(1)), Source(curves.file, curves.line(scores.index(low) + 1))),
        severity=Severity.LOW if recovered else None,
    )


def _earlier(curves: Curves, planned: int | None, log: TrainLog | None) -> float:
    """The last score of another, finished training whose log lies beside the curves; 0 without one."""
    if log is None or log.file == curves.file or not log.epochs or planned is None:
        return 0.0
    last = log.epochs[-1]
    if not last.planned or last.planned == planned or last.epoch + (log.epochs[0].epoch == 0) < last.planned:
        return 0.0
    same = {"metrics/mAP_0.5": "metrics/mAP50(B)", "metrics/mAP_0.5:0.95": "metrics/mAP50-95(B)"}
    return next((v for e in reversed(log.epochs) if (v := e.metrics.get(same.get(curves.metric, curves.metric)))), 0.0)


@rule("train.warmup_too_long", Severity.MEDIUM, explained_by=("data.no_labels",))
def warmup_long(curves: Curves, args: TrainArgs | None, *, min_share: float = 0.25, min_epochs: int = 10) -> Verdict:
    """Warm-up, at least 100 iterations, eats a large part of a short run on a small set.

    The learning rate peaks where warm-up ends. The batches of an epoch are read off its slope where the schedule is
    known; else w epochs of warm-up mean about 100 / w of them. min_share: of the planned run.
    max(round(warmup_epochs * nb), 100) iterations (ultralytics/engine/trainer.py). In half of 79 public runs the rate
    peaks within 6 % of the run, in a tenth after half of it. A peak where warmup_epochs puts it is what was asked for:
    too long only where more than the default of 3 was asked for, and that is min_share of the run.
    """
    if curves.excerpt:
        return Skip("excerpt")
    lrs = finite(curves.lr)
    if len(lrs) < min_epochs:
        return Skip("too_few_epochs", {"have": len(lrs), "need": min_epochs})
    top = lrs.index(max(lrs)) + 1
    asked = args.get("warmup_epochs", 3.0) if args else 3.0
    asked = float(asked) if isinstance(asked, (int, float)) else 3.0
    # Of a run that was cut short the warm-up need not be long; one that ended within its warm-up had nothing else.
    length = len(lrs) if top == len(lrs) else max(len(lrs), planned_epochs(args) or 0)
    wanted = top <= asked + 2
    if wanted and not _DEFAULT_WARMUP < asked >= min_share * length:
        return None
    if top < min_share * length or max(lrs) <= 1.5 * lrs[0] or max(lrs) < _TINY:
        return None
    if any(rate < 0.9 * highest for rate, highest in zip(lrs[:top], accumulate(lrs[:top], max), strict=True)):
        return None  # it had decayed and was restarted: train.lr_restart
    batch = args.get("batch") if args else None
    per = epoch_batches(curves, args) or 100 / top
    images = round(per * batch) if isinstance(batch, int) and batch > 0 and not wanted else None
    return Hit(
        values={
            "case": "asked" if wanted else "images" if images else None,
            "asked": asked,
            "rows": top,
            "epochs": curves.rows,
            "batches": per,
            "images": images,
        },
        fixes=(Fix("less", {"warmup_epochs": _DEFAULT_WARMUP}),)
        if wanted
        else (Fix("more_epochs", {"epochs": max(300, 4 * top)}), Fix("no_warmup", {"warmup_epochs": 0})),
        evidence=(Source(curves.file, curves.line(top)),),
        severity=Severity.MEDIUM if curves.last < 0.3 else Severity.LOW,
    )


@rule(
    "train.lr_not_annealed",
    Severity.MEDIUM,
    explained_by=("train.incomplete", "train.es_premature", "train.es_early_spike", "train.lr_stuck"),
)
def not_annealed(
    curves: Curves, args: TrainArgs, run: RunRecord | None, *, min_left: float = 0.5, min_epochs: int = 10
) -> Verdict:
    """The run stopped with most of the learning rate left.

    The last, annealed part of the schedule usually brings several points. min_left: of its maximum. A schedule
    whose lrf asks for it, or an early stop that was wanted, is low. Of 95 public runs three quarters ended with
    0.115 or less; a tenth with more than 0.6. Reported in ultralytics#4653.
    """
    planned, lrs = planned_epochs(args), finite(curves.lr)
    if planned is None:
        return Skip("no_plan")
    if curves.excerpt and run is None:
        return Skip("excerpt")
    if (
        len(lrs) < min_epochs
        or all_epochs(curves, planned)
        or max(lrs) <= 0
        or (run is not None and run.exit_cause.kind == "running")
    ):
        return None
    left = lrs[-1] / max(lrs)
    if left < min_left or lrs.index(max(lrs)) == len(lrs) - 1:
        return None
    return Hit(
        values={"left": left, "rows": curves.rows, "planned": planned},
        fixes=(Fix("shorter", {"epochs": curves.rows}),),
        evidence=(Source(curves.file, curves.line(curves.rows)),),
        severity=Severity.LOW,
    )
