"""console.log -> the lines that say something known, and the training that it tells of. Streamed."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from diag.load.kinds import HINT, KINDS
from diag.load.read import UnreadableError
from diag.load.trainlog_lines import LogParser
from diag.model.evidence import Console, ConsoleLine
from diag.model.foreign import TrainLog

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_STAMP = re.compile(r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S*\s*\|?\s*(?:[A-Z]+\s*\|\s*\S+\s*\|\s*)?")
_BAR = re.compile(rb"\d%\||\xe2\x94[\x80-\xbf]{2}|\d+% \xe2|it/s[\], ]|s/it[\], ]")
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
            return _parse(_lines(file), name)
    except OSError as error:
        raise UnreadableError(error.strerror or type(error).__name__) from error


def parse_console(text: str, *, name: str = "console.log") -> Console:
    """Known lines of a log with ANSI codes and `\\r` progress bars. At most 20 lines of a kind are kept."""
    return parse_log(text, name=name)[0]


def parse_log(text: str, *, name: str = "console.log") -> tuple[Console, TrainLog]:
    """Known lines and training of a log."""
    return _parse(enumerate(text.encode("utf-8", "replace").split(b"\n"), 1), name)


def _lines(file: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    yield from enumerate(file, 1)


def _parse(lines: Iterable[tuple[int, bytes]], name: str) -> tuple[Console, TrainLog]:
    found: list[ConsoleLine] = []
    counts: dict[str, int] = {}
    parser = LogParser(name)
    is_bar, hint = _BAR.search, HINT.search
    pending, pending_at = b"", 0
    number = 0
    for number, raw in lines:
        for part in raw.split(b"\r") if b"\r" in raw else (raw,):
            if not part or part.isspace():
                continue
            if is_bar(part, 0, _MAX_LINE) and not hint(part):
                # A bar that is drawn again says nothing new: only the last one before another line counts.
                if pending and parser.is_other_bar(pending, part):
                    parser.feed(pending_at, _text(pending))
                pending, pending_at = part, number
                continue
            if pending:
                parser.feed(pending_at, _text(pending))
                pending = b""
            if not hint(part) and not parser.wants(part):
                continue
            line = _text(part)
            if not line.strip():
                continue
            parser.feed(number, line)
            stripped = line.strip()
            for kind, pattern in KINDS.items():
                if counts.get(kind, 0) < _MAX_PER_KIND and pattern.search(stripped):
                    counts[kind] = counts.get(kind, 0) + 1
                    found.append(ConsoleLine(kind, number, stripped[:_MAX_TEXT]))
    if pending:
        parser.feed(pending_at, _text(pending))
    log = parser.finish(number, {line.kind for line in found})
    banner = next((line.text for line in found if line.kind == "banner"), "")
    return Console(tuple(found), _device(banner), banner, name), log


def _text(part: bytes) -> str:
    text = _ANSI.sub("", part[:_MAX_LINE].decode("utf-8", "replace").lstrip("\ufeff")).rstrip()
    return _STAMP.sub("", text, count=1) if text[:2] == "20" and "|" in text[:60] else text


def _device(banner: str) -> str:
    if "CUDA:" in banner:
        return "cuda"
    if re.search(r"\bMPS\b", banner):
        return "mps"
    return "cpu" if re.search(r"\bCPU\b", banner) else ""
