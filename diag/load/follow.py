"""How the files that grow are read: once from the start, or again and again taking only what is new."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO

from diag.load.console import MAX_LOG_BYTES, LogReader, read_log
from diag.load.counters import CounterReader, read_counters
from diag.load.notebook import is_notebook
from diag.load.prefix import sniff
from diag.load.read import MAX_TRACE_BYTES, UnreadableError
from diag.load.seen import Seen
from diag.load.summary import TraceSummary, summarize
from diag.model.counters import Counters
from diag.model.evidence import Console
from diag.model.foreign import TrainLog

_TAIL = 65536
"""Of an unfinished line (a progress bar is one) so much is looked at."""


class Files:
    """Reads each file from its start."""

    seen: Seen | None = None
    """What earlier looks restored (`diag.load.restored`); only who looks again has one."""

    def trace(self, path: Path, name: str) -> TraceSummary:
        """The sums of one rank's trace."""
        return summarize(path, name=name)

    def counters(self, path: Path, steady: tuple[float, float] | None) -> Counters:
        """The machine's counters."""
        return read_counters(path, steady)

    def log(self, path: Path, name: str) -> tuple[Console, TrainLog]:
        """A console log."""
        return read_log(path, name=name)


@dataclass
class _Place:
    """How far a file was read."""

    inode: int = -1
    offset: int = 0


@dataclass
class _Trace(_Place):
    summary: TraceSummary = field(default_factory=lambda: TraceSummary(""))


@dataclass
class _Counted(_Place):
    reader: CounterReader = field(default_factory=CounterReader)


@dataclass
class _Log(_Place):
    reader: LogReader = field(default_factory=lambda: LogReader(""))


class Follower(Files):
    """Remembers how far each file was read and takes in complete new lines; a file that was replaced starts over."""

    def __init__(self) -> None:
        self.seen = Seen()
        self._traces: dict[Path, _Trace] = {}
        self._counted: dict[Path, _Counted] = {}
        self._logs: dict[Path, _Log] = {}

    def trace(self, path: Path, name: str) -> TraceSummary:
        """The sums so far; UnreadableError as long as there is no record."""
        with _opened(path, MAX_TRACE_BYTES) as file:
            known = self._traces.get(path)
            if known is None or _replaced(known, file):
                known = self._traces[path] = _Trace(summary=TraceSummary(name))
            known.summary.feed(_new_lines(known, file))
        if not known.summary.records:
            raise UnreadableError("no record in it" if known.summary.lost_lines else "empty")
        return known.summary

    def counters(self, path: Path, steady: tuple[float, float] | None) -> Counters:
        """The counters so far; UnreadableError as long as there is no sample."""
        with _opened(path, MAX_TRACE_BYTES) as file:
            known = self._counted.get(path)
            if known is None or _replaced(known, file):
                known = self._counted[path] = _Counted()
            known.reader.feed(b"".join(_new_lines(known, file)))
        return known.reader.counters(steady)

    def log(self, path: Path, name: str) -> tuple[Console, TrainLog]:
        """The log so far, with the bar that is being drawn."""
        if is_notebook(path):
            return read_log(path, name=name)
        with _opened(path, MAX_LOG_BYTES) as file:
            head = file.read(65536)
            if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head or not head.strip():
                return read_log(path, name=name)  # UTF-16, or what can't be read
            known = self._logs.get(path)
            grown = known is not None and known.offset >= len(head)  # before, it may not have shown its prefix yet
            prefixes = known.reader.prefixes if known is not None and grown else sniff(head)
            if known is None or _replaced(known, file) or prefixes != known.reader.prefixes:
                known = self._logs[path] = _Log(reader=LogReader(name, prefixes))
            new = _new_lines(known, file)
            while block := b"".join(islice(new, 500)):
                known.reader.feed(block)
            file.seek(max(known.offset, file.seek(0, 2) - _TAIL))
            reader = known.reader.fork()
            if tail := file.read():
                reader.feed(tail)
        return reader.finish()


def _opened(path: Path, limit: int) -> IO[bytes]:
    try:
        if not path.is_file():
            raise UnreadableError("not a regular file")
        file = path.open("rb")
        if path.stat().st_size > limit:
            file.close()
            raise UnreadableError(f"larger than {limit >> 20} MiB")
        return file
    except OSError as error:
        raise UnreadableError(error.strerror or type(error).__name__) from error


def _replaced(known: _Place, file: IO[bytes]) -> bool:
    """True if this is another file than the one read before, or it was cut."""
    stat = os.fstat(file.fileno())
    return known.inode != stat.st_ino or stat.st_size < known.offset


def _new_lines(known: _Place, file: IO[bytes]) -> Iterator[bytes]:
    """Complete lines after the last one that was read."""
    known.inode = os.fstat(file.fileno()).st_ino
    file.seek(known.offset)
    for line in file:
        if not line.endswith(b"\n"):
            return
        known.offset += len(line)
        yield line
