"""One wrapped text -> the plain files that stand in it, under names that say what they are.

Imported where a file is more than a table as its program wrote it: the patterns take some milliseconds to compile.
"""

import re
from dataclasses import replace
from pathlib import Path, PurePosixPath

from diag.load.dialect import canonical
from diag.load.exports import merged, records
from diag.load.notebook import SUFFIX, looks_like_notebook
from diag.load.parts import Part, headed, split
from diag.load.plain import decode, plain
from diag.load.prefix import sniff, strip_all
from diag.load.sniff import Kind, kind_of
from diag.load.staging import TABLES, Made

_SNIFFED = 65536
_ROUNDS = 3
_LOGS = {".log", ".out", ".err"}
_YAMLS = {".yaml", ".yml"}
_PLAIN = {".log", ".out", ".err", ".txt", ".md", ".json", ".jsonl", "", *TABLES, *_YAMLS}
_MARKDOWN = re.compile(r"^\s*\|?\s*:?-{3,}:?\s*\|[-:|\s]*$", re.M)
_ARGUMENTS = {"args": "args.yaml", "opt": "opt.yaml", "hyp": "hyp.yaml"}
_KNOWN_ARGS = {"args.yaml", "opt.yaml", "hyp.yaml", "hyp.txt", "args.txt", "opt.txt", "cmd.txt", "command.txt"}


def unwrap(path: Path, data: bytes, shown: str) -> list[Made] | None:
    """The plain files of a file with this content, which is called `shown`; None when it is plain already."""
    if looks_like_notebook(data[:4096]):  # of another name; `diag.load.notebook` reads it
        return [Made(f"{shown}{SUFFIX}", shown, data.decode("utf-8-sig", "replace"))]
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
    results: list[Made] = []
    for part in parts:
        inner = re.sub(r"[:*?\"<>|\0]+", "_", part.name.replace("\\", "/").rpartition("/")[2])[-80:]
        place = PurePosixPath(shown).with_name(inner) if inner else PurePosixPath(shown).with_suffix(".txt")
        made = _one(part, place.as_posix(), shown, inner=True)
        if made.text.strip():
            several = sum(m.shown.startswith(made.shown) for m in results)  # a name stands for one file
            results.append(replace(made, shown=f"{made.shown} (block {several + 1})") if several else made)
    return results


def is_wrapped(path: Path, head: bytes) -> bool:
    """Whether a text that begins with these lines is wrapped in more than prefixes (taken off as it is read)."""
    made = unwrap(path, head, path.name) if head else None
    if made is None:
        return False
    prefixes = sniff(head)
    bare = strip_all(prefixes, head).decode("utf-8-sig", "replace") if prefixes else head.decode("utf-8-sig", "replace")
    return len(made) != 1 or (made[0].text != bare and made[0].text != plain(bare))


def _taken_off(path: Path, data: bytes, text: str) -> bool:
    """Whether this is a log with prefixes alone, which are taken off as it is read: it may be growing."""
    if len(data) < _SNIFFED or path.suffix.lower() not in _LOGS:
        return False
    prefixes = sniff(data[:_SNIFFED])
    return bool(prefixes) and strip_all(prefixes, data).decode("utf-8-sig", "replace") == text


def _parts(text: str, suffix: str) -> list[Part] | None:
    """The parts of a document, in several layers; None for a plain text."""
    if suffix in TABLES | _YAMLS and kind_of(text) != "text":
        return None
    current: list[Part] | None = None
    for _ in range(_ROUNDS):
        made: list[Part] = []
        again = False
        for part in current or [Part("", text)]:
            flat = plain(part.text, unfold=False) if not part.prose else part.text
            closed = part.prose or PurePosixPath(part.name).suffix.lower() in TABLES | _YAMLS
            inner = split(flat) if not closed and (headed(flat) or kind_of(flat) == "text") else None
            again = again or inner is not None
            made += [Part(p.name or part.name, p.text, p.line + part.line, p.prose) for p in inner] if inner else [part]
        if not again:
            break
        current = made
    return current


def _one(part: Part, name: str, shown: str, *, inner: bool = False) -> Made:
    """One text in plain form under a name that says what it is; `inner`: of a document."""
    text, path = part.text, PurePosixPath(name)
    kind = kind_of(text)
    if kind == "text" and text.lstrip()[:1] in {"[", "{"} and (rows := records(text)) is not None:
        text, kind = rows, kind_of(rows)
    if kind == "text":
        text = plain(text)
        kind = kind_of(text)
    if kind == "table" and path.suffix.lower() not in TABLES and _MARKDOWN.search(text):
        kind = "text"  # read as it stands, with the lines it has (`diag.load.listings`)
    lost: tuple[str, ...] = ()
    if kind in {"results", "table"}:
        text = canonical(text) or text
        if kind == "table" and (whole := merged({path.name: text})) is not None:  # all charts, a row for each value
            text, kind = whole.text, "results"
            lost = doubled(shown, whole.doubled)
    elif kind in {*_ARGUMENTS, "data"}:
        text = text.replace("\t", "  ")  # which YAML forbids, and editors write
    elif kind == "text" and part.line:
        text = "\n" * part.line + text  # lines keep their numbers
    path = _called(path, kind, named=bool(part.name) or not inner)
    own = inner and (part.name or kind != "text")
    return Made(path.as_posix(), f"{shown}/{path.name}" if own else shown, text, lost=lost)


def _called(path: PurePosixPath, kind: Kind, *, named: bool) -> PurePosixPath:
    """The path with the name or suffix by which the loaders know this kind."""
    suffix = path.suffix.lower()
    if kind in {"results", "table"}:
        return path if suffix in TABLES else path.with_name(f"{path.stem if named else kind}.csv")
    if kind in _ARGUMENTS:
        return path if path.name.lower() in _KNOWN_ARGS else path.with_name(_ARGUMENTS[kind])
    if kind == "rows":
        return path if path.name.startswith("results") else path.with_name("results.txt")
    if kind == "data":
        return path if suffix in _YAMLS else path.with_name(f"{path.stem if named else 'data'}.yaml")
    return path if suffix in _PLAIN else path.with_name(f"{path.name}.txt")


def doubled(shown: str, count: int) -> tuple[str, ...]:
    """What to say of an export with so many values too many."""
    return (f"{shown}: {count} values for steps that have one already; the last ones count",) if count else ()
