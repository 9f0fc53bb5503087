"""Which files of a run go into a bundle, and how much of each."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TEXTS = frozenset({
    ".csv", ".tsv", ".yaml", ".yml", ".log", ".out", ".err", ".txt", ".json", ".jsonl", ".md", ".ini", ".cfg", "",
})  # fmt: skip
"""What `diag analyze` can read; weights, images and TensorBoard events are not of it."""
_CUTTABLE = {".log", ".out", ".err", ".txt", ".jsonl", ".csv", ".tsv", ".md", ""}
_MARKED = {".log", ".out", ".err"}
_SKIPPED_FOLDERS = {"weights", "tensorboard", ".git", "__pycache__", "machine"}
MAX_FILES = 2000
_MAX_DEPTH = 5


@dataclass(frozen=True)
class Taken:
    """A file for the bundle: its text, and how many bytes in the middle were left out."""

    name: str
    text: str
    left_out: int = 0


@dataclass(frozen=True)
class Absent:
    """Something that is not in the bundle, and why."""

    name: str
    reason: str


def run_files(base: Path) -> Iterator[tuple[str, Path] | Absent]:
    """The readable files below `base` by their name in it; links are not followed."""
    if base.is_file():
        yield base.name, base
        if base.suffix == ".csv" and (args := base.parent / "args.yaml").is_file():
            yield args.name, args
        return
    count = 0
    for folder, folders, names in os.walk(base):
        here = Path(folder)
        deep = len(here.relative_to(base).parts) >= _MAX_DEPTH
        folders[:] = sorted(
            f for f in folders if f not in _SKIPPED_FOLDERS and not (here / f).is_symlink() and not deep
        )
        for name in sorted(names):
            path = here / name
            shown = path.relative_to(base).as_posix()
            if name.startswith(".") or path.suffix.lower() not in TEXTS or name == "MANIFEST.json":
                continue
            if path.is_symlink() or not path.is_file():
                yield Absent(shown, "no regular file")
                continue
            count += 1
            if count > MAX_FILES:
                yield Absent(shown, f"and all after it: more than {MAX_FILES} files")
                return
            yield shown, path


def take(name: str, path: Path, *, limit: int) -> Taken | Absent:
    """The text of a file; of one above `limit` bytes the head and the tail, cut at lines."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            begin = file.read(65536)
            if begin.startswith((b"\xff\xfe", b"\xfe\xff")) and size <= limit:  # PowerShell's `>`
                file.seek(0)
                return Taken(name, file.read(limit).decode("utf-16", errors="replace"))
            if b"\0" in begin:
                return Absent(name, "binary, not text")
            file.seek(0)
            if size <= limit:
                return Taken(name, file.read(limit).decode("utf-8", errors="replace"))
            if path.suffix.lower() not in _CUTTABLE:
                return Absent(name, f"{size} bytes; the limit is {limit} and a part would not be readable")
            head = file.read(limit // 2)
            file.seek(size - limit // 2)
            tail = file.read(limit // 2)
    except OSError as error:
        return Absent(name, error.strerror or str(error))
    head = head[: head.rfind(b"\n") + 1] or head
    tail = tail[tail.find(b"\n") + 1 :]
    left_out = size - len(head) - len(tail)
    mark = f"[diag collect: {left_out} bytes left out here]\n".encode() if path.suffix.lower() in _MARKED else b""
    return Taken(name, (head + mark + tail).decode("utf-8", errors="replace"), left_out)
