"""Read every image header and label file of a set once, on all cores; what did not change comes from the cache."""

import errno
import os
import time
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from typing import Any

from diag import codec
from diag.dataset.headers import Header, read_header
from diag.dataset.labels import Flaw, Rows, read_rows, unreadable
from diag.dataset.looks import Look, look
from diag.dataset.resolve import DataSpec, label_of
from diag.errors import InputError

LEVELS = ("header", "look", "deep")
"""`header` reads first and last bytes, `look` also decodes small (for near copies), `deep` decodes all pixels."""

CACHE_VERSION = 1
"""Raised when what is read from a file changes."""

CHUNK = 64

Entries = dict[str, list[Any]]
"""Cache: path -> stamp, what was read, and True if it is still wanted."""


@dataclass
class Item:
    """One image of a split and its label file."""

    image: Path
    real: Path
    """Where the image's bytes lie (see DataSpec.lost_links)."""
    split: str
    label: Path
    header: Header = field(default_factory=Header)
    look: Look = field(default_factory=Look)
    rows: Rows = field(default_factory=Rows)


def gather(
    spec: DataSpec,
    *,
    level: str = "header",
    cache: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Item]:
    """All items of a set in order of split and name. `cache` is a file that is read and renewed."""
    items = [
        Item(image, spec.real(image) if spec.lost_links else image, split, label_of(image))
        for split, images in spec.splits.items()
        for image in images
    ]
    known = _load(cache)
    fresh: Entries = {}
    labelled = spec.task != "classify"

    def work(chunk: list[Item]) -> None:
        for item in chunk:
            _read_image(item, level, known, fresh)
            if labelled:
                _read_label(item, known, fresh)

    chunks = [items[k : k + CHUNK] for k in range(0, len(items), CHUNK)]
    last, done = time.monotonic(), 0
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for chunk, _ in zip(chunks, pool.map(work, chunks), strict=True):
            done += len(chunk)
            if time.monotonic() - last > 0.5:
                last = time.monotonic()
                progress(f"{done}/{len(items)} images read ({done / len(items):.0%})")
    if cache is not None and fresh:
        _save(cache, {key: known[key] for key in known if key not in fresh and known[key][-1] is True} | fresh)
    return items


def stamp_of(path: Path) -> list[int]:
    """Changes with every change of the file's content: the kernel sets ctime, nobody can set it back.

    Raises OSError also for what is no file: a pipe would be waited for, and a device has no end.
    """
    stat = os.stat(path)  # noqa: PTH116 - three times as quick as Path.stat
    if not S_ISREG(stat.st_mode):
        raise OSError(errno.EINVAL, "no regular file")
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]


def _read_image(item: Item, level: str, known: Entries, fresh: Entries) -> None:
    key = f"i{os.fsencode(item.real).hex() if not item.real.name.isascii() else item.real}"
    try:
        stamp = stamp_of(item.real)
    except OSError as error:
        item.header = Header(
            error="missing" if isinstance(error, FileNotFoundError) else "unreadable", value=str(error.strerror)
        )
        return
    old = known.get(key)
    depth = LEVELS.index(level)
    if old is not None and old[0] == stamp:
        item.header = Header(*old[1])
        item.look = Look(*old[2])
        if old[3] >= depth:
            old[-1] = True
            return
    else:
        item.header = read_header(item.real)
    header = item.header
    if depth and header.error in {"", "truncated"}:
        item.look = look(item.real, header.width * header.height, deep=level == "deep")
    fresh[key] = [stamp, list(header), list(item.look), depth, True]


def _read_label(item: Item, known: Entries, fresh: Entries) -> None:
    label = item.label
    key = f"l{os.fsencode(label).hex() if not label.name.isascii() else label}"
    try:
        stamp = stamp_of(label)
    except FileNotFoundError:
        item.rows = Rows(state="missing")
        return
    except OSError as error:
        item.rows = unreadable(Rows(), "unreadable", f"not readable: {error.strerror or error}")
        return
    old = known.get(key)
    if old is not None and old[0] == stamp:
        item.rows = _unpack(old[1])
        old[-1] = True
        return
    rows = item.rows = read_rows(label)
    fresh[key] = [
        stamp,
        [rows.lines.tobytes(), rows.counts.tobytes(), rows.flat.tobytes(), [list(f) for f in rows.flaws], rows.state],
        True,
    ]


def _unpack(stored: Any) -> Rows:
    lines, counts, flat, flaws, state = stored
    return Rows(array("i", lines), array("i", counts), array("d", flat), [Flaw(*f) for f in flaws], state)


def _load(cache: Path | None) -> Entries:
    """What an earlier audit read; empty if there is none or it is of another version."""
    if cache is None:
        return {}
    try:
        version, known = codec.from_binary(cache.read_bytes())
    except (OSError, InputError, ValueError, TypeError):
        return {}
    if version != CACHE_VERSION or not isinstance(known, dict):
        return {}
    entries = {key: entry for key, entry in known.items() if isinstance(entry, list) and len(entry) in {3, 5}}
    for entry in entries.values():
        entry[-1] = False  # not asked for yet: what a deleted file left is not written again
    return entries


def _save(cache: Path, entries: Entries) -> None:
    """Write the cache; a full or read-only disk costs only the cache."""
    try:
        codec.write_bytes(cache, codec.to_binary([CACHE_VERSION, entries]))
    except (OSError, ValueError, TypeError):
        return
