"""Standard output and standard error of one training, kept apart: the scores went to one, the losses to the other."""

from collections.abc import Sequence
from dataclasses import replace

from diag.model.foreign import LogEpoch


def joined(one: Sequence[LogEpoch], two: Sequence[LogEpoch]) -> tuple[LogEpoch, ...] | None:
    """The epochs with losses and scores, if one has only those and the other only these; else None.

    Both must be of as many planned epochs, and of as many epochs, or one more where the training ended in between.
    """
    for losses, scores in ((one, two), (two, one)):
        if not losses or not scores or abs(len(losses) - len(scores)) > 1 or losses[0].planned != scores[0].planned:
            continue
        if all(e.losses and not e.metrics for e in losses) and all(e.metrics and not e.losses for e in scores):
            pairs = zip(losses, scores, strict=False)
            return tuple(
                replace(a, metrics=b.metrics, val_images=b.val_images, val_instances=b.val_instances) for a, b in pairs
            )
    return None
