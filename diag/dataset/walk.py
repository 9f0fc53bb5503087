"""Files below a folder: links to folders are followed once, hidden names are left out (as Ultralytics' glob does)."""

import os
from collections.abc import Iterator
from pathlib import Path

MAX_DEPTH = 40
"""Deeper folders are not entered; the kernel itself follows at most 40 links."""


def files_below(folder: Path) -> Iterator[str]:
    """Paths of all files below `folder`, relative to it. A loop of links ends where it closes."""
    seen: set[tuple[int, int]] = set()
    todo: list[tuple[str, int]] = [("", 0)]
    while todo:
        inside, depth = todo.pop()
        place = os.path.join(folder, inside) if inside else str(folder)  # noqa: PTH118 - a Path per file costs seconds
        try:
            stat = os.stat(place)  # noqa: PTH116
            if (stat.st_dev, stat.st_ino) in seen:
                continue
            seen.add((stat.st_dev, stat.st_ino))
            entries = list(os.scandir(place))
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = f"{inside}/{entry.name}" if inside else entry.name
            try:
                is_folder = entry.is_dir()
            except OSError:
                is_folder = False
            if not is_folder:
                yield path
            elif depth < MAX_DEPTH:
                todo.append((path, depth + 1))


def names_in(folder: Path) -> list[str]:
    """Names of the plain files directly in a folder; empty if it can't be listed."""
    try:
        with os.scandir(folder) as entries:
            return [e.name for e in entries if not e.name.startswith(".") and not e.is_dir()]
    except OSError:
        return []


def shown(text: str) -> str:
    """A name as text: bytes that are no UTF-8 become \\xNN, so that every output can hold it."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def is_utf8(text: str) -> bool:
    """False for a name whose bytes are no UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
