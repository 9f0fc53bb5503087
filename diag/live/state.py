"""Does a run still train? By its lock, its exit cause, the planned epochs, and when its files last grew."""

import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from diag import codec
from diag.errors import InputError
from diag.health import is_held
from diag.model.evidence import Evidence
from diag.model.run import ExitCause, RunRecord
from diag.rules.ending import planned_epochs, stopped_early

FRESH_S = 30.0
"""A run of ours without a lock (not every file system has them) lives if its files grew this recently: the counters
process writes each second."""
SILENT_S, SILENT_EPOCHS = 60.0, 3
PATIENCE_S = 300.0
"""A foreign run that writes nothing for this long, or for ten of its epochs, is taken to be over."""
_FILES = ("train.log", "console.log", "results.csv", "results.txt", "trace/rank0.jsonl", "trace/counters.jsonl",
          "ultralytics/results.csv", "run.json", "health.json")  # fmt: skip


@dataclass(frozen=True)
class State:
    """`why` says by what that is known: lock, cause, vanished, fresh, complete, quiet."""

    living: bool
    why: str
    cause: ExitCause | None = None
    quiet_s: float = 0.0
    """Seconds since a file of the run last grew."""
    silent: bool = False
    """A foreign run that lives and has not written for a minute and for three of its epochs: it may hang."""


def run_state(path: Path, evidence: Evidence | None = None, *, patience_s: float | None = None) -> State:
    """Whether the run in `path` still trains; of one that is not ours `evidence` tells how far it is."""
    quiet_s = _quiet_s(path)
    record = _record(path)
    if record is not None:
        if record.exit_cause.kind != "running":
            return State(False, "cause", record.exit_cause, quiet_s)
        if is_held(path):
            return State(True, "lock", None, quiet_s)
        if quiet_s < FRESH_S:
            return State(True, "fresh", None, quiet_s)
        gone = ExitCause("killed", detail="the process went away without a word (kill -9, power, container)")
        return State(False, "vanished", gone, quiet_s)
    if evidence is not None and _complete(evidence, quiet_s):
        return State(False, "complete", None, quiet_s)
    epoch_s = _epoch_s(evidence)
    limit_s = patience_s if patience_s is not None else max(PATIENCE_S, 10 * epoch_s)
    living = quiet_s < limit_s
    silent = living and quiet_s > max(SILENT_S, SILENT_EPOCHS * epoch_s)
    return State(living, "fresh" if living else "quiet", None, quiet_s, silent)


def _complete(evidence: Evidence, quiet_s: float) -> bool:
    """All planned epochs are there, early stopping struck, or the log says how it ended.

    An error in the log is the end only when nothing follows it: many are caught.
    """
    curves, args, log = evidence.curves, evidence.args, evidence.log
    planned = planned_epochs(args)
    if curves is not None and planned is not None and (curves.rows >= planned or stopped_early(curves, args)):
        return True
    if log is None:
        return False
    return log.ended in {"completed", "early_stop"} or (log.ended == "error" and quiet_s > FRESH_S)


def _epoch_s(evidence: Evidence | None) -> float:
    """Seconds of the longest epoch by the time column; 0 where unknown."""
    clock = evidence.curves.clock if evidence and evidence.curves else ()
    return max((b - a for a, b in pairwise(clock) if b > a), default=0.0)


def _record(path: Path) -> RunRecord | None:
    try:
        return codec.read_json(path / "run.json", RunRecord)
    except (OSError, InputError):
        return None


def _quiet_s(path: Path) -> float:
    """Seconds since the last write to a file that grows in training (of a single file: to it)."""
    files = [path] if path.is_file() else [path / name for name in _FILES] + [*path.glob("*.log"), *path.glob("*.out")]
    times = []
    for file in files:
        try:
            times.append(file.stat().st_mtime)
        except OSError:
            continue
    return max(0.0, time.time() - max(times)) if times else float("inf")
