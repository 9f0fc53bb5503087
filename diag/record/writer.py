"""Append-only files of the recorder. On its own failure it stops and says so once; training goes on."""

import json
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from diag.codec import end_line
from diag.model.trace import Stage

TRACE_VERSION = 1


class TraceWriter:
    """Writes `trace/rank<k>.jsonl` and, on rank 0, `train.log`; opens them at the first record."""

    def __init__(self, run_dir: Path, rank: int) -> None:
        self._run_dir = run_dir
        self._rank = rank
        self._trace: IO[str] | None = None
        self._log: IO[str] | None = None
        self._failed = False

    def start(self, t_ns: int, pid: int) -> None:
        """The first record of a process: ties the monotonic clock to the wall clock."""
        wall = datetime.now().astimezone().isoformat(timespec="milliseconds")
        self._record({"k": "start", "t": t_ns, "wall": wall, "pid": pid, "rank": self._rank, "version": TRACE_VERSION})

    def laps(self, epoch: int, step: int, start_ns: int, laps: list[tuple[Stage, int]]) -> None:
        """Touching laps of one batch, or of what lies between batches (epoch and step -1)."""
        if laps:
            self._record({"k": "laps", "e": epoch, "n": step, "t": start_ns, "l": [[s.value, d] for s, d in laps]})

    def mark(self, name: str, t_ns: int, values: Mapping[str, Any]) -> None:
        """An instant with numbers."""
        self._record({"k": "mark", "m": name, "t": t_ns, "v": dict(values)})

    def record(self, kind: str, values: Mapping[str, Any]) -> None:
        """A record of any other kind (docs/contracts.md lists them)."""
        self._record({"k": kind, **values})

    def log_line(self, epoch: str, batch: str, stages: Mapping[str, float]) -> None:
        """One line of train.log; `stages` are seconds by name."""
        if self._rank > 0:
            return
        now = datetime.now().isoformat(sep=" ", timespec="milliseconds")
        times = ", ".join(f"{name}: {seconds:.3f}s" for name, seconds in stages.items())
        self._append("_log", "train.log", f"{now} | INFO | diag.record | epoch {epoch} batch {batch} | {times}\n")

    def _record(self, record: Mapping[str, Any]) -> None:
        self._append("_trace", f"trace/rank{self._rank}.jsonl", json.dumps(record, separators=(",", ":")) + "\n")

    def _append(self, attribute: str, name: str, line: str) -> None:
        if self._failed:
            return
        try:
            file = getattr(self, attribute)
            if file is None:
                path = self._run_dir / name
                path.parent.mkdir(parents=True, exist_ok=True)
                end_line(path)  # of a killed process: its half line stays one lost line
                file = path.open("a", encoding="utf-8", buffering=1)
                setattr(self, attribute, file)
            file.write(line)
        except (OSError, ValueError) as error:
            # Recording never hurts training: say it once and be silent.
            self._failed = True
            print(f"diag: recording stopped: {error}", file=sys.stderr)
