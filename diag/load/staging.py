"""Which files of a folder may be texts, and how they are put elsewhere."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from diag.load.notebook import SUFFIX
from diag.load.sniff import is_screenshot

MAX_FILES = 2000
_MAX_DEPTH = 6
TABLES = {".csv", ".tsv"}
CAPTURES = {
    ".txt", ".json", ".md", ".ini", ".conf", ".cfg", "", ".lock", ".max", ".stat", ".current", ".events", ".high",
}  # fmt: skip
"""Suffixes of captures; the last ones are lists of packages and files of a control group."""
TEXTS = {
    ".log",
    ".out",
    ".err",
    ".txt",
    ".md",
    ".markdown",
    ".rst",
    ".json",
    ".jsonl",
    ".cast",
    ".html",
    ".htm",
    ".csv",
    ".tsv",
    ".yaml",
    ".yml",
    ".typescript",
    ".diff",
    ".patch",
    "",
}
"""Suffixes of texts, of pages, and of what holds texts."""


@dataclass(frozen=True)
class Made:
    """A plain file: where it goes, what it is called, and its text."""

    name: str
    shown: str
    text: str
    lost: tuple[str, ...] = ()
    """What of it had no place."""


def texts_of(source: Path) -> list[Path]:
    """Regular files that may be texts; label files are what they are."""
    if not source.is_dir():
        return [source]
    found: list[Path] = []

    def walk(folder: Path, depth: int) -> None:
        for path in sorted(folder.iterdir()):
            if path.is_symlink() or path.name.startswith(".") or len(found) >= MAX_FILES:
                continue
            if path.is_dir():
                if depth < _MAX_DEPTH and not path.name.lower().startswith(("label", "images", "weights", "trace")):
                    walk(path, depth + 1)
            elif path.is_file() and path.suffix.lower() in TEXTS:
                found.append(path)

    with contextlib.suppress(OSError):
        walk(source, 0)
    return found


def pictures_of(source: Path) -> list[Path]:
    """Screenshots: pictures that lie beside logs. The plots of a training and photos are none."""
    if not source.is_dir():
        return []
    with contextlib.suppress(OSError):
        return sorted(p for p in source.iterdir() if is_screenshot(p) and p.is_file())[:10]
    return []


def files_of(base: Path) -> Iterator[Path]:
    for folder, inner, files in os.walk(base):
        inner[:] = sorted(d for d in inner if not (Path(folder) / d).is_symlink())
        for name in sorted(files):
            path = Path(folder) / name
            if path.suffix.lower() in {*TEXTS, *CAPTURES, SUFFIX}:
                yield path


def put(path: Path, place: Path) -> None:
    if path.is_symlink():
        place.symlink_to(path.resolve())  # the loaders say what they do not follow
        return
    try:
        os.link(path, place)
    except OSError:
        shutil.copyfile(path, place)


def free(place: Path) -> Path:
    """A name that no other part has."""
    number = 2
    made = place
    while made.exists():
        made = place.with_name(f"{place.stem} ({number}){place.suffix}")
        number += 1
    return made
