"""train.*: precision, recall and the swing of the score."""

import math
from collections.abc import Sequence

from diag.model.curves import Curves
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.curve_facts import ends_in_nan
from diag.rules.facts import from_pretrained, own_weights
from diag.stats import finite, mean

_UNLEARNED = ("train.not_learning", "num.nan_loss", "data.no_labels", "num.collapse", "train.incomplete")


@rule("train.underfit", Severity.MEDIUM, explained_by=_UNLEARNED)
def underfit(
    curves: Curves,
    args: TrainArgs | None,
    *,
    min_epochs: int = 40,
    max_pr: float = 0.3,
    max_ratio: float = 1.35,
    min_score: float = 0.02,
) -> Verdict:
    """Training and validation losses stay high together, precision and recall low.

    max_ratio: validation over training loss; no gap, so it is not overfitting. max_pr: both of them at the end,
    after min_epochs and with something learned (min_score). Of 59 public runs of 40 epochs and more one did not
    get beyond max_pr in either.
    """
    if curves.rows < min_epochs:
        return Skip("too_few_epochs", {"have": curves.rows, "need": min_epochs})
    precision, recall = _pr(curves)
    if math.isnan(precision) or math.isnan(recall) or not curves.train_last > 0:
        return Skip("no_score")
    ratio = curves.val_last / curves.train_last
    if max(precision, recall) > max_pr or not ratio <= max_ratio or (curves.best_at and curves.last < min_score):
        return None
    return Hit(
        values={"precision": precision, "recall": recall, "ratio": ratio, "epochs": curves.rows},
        fixes=(*from_pretrained(args), Fix("larger_model"), Fix("more_data")),
        evidence=(Source(curves.file, curves.line(curves.rows)),),
    )


def _pr(curves: Curves) -> tuple[float, float]:
    found = [
        next((v for n, v in curves.columns.items() if n.startswith(f"metrics/{what}")), ())
        for what in ("precision", "recall")
    ]
    return mean(found[0][-curves.window :]), mean(found[1][-curves.window :])


@rule(
    "train.low_recall",
    Severity.LOW,
    explained_by=("train.underfit", "data.missing_labels", "data.too_many_backgrounds", *_UNLEARNED),
)
def low_recall(curves: Curves, *, min_epochs: int = 20, max_recall: float = 0.65, min_gap: float = 0.3) -> Verdict:
    """Precision is high and recall low: what is found is right, but many objects are not found.

    max_recall, min_gap: recall, and how far precision lies above it. Of 71 public runs four had such a gap; in
    eight of ten precision and recall lie within -0.02 and 0.27 of each other.
    """
    return _side(
        curves, 1, min_epochs=min_epochs, most=max_recall, gap=min_gap, fixes=(Fix("labels"), Fix("imgsz"), Fix("data"))
    )


@rule("train.low_precision", Severity.LOW, explained_by=("train.underfit", *_UNLEARNED))
def low_precision(curves: Curves, *, min_epochs: int = 20, max_precision: float = 0.5, min_gap: float = 0.3) -> Verdict:
    """Recall is high and precision low: many detections are wrong. max_precision, min_gap.

    Precision, and how far recall lies above it. Of 71 public runs one had such a gap; in eight of ten precision
    and recall lie within -0.02 and 0.27 of each other.
    """
    return _side(
        curves, 0, min_epochs=min_epochs, most=max_precision, gap=min_gap, fixes=(Fix("backgrounds"), Fix("labels"))
    )


def _side(curves: Curves, weak: int, *, min_epochs: int, most: float, gap: float, fixes: tuple[Fix, ...]) -> Verdict:
    if curves.trained < min_epochs:
        return Skip("too_few_epochs", {"have": curves.trained, "need": min_epochs})
    pair = _pr(curves)
    if any(map(math.isnan, pair)):
        return Skip("no_score")
    if pair[weak] > most or pair[1 - weak] - pair[weak] < gap or curves.last < 0.02:
        return None
    return Hit(
        values={"precision": pair[0], "recall": pair[1]},
        fixes=fixes,
        evidence=(Source(curves.file, curves.line(curves.rows)),),
    )


@rule("train.localisation_weak", Severity.LOW, explained_by=("train.underfit", *_UNLEARNED))
def localisation(
    curves: Curves,
    *,
    min_epochs: int = 20,
    min_50: float = 0.6,
    max_ratio: float = 0.45,
    rise_50: float = 0.04,
    flat: float = 0.02,
) -> Verdict:
    """mAP50 is good, or rises, but mAP50-95 does not: objects are found, their boxes do not fit. max_ratio.

    MAP50-95 over mAP50 (usually 0.6 to 0.75), from min_50 on. Of 46 public runs with such a mAP50 nine of ten had
    0.54 and more, the lowest 0.40. rise_50, flat: or mAP50 rose by so much since the first third of the run and
    mAP50-95 by no more than this; none of 71 public runs did.
    """
    if curves.trained < min_epochs:
        return Skip("too_few_epochs", {"have": curves.trained, "need": min_epochs})
    if not curves.score50 or "accuracy" in curves.metric or not curves.best_at:
        return Skip("no_score")
    fifty = mean(curves.score50[-curves.window :])
    rise, rest = (_since_third(values) for values in (curves.score50, curves.score))
    trend = rise >= rise_50 and rest <= flat and curves.best >= 0.05
    if not trend and (not fifty >= min_50 or curves.last > max_ratio * fifty):
        return None
    return Hit(
        values={
            "case": "trend" if trend else None,
            "fifty": fifty,
            "last": curves.last,
            "ratio": curves.last / fifty,
            "rise": rise if trend else None,
            "rest": rest if trend else None,
        },
        fixes=(Fix("tight"), Fix("imgsz")),
        evidence=(Source(curves.file, curves.line(curves.rows)),),
    )


def _since_third(values: Sequence[float]) -> float:
    """Change of the mean of the last ninth over that of the ninth after the first third, as a share; nan if unknown."""
    third = len(values) // 3
    width = max(3, third // 3)
    before = mean(values[third : third + width])
    return mean(values[-width:]) / before - 1 if before > 0 else math.nan


@rule(
    "train.oscillation",
    Severity.MEDIUM,
    explained_by=("num.lr_too_high", "num.diverged", "data.val_too_small", "num.collapse", *_UNLEARNED),
)
def oscillation(curves: Curves, *, min_epochs: int = 15, noise: float = 0.05, medium_noise: float = 0.12) -> Verdict:
    """The score swings strongly from epoch to epoch late in the run.

    noise, medium_noise: standard deviation around its own trend in the last third, as a share of the best; typical
    is 0.01 to 0.02. A small validation set swings just so, and is told as the first thing to look at. Of 79 public
    runs the median is 0.015; 10 lie above noise and none above medium_noise. Reported in yolov5#2037.
    """
    if curves.rows < min_epochs:
        return Skip("too_few_epochs", {"have": curves.rows, "need": min_epochs})
    if not curves.best_at or curves.best < 0.05:
        return Skip("no_score")
    share = curves.noise / curves.best
    if share < noise or ends_in_nan(curves):
        return None
    values = finite(curves.score[-max(5, curves.rows // 3) :])
    return Hit(
        values={"noise": share, "low": min(values), "high": max(values), "metric": curves.metric_name},
        fixes=(Fix("val_size"), Fix("batch"), Fix("lower_lr")),
        evidence=(Source(curves.file, curves.line(curves.rows)),),
        severity=None if share >= medium_noise else Severity.LOW,
    )


@rule("data.train_val_leak@foreign", Severity.HIGH)
def leak(
    curves: Curves, args: TrainArgs | None, *, min_epochs: int = 3, perfect: float = 0.999, rows: int = 2
) -> Verdict:
    """The score is perfect from the first epochs on: the same images are probably in train and val.

    perfect: in each of the first rows and to the end. No training reaches that in one epoch on images it has not
    seen, unless the task is trivial; a look at both folders settles it. Of 95 public runs one did, a classifier of
    1.000 in both first epochs; the next best first score was 0.94. Weights of an own run (best.pt,
    last.pt) may have learned the task before: then a perfect start says nothing.
    """
    if own_weights(args):
        return Skip("own_weights")
    if curves.rows < min_epochs:
        return Skip("too_few_epochs", {"have": curves.rows, "need": min_epochs})
    scores = finite(curves.score)
    if not scores:
        return Skip("no_score")
    if curves.excerpt:
        return Skip("excerpt")
    limit = perfect if "accuracy" in curves.metric else 0.985
    if min(scores[:rows]) < limit or mean(scores[-curves.window :]) < limit:
        return None
    return Hit(
        values={"first": scores[0], "last": curves.last, "metric": curves.metric_name},
        fixes=(Fix("compare"), Fix("resplit")),
        evidence=(Source(curves.file, curves.line(1)),),
        confidence=Confidence.MEDIUM,
    )
