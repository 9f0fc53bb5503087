"""Progress bars of tqdm and of Ultralytics' own: how far, how long, how fast."""

import re
from dataclasses import dataclass

_TQDM = re.compile(r"(\d+)/(\d+) \[([\d:]+)<[^,\]]*(?:, *(?:(\d+(?:\.\d+)?)(it/s|s/it)|\?)[^\]]*)?")
_RICH = re.compile(r"\s(\d+)/(\d+)\s+(?:(\d+(?:\.\d+)?)([KMGT]?it/s|s/it)\s+)?(\d[\d:.]*)(s|m|h)?(?![\w.:/])")
_TIMES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_PLAIN = re.compile(r"%\W[^\d]{0,60}(\d+)/(\d+)\b")


@dataclass(frozen=True)
class Bar:
    """A drawn bar; None where it does not say."""

    done: int
    total: int
    seconds: float | None = None
    step_s: float | None = None


def bar(text: str) -> Bar | None:
    """The last bar in a text."""
    for found in _TQDM.finditer(text):
        last = found
        rate = float(last[4]) if last[4] else 0.0
        step = (rate if last[5] == "s/it" else 1 / rate) if rate else None
        return Bar(int(last[1]), int(last[2]), clock(last[3]), step)
    if "━" in text or "─" in text or "╸" in text:
        for found in _RICH.finditer(text):
            rate = float(found[3]) if found[3] else 0.0
            factor = _TIMES.get((found[4] or "")[:1], 1.0)
            step = (rate if found[4] == "s/it" else 1 / (rate * factor)) if rate else None
            return Bar(int(found[1]), int(found[2]), clock(found[5]), step)
    found_plain = _PLAIN.search(text)
    return Bar(int(found_plain[1]), int(found_plain[2])) if found_plain else None


def clock(text: str) -> float | None:
    """`1:18:00`, `00:30` or `12.7` as seconds."""
    seconds = 0.0
    for part in text.split(":"):
        try:
            seconds = seconds * 60 + float(part)
        except ValueError:
            return None
    return seconds
