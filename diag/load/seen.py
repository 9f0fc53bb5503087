"""What earlier looks at the same files found, so that a look reads again only what changed."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from diag.load.staging import MAX_FILES, Made
from diag.model.evidence import Evidence

MAX_KEPT = 16 * 1024 * 1024
"""Characters of restored texts that are kept between two looks; of more, the rest is restored anew."""

Stamp = tuple[int, int, int]


def stamp(path: Path) -> Stamp:
    """Inode, size and time of the last change (ns). Raises OSError when there is no such file."""
    stat = path.stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def stamps(source: Path) -> tuple[tuple[str, Stamp], ...] | None:
    """The stamps of all files below a folder, or of a file and the args.yaml beside it.

    None where that can't be said: standard input, a file that went away, more than MAX_FILES files.
    """
    found: list[tuple[str, Stamp]] = [(str(source), (0, 0, 0))]  # a folder in a folder holds the same files
    try:
        for path in _below(source) if source.is_dir() else (source, source.parent / "args.yaml"):
            if path == source or path.exists():
                found.append((str(path), stamp(path)))
            if len(found) > MAX_FILES:
                return None
    except OSError:
        return None
    return tuple(found)


def _below(folder: Path) -> Iterable[Path]:
    for place, inner, files in os.walk(folder):
        inner.sort()
        yield from (Path(place) / name for name in sorted(files))


@dataclass
class Seen:
    """Kept from look to look; a look that is the only one has none."""

    plain: set[Path] = field(default_factory=set)
    """Files that are plain, and large enough to stay it while they grow."""
    made: dict[Path, tuple[Stamp, list[Made] | None]] = field(default_factory=dict)
    """By file: its stamp and what was restored of it; None if it was plain."""
    whole: tuple[tuple[tuple[str, Stamp], ...], Evidence] | None = None
    """The stamps of everything at the last look that had to restore something, and what it read."""

    def known(self, path: Path) -> tuple[bool, list[Made] | None]:
        """Whether this file is as it was, and what was restored of it then."""
        before = self.made.get(path)
        return (True, before[1]) if before is not None and before[0] == stamp(path) else (False, None)

    def keep(self, path: Path, at: Stamp, made: list[Made] | None) -> None:
        """What a file was restored to, by the stamp that it had before it was read."""
        self.made.pop(path, None)
        kept = sum(len(part.text) for _, parts in self.made.values() for part in parts or ())
        if kept + sum(len(part.text) for part in made or ()) <= MAX_KEPT:
            self.made[path] = (at, made)
