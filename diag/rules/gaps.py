"""train.*: what the metrics say beside the losses: gaps between heads, splits and thresholds."""

import math
from collections.abc import Mapping, Sequence
from statistics import median

from diag.model.curves import Curves
from diag.model.evidence import StepStats
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import TrainLog
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.curve_facts import ends_in_nan
from diag.rules.facts import accumulated, open_ended
from diag.stats import finite, mean, noise

_UNLEARNED = ("train.not_learning", "num.nan_loss", "data.no_labels", "num.collapse", "train.incomplete")


@rule(
    "train.val_gap",
    Severity.MEDIUM,
    explained_by=(
        "data.train_val_leak",
        "train.mixed_runs",
        "train.overfit",
        "num.collapse",
        "num.diverged",
        "num.mps_bad_loss",
        "num.nan_loss",
        "num.lr_too_high",
    ),
)
def val_gap(
    curves: Curves,
    steps: StepStats | None,
    args: TrainArgs | None,
    *,
    min_epochs: int = 5,
    min_steps: int = 200,
    min_score: float = 0.02,
    ratio: float = 2.0,
    high_ratio: float = 2.4,
    max_val_fall: float = 0.4,
    train_fall: float = 0.25,
    max_score: float = 0.7,
    max_found: float = 0.9,
    low_score: float = 0.4,
) -> Verdict:
    """Training losses fall, the validation loss stays far above them and the score does not follow.

    Ratio alone says little (augmentation moves it, the YOLOv9 repository scales validation losses): the
    validation loss has also fallen by less than max_val_fall of its start while the training loss fell by
    train_fall or more, and the score ended below max_score. min_steps: optimizer steps, where they are known; the
    running statistics of BatchNorm (momentum 0.03) and the average of the weights with which validation works lag
    behind in the first hundreds. min_score: a score that never rose is train.map_stuck or train.not_learning.
    ratio: no healthy one of 96 public runs had more than 1.5; high_ratio: high from there on, where the score stayed
    below low_score as well. max_found: a mAP50 that says that nearly all is found, whatever the scale of the losses is
    (the objectness of YOLOv5 on dense small objects). The start is a median, since the first validation may be an
    overflow; where one of the last is, the validation says nothing about the fit.
    """
    if curves.rows < min_epochs:
        return Skip("too_few_epochs", {"have": curves.rows, "need": min_epochs})
    if not curves.best_at or not curves.train_last > 0 or not curves.val_last > 0:
        return Skip("no_losses")
    if steps is not None and not steps.sampled and (done := steps.steps / accumulated(args)) < min_steps:
        return Skip("too_few_updates", {"have": round(done), "need": min_steps})
    if curves.best < min_score or not all(map(math.isfinite, curves.val_sum[-curves.window :])):
        return None
    first = finite(curves.val_sum[: curves.window])
    start = median(first) if first else math.nan
    now, fall = _without_objectness(
        curves, curves.val_last / curves.train_last, 1 - curves.val_last / start if start > 0 else math.nan
    )
    if not now >= ratio or not fall <= max_val_fall or not curves.train_fall >= train_fall or curves.last >= max_score:
        return None
    if "accuracy" not in curves.metric and mean(curves.score50[-curves.window :]) >= max_found:
        return None
    return Hit(
        values={
            "case": "rose" if fall < 0 else None,
            "ratio": now,
            "rise": -fall,
            "train_fall": curves.train_fall,
            "val_fall": fall,
            "last": curves.last,
            "metric": curves.metric_name,
        },
        fixes=(Fix("compare_splits"), Fix("augment"), Fix("more_data")),
        evidence=(Source(curves.file, curves.line(curves.rows)),),
        severity=Severity.HIGH if now >= high_ratio and curves.last < low_score else None,
    )


def _without_objectness(curves: Curves, now: float, fall: float) -> tuple[float, float]:
    """Ratio and fall of the validation loss, or those without objectness where these are milder.

    YOLOv7 trains with another assigner than it validates with, and objectness of v5 and v7 becomes overconfident (its
    validation loss rises) while the score goes on rising.
    """
    if len(curves.val) < 2 or "obj_loss" not in curves.val or "obj_loss" not in curves.train:
        return now, fall
    rest = {n: v for n, v in curves.val.items() if n != "obj_loss"}
    end = sum(mean(v[-curves.window :]) for v in rest.values())
    start = sum(mean(v[: curves.window]) for v in rest.values())
    train = sum(mean(v[-curves.window :]) for n, v in curves.train.items() if n != "obj_loss")
    if not (end > 0 and start > 0 and train > 0):
        return now, fall
    return min(now, end / train), max(fall, 1 - end / start)


@rule(
    "train.plateau",
    Severity.MEDIUM,
    explained_by=(
        "train.overfit",
        "train.converged_ok",
        "train.early_peak",
        "train.lr_stuck",
        "train.lr_too_low",
        "train.frozen_untrained",
        *_UNLEARNED,
    ),
    unless=("train.es_premature",),
)
def plateau(
    curves: Curves,
    args: TrainArgs | None,
    log: TrainLog | None,
    *,
    min_epochs: int = 10,
    max_gain: float = 0.03,
    low_score: float = 0.3,
    fair_score: float = 0.6,
    noise_factor: float = 2.0,
    slow_gain: float = 0.05,
    long_gain: float = 0.10,
    best_after: float = 0.95,
) -> Verdict:
    """No improvement for a long time, at a score that is nothing to be content with.

    max_gain: of the last fifth over the fifth before, as a share of the best. low_score: below it a flat curve
    is medium, up to fair_score low; a flat curve at a high score has converged. noise_factor: gains within the
    noise of the score count as none. slow_gain, best_after: a run that is best at its end and gained that much over the
    third fifth creeps up, which is no standstill; nor is, wherever its best lies, a gain of long_gain. In ten epochs a
    fifth is two. Of 81 public runs the median gain is 2.5 %. Reported in yolov5#7854, ultralytics#20903.
    """
    if curves.rows < min_epochs:
        return Skip("too_few_epochs", {"have": curves.rows, "need": min_epochs})
    if not curves.best_at or curves.best <= 0.02:
        return Skip("no_score")
    if (scored := len(finite(curves.score))) < min_epochs:  # validated once in a while, or only after the last epoch
        return Skip("too_few_epochs", {"have": scored, "need": min_epochs})
    planned = args.get("epochs") if args else max((e.planned for e in log.epochs), default=0) if log else 0
    if isinstance(planned, int) and planned > curves.rows and (open_end := open_ended(curves, log)):
        return open_end
    if ends_in_nan(curves):
        return None  # the score stands still because nothing is learned any more
    fifth = max(2, round(curves.rows / 5))
    noise = noise_factor * curves.noise / curves.best / math.sqrt(fifth)
    if curves.gain >= max(max_gain, min(noise, 0.05)) or curves.last >= fair_score or curves.drop > 0.25:
        return None
    creeps = curves.smooth_best_at >= best_after * curves.rows and curves.long_gain >= slow_gain
    if creeps or curves.long_gain >= long_gain:
        return None
    return Hit(
        values={
            "last": curves.last,
            "best": curves.best,
            "epoch": curves.epoch(curves.best_at),
            "epochs": curves.trained,
            "gain": curves.gain,
            "metric": curves.metric_name,
        },
        fixes=(Fix("data"), Fix("larger_model"), Fix("defaults")),
        evidence=(Source(curves.file, curves.line(curves.best_at)),),
        confidence=Confidence.MEDIUM,
        severity=None if curves.last < low_score else Severity.LOW,
    )


@rule("train.mask_gap", Severity.MEDIUM, explained_by=("num.seg_nan",))
def mask_gap(
    curves: Curves,
    args: TrainArgs | None,
    *,
    min_epochs: int = 5,
    medium: float = 0.65,
    low: float = 0.75,
    min_box: float = 0.1,
    all_found: float = 0.95,
) -> Verdict:
    """Mask mAP lies far below box mAP.

    medium, low: mask over box mAP50-95; public runs of compact objects have 0.85 and more, thin ones (cracks)
    0.35. At IoU 0.5 it tells thin shapes (mask50 near box50) from wrong polygons. all_found: from this mask mAP50 on
    only outlines are coarse, as small objects at a small imgsz always are: info. min_box: a box score that
    means something.
    """
    finer = () if args and args.get("mask_ratio") == 1 else (Fix("mask_ratio", {"mask_ratio": 1}),)
    return _head(
        curves,
        "M",
        min_epochs=min_epochs,
        medium=medium,
        low=low,
        min_box=min_box,
        all_found=all_found,
        fixes=(*finer, Fix("polygons"), Fix("imgsz")),
    )


@rule("train.pose_gap", Severity.MEDIUM, explained_by=("num.mps_bad_loss",))
def pose_gap(
    curves: Curves, *, min_epochs: int = 5, medium: float = 0.6, low: float = 0.75, min_box: float = 0.1
) -> Verdict:
    """Pose mAP lies far below box mAP, or is zero.

    medium, low: pose over box mAP50-95. Exactly zero with good boxes is a label or kpt_shape fault; pose50 equal
    to pose50-95 means keypoints are either right or wrong: order or flip_idx. min_box: a box score that means
    something. Five public pose runs have 0.27 to 1.3 (median 0.72). Both are medians of the last rows: a single epoch
    whose validation found nothing is not the gap. Reported in ultralytics#2160.
    """
    return _head(
        curves,
        "P",
        min_epochs=min_epochs,
        medium=medium,
        low=low,
        min_box=min_box,
        fixes=(Fix("flip_idx"), Fix("kpt_shape"), Fix("more_epochs")),
        by_case={"zero": (Fix("kpt_shape"), Fix("flip_idx")), "order": (Fix("flip_idx"), Fix("kpt_shape"))},
    )


def _head(
    curves: Curves, head: str, *, min_epochs: int, medium: float, low: float, min_box: float, fixes: tuple[Fix, ...],
    all_found: float = math.inf, by_case: Mapping[str, tuple[Fix, ...]] | None = None,
) -> Verdict:  # fmt: skip
    strict, loose = (
        curves.columns.get(f"metrics/mAP50-95({head})", ()),
        curves.columns.get(f"metrics/mAP50({head})", ()),
    )
    if not strict:
        return Skip("no_column", {"column": f"metrics/mAP50-95({head})"})
    if curves.trained < min_epochs:
        return Skip("too_few_epochs", {"have": curves.trained, "need": min_epochs})
    box, other, other50, box50 = (_middle(v, curves.window) for v in (curves.score, strict, loose, curves.score50))
    if not box > min_box or not other < low * box:
        return None
    half = other50 / box50 if box50 > 0 else math.nan
    case = "zero" if other < 0.01 else "order" if other > 0.9 * other50 else "thin" if half > 0.75 else "both"
    return Hit(
        values={
            "case": case,
            "box": box,
            "other": other,
            "ratio": other / box,
            "half": half if math.isfinite(half) else None,
        },
        fixes=(by_case or {}).get(case, fixes),
        evidence=(Source(curves.file, curves.line(curves.rows)),),
        severity=Severity.INFO
        if other50 >= all_found
        else Severity.HIGH
        if other < 0.55 * box
        else Severity.MEDIUM
        if other < medium * box
        else Severity.LOW,
    )


def _middle(values: Sequence[float], window: int) -> float:
    """Median of the last `window` numbers, which no single bad epoch moves; nan without one."""
    last = finite(values[-window:])
    return median(last) if last else math.nan


@rule("train.dfl_volatile", Severity.LOW, explained_by=("num.lr_too_high", "num.nan_loss", "train.oscillation"))
def dfl_volatile(
    curves: Curves, args: TrainArgs | None, *, min_epochs: int = 20, swing: float = 0.12, factor: float = 4.0
) -> Verdict:
    """Only the dfl loss swings from epoch to epoch, while the box loss falls smoothly.

    swing: its spread around its own trend in the last half, as a share of its mean; 57 public runs have
    0.10 at most, and all but one (8.7 at a spread of 0.05, YOLO26) 2.8 times that of their box loss at most.
    factor: over that of the box loss; if both swing it is the rate, the batch or the data.
    """
    dfl, box = curves.train.get("dfl_loss", ()), curves.train.get("box_loss", ())
    if not dfl or not box:
        return Skip("no_losses")
    if curves.rows < min_epochs:
        return Skip("too_few_epochs", {"have": curves.rows, "need": min_epochs})
    late = curves.rows // 2
    spread, calm = (noise(v[-late:]) / level if (level := mean(v[-late:])) > 0 else math.nan for v in (dfl, box))
    if not spread >= swing or not spread >= factor * calm:
        return None
    strong = [
        n for n in ("degrees", "shear", "perspective") if args and isinstance(args.get(n), float) and args.get(n) > 0
    ]
    return Hit(
        values={"spread": spread, "box": calm, "low": min(dfl[-late:]), "high": max(dfl[-late:])},
        fixes=(Fix("weaker", dict.fromkeys(strong, 0.0)),),
        evidence=(Source(curves.file, curves.line(curves.rows)),),
    )
