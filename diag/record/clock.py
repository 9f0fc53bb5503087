"""One cursor, many laps: every nanosecond of a run belongs to exactly one stage."""

import time
from collections.abc import Callable

from diag.model.trace import Stage


class StageClock:
    """Splits time into laps that touch: each starts where the one before it ended."""

    def __init__(self, start_ns: int, now: Callable[[], int] = time.monotonic_ns) -> None:
        self._now = now
        self._cursor = start_ns
        self._first = start_ns
        self._laps: list[tuple[Stage, int]] = []

    def lap(self, stage: Stage) -> int:
        """End the running lap now and give it to `stage`; returns its length in nanoseconds."""
        now = self._now()
        length = now - self._cursor
        self._cursor = now
        self._laps.append((stage, length))
        return length

    def take(self) -> tuple[int, list[tuple[Stage, int]]]:
        """The start of the first lap and all laps since the last call; they are forgotten here."""
        taken = self._first, self._laps
        self._first, self._laps = self._cursor, []
        return taken
