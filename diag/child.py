"""Start a child process, show and keep its output, pass a stop on to it, and note how it ended."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Self

from diag.codec import end_line
from diag.exit_cause import exit_cause
from diag.model.run import ExitCause
from diag.probe.cgroup import read_limits

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Terminal escapes: CSI, OSC and two-byte sequences (ECMA-48)."""

HEARTBEAT_S = 15.0
"""Without a terminal, an unfinished progress line is shown this often."""

KILL_AFTER_S = 100.0
"""A child that ignores a stop this long is killed (compose waits 120 s)."""


class Stopper:
    """While it is entered, SIGTERM and SIGINT reach the running child as SIGTERM, and are remembered."""

    def __init__(self) -> None:
        self.signal = ""
        self.child: subprocess.Popen[bytes] | None = None
        self._since = 0.0
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, _: FrameType | None) -> None:
        again = bool(self.signal)
        self._since = self._since or time.monotonic()
        self.signal = signal.Signals(number).name
        if self.child and self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL if again else signal.SIGTERM)

    def overdue(self) -> bool:
        """True when a stop was asked for so long ago that the child must be killed."""
        return bool(self._since) and time.monotonic() - self._since > KILL_AFTER_S


@dataclass(frozen=True)
class Ended:
    """A child's end: its cause, the last console lines and the seconds it took.

    `unwritten` are the last lines that its console file had no room for.
    """

    cause: ExitCause
    tail: tuple[str, ...]
    seconds: float
    unwritten: tuple[str, ...] = ()


def run_child(
    module: str,
    args: Sequence[str],
    *,
    console: Path,
    env: Mapping[str, str],
    stopper: Stopper,
    cwd: Path | None = None,
    screen: IO[str] | None = None,
    on_tick: Callable[[], None] = lambda: None,
    on_start: Callable[[int], None] = lambda pid: None,
) -> Ended:
    """Run `python -m module args`; its output goes to `console` and, if given, to `screen`.

    A carriage return starts a line over: `console` and a screen that is no terminal get the last state of
    each line, a terminal gets everything as it comes. `on_tick` is called about every two seconds, `on_start` once with
    the child's pid.
    """
    console.parent.mkdir(parents=True, exist_ok=True)
    started, kills = time.monotonic(), read_limits().oom_kills
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", module, *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env={**os.environ, **env, "DIAG_T0_NS": str(time.monotonic_ns())},
        start_new_session=True,  # Ctrl-C reaches us alone; we stop the child at a batch boundary
    )
    stopper.child = process
    try:
        on_start(process.pid)
        end_line(console)  # of an earlier start that was killed
        file = console.open("a", encoding="utf-8")
        tee = _Tee(file, screen)
        while _pump(process, tee, stopper):
            if tee.ticked():
                on_tick()
        tee.close()
        with contextlib.suppress(OSError):  # a full disk: said in the tail already
            file.close()
        process.wait()
    finally:
        stopper.child = None
    cause = exit_cause(
        process.returncode,
        list(tee.tail),
        oom_kills=read_limits().oom_kills - kills,
        stopped_by=stopper.signal,
    )
    return Ended(cause, tuple(tee.tail), time.monotonic() - started, tuple(tee.unwritten))


def _pump(process: subprocess.Popen[bytes], tee: "_Tee", stopper: Stopper) -> bool:
    """Move what the child has written; False at its end."""
    assert process.stdout
    ready, _, _ = select.select([process.stdout], [], [], 0.5)
    if ready:
        chunk = os.read(process.stdout.fileno(), 65536)
        tee.write(chunk.decode("utf-8", errors="replace"))
        return bool(chunk)
    if stopper.overdue() and process.poll() is None:
        process.kill()
    return process.poll() is None  # a grandchild may still hold the pipe


class _Tee:
    """Console file, screen and the last lines."""

    def __init__(self, file: IO[str], screen: IO[str] | None) -> None:
        self._file = file
        self._screen = screen
        self._raw = screen is not None and screen.isatty()
        self._pending = ""
        self._shown = self._tick = time.monotonic()
        self.tail: deque[str] = deque(maxlen=60)
        self.unwritten: deque[str] = deque(maxlen=60)
        self._full = False

    def write(self, text: str) -> None:
        if self._screen and self._raw:
            self._screen.write(text)
            self._screen.flush()
        *lines, self._pending = (self._pending + text).split("\n")
        for line in map(clean_line, lines):
            self.tail.append(line)
            self._show(line)
        self._keep([clean_line(line) for line in lines])

    def _keep(self, lines: list[str]) -> None:
        """Append to the console file; a full disk ends that, not the training."""
        if self._full:
            self.unwritten.extend(lines)
            return
        try:
            self._file.writelines(line + "\n" for line in lines)
            self._file.flush()
        except OSError as error:
            self._full = True
            said = f"diag: console.log is incomplete: {error}"
            self.tail.append(said)
            self.unwritten.extend((said, *lines))

    def ticked(self) -> bool:
        """True about every two seconds. Shows an unfinished line to a screen that saw nothing for a while."""
        now = time.monotonic()
        if self._pending.strip() and now - self._shown > HEARTBEAT_S:
            self._show(clean_line(self._pending))
        if now - self._tick < 2:
            return False
        self._tick = now
        return True

    def close(self) -> None:
        if self._pending.strip():
            self.write("\n")

    def _show(self, line: str) -> None:
        if self._screen and not self._raw:
            self._screen.write(line + "\n")
            self._screen.flush()
            self._shown = time.monotonic()


def clean_line(line: str) -> str:
    """What a terminal shows of a line at its end: the text after the last carriage return, without escapes."""
    line = line.rstrip("\r")
    line = line.rsplit("\r", 1)[-1]
    return ANSI.sub("", line).rstrip()
