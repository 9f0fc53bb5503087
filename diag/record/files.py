"""Checkpoint files that a crash, a kill or a full disk never leaves half written, and their predecessors."""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PosixPath
from typing import Any

LAST, STATE = "last.pt", "resume_state.pt"
PREVIOUS = {LAST: "last.prev.pt", STATE: "resume_state.prev.pt"}
"""The generation before, kept until the run is finished."""

_written: list[tuple[int, int]] = []


def take_written() -> tuple[int, int]:
    """Nanoseconds and bytes of all that went to the disk since the last call, apart from gathering and packing it."""
    taken = [sum(column) for column in zip((0, 0), *_written, strict=True)]
    _written.clear()
    return taken[0], taken[1]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a part file beside `path`; at the end it is on the disk and takes the name, or, after an error, is gone."""
    part = write_part(path)
    try:
        yield part
        sync(part)
        part.replace(path)
        sync(path.parent)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_part(path: Path, data: bytes = b"") -> Path:
    """A new file beside `path` that holds `data`, on the disk when this returns. After an error it is gone."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    part = Path(name)
    start = time.monotonic_ns()
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.chmod(0o644)
        _written.append((time.monotonic_ns() - start, len(data)))
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return part


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk. A file system that can't is left alone."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def keep_previous(path: Path) -> None:
    """Give `path` its second name (`PREVIOUS`) without a moment in which neither name is there."""
    if not path.exists():
        return
    second = path.with_name(PREVIOUS[path.name])
    part = path.with_name(f".{second.name}.part")
    part.unlink(missing_ok=True)
    try:
        os.link(path, part)
    except OSError:  # a file system without hard links
        shutil.copyfile(path, part)
        sync(part)
    part.replace(second)


def remove_parts(folder: Path) -> None:
    """Remove what a killed process had not finished."""
    for part in folder.glob(".*.part"):
        with suppress(OSError):
            part.unlink()


def sha256(path: Path) -> str:
    """The checksum of a file; empty when it can't be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


class AtomicPath(PosixPath):
    """A path whose `write_bytes`, with which Ultralytics saves its checkpoints, is all or nothing.

    `/` keeps the kind, so epoch3.pt below an AtomicPath is safe, too.
    """

    def write_bytes(self, data: Any) -> int:
        """Write, sync, rename."""
        path = Path(self)
        write_part(path, data).replace(path)
        sync(path.parent)
        return len(data)


class LastPath(AtomicPath):
    """last.pt: the one before is kept, and `companion` may put a file that belongs to exactly these bytes beside it."""

    companion: Callable[[str], Path | None] | None = None
    """Called with the checksum of the new checkpoint; returns a part file for `STATE`."""

    def write_bytes(self, data: Any) -> int:
        """Both parts are on the disk before the first rename; a checksum tells which generations belong together."""
        last = Path(self)
        part = write_part(last, data)
        state = last.with_name(STATE)
        companion: Path | None = None
        try:
            companion = self.companion(hashlib.sha256(data).hexdigest()) if self.companion else None
            keep_previous(last)
            keep_previous(state)
            if companion:
                companion.replace(state)
            part.replace(last)
            sync(last.parent)
        except BaseException:
            for leftover in (part, companion):
                if leftover:
                    leftover.unlink(missing_ok=True)
            raise
        return len(data)
