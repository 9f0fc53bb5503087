"""What the GPU does meanwhile: CUDA events at the laps' boundaries, read later and never waited for.

The host's clock says where Python waits; the events say when the GPU got there. No call here synchronizes.
Untested on hardware: every line but the CUDA calls themselves is tested with a double (tests/record/test_device.py).
"""

import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from diag.model.trace import Stage

ALLOCATOR_EVERY = 50
"""Batches between two looks at the allocator; one takes about 0.1 ms."""
MAX_PENDING = 4096
"""Laps that the GPU may be behind; beyond it the oldest are dropped."""
EVERY_NS = 1_000_000_000
_ALLOCATOR = {
    "allocated": "allocated_bytes.all.current",
    "reserved": "reserved_bytes.all.current",
    "peak": "allocated_bytes.all.peak",
    "retries": "num_alloc_retries",
    "ooms": "num_ooms",
}


class Event(Protocol):
    """torch.cuda.Event, as far as it is used."""

    def record(self, stream: Any) -> None: ...
    def query(self) -> bool: ...
    def elapsed_time(self, end: Any) -> float: ...


class Cuda(Protocol):
    """torch.cuda, as far as it is used."""

    def Event(self, *, enable_timing: bool) -> Event: ...  # noqa: N802
    def current_stream(self, device: Any) -> Any: ...
    def memory_stats(self, device: Any) -> Mapping[str, Any]: ...


class DeviceClock:
    """Milliseconds on the device by stage. Any failure of CUDA ends it, with one line."""

    def __init__(self, cuda: Cuda, device: Any, write: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._cuda, self._device, self._write = cuda, device, write
        self._last: Event | None = None
        self._free: list[Event] = []
        self._pending: deque[tuple[Stage, Event, Event]] = deque()
        self._ms: dict[str, float] = {}
        self._laps = self._batches = self._dropped = 0
        self._since: int | None = None
        self._failed = False

    def restart(self) -> None:
        """What lies between batches is not a lap of the device: the next one begins here."""
        self._guard(self._restart)

    def lap(self, stage: Stage) -> None:
        """The work queued since the last boundary was this stage."""
        self._guard(lambda: self._lap(stage))

    def batch_end(self, now_ns: int) -> None:
        """Collect what the GPU has finished; writes a line a second at most."""
        self._guard(lambda: self._batch_end(now_ns))

    def flush(self, now_ns: int) -> None:
        """Write what was collected; laps that the GPU has not finished are for the next line."""
        self._guard(lambda: self._flush(now_ns))

    def _guard(self, work: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            work()
        except Exception as error:  # a broken GPU shows in training itself; recording must not add to it
            self._failed = True
            print(f"diag: the GPU's clock stopped: {type(error).__name__}: {error}", file=sys.stderr)

    def _record(self) -> Event:
        event = self._free.pop() if self._free else self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return event

    def _restart(self) -> None:
        self._last = self._record()

    def _lap(self, stage: Stage) -> None:
        end = self._record()
        if self._last is not None:
            self._pending.append((stage, self._last, end))
        self._last = end
        if len(self._pending) > MAX_PENDING:
            self._pending.popleft()
            self._dropped += 1

    def _batch_end(self, now_ns: int) -> None:
        while self._pending and self._pending[0][2].query():
            stage, begin, end = self._pending.popleft()
            self._ms[stage.value] = self._ms.get(stage.value, 0.0) + begin.elapsed_time(end)
            self._laps += 1
            # The end of this lap is the begin of the next; its own begin is read for the last time here.
            self._free.append(begin)
        if self._batches % ALLOCATOR_EVERY == 0:
            stats = self._cuda.memory_stats(self._device)
            self._write("alloc", {name: int(stats.get(key, 0)) for name, key in _ALLOCATOR.items()})
        self._batches += 1
        if self._since is None:
            self._since = now_ns
        if now_ns - self._since >= EVERY_NS:
            self._flush(now_ns)

    def _flush(self, now_ns: int) -> None:
        if self._laps:
            self._write("device", {"laps": self._laps, "dropped": self._dropped, "ms": self._ms})
        self._ms, self._laps, self._dropped, self._since = {}, 0, 0, now_ns
