"""The curves of a run in a few lines: how good, how each loss went, what the learning rate did."""

import math

from diag.messages import text
from diag.model.curves import Curves
from diag.model.evidence import Evidence
from diag.render.words import Escape, clean

BANDS = ((0.9, "excellent"), (0.8, "good"), (0.6, "fair"), (0.0, "weak"))
"""mAP50 by the usual reading: above 0.9 excellent, above 0.8 good, below 0.6 weak. What is good depends on the task."""
_MANY = 8
"""Losses that are named; dual heads have twice as many."""


def curve_lines(evidence: Evidence, lang: str, escape: Escape = str) -> list[str]:
    """Best score with its band, each training loss from start to end, the learning rate; empty without a score."""
    curves = evidence.curves
    if curves is None or not curves.best_at or evidence.peers is not None:
        return []
    lines = [text(lang, "curve", "score", _score(curves, lang, escape))]
    losses = [
        f"{escape(clean(name.removesuffix('_loss')))} {_number(first)} → {_number(last)}{_fall(first, last)}"
        for name, values in list(curves.train.items())[:_MANY]
        if (first := _mean(values[: curves.window])) is not None
        and (last := _mean(values[-curves.window :])) is not None
    ]
    if losses and curves.rows >= 3:
        lines.append(text(lang, "curve", "losses", {"list": ", ".join(losses)}))
    rates = [v for v in curves.lr if math.isfinite(v)]
    if len(rates) > 1 and max(rates) > 0:
        lines.append(text(lang, "curve", "lr", {"top": max(rates), "last": rates[-1]}))
    return lines


def _score(curves: Curves, lang: str, escape: Escape) -> dict[str, object]:
    detects = bool(curves.score50) and "accuracy" not in curves.metric
    fifty = curves.score50[curves.best_at - 1] if detects else math.nan
    known = math.isfinite(fifty)
    band = next((name for least, name in BANDS if fifty > least), "weak") if known else ""
    return {
        "case": "none" if not curves.best > 0 else "fifty" if known else None,
        "metric": escape(clean(curves.metric_name)),
        "best": curves.best,
        "fifty": fifty if known else None,
        "band": text(lang, "curve", band) if band else "",
        "epoch": curves.epoch(curves.best_at),
        "rows": curves.rows,
    }


def _mean(values: tuple[float, ...]) -> float | None:
    numbers = [v for v in values if math.isfinite(v)]
    return sum(numbers) / len(numbers) if numbers else None


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _fall(first: float, last: float) -> str:
    return f" ({last / first - 1:+.0%})" if first > 0 else ""
