"""What the user pointed at, as a file or folder: archives and standard input are unpacked first, within limits."""

import bz2
import contextlib
import gzip
import lzma
import shutil
import stat
import struct
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, cast

from diag.errors import InputError
from diag.load.notebook import SUFFIX, looks_like_notebook
from diag.load.sniff import is_screenshot, kind_of
from diag.load.staging import CAPTURES

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
    ".cast",
    ".html",
    ".htm",
    ".markdown",
    ".rst",
    ".typescript",
    ".diff",
    ".patch",
    *CAPTURES,
}
_PACKED = {".zip", ".gz", ".tgz", ".tar", ".bz2", ".tbz2", ".xz", ".txz"}
_FOREIGN = {".rar", ".7z", ".zst"}
_MAX_INNER = 64 * 1024 * 1024
_MAX_ARCHIVES = 20
_MAX_LAYERS = 3
"""An archive in an archive in an archive is opened; what is packed more often is named and left out."""
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")


@dataclass
class _Budget:
    """Bytes that may still be unpacked, of all archives together, and what was left out."""

    left: int = field(default_factory=lambda: MAX_UNPACKED)
    members: int = field(default_factory=lambda: MAX_MEMBERS)
    skipped: list[str] = field(default_factory=list)


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """The file or folder to read, and what of an archive was left out. Raises InputError for a broken archive.

    Archives within the archive are opened, too, and those in a folder that holds nothing else to read. Of a folder that
    holds but one folder, that one is read.
    """
    if str(path) != "-" and path.is_dir():
        archives, others = _archives(path)
        if others or not archives:
            yield _root(path), tuple(f"{p.name}: an archive; give it by itself, or unpack it" for p in archives)
            return
    elif str(path) != "-" and not _is_archive(path):
        yield path, ()
        return
    else:
        archives = []
    with tempfile.TemporaryDirectory(prefix="diag-") as folder:
        base = Path(folder)
        budget = _Budget()
        source = path
        if str(path) == "-":
            source = base / "stdin.log"
            _spool(sys.stdin.buffer, source)
        if not archives and not _is_archive(source):
            yield _named(source), ()
            return
        out = base / "out"
        out.mkdir()
        for archive in archives:
            shutil.copyfile(archive, out / archive.name)
        if not archives:
            try:
                _unpack(source, out, budget)
            except _BROKEN as error:
                raise InputError(f"{path}: a broken or encrypted archive: {error}") from error
        _unpack_within(out, budget, 1)
        yield _root(out), tuple(budget.skipped)


_BROKEN = (
    zipfile.BadZipFile, tarfile.TarError, EOFError, NotImplementedError, RuntimeError, OSError, ValueError,
    zlib.error, lzma.LZMAError, struct.error, IndexError, OverflowError,
)  # fmt: skip


def _archives(folder: Path) -> tuple[list[Path], bool]:
    """Archives that lie in a folder, and whether it holds anything else to read."""
    packed = _PACKED | _FOREIGN
    found = sorted(p for p in folder.iterdir() if p.suffix.lower() in packed and p.is_file() and not p.is_symlink())
    if not found:
        return [], True
    for number, path in enumerate(folder.rglob("*")):
        known = path.suffix.lower() in _WANTED and path.name.lower() not in _BESIDE
        if number > MAX_MEMBERS or (known and path.is_file()):
            return found[:_MAX_ARCHIVES], True
    small = [p for p in found if p.suffix.lower() in _PACKED and p.stat().st_size <= _MAX_INNER]
    return small[:_MAX_ARCHIVES], not small


_BESIDE = {"readme.md", "license", ".gitignore", ".ds_store"}


def _unpack(source: Path, out: Path, budget: _Budget) -> None:
    """One archive, or one compressed file, into a folder. Raises one of `_BROKEN`, or InputError beyond the limits."""
    if zipfile.is_zipfile(source):
        _unzip(source, out, budget)
        return
    try:
        _untar(source, out, budget)
    except tarfile.ReadError:
        if not _decompress(source, out, budget):
            raise


def _decompress(source: Path, out: Path, budget: _Budget) -> bool:
    """`console.log.gz`: a file that is compressed by itself. False if it is none."""
    opened = {".gz": gzip.GzipFile, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile}.get(source.suffix.lower())
    if opened is None:
        return False
    if target := _target(source.stem, out, budget.skipped):
        with cast("IO[bytes]", opened(source)) as file:
            budget.left = _copy(file, target, budget.left)
    return True


def _unpack_within(folder: Path, budget: _Budget, layer: int) -> None:
    """Open the archives that lie in an unpacked folder, each in a folder of its name."""
    packed = [p for p in sorted(folder.rglob("*")) if p.suffix.lower() in _PACKED and p.is_file()]
    for number, path in enumerate(packed):
        if layer > _MAX_LAYERS or number >= _MAX_ARCHIVES or not _is_archive(path):
            budget.skipped.append(f"{path.name}: an archive packed too deep, or one of too many")
            path.unlink()
            continue
        inner = path.with_name(f"{path.name}.d")
        inner.mkdir()
        try:
            _unpack(path, inner, budget)
        except _BROKEN as error:
            budget.skipped.append(f"{path.name}: a broken or encrypted archive: {str(error)[:100]}")
        path.unlink()
        _unpack_within(inner, budget, layer + 1)
        name = path.name.lower()
        stem = path.name[: -len(next((t for t in _TARS if name.endswith(t)), path.suffix))] or "archive"
        if not path.with_name(stem).exists():
            inner.rename(path.with_name(stem))


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
    text = (head.rpartition(b"\n")[0] or head).decode("utf-8", "replace")
    csv, jsonl, book = kind_of(text) in {"results", "table"}, head.startswith(b'{"k"'), looks_like_notebook(head)
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
    suffix = PurePosixPath(parts[-1]).suffix.lower()
    if suffix in _FOREIGN or _picture(parts):
        skipped.append(f"{name[:100]}: a picture or an archive of a kind that is not read")
    if suffix not in _WANTED | _PACKED:
        return None  # images and weights tell nothing here
    target = out.joinpath(*parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    return None if target.exists() else target


def _picture(parts: list[str]) -> bool:
    """A screenshot at the top of an archive; the plots of a training and photos in folders are none."""
    return len(parts) <= 2 and is_screenshot(PurePosixPath(*parts))


def _copy(source: IO[bytes], target: Path, left: int) -> int:
    with target.open("wb") as file:
        while chunk := source.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                raise InputError(f"the archive holds more than {MAX_UNPACKED >> 20} MiB")
            file.write(chunk)
    return left


def _unzip(path: Path, out: Path, budget: _Budget) -> None:
    with zipfile.ZipFile(path) as archive:
        for member in _few(archive.infolist(), budget):
            link = stat.S_ISLNK(member.external_attr >> 16)
            if member.filename.endswith("/") or link:  # `is_dir` fails at a member without a name
                continue
            if target := _target(member.filename, out, budget.skipped):
                with archive.open(member) as source:
                    budget.left = _copy(source, target, budget.left)


def _untar(path: Path, out: Path, budget: _Budget) -> None:
    with tarfile.open(path) as archive:
        for member in archive:
            if budget.members <= 0:
                budget.skipped.append(f"more than {MAX_MEMBERS} members; the rest is left out")
                break
            budget.members -= 1
            if member.isreg() and (target := _target(member.name, out, budget.skipped)):
                source = archive.extractfile(member)
                if source is not None:
                    budget.left = _copy(source, target, budget.left)


def _few(members: list[zipfile.ZipInfo], budget: _Budget) -> list[zipfile.ZipInfo]:
    few = members[: max(0, budget.members)]
    budget.members -= len(few)
    if len(few) < len(members):
        budget.skipped.append(f"more than {MAX_MEMBERS} members; the rest is left out")
    return few


def _root(folder: Path) -> Path:
    """The folder that holds the files: a single folder in a folder is stepped into, unless it is one of labels."""
    while True:
        inner = [p for p in folder.iterdir() if p.name != "__MACOSX" and not p.name.startswith(".")]
        single = len(inner) == 1 and inner[0].is_dir() and not inner[0].is_symlink()
        if not single or inner[0].name.lower() in {"labels", "trace", "images", "weights"}:
            return folder
        folder = inner[0]
