"""Epochs -> Curves: the last training of the file, boiled down to noise-aware figures."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from diag.model.curves import Curves
from diag.model.run import Epoch, Epochs
from diag.stats import finite, mean, noise, smooth

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
    sums = {"train": _sum(train, len(rows)), "val": _sum(val, len(rows))}
    window = max(1, min(WINDOW, len(rows) // 3))
    fifth = max(2, round(len(rows) / 5))
    smooth_score, smooth_val = smooth(score), smooth(sums["val"])
    best_at, smooth_at = _best(score), _best(smooth_score)
    val_min_at = _best([-v for v in smooth_val])
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
        train_sum=sums["train"],
        val_sum=sums["val"],
        lr=_weights_lr(rows, names),
        window=window,
        best=_at(score, best_at),
        best_at=best_at,
        smooth_best=_at(smooth_score, smooth_at),
        smooth_best_at=smooth_at,
        last=mean(score[-window:]),
        noise=noise(score[-max(5, len(rows) // 3) :]),
        gain=_change(score, fifth, _at(score, best_at)),
        val_gain=-_change(sums["val"], fifth, abs(mean(sums["val"][-fifth:]))),
        val_min=_at(smooth_val, val_min_at),
        val_min_at=val_min_at,
        val_last=mean(sums["val"][-window:]),
        train_first=mean(sums["train"][:window]),
        train_last=mean(sums["train"][-window:]),
        stop_at=_stop_at(rows, names),
        lines=tuple(r.row + 1 for r in rows),
        columns={n: _column(rows, n) for n in names if n.startswith("metrics/")},
        clock=_column(rows, "time") if "time" in names else (),
        bias_lr=_bias_lr(rows, names),
        long_gain=_change(score, fifth, _at(score, best_at), back=2),
        repeated=sum(1 for a, b in pairwise(epochs.rows) if b.epoch <= a.epoch and len(chains) == 1),
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


def _best(values: Sequence[float]) -> int:
    """1-based position of the largest finite value, the first of equal ones; 0 without any."""
    return max((i for i, v in enumerate(values, 1) if math.isfinite(v)), key=lambda i: (values[i - 1], -i), default=0)


def _at(values: Sequence[float], at: int) -> float:
    return values[at - 1] if at else math.nan


def _change(values: Sequence[float], width: int, scale: float, *, back: int = 1) -> float:
    """Mean of the last `width` values minus that of `width` values `back` widths earlier, over `scale`; else 0."""
    earlier = values[max(0, len(values) - (back + 1) * width) : len(values) - back * width]
    change = mean(values[-width:]) - mean(earlier) if len(values) > back * width else math.nan
    return change / scale if math.isfinite(change) and scale > 0 else 0.0


def _weights_lr(rows: Sequence[Epoch], names: Sequence[str]) -> tuple[float, ...]:
    columns = [_column(rows, n) for n in names if n.startswith(("lr/", "x/lr"))]
    columns = [c for c in columns if finite(c)]
    return min(columns, key=lambda c: finite(c)[0], default=())


def _bias_lr(rows: Sequence[Epoch], names: Sequence[str]) -> tuple[float, ...]:
    columns = [_column(rows, n) for n in names if n.startswith(("lr/", "x/lr"))]
    columns = [c for c in columns if finite(c)]
    top = max(columns, key=lambda c: finite(c)[0], default=())
    weights = _weights_lr(rows, names)
    if len(columns) > 1 and finite(top)[0] > finite(weights)[0]:
        return top
    # An excerpt begins after warm-up, where all rates are the same; a restart in it shows the biases' own.
    top = max(columns, key=lambda c: max(finite(c)), default=())
    return top if len(columns) > 1 and max(finite(top)) > 1.5 * max(finite(weights)) else ()


def _stop_at(rows: Sequence[Epoch], names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Positions of the best fitness under the known definitions.

    Ultralytics: 0.1 mAP50 + 0.9 mAP50-95 summed over box and mask/pose; newer releases may weigh
    mAP50-95 alone; classification: mean of top-1 and top-5. Releases differ in whether an equal
    fitness moves the best epoch, so the first and the last of equal ones are kept.
    """
    pairs = [
        (n.replace("mAP50-95", "mAP50").replace("mAP_0.5:0.95", "mAP_0.5"), n)
        for n in names
        if n.startswith(("metrics/mAP50-95", "metrics/mAP_0.5:0.95"))
    ]
    series: dict[str, list[float]] = {}
    for r in rows:
        both = [(r.values.get(a, math.nan), r.values.get(b, math.nan)) for a, b in pairs]
        tops = [v for n, v in r.values.items() if n.startswith("metrics/accuracy_top")]
        if both:
            series.setdefault("weighted", []).append(sum(0.1 * a + 0.9 * b for a, b in both))
            series.setdefault("strict", []).append(sum(b for _, b in both))
            series.setdefault("box", []).append(0.1 * both[0][0] + 0.9 * both[0][1])
        elif tops:
            series.setdefault("accuracy", []).append(sum(tops))
            series.setdefault("top1", []).append(tops[0])
    return {name: _firsts_and_lasts(values) for name, values in series.items()}


def _firsts_and_lasts(values: Sequence[float]) -> tuple[int, ...]:
    first = _best(values)
    if not first:
        return ()
    last = max(i for i, v in enumerate(values, 1) if v == values[first - 1])
    return tuple(dict.fromkeys((first, last)))
