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

MAX_WHOLE = 4 * 1024 * 1024
"""A larger text is no paste: it is read as it is, without its prefixes (`diag.load.console`)."""
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
    for path in files:
        with contextlib.suppress(OSError, RecursionError):
            if (found := _looked_at(path, path.relative_to(base).as_posix(), seen)) is not None:
                made[path] = found
    doubled = _merge(files, made, base)
    pictures = (f"{p.relative_to(base).as_posix()}: a picture; copy the text instead" for p in pictures_of(source))
    skipped = (*(line for parts in made.values() for part in parts for line in part.lost), *doubled, *pictures)
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
    if is_notebook(path) or path.stat().st_size > MAX_WHOLE:
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
    return path.read_bytes().decode("utf-8-sig", "replace") if path.stat().st_size < MAX_WHOLE else ""


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
