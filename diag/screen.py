"""What a person sees while a command runs: stage headings, progress, results."""

import os
import sys
import time
from typing import IO

from diag.model.check import StageResult, Status

_COLOURS = {
    Status.PASS: "32",
    Status.INFO: "36",
    Status.WARN: "33",
    Status.FAIL: "31",
    Status.SKIP: "90",
    Status.UNKNOWN: "35",
}


class Screen:
    """Writes to one stream. On a terminal progress overwrites itself; elsewhere it is a line every ten seconds."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self.stream = stream or sys.stdout
        self._terminal = self.stream.isatty()
        self.colour = self._terminal and not os.environ.get("NO_COLOR")
        self._progress = ""
        self._last = 0.0

    def line(self, text: str = "") -> None:
        """One line."""
        self._clear()
        self.stream.write(text + "\n")
        self.stream.flush()

    def notice(self, text: str) -> None:
        """A line of ours while a child draws its progress bar on the same terminal."""
        self._clear()
        self.stream.write(f"\r\x1b[K      {self._paint('33', text)}\n" if self._terminal else f"      {text}\n")
        self.stream.flush()

    def heading(self, number: int, total: int, name: str, what: str) -> None:
        """A stage begins."""
        self.line()
        self.line(self._paint("1", f"[{number}/{total}] {name}") + f"  {what}")
        self._last = time.monotonic()

    def progress(self, text: str) -> None:
        """How far the stage is."""
        now = time.monotonic()
        if self._terminal:
            self._clear()
            self._progress = f"      {text}"[:120]
            self.stream.write(self._progress)
            self.stream.flush()
        elif now - self._last > 10:
            self._last = now
            self.line(f"      {text}")

    def result(self, result: StageResult) -> None:
        """A stage has ended."""
        seconds = f" ({result.seconds:.1f} s)" if result.seconds >= 0.1 else ""
        self.line(f"      {self.status(result.status)} {result.name}: {result.reason}{seconds}")

    def status(self, status: Status) -> str:
        """The status in capitals, coloured on a terminal."""
        return self._paint(_COLOURS[status], status.value.upper())

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    def _clear(self) -> None:
        if self._progress:
            self.stream.write("\r\x1b[K")
            self._progress = ""
