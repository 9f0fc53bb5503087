"""What a wrapping is, and which files of a case it is for."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

Files = dict[str, bytes]
"""Name (with folders, `/` between) -> content."""
_TOLD = re.compile(r"Ultralytics|YOLO|Traceback|Epoch +\w|\bepochs?\b|Error:|%\||^\w+: ", re.M)


@dataclass(frozen=True)
class Wrapping:
    """`change` gives the files anew, or the same dictionary where it has nothing to do."""

    name: str
    change: Callable[[Files], Files]
    lossy: bool = False
    stdin: bool = False
    """The single file is given on standard input."""
    pack: str = ""
    """All files go into one archive of this kind (`zip`, `tar.gz`)."""


def suffix(name: str) -> str:
    """`.log` of `a/b.LOG`."""
    return PurePosixPath(name).suffix.lower()


def is_label(name: str) -> bool:
    """A label file is never pasted with a prefix."""
    return any(p.lower().startswith("label") for p in PurePosixPath(name).parts[:-1])


def is_log(name: str, data: bytes) -> bool:
    """A console log: by its suffix, or a text in which a training speaks."""
    if suffix(name) in {".log", ".out", ".err"}:
        return True
    stem = PurePosixPath(name).stem.lower()
    return is_text(name, data) and not re.match(r"args|hyp|opt|cmd|command", stem) and _speaks(data)


def _speaks(data: bytes) -> bool:
    return _TOLD.search(data.decode("utf-8", "replace")) is not None


def is_text(name: str, data: bytes) -> bool:
    """Any captured text or log, but no results.txt and no label file."""
    return (
        suffix(name) in {".log", ".out", ".err", ".txt", ".md"}
        and not is_label(name)
        and not PurePosixPath(name).name.startswith("results")
        and bool(data.strip())
    )


def is_table(name: str, data: bytes) -> bool:
    """A CSV."""
    return suffix(name) in {".csv", ".tsv"} and bool(data.strip())


def is_results(name: str, data: bytes) -> bool:
    """A results.csv: losses and metrics by epoch."""
    head = data.split(b"\n", 1)[0]
    return is_table(name, data) and (b"train/" in head or b"metrics/" in head)


def is_yaml(name: str, data: bytes) -> bool:
    """Arguments or a data set."""
    return suffix(name) in {".yaml", ".yml"} and bool(data.strip())


def each(kind: Callable[[str, bytes], bool], how: Callable[[bytes], bytes]) -> Callable[[Files], Files]:
    """A change of every file of a kind."""
    return lambda files: {n: how(d) if kind(n, d) else d for n, d in files.items()}


def each_text(kind: Callable[[str, bytes], bool], how: Callable[[str], str]) -> Callable[[Files], Files]:
    """A change of every file of a kind, on its text."""
    return each(kind, lambda d: how(d.decode("utf-8", "replace")).encode())


def each_line(kind: Callable[[str, bytes], bool], how: Callable[[int, str], str]) -> Callable[[Files], Files]:
    """A change of every line (numbered from 0) of every file of a kind."""

    def change(text: str) -> str:
        lines = text.split("\n")
        end = lines.pop() if lines and not lines[-1] else None
        done = [how(i, line.removesuffix("\r")) for i, line in enumerate(lines)]
        return "\n".join(done) + ("\n" if end is not None else "")

    return each_text(kind, change)


def write(files: Files, folder: Path) -> None:
    """Put the files there."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
