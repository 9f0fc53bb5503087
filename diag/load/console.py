"""console.log -> the lines that say something known, and the training that it tells of. Streamed."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

from diag.load.known_lines import KnownLines, lower, plain
from diag.load.notebook import is_notebook, read_notebook
from diag.load.prefix import Prefix, sniff, strip_all
from diag.load.read import UnreadableError
from diag.load.trainlog_lines import LogParser
from diag.model.evidence import Console
from diag.model.foreign import TrainLog

MAX_LOG_BYTES = 2 * 1024 * 1024 * 1024
_BLOCK = 1 << 16
_MAX_BLOCK = 1 << 20
_FEW = 4096
_BAR = (b"\r", b"%|", b"it/s", b"s/it")
_ANSI_BYTES = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]")


def read_log(path: Path, *, name: str = "console.log") -> tuple[Console, TrainLog]:
    """Known lines and training of a console log of any size, without holding it in memory."""
    if is_notebook(path):
        made = list(read_notebook(path))
        return _parse(
            blocks(io.BytesIO(b"\n".join(line for _, line in made))), LogReader(name, numbers=[n for n, _ in made])
        )
    try:
        if not path.is_file():
            raise UnreadableError("not a regular file")
        if path.stat().st_size > MAX_LOG_BYTES:
            raise UnreadableError(f"larger than {MAX_LOG_BYTES >> 20} MiB")
        with path.open("rb") as file:
            head = file.read(65536)
            if not head.strip():
                raise UnreadableError("empty")
            if head.startswith((b"\xff\xfe", b"\xfe\xff")):
                # Windows PowerShell's `>` writes UTF-16; such logs are small.
                text = (head + file.read(64 * 1024 * 1024)).decode("utf-16", errors="replace")
                return parse_log(text, name=name)
            if b"\0" in head:
                raise UnreadableError("binary, not text")
            file.seek(0)
            return _parse(blocks(file), LogReader(name, sniff(head)))
    except OSError as error:
        raise UnreadableError(error.strerror or type(error).__name__) from error


def parse_console(text: str, *, name: str = "console.log") -> Console:
    """Known lines of a log with ANSI codes and `\\r` progress bars. At most 20 lines of a kind are kept."""
    return parse_log(text, name=name)[0]


def parse_log(text: str, *, name: str = "console.log") -> tuple[Console, TrainLog]:
    """Known lines and training of a log."""
    data = text.encode("utf-8", "replace")
    return _parse((data,), LogReader(name, sniff(data[:65536])))


def blocks(file: IO[bytes]) -> Iterator[bytes]:
    """A file in pieces that end with a line; in one without end (a bar drawn for days) where it was drawn again."""
    rest = b""
    while piece := file.read(_BLOCK):
        rest += piece
        cut = rest.rfind(b"\n") + 1
        if not cut and len(rest) > _MAX_BLOCK:
            cut = rest.rfind(b"\r") + 1
            rest = rest if cut else rest[:_MAX_BLOCK]
        if cut:
            yield rest[:cut]
            rest = rest[cut:]
    if rest:
        yield rest


def _parse(pieces: Iterable[bytes], reader: "LogReader") -> tuple[Console, TrainLog]:
    for block in pieces:
        reader.feed(block)
    return reader.finish()


class LogReader:
    """A console log that is taken in piece by piece.

    `prefixes` are what collectors put before the lines (see `sniff`); `numbers` those of the lines in their file,
    where they are not counted from one on.
    """

    def __init__(self, name: str, prefixes: tuple[Prefix, ...] = (), numbers: Sequence[int] | None = None) -> None:
        self.name = name
        self.prefixes = prefixes
        self._numbers = numbers
        self._ended = 0
        self._rest = False
        self._parser = LogParser(name)
        self._lamp = KnownLines(self._parser)
        self._pending, self._pending_at, self._key = b"", 0, b""

    def feed(self, block: bytes) -> None:
        """Take a piece in that ends with a line, or where a bar is drawn again."""
        if b"\r\n" in block:
            block = block.replace(b"\r\n", b"\n")
        if self.prefixes:
            block = strip_all(self.prefixes, block)
        if any(sign in block for sign in _BAR):
            self._lines(block)
        elif self._lamp.silent(block):
            if not block.isspace():
                self._flush()
            self._ended += block.count(b"\n")
        elif len(block) > _FEW and 0 < (cut := block.find(b"\n", len(block) // 2) + 1) < len(block):
            self.feed(block[:cut])
            self.feed(block[cut:])
        else:
            self._lines(block)
        self._rest = bool(block) and not block.endswith(b"\n")

    def _lines(self, block: bytes) -> None:
        for count, raw in enumerate(block.split(b"\n"), self._ended):
            number = self._numbers[count] if self._numbers and count < len(self._numbers) else count + 1
            for part in raw.split(b"\r") if b"\r" in raw else (raw,):
                if _is_bar(part):
                    # A bar that is drawn again says nothing new: only the last one before another line counts.
                    new = (_ANSI_BYTES.sub(b"", part[:60]) if b"\x1b" in part[:60] else part).split(None, 1)[:1]
                    if new != [self._key]:
                        self._flush()
                    self._pending, self._pending_at, self._key = part, number, new[0] if new else b""
                elif part and not part.isspace():
                    self._flush()
                    self._lamp.line(number, part)
        self._ended += block.count(b"\n")

    def _flush(self) -> None:
        if self._pending:
            low, part, self._pending = lower(self._pending), self._pending, b""
            if self._parser.wants(low) or b"scanning" in low or b"caching" in low or b"class" in low:
                self._parser.feed(self._pending_at, plain(part))

    def fork(self) -> "LogReader":
        """A copy that goes its own way: it can be finished while this one goes on."""
        twin = LogReader(self.name, self.prefixes, self._numbers)
        twin._parser = self._parser.fork()
        twin._lamp = self._lamp.fork(twin._parser)
        twin._ended, twin._rest = self._ended, self._rest
        twin._pending, twin._pending_at, twin._key = self._pending, self._pending_at, self._key
        return twin

    def finish(self) -> tuple[Console, TrainLog]:
        """All that was seen; nothing may be fed afterwards (`fork` first, to go on)."""
        self._flush()
        found = tuple(self._lamp.found)
        log = self._parser.finish(self._ended + self._rest, {line.kind for line in found})
        banner = next((line.text for line in found if line.kind == "banner"), "")
        return Console(found, _device(banner), banner, self.name), log


def _is_bar(part: bytes) -> bool:
    """True for a progress bar and nothing after it."""
    if b"%|" in part or b"it/s" in part or b"s/it" in part:
        tail = part[-40:].rstrip()
        return tail.endswith(b"]") or (b"\xe2\x94" in part and tail[-1:] in b"smh%0123456789")
    return False


def _device(banner: str) -> str:
    if "CUDA:" in banner:
        return "cuda"
    if re.search(r"\bMPS\b", banner):
        return "mps"
    return "cpu" if re.search(r"\bCPU\b", banner) else ""
