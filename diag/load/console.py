"""console.log -> the lines that say something known, and the training that it tells of. Streamed."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from diag.load.kinds import GATES, pattern
from diag.load.notebook import is_notebook, read_notebook
from diag.load.prefix import sniff, strip
from diag.load.read import UnreadableError
from diag.load.trainlog_lines import LogParser
from diag.model.evidence import Console, ConsoleLine
from diag.model.foreign import TrainLog

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_STAMP = re.compile(r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S*\s*\|?\s*(?:[A-Z]+\s*\|\s*\S+\s*\|\s*)?")
_ANSI_BYTES = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]")
_DIGITS = b"0123456789.-"
_FRAME = re.compile(rb'\s{1,12}File "[^"\n]{1,500}", line \d+')
_MAX_MEMO = 100_000
_MAX_TEXT = 300
_MAX_PER_KIND = 20
_MAX_LINE = 4000
MAX_LOG_BYTES = 2 * 1024 * 1024 * 1024
_CHUNK = 1 << 20


def read_console(path: Path, *, name: str = "console.log") -> Console:
    """The known lines of a console log."""
    return read_log(path, name=name)[0]


def read_log(path: Path, *, name: str = "console.log") -> tuple[Console, TrainLog]:
    """Known lines and training of a console log of any size, without holding it in memory."""
    if is_notebook(path):
        return _parse(read_notebook(path), name)
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
            return _parse(_lines(file), name, sniff(head))
    except OSError as error:
        raise UnreadableError(error.strerror or type(error).__name__) from error


def parse_console(text: str, *, name: str = "console.log") -> Console:
    """Known lines of a log with ANSI codes and `\\r` progress bars. At most 20 lines of a kind are kept."""
    return parse_log(text, name=name)[0]


def parse_log(text: str, *, name: str = "console.log") -> tuple[Console, TrainLog]:
    """Known lines and training of a log."""
    data = text.encode("utf-8", "replace")
    return _parse(enumerate(data.split(b"\n"), 1), name, sniff(data[:65536]))


def _lines(file: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    yield from enumerate(file, 1)


def _parse(
    lines: Iterable[tuple[int, bytes]], name: str, prefix: re.Pattern[bytes] | None = None
) -> tuple[Console, TrainLog]:
    reader = LogReader(name, prefix)
    reader.feed(lines)
    return reader.finish()


class LogReader:
    """A console log that is taken in piece by piece. `line` is the number of the last line.

    `prefix` is what a log collector put before the lines (see `sniff`).
    """

    def __init__(self, name: str, prefix: re.Pattern[bytes] | None = None) -> None:
        self.name = name
        self.prefix = prefix
        self.line = 0
        self._parser = LogParser(name)
        self._lamp = _KnownLines(self._parser)
        self._pending, self._pending_at, self._key = b"", 0, b""

    def feed(self, lines: Iterable[tuple[int, bytes]]) -> None:
        """Take numbered lines in."""
        parser, lamp = self._parser, self._lamp
        pending, pending_at, key = self._pending, self._pending_at, self._key
        number = self.line
        for number, raw in lines:
            if self.prefix:
                raw = strip(self.prefix, raw)  # noqa: PLW2901
            for part in raw.split(b"\r") if b"\r" in raw else (raw,):
                if _is_bar(part):
                    # A bar that is drawn again says nothing new: only the last one before another line counts.
                    new = (_ANSI_BYTES.sub(b"", part[:60]) if b"\x1b" in part[:60] else part).split(None, 1)[:1]
                    if pending and new != [key]:
                        parser.feed(pending_at, _text(pending))
                    pending, pending_at, key = part, number, new[0] if new else b""
                elif part and not part.isspace():
                    if pending:
                        parser.feed(pending_at, _text(pending))
                        pending = b""
                    lamp.line(number, part)
        self.line = number
        self._pending, self._pending_at, self._key = pending, pending_at, key

    def fork(self) -> "LogReader":
        """A copy that goes its own way: it can be finished while this one goes on."""
        twin = LogReader(self.name, self.prefix)
        twin.line = self.line
        twin._parser = self._parser.fork()
        twin._lamp = _KnownLines(twin._parser)
        twin._lamp.found, twin._lamp.counts = list(self._lamp.found), dict(self._lamp.counts)
        twin._lamp.gates, twin._lamp.frame = self._lamp.gates, self._lamp.frame
        twin._pending, twin._pending_at, twin._key = self._pending, self._pending_at, self._key
        return twin

    def finish(self) -> tuple[Console, TrainLog]:
        """All that was seen; nothing may be fed afterwards (`fork` first, to go on)."""
        if self._pending:
            self._parser.feed(self._pending_at, _text(self._pending))
            self._pending = b""
        found = tuple(self._lamp.found)
        log = self._parser.finish(self.line, {line.kind for line in found})
        banner = next((line.text for line in found if line.kind == "banner"), "")
        return Console(found, _device(banner), banner, self.name), log


class _KnownLines:
    """Picks the lines of known kinds, and hands to the parser what it may want."""

    def __init__(self, parser: LogParser) -> None:
        self.parser = parser
        self.found: list[ConsoleLine] = []
        self.counts: dict[str, int] = {}
        self.gates = GATES
        self.memo: dict[bytes, tuple[tuple[str, ...], bool]] = {}
        self.frame = False

    def line(self, number: int, part: bytes) -> None:
        framed, self.frame = self.frame, b'", line ' in part and _FRAME.match(part) is not None
        if framed and part[:4] == b"    ":
            return  # a traceback quotes the source: the messages in it were not said
        low = part[:_MAX_LINE].lower()
        if b"\x1b" in low:
            low = _ANSI_BYTES.sub(b"", low)
        # Chatty logs say one sentence with ever new numbers: its words are looked for once.
        sentence = low.translate(None, _DIGITS)
        known = self.memo.get(sentence)
        if known is None:
            found = tuple(kind for word, kinds in self.gates if word in low for kind in kinds)
            known = (found, self.parser.knows(low))
            if len(self.memo) < _MAX_MEMO and len(sentence) < _MAX_TEXT:
                self.memo[sentence] = known
        kinds, wanted = known
        wanted = wanted or self.parser.wants(low)
        if not kinds and not wanted:
            return
        text = _text(part)
        if wanted:
            self.parser.feed(number, text)
        self.keep(number, text.strip(), kinds)

    def keep(self, number: int, text: str, kinds: tuple[str, ...]) -> None:
        for kind in dict.fromkeys(kinds) if text else ():
            if self.counts.get(kind, 0) < _MAX_PER_KIND and pattern(kind).search(text):
                self.counts[kind] = self.counts.get(kind, 0) + 1
                self.found.append(ConsoleLine(kind, number, text[:_MAX_TEXT]))
                if self.counts[kind] == _MAX_PER_KIND:
                    self.gates = _open_gates(self.counts)
                    self.memo.clear()


def _is_bar(part: bytes) -> bool:
    """True for a progress bar and nothing after it."""
    if b"%|" in part or b"it/s" in part or b"s/it" in part:
        tail = part[-40:].rstrip()
        return tail.endswith(b"]") or (b"\xe2\x94" in part and tail[-1:] in b"smh%0123456789")
    return False


def _open_gates(counts: dict[str, int]) -> tuple[tuple[bytes, tuple[str, ...]], ...]:
    """The words whose kinds are not yet full."""
    full = {kind for kind, count in counts.items() if count >= _MAX_PER_KIND}
    left = ((word, tuple(k for k in kinds if k not in full)) for word, kinds in GATES)
    return tuple((word, kinds) for word, kinds in left if kinds)


def _text(part: bytes) -> str:
    text = _ANSI.sub("", part[:_MAX_LINE].decode("utf-8", "replace").lstrip("\ufeff")).rstrip()
    return _STAMP.sub("", text, count=1) if text[:2] == "20" and "|" in text[:60] else text


def _device(banner: str) -> str:
    if "CUDA:" in banner:
        return "cuda"
    if re.search(r"\bMPS\b", banner):
        return "mps"
    return "cpu" if re.search(r"\bCPU\b", banner) else ""
