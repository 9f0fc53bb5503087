"""train.log -> one row of seconds per batch. Lines of other people's scripts count too."""

import re
from pathlib import Path

from diag.load.read import UnreadableError, read_text
from diag.model.trace import Lap, Stage

_NUMBER = r"[\"'\s]{0,2}[=:\s]\s{0,4}([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+)\s*(ms|us|s\b|sec)?"
_FIELDS = {
    Stage.DATA_WAIT: re.compile(rf"\b(?:data_?loader|data|load)(?:[_ ]?time)?{_NUMBER}", re.I),
    Stage.FORWARD: re.compile(rf"\bmodel(?:[_ ]?time)?{_NUMBER}", re.I),
    Stage.OPTIMIZER: re.compile(rf"\boptim(?:izer)?(?:[_ ]?time)?{_NUMBER}", re.I),
}
_EPOCH = re.compile(r"\bepoch\W{0,3}(\d{1,7})", re.I)
_UNITS = {"ms": 1e-3, "us": 1e-6}
_MAX_LINE = 2000
_MAX_S = 1e6


def read_trainlog(path: Path) -> tuple[Lap, ...]:
    """The laps that a train.log tells; raises UnreadableError when no line names its times."""
    laps = parse_trainlog(read_text(path))
    if not laps:
        raise UnreadableError("no step of a training in it")
    return laps


def parse_trainlog(text: str) -> tuple[Lap, ...]:
    """Three laps per batch: data_wait, forward (which stands for the whole model time), optimizer."""
    laps: list[Lap] = []
    clock, step = 0, 0
    for line in text.splitlines():
        if len(line) > _MAX_LINE or "odel" not in line:
            continue
        times = {stage: _seconds(pattern.search(line)) for stage, pattern in _FIELDS.items()}
        if times[Stage.DATA_WAIT] is None or times[Stage.FORWARD] is None:
            continue
        found = _EPOCH.search(line)
        epoch = int(found[1]) if found else 0
        for stage, seconds in times.items():
            end = clock + round((seconds or 0.0) * 1e9)
            laps.append(Lap(stage, clock, end, step, epoch))
            clock = end
        step += 1
    return tuple(laps)


def _seconds(found: re.Match[str] | None) -> float | None:
    if not found:
        return None
    value = float(found[1]) * _UNITS.get((found[2] or "").lower(), 1.0)
    return value if value <= _MAX_S else None
