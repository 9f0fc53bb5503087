"""train.*: the score fell from its best: overfitting, or a peak that came early."""

import math
from statistics import median

from diag.model.curves import Curves
from diag.model.evidence import Dataset
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import TrainLog
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.curve_facts import beyond_chance, recovers
from diag.rules.facts import auto_optimizer
from diag.rules.patience import shorter_patience
from diag.stats import finite

_SPIKE = 1.25
"""A choice: with it no label of the 96 public runs is lost; the median alone hides an overfitting that swings (157)."""


def _last_ones(curves: Curves) -> tuple[float, float, float]:
    """Rise of the validation loss, drop of the score and the score at the end: means of the last rows.

    Medians where one of them is a spike (a quarter above the median): a bad epoch is no trend.
    """
    scores, losses = finite(curves.score[-curves.window :]), finite(curves.val_sum[-curves.window :])
    last, val = curves.last, curves.val_last
    if scores and losses and max(losses) > _SPIKE * median(losses) > 0:
        last, val = max(last, median(scores)), min(val, median(losses))
    rise = val / curves.val_min - 1 if curves.val_min > 0 else math.nan
    fell = (curves.smooth_best - last) / curves.smooth_best if curves.smooth_best > 0 else 0.0
    return rise, fell, last


def _val_objects(log: TrainLog | None, dataset: Dataset | None) -> int:
    """Objects in the validation split, as the audit or the log's `all` line counts them; 0 where unknown."""
    if dataset is not None and "val" in dataset.splits:
        return dataset.splits["val"].instances
    return next((e.val_instances for e in reversed(log.epochs) if e.val_instances), 0) if log else 0


@rule(
    "train.overfit",
    Severity.MEDIUM,
    explained_by=("data.train_too_small", "data.val_too_small", "train.early_peak"),
)
def overfit(
    curves: Curves,
    args: TrainArgs | None,
    log: TrainLog | None,
    dataset: Dataset | None,
    *,
    min_epochs: int = 10,
    val_rise: float = 0.015,
    drop: float = 0.018,
    alive: float = 0.1,
    medium_val_rise: float = 0.05,
    medium_drop: float = 0.025,
    large_drop: float = 0.08,
    before: float = 0.85,
    train_fall: float = 0.10,
    noise_factor: float = 1.5,
    few_objects: float = 3.0,
    learned: float = 0.04,
) -> Verdict:
    """Validation loss rises and the score falls from its best while the training loss still falls.

    Each sign alone is common in healthy runs (of 96 public ones 32 ended more than 5 % below their
    best and 35 with a risen validation loss without overfitting), so all are asked for together:
    val_rise over the minimum of the smoothed loss, drop from the smoothed best score by more than
    noise_factor standard errors, minimum and best before the last `before` of the run, train_fall.
    Medium from medium_val_rise with medium_drop, or from large_drop on; below that low. alive: of the best score
    must be left; overfitting loses a part of it, a network that broke down (num.collapse) all. The drop is that of the
    median of the last rows where that is less: one bad epoch at the end is no trend. A score that fell below half of
    its best and regained half of that fall has crashed and recovers, which overfitting does not. The best of a score
    that swings is high by chance, as with a small validation split: the rise or the drop has to lie beyond it
    (`beyond_chance`; of made-up plateaus of 50 to 300 epochs with a noise of 10 % the rule took 43 to 55 % for
    overfitting before, 2 to 15 % now, and no label of the public runs was lost). few_objects: a drop that so few
    validation objects account for is low. learned: a score that never rose above it is no success to lose. Reported in
    yolov5#3851.
    """
    if curves.rows < min_epochs:
        return Skip("too_few_epochs", {"have": curves.rows, "need": min_epochs})
    if not curves.best_at:
        return Skip("no_score")
    rise, fell, last = _last_ones(curves)
    if math.isnan(rise):
        return Skip("no_losses")
    if curves.last < alive * curves.smooth_best or curves.smooth_best < learned:
        return None
    if not curves.smooth_best > 0 or not finite(curves.score[-curves.window :]) or recovers(curves):
        return None
    fell = min(fell, 1 - median(finite(curves.score[-curves.window :])) / curves.smooth_best)
    last = curves.smooth_best * (1 - fell)
    early = curves.smooth_best_at <= before * curves.rows and curves.val_min_at <= before * curves.rows
    falls = not curves.train_fall < train_fall
    large = fell >= large_drop and rise > 0.005
    if not (early and falls and curves.drop > noise_factor * curves.drop_noise):
        return None
    if not large and (rise < val_rise or fell < drop):
        return None
    if not (
        beyond_chance(curves.val_sum, rise * curves.val_min, window=curves.window, factor=noise_factor)
        or beyond_chance(curves.score, fell * curves.smooth_best, window=curves.window, factor=noise_factor)
    ):
        return None
    strong = large or (rise >= medium_val_rise and fell >= medium_drop)
    objects = _val_objects(log, dataset)
    if objects and fell * curves.smooth_best * objects < few_objects and "accuracy" not in curves.metric:
        strong = False
    patience, stop = shorter_patience(curves)
    patience = patience or max(10, round(curves.rows * 0.2))
    fixes = [Fix("best_pt"), Fix("stop_early", {"patience": patience}), Fix("more_data")]
    return Hit(
        values={
            "case": "sooner" if stop else None,
            "patience": patience,
            "stop": curves.epoch(stop) if stop else None,
            "epochs": curves.rows,
            "rise": rise,
            "drop": fell,
            "best": curves.smooth_best,
            "last": last,
            "best_epoch": curves.epoch(curves.smooth_best_at),
            "val_epoch": curves.epoch(curves.val_min_at),
            "train_fall": curves.train_fall,
            "metric": curves.metric_name,
        },
        fixes=tuple(fixes),
        evidence=(
            Source(curves.file, curves.line(curves.val_min_at)),
            Source(curves.file, curves.line(curves.rows)),
        ),
        confidence=Confidence.HIGH if strong else Confidence.LOW,
        severity=Severity.MEDIUM if strong else Severity.LOW,
    )


@rule(
    "train.early_peak",
    Severity.MEDIUM,
    explained_by=("train.resume_fresh_lr", "num.collapse", "num.lr_too_high", "num.diverged"),
)
def early_peak(
    curves: Curves,
    args: TrainArgs | None,
    *,
    min_epochs: int = 20,
    first: float = 0.15,
    first_epochs: int = 10,
    drop: float = 0.04,
    noise_factor: float = 3.0,
) -> Verdict:
    """The best score came in the first few epochs and never came back.

    first, first_epochs: within this share of the run and so many epochs. drop: the last scores lie at
    least 4 % below it (healthy runs end at most 3.4 % below their best in nine of ten cases) and noise_factor
    standard errors. A start on pretrained weights that dips and recovers is no peak: its best comes late.
    """
    if curves.rows < min_epochs:
        return Skip("too_few_epochs", {"have": curves.rows, "need": min_epochs})
    if not curves.best_at:
        return Skip("no_score")
    if curves.excerpt:
        return Skip("excerpt")
    few = min(first * curves.rows, first_epochs)
    if curves.best_at > few or curves.drop < max(drop, noise_factor * curves.drop_noise):
        return None
    lr = max((v for v in curves.lr if math.isfinite(v)), default=None)
    fixes = [Fix("best_pt")]
    if lr:
        name = str(args.get("optimizer", "auto")) if args else "auto"
        optimizer = "SGD" if name.lower() == "auto" else name
        fixes.append(
            Fix(
                "lower_lr_named" if auto_optimizer(args) else "lower_lr",
                {"lr0": float(f"{lr / 10:.1g}"), "optimizer": optimizer},
            )
        )
    fixes.append(Fix("freeze", {"freeze": 10}))
    return Hit(
        values={
            "best": curves.best,
            "epoch": curves.epoch(curves.best_at),
            "last": curves.last,
            "drop": curves.drop,
            "epochs": curves.rows,
            "lr": lr,
            "metric": curves.metric_name,
        },
        fixes=tuple(fixes),
        evidence=(Source(curves.file, curves.line(curves.best_at)),),
    )
