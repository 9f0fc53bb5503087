"""What a training child does for the watchdog of diag.counters: it shows signs of life, and its stacks on demand."""

import ctypes
import faulthandler
import fcntl
import os
import signal
import sys
import time
from pathlib import Path
from typing import IO, Any

BEAT_EVERY_S = 1.0
WAIT_S = 120
"""So long a trainer waits for the one of an earlier start, whose `diag` was killed."""
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


def end_with_parent() -> None:
    """When `diag` is killed, stop as if it had passed a SIGTERM on, instead of training on unseen (Linux only)."""
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG, linux/prctl.h
    parent = os.getppid()
    try:
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:  # it was quicker
        os.kill(os.getpid(), signal.SIGTERM)


def only_one(run_dir: Path) -> IO[str] | None:
    """Hold the run for this trainer as long as the result lives, after that of an earlier start has ended.

    Ends the process when that takes more than `WAIT_S`. None on a file system without locks.
    """
    try:
        file = (run_dir / ".lock.train").open("w")
    except OSError:
        return None
    told = False
    for _ in range(WAIT_S):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not told:
                print("diag: waiting for the trainer of an earlier start to end", file=sys.stderr)
            told = True
            time.sleep(1)
        except OSError:
            return None
        else:
            return file
    sys.exit(f"RuntimeError: the trainer of an earlier start of {run_dir.name} still lives")


def stacks_on_signal(run_dir: Path) -> None:
    """On SIGUSR1 write the stacks of all threads to stall.txt. Forked loader workers inherit this."""
    try:
        file = (run_dir / "stall.txt").open("a", encoding="utf-8")
    except OSError as error:
        print(f"diag: no stacks for this run: {error}", file=sys.stderr)
        return
    faulthandler.register(signal.SIGUSR1, file=file, all_threads=True)  # it keeps the file open
