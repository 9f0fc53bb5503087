"""data.train_too_small: how many batches an epoch has, read off the learning rate while it warms up."""

import math
from itertools import pairwise

from diag.model.curves import Curves
from diag.model.evidence import Dataset
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import TrainLog
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.ending import planned_epochs
from diag.rules.facts import from_pretrained
from diag.stats import finite, line

_ROWS = 4
"""Epochs of warm-up from which its slope is known well enough."""


def epoch_batches(curves: Curves, args: TrainArgs | None, *, crooked: float = 0.01) -> int | None:
    """Batches in an epoch, from the learning rates of a warm-up of five epochs or more; None where they do not tell.

    At the end of epoch e (from 0) the rate is lr0 * schedule(e) * ((e + 1) * nb - 1) / nw (trainer.py of Ultralytics,
    train.py of YOLOv5 and YOLOv9). Divided by the schedule that is a line, and its slope over (slope - first value) is
    nb, whatever lr0 and nw are (at least 100 iterations, 1000 before YOLOv5 6.2). The schedule, linear or cosine, is
    the one that makes the better line; one that is off by more than `crooked` of the highest rate tells nothing.
    """
    planned, lrf = planned_epochs(args), args.get("lrf", 0.01) if args else None
    rows = _warm_rows(curves)
    if planned is None or not isinstance(lrf, (int, float)) or not 0 < lrf <= 1 or rows < _ROWS:
        return None
    found: list[tuple[float, int]] = []
    for cosine in (False, True):
        rates = [curves.lr[row] / _schedule(row / planned, float(lrf), cosine=cosine) for row in range(rows)]
        slope, first = line(rates)
        error = max(abs(rate - first - slope * row) for row, rate in enumerate(rates))
        if slope > first and slope > 0 and error < crooked * max(rates):
            found.append((error, max(1, round(slope / (slope - first)))))
    return min(found)[1] if found else None


def _warm_rows(curves: Curves) -> int:
    """Rows in which the rate still rose to the next one; the rate of the last of them is surely inside warm-up."""
    if not all(map(math.isfinite, curves.lr)):
        return 0
    return next((row for row, (a, b) in enumerate(pairwise(curves.lr)) if not b > a), len(curves.lr) - 1)


def _schedule(part: float, lrf: float, *, cosine: bool) -> float:
    if cosine:
        return 1 + (lrf - 1) * (1 - math.cos(math.pi * min(1.0, part))) / 2
    return max(1 - part, 0.0) * (1 - lrf) + lrf


@rule("data.train_too_small@curves", Severity.MEDIUM, explained_by=("data.no_images", "data.no_labels"))
def too_small_by_warmup(
    curves: Curves,
    args: TrainArgs,
    dataset: Dataset | None,
    log: TrainLog | None,
    *,
    min_images: int = 100,
) -> Verdict:
    """Very small training set, as the learning rate tells: warm-up takes 100 iterations, and with them many epochs.

    min_images: as for data.train_too_small. Nothing is said where an audit or the label scan counted the images.
    """
    if dataset is not None or (log is not None and any(s.split == "train" and s.total for s in log.scans)):
        return None
    batch = args.get("batch")
    if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
        return Skip("no_batch")
    if len(finite(curves.lr)) <= _ROWS:
        return Skip("too_few_epochs", {"have": curves.rows, "need": _ROWS + 1})
    batches = epoch_batches(curves, args)
    if batches is None or batches * batch > min_images:
        return None
    top = _warm_rows(curves) + 1
    return Hit(
        values={"images": batches * batch, "batches": batches, "batch": batch, "rows": top, "need": min_images},
        fixes=(Fix("more_data"), *from_pretrained(args)),
        evidence=(Source(curves.file, curves.line(top)),),
        confidence=Confidence.MEDIUM,
    )
