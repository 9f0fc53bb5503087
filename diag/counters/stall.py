"""When does a training no longer get on? Watches the files that every batch and every validation batch touch.

- In a batch: no sign of life for `limit` = max(60 s, 20 x the median step).
- Between batches (startup, validation, checkpoint, first fetch of an epoch): 10 x `limit` while the trainer and its
  workers together use less than a tenth of a core, else 60 x `limit`. A validation that advances touches trace/beat
  with each of its batches, so a long one is never a stall.
"""

import os
import statistics
from collections import deque
from pathlib import Path

LIMIT_S = 60.0
MEDIAN_STEPS = 20
IDLE_FACTOR, BUSY_FACTOR = 10, 60
IDLE_CORES = 0.1
FROZEN_NS = 10 * 10**9
"""A longer gap between two looks means that this process was frozen, too (docker pause), not that training hangs."""


class Watchdog:
    """Decides by files alone; `look` is called about once a second."""

    def __init__(self, run_dir: Path, now_ns: int, *, limit_s: float = LIMIT_S) -> None:
        self._folder = str(run_dir / "trace")
        self._limit_s = limit_s
        self._seen: dict[str, tuple[int, int]] = {}
        self._read = 0
        self._rest = b""
        self._steps: deque[float] = deque(maxlen=100)
        self._cpu: deque[tuple[int, float]] = deque()
        self._last_ns = self._progress_ns = self._step_ns = now_ns
        self.in_batch = False
        self.stalled = False
        self.last_step = -1

    @property
    def step_limit_s(self) -> float:
        """Seconds without a sign of life inside a batch that are a stall."""
        median = statistics.median(self._steps) if self._steps else 0.0
        return max(self._limit_s, MEDIAN_STEPS * median)

    def idle_s(self, now_ns: int) -> float:
        """Seconds since the last sign of life."""
        return (now_ns - self._progress_ns) / 1e9

    def look(self, now_ns: int, cpu_s: float) -> str:
        """`stall` or `resumed` when that has just begun, else empty. `cpu_s`: CPU time of all processes so far."""
        if now_ns - self._last_ns > FROZEN_NS:
            self._progress_ns += now_ns - self._last_ns
        self._last_ns = now_ns
        if self._advanced(now_ns):
            self._progress_ns = now_ns
            resumed, self.stalled = self.stalled, False
            return "resumed" if resumed else ""
        if self.stalled or self.idle_s(now_ns) < self.limit_s(now_ns, cpu_s):
            return ""
        self.stalled = True
        return "stall"

    def limit_s(self, now_ns: int, cpu_s: float) -> float:
        """The limit that holds now: by phase and, between batches, by how busy the processes are."""
        limit = self.step_limit_s
        self._cpu.append((now_ns, cpu_s))
        while now_ns - self._cpu[0][0] > limit * 1e9 and len(self._cpu) > 2:
            self._cpu.popleft()
        if self.in_batch:
            return limit
        since, before = self._cpu[0]
        cores = (cpu_s - before) / ((now_ns - since) / 1e9) if now_ns > since else 1.0
        return limit * (IDLE_FACTOR if cores < IDLE_CORES else BUSY_FACTOR)

    def _advanced(self, now_ns: int) -> bool:
        now: dict[str, tuple[int, int]] = {}
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if entry.name.startswith("rank") or entry.name == "beat":
                        stat = entry.stat()
                        now[entry.name] = (stat.st_size, stat.st_mtime_ns)
        except OSError:
            return False
        changed, self._seen = now != self._seen, now
        if now.get("rank0.jsonl", (0, 0))[0] > self._read:
            self._read_steps(now_ns)
        return changed

    def _read_steps(self, now_ns: int) -> None:
        """Count the batches in what rank 0 has written since; their mean length is one sample of the median."""
        try:
            with (Path(self._folder) / "rank0.jsonl").open("rb") as file:
                file.seek(self._read)
                data = file.read(4 * 1024 * 1024)
        except OSError:
            return
        self._read += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        laps = [line for line in lines if b'"k":"laps"' in line]
        steps = [line for line in laps if b'"n":-1' not in line]
        if steps:
            if self.in_batch:  # else the time since the last step holds a validation, too
                self._steps.append((now_ns - self._step_ns) / 1e9 / len(steps))
            self._step_ns = now_ns
            number = steps[-1].partition(b'"n":')[2].partition(b",")[0]
            self.last_step = int(number) if number.isdigit() else self.last_step
        if laps:
            self.in_batch = laps[-1] is (steps[-1] if steps else None)
