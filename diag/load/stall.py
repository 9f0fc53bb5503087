"""The stalls of a run, from the marks of trace/counters.jsonl."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from diag.model.trace import Mark


@dataclass(frozen=True)
class Stalls:
    """How often training hung. `longest_s` counts from the last sign of life; `step` is the last one before it."""

    count: int
    longest_s: float
    step: int
    aborted: bool = False
    """The watchdog ended the training (DIAG_STALL_ABORT=1)."""
    stacks: str = "stall.txt"


def read_stalls(path: Path) -> Stalls | None:
    """The stalls noted in a counters.jsonl; None without one, or without the file."""
    return stalls(read_marks(path))


def lost_gpu(marks: list[Mark] | tuple[Mark, ...]) -> str:
    """Which GPU went away first since the run's last start, and NVML's words on it; empty if none did."""
    last = max((i for i, mark in enumerate(marks) if mark.name == "start"), default=0)
    found = next((mark for mark in marks[last:] if mark.name == "gpu_lost"), None)
    return f"GPU {found.values.get('gpu')} was lost ({found.values.get('said')})" if found else ""


def read_marks(path: Path) -> list[Mark]:
    """The marks in a counters.jsonl, in file order; empty without the file."""
    marks: list[Mark] = []
    try:
        with path.open("rb") as file:
            for line in file:
                if b'"k":"start"' in line[:13]:
                    marks.append(Mark("start", 0))
                elif b'"k":"mark"' in line[:12]:
                    record = msgspec.json.decode(line)
                    marks.append(Mark(str(record["m"]), int(record["t"]), dict(record.get("v") or {})))
    except (OSError, msgspec.DecodeError, KeyError, TypeError, ValueError):
        pass  # a half-written last line: what was read counts
    return marks


def stalls(marks: list[Mark] | tuple[Mark, ...]) -> Stalls | None:
    """Sum up marks in file order."""
    count, longest, step, begin_ns = 0, 0.0, -1, 0
    for mark in marks:
        if mark.name == "stall":
            idle_s = _number(mark.values.get("idle_s"))
            count, begin_ns, last = count + 1, mark.t_ns - int(idle_s * 1e9), int(_number(mark.values.get("step")))
            if idle_s > longest:
                longest, step = idle_s, last
        elif mark.name in {"resumed", "end"} and begin_ns:
            if (mark.t_ns - begin_ns) / 1e9 > longest:
                longest, step = (mark.t_ns - begin_ns) / 1e9, last
            begin_ns = 0
        elif mark.name == "start":
            begin_ns = 0  # the run was started again: what hung is gone
    last = max((i for i, mark in enumerate(marks) if mark.name == "start"), default=0)
    aborted = any(mark.name == "stall_abort" for mark in marks[last:])
    return Stalls(count, round(longest, 1), step, aborted) if count else None


def _number(value: object) -> float:
    """A plausible number, else 0."""
    return float(value) if isinstance(value, (int, float)) and abs(value) < 1e15 else 0.0
