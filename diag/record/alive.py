"""What a training child does for the watchdog of diag.counters: it shows signs of life, and its stacks on demand."""

import faulthandler
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

BEAT_EVERY_S = 1.0


class Heartbeat:
    """Callback of each batch: touches trace/beat at most once a second.

    So a long validation is seen, and a training whose recorder had to stop (a full disk) does not seem to hang. It
    pickles and deep-copies as plain values, because Ultralytics copies its callbacks.
    """

    def __init__(self, run_dir: Path) -> None:
        self._path = str(run_dir / "trace" / "beat")
        self._due = 0.0

    def __call__(self, _: Any = None) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + BEAT_EVERY_S
        try:
            with Path(self._path).open("a"):
                os.utime(self._path)
        except OSError:
            return  # no trace folder, or a full disk: only the watchdog knows less


def stacks_on_signal(run_dir: Path) -> None:
    """On SIGUSR1 write the stacks of all threads to stall.txt. Forked loader workers inherit this."""
    try:
        file = (run_dir / "stall.txt").open("a", encoding="utf-8")
    except OSError as error:
        print(f"diag: no stacks for this run: {error}", file=sys.stderr)
        return
    faulthandler.register(signal.SIGUSR1, file=file, all_threads=True)  # it keeps the file open
