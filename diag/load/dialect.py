"""Tables in the dialects of spreadsheets, locales, Markdown and printed frames -> cells."""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence

from diag.model.columns import NUMBER

Grid = list[list[str]]
_DELIMITERS = ",;\t|"
_RULE = re.compile(r"[\s|+:=\-┌┬┐├┼┤└┴┘─═╔╦╗╠╬╣╚╩╝]+")
_DECIMAL = re.compile(r"(\s*[+-]?\d*),(\d+(?:[eE][+-]?\d+)?\s*)")
_NUMBER = re.compile(rf"{NUMBER}|nan|inf|-inf|NaN|None", re.I)
_NAME = re.compile(r"[A-Za-z_%][^\n]{0,120}")
_MAX_ROWS = 200_000
_MAX_COLUMNS = 500
_MAX_LINE = 100_000


def grid(text: str) -> Grid | None:
    """The header and the rows of a table in some dialect; None for a text that is no table.

    A table has a header of at least two names, and nearly all rows have as many cells, most of them numbers.
    """
    lines = [line for line in text.lstrip("\ufeff").splitlines() if line.strip()][: _MAX_ROWS + 10]
    while lines and (re.fullmatch(r"sep=.", lines[0].strip()) or re.match(r"#(?! gpu| Idx)", lines[0])):
        lines = lines[1:]
    if len(lines) < 2:
        return None
    bars = sum(
        line.strip().startswith(("|", "│", "║")) and line.strip().endswith(("|", "│", "║")) for line in lines[:20]
    )
    if bars >= 2:
        return _boxed(lines)
    for delimiter in _DELIMITERS:
        if made := _delimited(lines, delimiter):
            return made
    return _aligned(lines)


def delimiter(header: str) -> str:
    """What parts the columns of this header: a comma, unless semicolons or tabs part more of them."""
    return max((",", ";", "\t"), key=header.count)


def pointed(cells: Sequence[str]) -> list[str]:
    """Cells with points for decimal commas."""
    return [f"{found[1]}.{found[2]}" if (found := _DECIMAL.fullmatch(c)) else c for c in cells]


def canonical(text: str) -> str | None:
    """The table as plain CSV with points in its numbers; None for no table, or when it is that already."""
    made = grid(text)
    if made is None:
        return None
    first = next((line for line in text.lstrip("\ufeff").splitlines() if line.strip()), "")
    short = len(first) < _MAX_LINE and first.count(",") >= 1
    if short and [c.strip() for c in next(csv.reader([first]))] == [c.strip() for c in made[0]]:
        return None
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(made)
    return out.getvalue()


def _delimited(lines: Sequence[str], delimiter: str) -> Grid | None:
    if lines[0].count(delimiter) < 1:
        return None
    try:
        rows = list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        return None
    width = len(rows[0])
    same = sum(len(row) == width for row in rows[1:])
    if not 2 <= width <= _MAX_COLUMNS or same < 0.8 * (len(rows) - 1):
        return None
    rows = [[c.strip() for c in row] for row in rows]
    if delimiter == "|" and len({row[0] for row in rows if row}) == 1:
        return None  # `trainer-1  | text`: a prefix of Compose, and no column
    return _checked(_points(rows) if delimiter != "," else rows)


def _points(rows: Grid) -> Grid:
    """Decimal commas as points, where there are such and no cell has a point."""
    cells = [c for row in rows[1:50] for c in row]
    if any(_DECIMAL.fullmatch(c) for c in cells):
        return [rows[0], *(pointed(row) for row in rows[1:])]
    return rows


def _boxed(lines: Sequence[str]) -> Grid | None:
    """A table of Markdown, or drawn with lines."""
    inner = [line.strip() for line in lines if not _RULE.fullmatch(line.strip())]
    inner = [line for line in inner if line[:1] in "|│║" and line[-1:] in "|│║"]
    rows = [[c.strip().strip("`*") for c in re.split(r"(?<!\\)[|│║]", line[1:-1])] for line in inner]
    if len(rows) < 2 or not 2 <= len(rows[0]) <= _MAX_COLUMNS:
        return None
    same = sum(len(row) == len(rows[0]) for row in rows)
    return _checked(_points(rows)) if same >= 0.8 * len(rows) else None


def _aligned(lines: Sequence[str]) -> Grid | None:
    """A frame as pandas prints it: blanks between columns, perhaps a number before each row."""
    rows = [line.split() for line in lines]
    widths = Counter(len(row) for row in rows[1:])
    width, count = widths.most_common(1)[0]
    head = rows[0]
    if width < 3 or count < 0.9 * len(rows[1:]) or len(head) not in {width, width - 1}:
        return None
    if not any(re.match(r"(?:train|val|metrics|lr)/", name) for name in head):
        return None  # captures of many programs look like this; only losses and metrics are known for sure
    body = [row[width - len(head) :] for row in rows[1:] if len(row) == width]
    return _checked([head, *body])


def _checked(rows: Grid) -> Grid | None:
    head = rows[0]
    named = sum(_NAME.fullmatch(c.strip("\"'")) is not None for c in head)
    cells = [c for row in rows[1:60] for c in row if c]
    numbers = sum(_NUMBER.fullmatch(c.strip(" %")) is not None or c[:1].isdigit() for c in cells)
    if named < max(1, 0.8 * sum(bool(c) for c in head) if len(head) > 2 else 2) or numbers < 0.4 * len(cells):
        return None
    return rows
