"""Read one label file into rows of numbers; whatever is no row of numbers becomes a flaw with its line."""

import math
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

MAX_LABEL_BYTES = 8 * 1024 * 1024
"""A larger label file is not read (about 200,000 boxes of one image); it counts as one bad row."""

MAX_QUOTE = 60


class Flaw(NamedTuple):
    """Something that is wrong with a row: fault (id after `data.`), variant, line, what stands there, repair."""

    fault: str
    kind: str
    line: int | None
    value: str
    fix: str


@dataclass
class Rows:
    """A label file: rows of numbers as one flat list, with the line and the number of fields of each."""

    lines: "array[int]" = field(default_factory=lambda: array("i"))
    counts: "array[int]" = field(default_factory=lambda: array("i"))
    flat: "array[float]" = field(default_factory=lambda: array("d"))
    flaws: list[Flaw] = field(default_factory=list)
    state: str = "rows"
    """`rows`, `empty` (no rows), `missing` (no file) or `unreadable`."""


def read_rows(path: Path | str) -> Rows:
    """Parse a label file. Never raises: what can't be read is a flaw."""
    rows = Rows()
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a Path per file costs seconds at 100,000 files
            data = file.read(MAX_LABEL_BYTES + 1)
    except FileNotFoundError:
        rows.state = "missing"
        return rows
    except OSError as error:
        return unreadable(rows, "unreadable", f"not readable: {error.strerror or error}")
    if len(data) > MAX_LABEL_BYTES:
        return unreadable(rows, "too_large", f"larger than {MAX_LABEL_BYTES >> 20} MiB, not read")
    text = _decode(data, rows)
    if text is not None:
        _parse(text, rows)
        if not rows.lines and not any(f.line for f in rows.flaws):
            rows.state = "empty"
    return rows


def unreadable(rows: Rows, kind: str, value: str) -> Rows:
    """Rows of a file that can't be read, with why."""
    rows.state = "unreadable"
    rows.flaws.append(Flaw("bad_rows", kind, None, value, "rewrite"))
    return rows


def _decode(data: bytes, rows: Rows) -> str | None:
    """The text of a label file; a byte-order mark and UTF-16 are flaws but are read."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            text = data.decode("utf-16")
        except UnicodeDecodeError as error:
            unreadable(rows, "not_text", f"not readable: {error}")
            return None
        rows.flaws.append(Flaw("encoding", "utf16", None, "UTF-16", "rewrite"))
        return text
    if data.startswith(b"\xef\xbb\xbf"):
        rows.flaws.append(Flaw("encoding", "bom", 1, "EF BB BF", "rewrite"))
        data = data[3:]
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        unreadable(rows, "not_text", f"not readable: {error}")
        return None


def _parse(text: str, rows: Rows) -> None:
    """Append all rows; lines that are no numbers become flaws."""
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if not fields:
            continue
        try:
            numbers = [float(f) for f in fields]
        except ValueError:
            rows.flaws.append(_not_numbers(line, number))
            continue
        if not math.isfinite(sum(numbers)) and not all(map(math.isfinite, numbers)):
            quote = line.strip()[:MAX_QUOTE]
            rows.flaws.append(Flaw("bad_rows", "nan", number, f"nan or inf: {quote!r}", "drop_row"))
            continue
        rows.lines.append(number)
        rows.counts.append(len(numbers))
        rows.flat.extend(numbers)


def _not_numbers(line: str, number: int) -> Flaw:
    """Commas between good numbers are an encoding matter; anything else is a bad row."""
    quote = " ".join(line.split())[:MAX_QUOTE]
    parts = line.replace(",", " ").replace(";", " ").split()
    try:
        list(map(float, parts))
    except ValueError:
        return Flaw("bad_rows", "text", number, f"not numbers: {quote!r}", "drop_row")
    return Flaw("encoding", "separator", number, quote, "rewrite")
