"""How a run ended, from what its process left: exit code, signal, last lines, the cgroup's kill counter."""

import re
import signal as signals
from collections.abc import Sequence

from diag.model.run import ExitCause

_TEXTS = (
    ("shm_small", r"unable to allocate shared memory|insufficient shared memory|Bus error.*shm"),
    ("disk_full", r"No space left on device|\[Errno 28\]|Disk quota exceeded"),
    ("gpu_oom", r"CUDA out of memory|CUDA error: out of memory|OutOfMemoryError"),
    ("ram_oom", r"^MemoryError|DefaultCPUAllocator: can't allocate memory|Cannot allocate memory"),
    # EAGAIN of clone(2), as Python, Rust (polars) and libgomp say it
    (
        "thread_limit",
        r"can't start new thread|Os \{ code: 11,|^BlockingIOError: \[Errno 11\]|libgomp: Thread creation failed",
    ),
)
"""Cause by the text of the last console lines, first match wins: a full /dev/shm also says "No space left"."""

_EXCEPTION = re.compile(r"^(?:[\w.]+\.)?([A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning))\b:?\s*(.*)$")


def exit_cause(returncode: int, tail: list[str], *, oom_kills: int = 0, stopped_by: str = "") -> ExitCause:
    """Classify the end of a child process.

    `tail` are its last console lines; `oom_kills` how often the kernel killed in our cgroup meanwhile;
    `stopped_by` the signal that we ourselves were sent (SIGTERM, SIGINT), if any.
    """
    if returncode == 0:
        return ExitCause("finished", 0)
    if stopped_by:
        return ExitCause("stopped", returncode, stopped_by, f"stopped by {stopped_by}")
    if reason := known_reason(tail):
        kind, detail, line = reason
        return ExitCause(kind, returncode, _signal(returncode), detail, line)
    if returncode in {-signals.SIGKILL, 128 + signals.SIGKILL}:
        if oom_kills:
            return ExitCause(
                "ram_oom", returncode, "SIGKILL", DETAILS["ram_oom"], f"cgroup oom_kill rose by {oom_kills}"
            )
        return ExitCause("killed", returncode, "SIGKILL", "killed with SIGKILL, and not for memory by this cgroup")
    line = _last_exception(tail)
    detail = line or (f"ended by {_signal(returncode)}" if returncode < 0 else f"exit code {returncode}")
    return ExitCause("failed", returncode, _signal(returncode), detail, line)


def known_reason(tail: Sequence[str]) -> tuple[str, str, str] | None:
    """(kind, what it means, the line that says so) where the last console lines hold a known text, else None."""
    for kind, pattern in _TEXTS:
        for line in reversed(tail):
            if re.search(pattern, line):
                return kind, DETAILS[kind], line.strip()[:300]
    return None


DETAILS = {
    "shm_small": "/dev/shm is too small for the data loader",
    "disk_full": "no space left on the disk of the workspace",
    "gpu_oom": "the GPU ran out of memory",
    "thread_limit": "the limit of processes and threads is reached (docker run --pids-limit, ulimit -u)",
    "ram_oom": "the kernel or the allocator ran out of memory (RAM) for this process",
}


def _signal(returncode: int) -> str:
    """The name of the signal that ended a process, by its negative return code; empty if none did."""
    try:
        return signals.Signals(-returncode).name if returncode < 0 else ""
    except ValueError:
        return str(-returncode)


def _last_exception(tail: list[str]) -> str:
    """The last line that names an exception, without its module path."""
    for line in reversed(tail):
        if match := _EXCEPTION.match(line.strip()):
            return f"{match[1]}: {match[2]}".rstrip(": ")[:300]
    return ""
