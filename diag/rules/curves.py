"""train.*: how the curves went on: still rising, or nowhere."""

import math
from statistics import median

from diag.model.curves import Curves
from diag.model.evidence import StepStats
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import TrainLog
from diag.model.run import RunRecord, TrainArgs
from diag.rules.base import rule
from diag.rules.curve_facts import head_gain, rises_throughout
from diag.rules.facts import accumulated, from_pretrained, from_scratch, open_ended, pretrained

_STOPPED = (
    "train.incomplete",
    "num.nan_loss",
    "data.no_labels",
    "data.no_images",
    "num.lr_too_high",
    "num.mps_bad_loss",
    "train.lr_stuck",
    "train.warmup_too_long",
)


@rule(
    "train.undertrained",
    Severity.MEDIUM,
    explained_by=(
        "train.incomplete",
        "train.es_premature",
        "train.underfit",
        "train.partial_transfer",
        "train.val_gap",
        "train.converged_ok",
        "train.lr_too_low",
        "train.warmup_too_long",
    ),
)
def undertrained(
    curves: Curves,
    args: TrainArgs | None,
    run: RunRecord | None,
    log: TrainLog | None,
    *,
    min_epochs: int = 5,
    min_gain: float = 0.04,
    medium_gain: float = 0.09,
    short_epochs: int = 30,
    short_gain: float = 0.05,
    best_after: float = 0.9,
    noise_factor: float = 2.0,
    long_gain: float = 0.10,
    val_slack: float = 0.02,
    val_still: float = 0.005,
    all_found: float = 0.97,
    end_gain: float = 0.025,
    end_val: float = 0.02,
    few_epochs: int = 10,
    few_gain: float = 0.05,
) -> Verdict:
    """Still improving when it ended.

    Compared are the mean scores of the last two fifths of the run, so that single epochs do not count.
    min_gain, medium_gain, short_gain: the last fifth still brought so much of the best score. Of 96
    public runs the healthy ones gained up to 8 % (median 2 %) in their last fifth, those that an expert
    called too short 6 to 54 %; runs of at most short_epochs are medium from short_gain on.
    best_after: the best epoch, or the best of the smoothed scores (one lucky epoch is no peak), lies in the last
    tenth. noise_factor: the gain exceeds two standard errors. long_gain: a fifth of a run of at most short_epochs is a
    handful of epochs; so much more than in its third fifth is a rise, too (few_gain in at most few_epochs, where a
    fifth is two). val_slack: a validation loss that rises by less leaves a gain of medium_gain standing (objectness and
    RT-DETR's class loss drift up while scores rise); val_still: so little is standing still. Of fewer than min_epochs
    epochs each has to be better than the one before; one or two that were all that was asked for lie within the warm-up
    of three, whatever they show. end_gain: a run of at most short_epochs that is best in its last rows, while its
    validation loss (where there is one) still falls by end_val, is low from this gain on: the rate ran out before the
    curves did.
    all_found: from this mAP50 of every head on only the fit of the outlines still improves, which is info (own
    recordings of healthy short runs; mAP50 above 0.9 counts as excellent); so is an accuracy with half of that error.
    """
    barely = _barely_begun(curves, args)
    if curves.rows < min_epochs and not rises_throughout(curves) and not barely:
        return Skip("too_few_epochs", {"have": curves.rows, "need": min_epochs})
    if not curves.best_at:
        return Skip("no_score")
    planned = args.get("epochs") if args else None
    planned = planned if isinstance(planned, int) and planned > curves.trained else curves.trained
    if curves.excerpt and run is None and planned > curves.trained:
        return Skip("excerpt")
    if planned > curves.rows and run is not None and run.exit_cause.kind == "running":
        return Skip("still_running")
    if planned > curves.rows and (open_end := open_ended(curves, log)):
        return open_end
    if log is not None and log.file == curves.file and log.ended == "error" and planned > curves.rows:
        return None  # it was still improving because an error ended it: more epochs are no advice
    fifth = max(2, round(curves.rows / 5))
    noise = noise_factor * curves.noise / curves.best / math.sqrt(fifth) if curves.best > 0 else math.inf
    short = curves.rows <= short_epochs
    # A head that learns later (keypoints, masks) may still rise when the boxes are found.
    head = head_gain(curves, best_after=best_after, noise_factor=noise_factor) if short else 0.0
    gain = max(curves.gain, head)
    best_at = max(curves.best_at, curves.smooth_best_at)
    late = best_at >= min(best_after * curves.rows, curves.rows - 1) or head > 0
    rose = short and curves.gain > 0 and curves.long_gain >= (long_gain if curves.rows > few_epochs else few_gain)
    few = curves.rows < min_epochs
    told = any(v > 0 for v in curves.val_sum[-fifth:])  # a log has no validation losses, YOLOv9 writes zeros
    ends = short and gain >= max(end_gain, noise) and (curves.val_gain >= end_val or not told)
    if not late or not (gain >= max(min_gain, noise) or rose or few or ends):
        return None
    if curves.val_gain < (-val_slack if gain >= medium_gain else -val_still):
        return None
    strong = gain >= medium_gain or (short and gain >= short_gain)
    begun = "start" if barely else "few" if few else None
    fixes = [Fix("more_epochs", {"epochs": 100 if barely else planned * 3 if strong else planned * 2})]
    if from_scratch(args):
        fixes.append(Fix("pretrained", pretrained(args)))
    return Hit(
        values={
            "case": begun or ("score" if not told else "val" if curves.val_gain < 0 else None),
            "gain": gain,
            "best": curves.best,
            "epoch": curves.epoch(curves.best_at),
            "epochs": curves.trained,
            "val_gain": curves.val_gain,
            "metric": curves.metric_name,
        },
        fixes=tuple(fixes),
        evidence=(Source(curves.file, curves.line(curves.best_at)),),
        confidence=Confidence.HIGH if gain >= 2 * min_gain else Confidence.MEDIUM,
        severity=Severity.INFO
        if _all_found(curves, all_found)
        else Severity.MEDIUM
        if strong or barely
        else Severity.LOW,
    )


def _barely_begun(curves: Curves, args: TrainArgs | None, *, most: int = 2) -> bool:
    """One or two epochs were asked for and made, with losses of boxes: all of it lies within the warm-up."""
    boxes = curves.train.get("box_loss", ())
    alive = any(v > 0 for v in boxes) if boxes else any(v > 0 for v in curves.train_sum)
    asked = args.get("epochs") if args else None
    return curves.rows <= most and asked == curves.rows and curves.epochs[0] <= 1 and alive


def _all_found(curves: Curves, score: float) -> bool:
    if "accuracy" in curves.metric:
        return curves.last >= 1 - (1 - score) / 2
    heads = [values[-1] for head in "BMP" if (values := curves.columns.get(f"metrics/mAP50({head})"))]
    return bool(heads) and min(heads) >= score


@rule("train.not_learning", Severity.CRITICAL, explained_by=_STOPPED)
def not_learning(
    curves: Curves,
    args: TrainArgs | None,
    steps: StepStats | None,
    *,
    min_epochs: int = 5,
    min_steps: int = 200,
    begun: int = 10,
    max_score: float = 0.02,
    max_fall: float = 0.10,
    max_fall_alone: float = 0.25,
    max_accuracy: float = 0.5,
    max_accuracy_range: float = 0.02,
) -> Verdict:
    """The score stays about 0 and the losses do not fall.

    Zero mAP alone is common early (warm-up, from scratch, RT-DETR stays below 0.004 for 29 epochs), so
    the training loss has to be flat as well: less than max_fall lower than at the start, or max_fall_alone where the
    validation loss did not follow it at all. max_score: one
    of 96 public runs that learned nothing still reached 0.012. min_steps: optimizer steps, where they are known; from
    scratch the demo set shows its first objects after 75 to 150 (own recordings).
    begun: a run that was left in its first few epochs, with the rate still rising, says nothing of learning.
    For classification, where chance is not 0: top-1 moves by less than max_accuracy_range and is below max_accuracy.
    """
    if curves.rows < min_epochs:
        return Skip("too_few_epochs", {"have": curves.rows, "need": min_epochs})
    if steps is not None and not steps.sampled and (done := steps.steps / accumulated(args)) < min_steps:
        return Skip("too_few_updates", {"have": round(done), "need": min_steps})
    if not curves.best_at:
        return Skip("no_score")
    planned = args.get("epochs") if args else None
    if isinstance(planned, int) and curves.rows < min(planned, begun) and _warms_up(curves):
        return Skip("too_few_epochs", {"have": curves.rows, "need": begun})
    numbers = [v for v in curves.score if math.isfinite(v)]
    if "accuracy" in curves.metric:
        stuck = max(numbers) - min(numbers) < max_accuracy_range and max(numbers) < max_accuracy
    else:
        stuck = max(numbers) < max_score
    followed = _val_fell(curves)
    if not stuck or curves.train_fall >= (max_fall if followed else max_fall_alone):
        return None
    lr = max((v for v in curves.lr if math.isfinite(v)), default=None)
    return Hit(
        values={
            "case": "known" if lr and math.isfinite(curves.train_fall) else "unknown",
            "best": curves.best,
            "epochs": curves.rows,
            "fall": curves.train_fall if math.isfinite(curves.train_fall) else None,
            "lr": lr,
            "metric": curves.metric_name,
        },
        fixes=(
            Fix("labels"),
            *from_pretrained(args),
            Fix("more_steps", {"epochs": max(100, 3 * curves.trained), "nbs": 16}),
        ),
        evidence=(Source(curves.file, curves.line(curves.rows)),),
    )


def _warms_up(curves: Curves) -> bool:
    """The rate is highest in the last row and has risen: it has not come out of warm-up."""
    return bool(curves.lr) and curves.lr[-1] == max(curves.lr) > 1.5 * curves.lr[0]


def _val_fell(curves: Curves, *, least: float = 0.02) -> bool:
    """The validation loss ended lower than it began, or is not known."""
    losses = [v for v in curves.val_sum if math.isfinite(v) and v > 0]
    if len(losses) < 2 * curves.window:
        return True
    return median(losses[-curves.window :]) < (1 - least) * median(losses[: curves.window])
