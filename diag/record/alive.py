"""What a training child does for the watchdog of diag.counters: it shows signs of life, and its stacks on demand."""

import faulthandler
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

BEAT_EVERY_S = 1.0
VALIDATION_GRACE_S = 70.0
"""So long a validation may go on after a stop, because its end saves the epoch. Kills come after 100 s (diag.child)."""

_asked_s: list[float] = []
"""When a stop was asked for, by the monotonic clock."""


def ask_to_stop() -> None:
    """Note that this process was asked to stop."""
    _asked_s.append(time.monotonic())


def leave_in_time(_: Any = None) -> None:
    """Callback of each validation batch: leave a validation that would outlast the time that a stop has."""
    if _asked_s and time.monotonic() - _asked_s[0] > VALIDATION_GRACE_S:
        print("diag: stopped by SIGTERM in a validation that takes long; its epoch is trained again", file=sys.stderr)
        sys.exit(143)


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
