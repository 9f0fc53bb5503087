"""What was pasted, copied, exported or renamed, as the files it was.

Every file is looked at once. Where nothing is wrapped, the folder is read in its place and nothing is copied; else the
files are written plain into a folder of their own, and evidence names them as the user knows them.
"""

import contextlib
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from diag.load.dialect import canonical
from diag.load.exports import merged, records
from diag.load.notebook import SUFFIX, is_notebook, looks_like_notebook
from diag.load.parts import Part, headed, split
from diag.load.plain import decode, plain
from diag.load.prefix import sniff, strip_all
from diag.load.sniff import Kind, kind_of
from diag.load.staging import files_of, free, pictures_of, put, texts_of

MAX_WHOLE = 4 * 1024 * 1024
"""A larger text is no paste: it is read as it is, without its prefixes (`diag.load.console`)."""
_SURE = 16 * 1024
"""Bytes of a growing file after which it stays what it is."""
_SNIFFED = 65536
_ROUNDS = 3
_LOGS = {".log", ".out", ".err"}
_TABLES = {".csv", ".tsv"}
_YAMLS = {".yaml", ".yml"}
_PLAIN = {".log", ".out", ".err", ".txt", ".md", ".json", ".jsonl", "", *_TABLES, *_YAMLS}
_OURS = ("run.json", "trace", "MANIFEST.json")
_ARGUMENTS = {"args": "args.yaml", "opt": "opt.yaml", "hyp": "hyp.yaml"}
_KNOWN_ARGS = {"args.yaml", "opt.yaml", "hyp.yaml", "hyp.txt", "args.txt", "opt.txt", "cmd.txt", "command.txt"}


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


@dataclass(frozen=True)
class _Made:
    """A plain file: where it goes, what it is called, and its text."""

    name: str
    shown: str
    text: str
    lost: tuple[str, ...] = ()
    """What of it had no place."""


@contextlib.contextmanager
def restored(source: Path, known: set[Path] | None = None) -> Iterator[Restored]:
    """The files of a folder (or the one file) in a form that the loaders know.

    `known` are files that were found plain before, and are not looked at again; those found plain are added.
    """
    known = set() if known is None else known
    if source.is_dir() and any((source / name).exists() for name in _OURS):
        yield Restored(source)
        return
    base = source if source.is_dir() else source.parent
    files = [p for p in texts_of(source) if p not in known]
    made: dict[Path, list[_Made]] = {}
    for path in files:
        with contextlib.suppress(OSError, RecursionError):
            if (found := _restore(path, path.relative_to(base).as_posix())) is not None:
                made[path] = found
            elif path.stat().st_size >= _SURE:
                known.add(path)
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


def _root(source: Path, base: Path, target: Path, made: dict[Path, list[_Made]]) -> Path:
    """The folder; of a single file that stayed one file, that file."""
    if source != base and len(made.get(source, ())) == 1:
        return target / made[source][0].name
    return target


def _restore(path: Path, shown: str) -> list[_Made] | None:
    """The plain files of a file; None when it is plain already."""
    if is_notebook(path) or path.stat().st_size > MAX_WHOLE:
        return None
    data = path.read_bytes()
    if looks_like_notebook(data[:4096]):  # of another name; `diag.load.notebook` reads it
        return [_Made(f"{shown}{SUFFIX}", shown, data.decode("utf-8-sig", "replace"))]
    text = decode(data)
    if text is None:
        return None
    parts = _parts(text, path.suffix.lower())
    if parts is None:
        made = _one(Part("", text), shown, shown)
        same = data.decode("utf-8-sig", "replace") == text
        if same and made.name == shown and (made.text == text or _taken_off(path, data, made.text)):
            return None
        return [made]
    results: list[_Made] = []
    for part in parts:
        inner = re.sub(r"[:*?\"<>|\0]+", "_", part.name.replace("\\", "/").rpartition("/")[2])[-80:]
        place = PurePosixPath(shown).with_name(inner) if inner else PurePosixPath(shown).with_suffix(".txt")
        made = _one(part, place.as_posix(), shown, inner=True)
        if made.text.strip():
            several = sum(m.shown.startswith(made.shown) for m in results)  # a name stands for one file
            results.append(replace(made, shown=f"{made.shown} (block {several + 1})") if several else made)
    return results


def _taken_off(path: Path, data: bytes, text: str) -> bool:
    """Whether this is a log with prefixes alone, which are taken off as it is read: it may be growing."""
    if len(data) < _SNIFFED or path.suffix.lower() not in _LOGS:
        return False
    prefixes = sniff(data[:_SNIFFED])
    return bool(prefixes) and strip_all(prefixes, data).decode("utf-8-sig", "replace") == text


def _parts(text: str, suffix: str) -> list[Part] | None:
    """The parts of a document, in several layers; None for a plain text."""
    if suffix in _TABLES | _YAMLS and kind_of(text) != "text":
        return None
    current: list[Part] | None = None
    for _ in range(_ROUNDS):
        made: list[Part] = []
        again = False
        for part in current or [Part("", text)]:
            flat = plain(part.text, unfold=False) if not part.prose else part.text
            closed = part.prose or PurePosixPath(part.name).suffix.lower() in _TABLES | _YAMLS
            inner = split(flat) if not closed and (headed(flat) or kind_of(flat) == "text") else None
            again = again or inner is not None
            made += [Part(p.name or part.name, p.text, p.line + part.line, p.prose) for p in inner] if inner else [part]
        if not again:
            break
        current = made
    return current


def _one(part: Part, name: str, shown: str, *, inner: bool = False) -> _Made:
    """One text in plain form under a name that says what it is; `inner`: of a document."""
    text, path = part.text, PurePosixPath(name)
    kind = kind_of(text)
    if kind == "text" and text.lstrip()[:1] in {"[", "{"} and (rows := records(text)) is not None:
        text, kind = rows, kind_of(rows)
    if kind == "text":
        text = plain(text)
        kind = kind_of(text)
    lost: tuple[str, ...] = ()
    if kind in {"results", "table"}:
        text = canonical(text) or text
        if kind == "table" and (whole := merged({path.name: text})) is not None:  # all charts, a row for each value
            text, kind = whole.text, "results"
            lost = _doubled(shown, whole.doubled)
    elif kind in {*_ARGUMENTS, "data"}:
        text = text.replace("\t", "  ")  # which YAML forbids, and editors write
    elif kind == "text" and part.line:
        text = "\n" * part.line + text  # lines keep their numbers
    path = _called(path, kind, named=bool(part.name) or not inner)
    own = inner and (part.name or kind != "text")
    return _Made(path.as_posix(), f"{shown}/{path.name}" if own else shown, text, lost=lost)


def _called(path: PurePosixPath, kind: Kind, *, named: bool) -> PurePosixPath:
    """The path with the name or suffix by which the loaders know this kind."""
    suffix = path.suffix.lower()
    if kind in {"results", "table"}:
        return path if suffix in _TABLES else path.with_name(f"{path.stem if named else kind}.csv")
    if kind in _ARGUMENTS:
        return path if path.name.lower() in _KNOWN_ARGS else path.with_name(_ARGUMENTS[kind])
    if kind == "rows":
        return path if path.name.startswith("results") else path.with_name("results.txt")
    if kind == "data":
        return path if suffix in _YAMLS else path.with_name(f"{path.stem if named else 'data'}.yaml")
    return path if suffix in _PLAIN else path.with_name(f"{path.name}.txt")


def _merge(files: list[Path], made: dict[Path, list[_Made]], base: Path) -> list[str]:
    """Charts that were exported one by one become one results.csv of their folder; what of them had no place."""
    folders: dict[Path, dict[Path, str]] = {}
    left_out: list[str] = []
    for path in files:
        now = made.get(path)
        if len(now) == 1 and now[0].name.endswith(".csv") if now is not None else path.suffix.lower() in _TABLES:
            text = now[0].text if now else decode(path.read_bytes()) if path.stat().st_size < MAX_WHOLE else None
            folders.setdefault(path.parent, {})[path] = text or ""
    for folder, texts in folders.items():
        if any(kind_of(t) == "results" and _has_epochs(t) for t in texts.values()):
            continue
        if (result := merged({p.name: t for p, t in texts.items()})) is None:
            continue
        shown = (folder.relative_to(base) / "results.csv").as_posix()
        first = True
        for path in [p for p in texts if p.name in result.used]:
            one = path.relative_to(base).as_posix() if len(result.used) == 1 else shown
            made[path] = [_Made(shown, one, result.text)] if first else []
            left_out += _doubled(one, result.doubled if first else 0)
            first = False
    return left_out


def _doubled(shown: str, count: int) -> tuple[str, ...]:
    return (f"{shown}: {count} values for steps that have one already; the last ones count",) if count else ()


def _has_epochs(text: str) -> bool:
    head = text.split("\n", 1)[0].split(",")
    return any(c.strip().strip('"') == "epoch" for c in head)


def _stage(source: Path, base: Path, target: Path, made: dict[Path, list[_Made]]) -> dict[Path, str]:
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
