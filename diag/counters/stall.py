"""When does a training no longer get on? Watches the files that every batch and every validation batch touch.

- In a batch: no sign of life for `limit` = max(60 s, 20 x the median step).
- Between batches (startup, validation, checkpoint, first fetch of an epoch): no sign of life and idle for 2 x `limit`,
  where idle means that over the last `limit` the trainer and its workers together used less than a tenth of a core and
  moved less than 4 KiB/s in or out; so 2 to 3 x `limit` after the last work. While they are busy: 60 x `limit`, since a
  label scan, a cache on disk or a download shows no other sign of life. A validation that advances touches trace/beat
  with each of its batches, so a long one is never a stall.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT_S = 60.0
MEDIAN_STEPS = 20
IDLE_FACTOR, BUSY_FACTOR = 2, 60
IDLE_CORES = 0.1
IDLE_BYTES_PER_S = 4096
"""A hung training moves nothing; a download of 4 KiB/s would take hours for any weights."""
KEPT_STEPS = 100
FROZEN_NS = 10 * 10**9
"""A longer gap between two looks means that this process was frozen, too (docker pause), not that training hangs."""


class Watchdog:
    """Decides by files and by what the processes use; `look` is called about once a second."""

    def __init__(self, run_dir: str | os.PathLike[str], now_ns: int, *, limit_s: float = LIMIT_S) -> None:
        self._folder = os.path.join(run_dir, "trace")
        self._limit_s = limit_s
        self._seen: dict[str, tuple[int, int]] = {}
        self._read = 0
        self._rest = b""
        self._steps: list[float] = []
        self._median = 0.0
        self._used: list[tuple[int, float, int]] = []
        self._last_ns = self._progress_ns = self._step_ns = self._busy_ns = now_ns
        self.in_batch = False
        self.stalled = False
        self.last_step = -1

    @property
    def step_limit_s(self) -> float:
        """Seconds without a sign of life inside a batch that are a stall."""
        return max(self._limit_s, MEDIAN_STEPS * self._median)

    def idle_s(self, now_ns: int) -> float:
        """Seconds since the last sign of life."""
        return (now_ns - self._progress_ns) / 1e9

    def look(self, now_ns: int, cpu_s: float, moved_bytes: int = 0) -> str:
        """`stall` or `resumed` when that has just begun, else empty.

        `cpu_s`, `moved_bytes`: CPU time and bytes read and written of all processes so far.
        """
        if now_ns - self._last_ns > FROZEN_NS:
            self._progress_ns += now_ns - self._last_ns
            self._busy_ns = now_ns
            self._used.clear()
        self._last_ns = now_ns
        if self._busy(now_ns, cpu_s, moved_bytes):
            self._busy_ns = now_ns
        if self._advanced(now_ns):
            self._progress_ns = now_ns
            resumed, self.stalled = self.stalled, False
            return "resumed" if resumed else ""
        if self.stalled or not self._overdue(now_ns):
            return ""
        self.stalled = True
        return "stall"

    def _overdue(self, now_ns: int) -> bool:
        limit, idle = self.step_limit_s, self.idle_s(now_ns)
        if self.in_batch:
            return idle >= limit
        # Busy until a moment ago is no hang yet, and idle work is none while signs of life come.
        resting = min(idle, (now_ns - self._busy_ns) / 1e9)
        return resting >= IDLE_FACTOR * limit or idle >= BUSY_FACTOR * limit

    def _busy(self, now_ns: int, cpu_s: float, moved_bytes: int) -> bool:
        """True if, over the last `limit`, the processes did something. Unknown (the first looks) counts as busy."""
        used = self._used
        used.append((now_ns, cpu_s, moved_bytes))
        while len(used) > 2 and now_ns - used[1][0] >= self.step_limit_s * 1e9:
            del used[0]
        since, cpu_before, moved_before = used[0]
        seconds = (now_ns - since) / 1e9
        if seconds < self.step_limit_s / 2 or seconds == 0:
            return True
        return cpu_s - cpu_before >= IDLE_CORES * seconds or moved_bytes - moved_before >= IDLE_BYTES_PER_S * seconds

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
            with open(os.path.join(self._folder, "rank0.jsonl"), "rb") as file:
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
                del self._steps[:-KEPT_STEPS]
                self._median = _median(self._steps)
            self._step_ns = now_ns
            number = steps[-1].partition(b'"n":')[2].partition(b",")[0]
            self.last_step = int(number) if number.isdigit() else self.last_step
        if laps:
            self.in_batch = laps[-1] is (steps[-1] if steps else None)


def _median(values: Sequence[float]) -> float:
    """The middle one, the mean of the middle two (statistics.median; that module would triple the start)."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2
