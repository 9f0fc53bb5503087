"""Reading untrusted files: bounded in size, tolerant of encodings, never surprised."""

import math
from pathlib import Path

MAX_BYTES = 64 * 1024 * 1024
MAX_TRACE_BYTES = 1024 * 1024 * 1024


class UnreadableError(Exception):
    """This file can't be used; the message is the reason for people."""


def read_bytes(path: Path, *, limit: int = MAX_BYTES) -> bytes:
    """The content of a regular file, or Unreadable with the reason."""
    try:
        if not path.is_file():
            raise UnreadableError("not a regular file")
        size = path.stat().st_size
        if size > limit:
            raise UnreadableError(f"larger than {limit >> 20} MiB")
        data = path.read_bytes()
    except OSError as error:
        raise UnreadableError(error.strerror or type(error).__name__) from error
    if not data.strip():
        raise UnreadableError("empty")
    return data


def read_text(path: Path, *, limit: int = MAX_BYTES) -> str:
    """The text of a file: UTF-8 with or without BOM, UTF-16 with BOM, else bytes kept as they are."""
    data = read_bytes(path, limit=limit)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    if b"\0" in data[:65536]:
        raise UnreadableError("binary, not text")
    return data.decode("utf-8-sig", errors="replace")


def bounded(value: float) -> float:
    """The number, or inf where it is beyond 1e100: no figure of a training is, and its square would be no number."""
    return value if not abs(value) > 1e100 else math.copysign(math.inf, value)
