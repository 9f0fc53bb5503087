"""Whole inputs of real runs and cases, changed in structure: files, lines, columns, cells, encodings, wrappings."""

import os
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.load import mutations
from tests.wrappings import WRAPPINGS, Files

_TESTS = Path(__file__).parents[1]
_BENCH = Path(os.environ.get("DIAG_BENCH") or _TESTS.parents[1] / "shared" / "bench")
MAX_FILE = 60_000
"""Of a longer file only so much is taken: a fuzz is for many inputs, not for long ones."""
CELLS = (
    b"", b"nan", b"inf", b"-inf", b"-1", b"-0.0", b"1e308", b"-1e308", b"1e999", b"1e-320", b"9" * 30,
    b"9" * 400, b"9" * 5000,
    b"0x1F", b"1_000", b"1,5", b"None", b"null", b"true", b"-", b"#REF!", b"12 %", b"3.1G",
    b"\xd9\xa3", b"\xff", b'"', b"1e", b"--",
    b"2026-13-45", b"99999-01-01T00:00:00Z", b"A" * 5000, b"[" * 2000, b"\0",
)  # fmt: skip
NAMES = (
    "results.csv", "results.txt", "args.yaml", "opt.yaml", "hyp.yaml", "data.yaml", "console.log",
    "train.log", "nvidia-smi.txt",
    "env.txt", "run.json", "health.json", "baseline.json", "check.json", "profile.json", "train.ipynb",
    "issue.md", "find.txt",
    "trace/rank0.jsonl", "trace/counters.jsonl", "labels/train/a.txt", "metrics.csv", "train.out",
)  # fmt: skip


@cache
def folders() -> tuple[Path, ...]:
    """The cases of this repository, and the public runs where they lie beside it."""
    roots = (_TESTS / "cases_unseen", mutations.CASES, _BENCH / "runs")
    return tuple(sorted(path for root in roots if root.is_dir() for path in root.iterdir() if path.is_dir()))


@cache
def files_of(folder: Path) -> tuple[tuple[str, bytes], ...]:
    """Name and beginning of each file but the answers."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "expected.json")
    return tuple((str(p.relative_to(folder)), p.read_bytes()[:MAX_FILE]) for p in paths[:40])


def changed(folder: Path, rng: random.Random) -> tuple[Files, str]:
    """The files after a few changes, in a wrapping now and then; and the suffix of an archive for them, or ''."""
    files = dict(files_of(folder))
    if not files:
        return {}, ""
    pack = ""
    if rng.random() < 0.3:
        wrapping = WRAPPINGS[rng.choice(sorted(WRAPPINGS))]
        files, pack = dict(wrapping.change(files)), wrapping.pack
    for _ in range(rng.randrange(1, 5)):
        if files:
            rng.choice(CHANGES)(files, rng)
    return files, pack


def _one(files: Files, rng: random.Random) -> str:
    return rng.choice(sorted(files))


def _cut(files: Files, rng: random.Random) -> None:
    name = _one(files, rng)
    files[name] = files[name][: rng.randrange(len(files[name]) + 1)]


def _no_beginning(files: Files, rng: random.Random) -> None:
    name = _one(files, rng)
    files[name] = files[name][rng.randrange(len(files[name]) + 1) :]


def _lines(files: Files, rng: random.Random) -> None:
    name = _one(files, rng)
    lines = files[name].split(b"\n")
    at, many = rng.randrange(len(lines)), rng.choice((1, 2, 20))
    kind = rng.randrange(5)
    if kind == 0:
        lines[at : at + many] = lines[at : at + many] * rng.choice((2, 3, 50))
    elif kind == 1:
        lines.reverse()
    elif kind == 2:
        rng.shuffle(lines)
    elif kind == 3:
        del lines[at : at + many]
    else:
        lines.insert(at, lines[0])  # the header again
    files[name] = b"\n".join(lines)


def _separator(data: bytes) -> bytes:
    head = data[:300]
    return max((b",", b";", b"\t", b":", b" "), key=head.count)


def _columns(files: Files, rng: random.Random) -> None:
    """Two columns change places, one goes, comes twice, or is missing in some rows."""
    name = _one(files, rng)
    mark = _separator(files[name])
    rows = [line.split(mark) for line in files[name].split(b"\n")]
    width = max(map(len, rows))
    one, two, kind = rng.randrange(width), rng.randrange(width), rng.randrange(5)
    for number, row in enumerate(rows):
        if max(one, two) >= len(row):
            continue
        if kind == 0:
            row[one], row[two] = row[two], row[one]
        elif kind == 1:
            del row[one]
        elif kind == 2:
            row.insert(two, row[one])
        elif kind == 3 and number % 3 == 2:
            del row[one:]
        elif kind == 4 and number:
            row[one] = row[two]
    files[name] = b"\n".join(mark.join(row) for row in rows)


def _cells(files: Files, rng: random.Random) -> None:
    """One odd value in one cell, or in a whole column."""
    name = _one(files, rng)
    mark, cell, all_rows = _separator(files[name]), rng.choice(CELLS), rng.random() < 0.4
    lines = files[name].split(b"\n")
    chosen = range(1, len(lines)) if all_rows else [rng.randrange(len(lines)) for _ in range(3)]
    column = rng.randrange(12)
    for number in chosen:
        row = lines[number].split(mark)
        if column < len(row) and (len(cell) < 500 or number < 30):
            row[column] = cell
            lines[number] = mark.join(row)
    files[name] = b"\n".join(lines)


def _bytes(files: Files, rng: random.Random) -> None:
    name = _one(files, rng)
    files[name] = mutations.mutate(files[name], rng, rng.randrange(1, 13))


def _long_line(files: Files, rng: random.Random) -> None:
    name = _one(files, rng)
    data = files[name]
    if rng.random() < 0.5:
        files[name] = data.replace(b"\n", rng.choice((b" ", b"\r", b"", b"\\n", b"\x85", b"\0")))
        return
    at = rng.randrange(len(data) + 1)
    files[name] = data[:at] + rng.choice((b"x", b"1", b" ", b",", b"[", b"\r", b"| ", b"- ")) * 100_000 + data[at:]


def _encoding(files: Files, rng: random.Random) -> None:
    """The whole in another encoding, or its second half."""
    name = _one(files, rng)
    half = len(files[name]) // 2 if rng.random() < 0.5 else 0
    head, text = files[name][:half], files[name][half:].decode("utf-8", "replace")
    other = rng.choice(
        ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "gb18030", "shift_jis", "cp1252", "utf-7", "utf-8-sig")
    )
    files[name] = head + text.encode(other, "replace")


def _names(files: Files, rng: random.Random) -> None:
    """A file under the name of another kind, beside the real one or instead of it."""
    name = _one(files, rng)
    other = rng.choice(NAMES)
    if any(o.startswith(f"{name}/") or other.startswith(f"{o}/") for o in (*files, other) if o != name):
        return
    data = files[name] if rng.random() < 0.5 else files.pop(name)
    files[other] = data


def _empty(files: Files, rng: random.Random) -> None:
    files[_one(files, rng)] = rng.choice((b"", b"\n", b" ", b"\0" * 4096, b"{}", b"[]", b"null", b"\xef\xbb\xbf"))


CHANGES: tuple[Callable[[Files, random.Random], None], ...] = (
    _cut, _no_beginning, _lines, _lines, _columns, _columns, _cells, _cells, _bytes, _bytes, _long_line, _encoding,
    _names, _empty,
)  # fmt: skip
