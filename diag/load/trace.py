"""trace/rank0.jsonl -> Trace. A half-written line is counted, not fatal."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from diag.load.read import MAX_TRACE_BYTES, UnreadableError, read_bytes
from diag.model.trace import Lap, Mark, Stage, Trace

_STAGES = {stage.value: stage for stage in Stage}
_DAY_NS = 10**15
"""A lap longer than eleven days is a broken line."""


def read_trace(path: Path) -> Trace:
    """The trace in `path`; raises UnreadableError when it holds no record at all."""
    trace = parse_trace(read_bytes(path, limit=MAX_TRACE_BYTES))
    if not trace.laps and not trace.marks:
        raise UnreadableError("no record in it")
    return trace


def parse_trace(data: bytes) -> Trace:
    """Parse JSON lines; lines that are no record of a known shape are counted in `lost_lines`."""
    decode = msgspec.json.Decoder().decode
    laps: list[Lap] = []
    marks: list[Mark] = []
    lost = 0
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            record = decode(line)
            match record.get("k"):
                case "laps":
                    laps += _laps(record)
                case "mark":
                    marks.append(Mark(str(record["m"]), int(record["t"]), _values(record.get("v"))))
                case "start":
                    marks.append(Mark("start", int(record["t"]), _values(record)))
                case _:
                    pass  # a kind from a newer recorder
        except (msgspec.DecodeError, AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
            lost += 1
    return Trace(tuple(laps), tuple(marks), lost)


def _laps(record: Mapping[str, Any]) -> list[Lap]:
    start, step, epoch = int(record["t"]), int(record.get("n", -1)), int(record.get("e", -1))
    laps = []
    for name, length, *_ in record["l"]:
        ns = int(length)
        if not 0 <= ns < _DAY_NS:
            raise ValueError("impossible length")
        # A stage from a newer recorder keeps its time: every nanosecond belongs to one stage.
        laps.append(Lap(_STAGES.get(name, Stage.OTHER), start, start + ns, step, epoch))
        start += ns
    return laps


def _values(raw: object) -> dict[str, str | int | float | bool | None]:
    if not isinstance(raw, dict):
        return {}
    return {str(k): v for k, v in raw.items() if v is None or isinstance(v, (str, int, float, bool))}
