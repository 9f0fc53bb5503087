"""What the user pointed at, as a file or folder: archives and standard input are unpacked first, within limits."""

import contextlib
import shutil
import stat
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from diag.errors import InputError
from diag.load.notebook import SUFFIX, looks_like_notebook

MAX_UNPACKED = 1024 * 1024 * 1024
MAX_MEMBERS = 20_000
_CHUNK = 1 << 20
_WANTED = {
    ".csv",
    ".tsv",
    ".yaml",
    ".yml",
    ".log",
    ".out",
    ".err",
    ".txt",
    ".json",
    ".jsonl",
    ".md",
    ".ipynb",
    ".ini",
    ".cfg",
    "",
}
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """The file or folder to read, and what of an archive was left out. Raises InputError for a broken archive."""
    if str(path) != "-" and (path.is_dir() or not _is_archive(path)):
        yield path, ()
        return
    with tempfile.TemporaryDirectory(prefix="diag-") as folder:
        base = Path(folder)
        skipped: list[str] = []
        source = path
        if str(path) == "-":
            source = base / "stdin.log"
            _spool(sys.stdin.buffer, source)
        if not _is_archive(source):
            yield _named(source), ()
            return
        out = base / "out"
        out.mkdir()
        try:
            if zipfile.is_zipfile(source):
                _unzip(source, out, skipped)
            else:
                _untar(source, out, skipped)
        except (zipfile.BadZipFile, tarfile.TarError, EOFError, NotImplementedError, RuntimeError, OSError) as error:
            raise InputError(f"{path}: a broken or encrypted archive: {error}") from error
        except Exception as error:  # zlib and lzma raise errors of their own for broken data
            raise InputError(f"{path}: a broken archive: {error}") from error
        yield _root(out), tuple(skipped)


def _is_archive(path: Path) -> bool:
    if not path.is_file():
        return False
    if path.suffix.lower() in {".pt", ".pth", ".npz"}:
        return False  # a zip to the eye, but a checkpoint
    with path.open("rb") as file:
        head = file.read(4)
    packed = head in {b"PK\x03\x04", b"PK\x05\x06"} or head[:2] == b"\x1f\x8b" or head[:3] in {b"BZh", b"\xfd7z"}
    return packed or path.name.lower().endswith(_TARS)


def _named(path: Path) -> Path:
    """Standard input as a file whose suffix says what is in it."""
    with path.open("rb") as file:
        head = file.read(4096)
    first = head.splitlines()[0] if head.strip() else b""
    wide = max(map(first.count, (b",", b";", b"\t"))) >= 2
    csv = wide and any(w in head for w in (b"train/", b"metrics/", b"t_s", b"wall_s"))
    jsonl = first.startswith(b'{"k"')
    book = looks_like_notebook(head)
    return path.rename(path.with_name(f"stdin{'.csv' if csv else '.jsonl' if jsonl else SUFFIX if book else '.log'}"))


def _spool(source: IO[bytes], target: Path) -> None:
    left = MAX_UNPACKED
    with target.open("wb") as file:
        while left > 0 and (chunk := source.read(min(_CHUNK, left))):
            left -= file.write(chunk)
    if left <= 0:
        raise InputError(f"-: more than {MAX_UNPACKED >> 20} MiB on standard input")
    if not target.stat().st_size:
        raise InputError("-: nothing on standard input")


def _target(name: str, out: Path, skipped: list[str]) -> Path | None:
    """Where a member may be written: inside `out`, never by an absolute path or `..`; None if it is left out."""
    parts = [p for p in PurePosixPath(name.replace("\\", "/")).parts if p not in {"/", "."}]
    if not parts or ".." in parts or any(":" in p or "\0" in p for p in parts) or name.startswith(("/", "\\")):
        skipped.append(f"{name[:100]!r}: a path that leaves the archive")
        return None
    if len(parts) > 30 or any(len(p.encode()) > 200 for p in parts):
        skipped.append(f"{name[:100]!r}: too long a path")
        return None
    if PurePosixPath(parts[-1]).suffix.lower() not in _WANTED:
        return None  # images and weights tell nothing here
    target = out.joinpath(*parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    return None if target.exists() else target


def _copy(source: IO[bytes], target: Path, left: int) -> int:
    with target.open("wb") as file:
        while chunk := source.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                raise InputError(f"the archive holds more than {MAX_UNPACKED >> 20} MiB")
            file.write(chunk)
    return left


def _unzip(path: Path, out: Path, skipped: list[str]) -> None:
    left = MAX_UNPACKED
    with zipfile.ZipFile(path) as archive:
        for member in _few(archive.infolist(), skipped):
            link = stat.S_ISLNK(member.external_attr >> 16)
            if member.is_dir() or link:
                continue
            if target := _target(member.filename, out, skipped):
                with archive.open(member) as source:
                    left = _copy(source, target, left)


def _untar(path: Path, out: Path, skipped: list[str]) -> None:
    left = MAX_UNPACKED
    with tarfile.open(path) as archive:
        for number, member in enumerate(archive):
            if number >= MAX_MEMBERS:
                skipped.append(f"more than {MAX_MEMBERS} members; the rest is left out")
                break
            if member.isreg() and (target := _target(member.name, out, skipped)):
                source = archive.extractfile(member)
                if source is not None:
                    left = _copy(source, target, left)


def _few(members: list[zipfile.ZipInfo], skipped: list[str]) -> list[zipfile.ZipInfo]:
    if len(members) > MAX_MEMBERS:
        skipped.append(f"more than {MAX_MEMBERS} members; the rest is left out")
    return members[:MAX_MEMBERS]


def _root(folder: Path) -> Path:
    """The folder in the archive that holds the files.

    A single top folder is stepped into, unless it is a run of many.
    """
    shutil.rmtree(folder / "__MACOSX", ignore_errors=True)
    while True:
        inner = list(folder.iterdir())
        if len(inner) != 1 or not inner[0].is_dir() or inner[0].name in {"labels", "trace"}:
            return folder
        folder = inner[0]
