"""Sums over the batches that the loader probe timed, so that the trace gets one line a second at most."""

import os
from collections.abc import Mapping
from typing import Any

PARTS = ("read", "decode", "augment", "collate")
_COUNTS = ("images", "loads", "hits", "opened", "bytes", "pixels")
SLOW_FILES = 3
"""Slowest files that a line names."""
EVERY_NS = 1_000_000_000


class LoaderSums:
    """Adds up batches until a second has passed or the epoch ends."""

    def __init__(self) -> None:
        self._since: int | None = None
        self._clear()

    def _clear(self) -> None:
        self._batches = 0
        self._sums = dict.fromkeys((*PARTS, *_COUNTS), 0)
        self._workers: dict[int, list[int]] = {}
        self._slow: list[tuple[int, str]] = []

    def add(self, batch: Mapping[str, Any], now_ns: int) -> dict[str, Any] | None:
        """Take a batch in; returns a line of the trace when it is time for one."""
        self._batches += 1
        for name in self._sums:
            self._sums[name] += batch[name]
        worker = self._workers.setdefault(batch["worker"], [0, 0])
        worker[0] += batch["images"]
        worker[1] += sum(batch[part] for part in PARTS)
        self._slow = sorted([*self._slow, (batch["slow_ns"], batch["slow_file"])], reverse=True)[:SLOW_FILES]
        if self._since is None:
            self._since = now_ns
        return self.flush(now_ns) if now_ns - self._since >= EVERY_NS else None

    def flush(self, now_ns: int) -> dict[str, Any] | None:
        """The sums as a line of the trace; None without a batch."""
        if not self._batches:
            return None
        line = {
            "b": self._batches,
            "ns": {part: self._sums[part] for part in PARTS},
            **{name: self._sums[name] for name in _COUNTS},
            "workers": {str(id): counts for id, counts in sorted(self._workers.items())},
            # The user knows the file, not its link in the view.
            "slow": [[os.path.realpath(file) if file.startswith("/") else file, ns] for ns, file in self._slow],
        }
        self._since = now_ns
        self._clear()
        return line
