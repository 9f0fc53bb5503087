"""Epochs -> Curves: the last training of the file, boiled down to noise-aware figures."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from diag.model.curves import Curves
from diag.model.run import Epoch, Epochs
from diag.stats import finite, line, mean, noise

_SCORES = (
    "metrics/mAP50-95(B)",
    "metrics/mAP_0.5:0.95",
    "metrics/mAP50-95",
    "metrics/accuracy_top1",
    "metrics/mAP50-95(M)",
    "metrics/mAP50-95(P)",
)
_SCORES_50 = ("metrics/mAP50(B)", "metrics/mAP_0.5", "metrics/mAP50", "metrics/accuracy_top5")
_MIN_CHAIN = 3
"""A tail of fewer rows is not judged as a training of its own when a longer one precedes it."""
WINDOW = 5


def curves(epochs: Epochs | None) -> Curves | None:
    """The figures of the last long chain of rising epochs; None without rows."""
    if epochs is None or not epochs.rows:
        return None
    chains = split_chains(epochs.rows)
    rows = next((c for c in reversed(chains) if len(c) >= _MIN_CHAIN), max(chains, key=len))
    names = epochs.columns
    metric = next((n for n in _SCORES if n in names), "")
    score = _column(rows, metric)
    train = _losses(rows, names, "train/")
    val = _losses(rows, names, "val/")
    window = max(1, min(WINDOW, len(rows) // 3))
    best_at = _argmax(score)
    tail = max(3, round(len(rows) / 5))
    return Curves(
        file=epochs.file,
        first_row=rows[0].row,
        rows=len(rows),
        chains=len(chains),
        metric=metric,
        epochs=tuple(r.epoch for r in rows),
        score=score,
        score50=_column(rows, next((n for n in _SCORES_50 if n in names), "")),
        train=train,
        val=val,
        train_sum=_sum(train, len(rows)),
        val_sum=_sum(val, len(rows)),
        lr=_weights_lr(rows, names),
        best=score[best_at] if score else math.nan,
        best_row=rows[best_at].row if score else 0,
        last=mean(score[-window:]),
        window=window,
        noise=noise(score[-max(5, len(rows) // 3) :]),
        slope=line(score[-tail:])[0],
        stop_rows=_stop_rows(rows, names),
    )


def split_chains(rows: Sequence[Epoch]) -> list[list[Epoch]]:
    """Cut where the epoch does not rise: appended, resumed or interleaved trainings.

    A resume that rewinds continues its predecessor: the repeated epochs of the old part are dropped.
    """
    chains: list[list[Epoch]] = [[rows[0]]]
    for before, row in pairwise(rows):
        if row.epoch > before.epoch:
            chains[-1].append(row)
        elif row.epoch > chains[-1][0].epoch + _MIN_CHAIN:
            chains[-1] = [r for r in chains[-1] if r.epoch < row.epoch] + [row]
        else:
            chains.append([row])
    return chains


def _column(rows: Sequence[Epoch], name: str) -> tuple[float, ...]:
    return tuple(r.values.get(name, math.nan) for r in rows) if name else ()


def _losses(rows: Sequence[Epoch], names: Sequence[str], prefix: str) -> dict[str, tuple[float, ...]]:
    return {
        n.removeprefix(prefix): _column(rows, n)
        for n in names
        if n.startswith(prefix) and n.endswith(("loss", "_om", "_oo"))
    }


def _sum(losses: Mapping[str, tuple[float, ...]], rows: int) -> tuple[float, ...]:
    """Sum of the components that are numbers throughout the row; one nan makes the row nan."""
    if not losses:
        return ()
    sums = (sum(values[i] for values in losses.values()) for i in range(rows))
    return tuple(s if math.isfinite(s) else math.nan for s in sums)


def _argmax(values: Sequence[float]) -> int:
    return max(range(len(values)), key=lambda i: (values[i] if math.isfinite(values[i]) else -math.inf, i), default=0)


def _weights_lr(rows: Sequence[Epoch], names: Sequence[str]) -> tuple[float, ...]:
    columns = [_column(rows, n) for n in names if n.startswith(("lr/", "x/lr"))]
    columns = [c for c in columns if finite(c)]
    return min(columns, key=lambda c: finite(c)[0], default=())


def _stop_rows(rows: Sequence[Epoch], names: Sequence[str]) -> dict[str, int]:
    """Row (counted within the chain) of the best fitness under the known definitions.

    Ultralytics: 0.1 mAP50 + 0.9 mAP50-95 summed over box and mask/pose; newer releases may weigh
    mAP50-95 alone; classification: mean of top-1 and top-5.
    """
    pairs = [
        (n.replace("mAP50-95", "mAP50").replace("mAP_0.5:0.95", "mAP_0.5"), n)
        for n in names
        if n.startswith(("metrics/mAP50-95", "metrics/mAP_0.5:0.95"))
    ]
    if not pairs:
        top = [n for n in names if n.startswith("metrics/accuracy_top")]
        sums = [sum(r.values.get(n, math.nan) for n in top) for r in rows] if top else []
        return {"accuracy": _first_max(sums)} if top else {}
    weighted, strict, box = [], [], []
    for r in rows:
        both = [(r.values.get(a, math.nan), r.values.get(b, math.nan)) for a, b in pairs]
        weighted.append(sum(0.1 * a + 0.9 * b for a, b in both))
        strict.append(sum(b for _, b in both))
        box.append(0.1 * both[0][0] + 0.9 * both[0][1])
    return {"weighted": _first_max(weighted), "strict": _first_max(strict), "box": _first_max(box)}


def _first_max(values: Sequence[float]) -> int:
    """1-based; Ultralytics moves the best epoch only for a strictly larger fitness... and for an equal one, too."""
    return _argmax(values) + 1
