"""What was pasted, copied, exported or renamed, as the files it was.

Every file is looked at once. Where nothing is wrapped, the folder is read in its place and nothing is copied; else the
files are written plain into a folder of their own, and evidence names them as the user knows them.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from diag.load.dialect import canonical
from diag.load.notebook import is_notebook
from diag.load.seen import Seen, stamp
from diag.load.sniff import kind_of
from diag.load.staging import TABLES, Made, files_of, free, pictures_of, put, texts_of

MAX_LOG = 4 * 1024 * 1024
"""A larger text is looked at as a whole only if its first lines are those of a document; else it is a log, which is
read as it is, without its prefixes (`diag.load.console`)."""
MAX_WHOLE = 16 * 1024 * 1024
"""A larger document is read as one text. Restoring takes 0.1 s (logs) to 0.7 s (blank lines) and 20 MiB of memory for
each MiB, since every step sees the whole text: a heading decides what the text below it is."""
MAX_DOCUMENTS = 2 * MAX_WHOLE
"""Bytes of documents above MAX_LOG that are restored in one folder; their texts are in memory together."""
_HEAD = 64 * 1024
_SURE = 16 * 1024
"""Bytes of a growing file after which it stays what it is."""
_OURS = ("run.json", "trace", "MANIFEST.json")


@dataclass
class Restored:
    """The file or folder to read, what its files are called, and what of it could not be read."""

    path: Path
    names: dict[Path, str] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether something was written anew."""
        return bool(self.names)


@contextlib.contextmanager
def restored(source: Path, seen: Seen | None = None) -> Iterator[Restored]:
    """The files of a folder (or the one file) in a form that the loaders know.

    `seen` is what earlier looks found: what is as it was is not looked at again. It is brought up to date.
    """
    if source.is_dir() and any((source / name).exists() for name in _OURS):
        yield Restored(source)
        return
    base = source if source.is_dir() else source.parent
    files = [p for p in texts_of(source) if seen is None or p not in seen.plain]
    made: dict[Path, list[Made]] = {}
    left, too_large = MAX_DOCUMENTS, []
    for path in files:
        with contextlib.suppress(OSError, RecursionError):
            if (size := path.stat().st_size) > MAX_LOG and not is_notebook(path):
                if not _is_document(path):
                    continue
                if size > min(MAX_WHOLE, left):
                    too_large.append(_said(path.relative_to(base).as_posix(), size))
                    continue
                left -= size
            if (found := _looked_at(path, path.relative_to(base).as_posix(), seen)) is not None:
                made[path] = found
    doubled = _merge(files, made, base)
    pictures = (f"{p.relative_to(base).as_posix()}: a picture; copy the text instead" for p in pictures_of(source))
    skipped = (
        *(line for parts in made.values() for part in parts for line in part.lost),
        *doubled,
        *too_large,
        *pictures,
    )
    if not made:
        yield Restored(source, skipped=skipped)
        return
    with tempfile.TemporaryDirectory(prefix="diag-") as folder:
        target = Path(folder).resolve() / "in"
        target.mkdir()
        names = _stage(source, base, target, made)
        yield Restored(_root(source, base, target, made), names, skipped)


def _root(source: Path, base: Path, target: Path, made: dict[Path, list[Made]]) -> Path:
    """The folder; of a single file that stayed one file, that file."""
    if source != base and len(made.get(source, ())) == 1:
        return target / made[source][0].name
    return target


def _is_document(path: Path) -> bool:
    """Whether the first lines of a large text are wrapped in more than the prefix of a log."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    from diag.load.unwrap import is_wrapped

    return is_wrapped(path, head[: head.rfind(b"\n") + 1])


def _said(shown: str, size: int) -> str:
    return f"{shown}: a document of {size >> 20} MiB is read as one text; give the files in it one by one"


def _looked_at(path: Path, shown: str, seen: Seen | None) -> list[Made] | None:
    """`_restore`, or what it made of the same file before."""
    if seen is None:
        return _restore(path, shown)
    same, made = seen.known(path)
    if same:
        return made
    before = stamp(path)
    made = _restore(path, shown)
    seen.keep(path, before, made)
    if made is None and before[1] >= _SURE:
        seen.plain.add(path)
    return made


def _restore(path: Path, shown: str) -> list[Made] | None:
    """The plain files of a file; None when it is plain already."""
    if is_notebook(path):
        return None
    data = path.read_bytes()
    if path.suffix.lower() in TABLES and _as_written(data):
        return None
    from diag.load.unwrap import unwrap

    return unwrap(path, data, shown)


def _as_written(data: bytes) -> bool:
    """A results.csv as a trainer writes it, which is the most frequent file of all."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    plain = not text.startswith("\ufeff") and "\0" not in text[:4096]
    return plain and kind_of(text) == "results" and canonical(text) is None


def _merge(files: list[Path], made: dict[Path, list[Made]], base: Path) -> list[str]:
    """Charts that were exported one by one become one results.csv of their folder; what of them had no place."""
    folders: dict[Path, dict[Path, str]] = {}
    left_out: list[str] = []
    for path in files:
        now = made.get(path)
        if len(now) == 1 and now[0].name.endswith(".csv") if now is not None else path.suffix.lower() in TABLES:
            folders.setdefault(path.parent, {})[path] = now[0].text if now else _small(path)
    for folder, texts in folders.items():
        if any(kind_of(t) == "results" and _has_epochs(t) for t in texts.values()):
            continue
        from diag.load.exports import merged
        from diag.load.unwrap import doubled

        if (result := merged({p.name: t for p, t in texts.items()})) is None:
            continue
        shown = (folder.relative_to(base) / "results.csv").as_posix()
        first = True
        for path in [p for p in texts if p.name in result.used]:
            one = path.relative_to(base).as_posix() if len(result.used) == 1 else shown
            made[path] = [Made(shown, one, result.text)] if first else []
            left_out += doubled(one, result.doubled if first else 0)
            first = False
    return left_out


def _small(path: Path) -> str:
    """The text of a plain file; nothing of a large one."""
    return path.read_bytes().decode("utf-8-sig", "replace") if path.stat().st_size < MAX_LOG else ""


def _has_epochs(text: str) -> bool:
    head = text.split("\n", 1)[0].split(",")
    return any(c.strip().strip('"') == "epoch" for c in head)


def _stage(source: Path, base: Path, target: Path, made: dict[Path, list[Made]]) -> dict[Path, str]:
    """Write all files of the source, plain ones as they are, and say what they are called."""
    names: dict[Path, str] = {}
    rest = [source] if source != base else list(files_of(base))
    for path in rest:
        if path not in made:
            place = target / path.relative_to(base)
            place.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):
                put(path, place)
    if source != base and (args := base / "args.yaml").is_file():
        with contextlib.suppress(OSError):
            put(args, target / "args.yaml")
    for parts in made.values():
        for part in parts:
            place = free(target / part.name)
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("w", encoding="utf-8", errors="replace", newline="") as out:
                out.write(part.text)
            names[place] = part.shown
    return names
