"""Small files of the kernel, opened once and read again at each look; and the lines that are written."""

from __future__ import annotations

import os
from _json import encode_basestring_ascii as _quoted  # json itself imports re: a fifth of this process's start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_BYTES = 65536
MAX_KEPT = 500
"""Files beyond these are opened each time: a process may have 1024 open by default."""


def read(path: str) -> bytes:
    """The start of a small file; empty where it can't be read."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(handle, MAX_BYTES)
    except OSError:  # the process ended between open and read
        return b""
    finally:
        os.close(handle)


class Kept:
    """Files that stay open. procfs and cgroupfs write their content anew at each read from the start."""

    def __init__(self) -> None:
        self._handles: dict[str, int] = {}

    def read(self, path: str) -> bytes:
        """The start of the file; empty where it can't be read. A process's files end with it, whatever its pid is."""
        handle = self._handles.get(path, -1)
        if handle < 0 and len(self._handles) >= MAX_KEPT:
            return read(path)
        try:
            if handle < 0:
                handle = self._handles[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(handle, MAX_BYTES, 0)
        except OSError:
            self.drop(path)
            return b""

    def drop(self, path: str) -> None:
        """Close one."""
        handle = self._handles.pop(path, -1)
        if handle >= 0:
            os.close(handle)

    def close(self) -> None:
        """Close all."""
        for path in list(self._handles):
            self.drop(path)


def line(record: dict[str, Any]) -> bytes:
    """One record as a line of JSON: finite numbers, strings, None, booleans, lists and objects of these."""
    return (_text(record) + "\n").encode("ascii")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return str(_quoted(value))
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(key)}:{_text(item)}" for key, item in value.items()) + "}"
    return "[" + ",".join(map(_text, value)) + "]"
