"""results.csv -> Epochs: padded, CRLF, dirty, cut and appended files included."""

import csv
import math
import re
from pathlib import Path

from diag.load.dialect import delimiter, pointed
from diag.load.read import UnreadableError, bounded, read_text
from diag.model.columns import NUMBER
from diag.model.run import Epoch, Epochs

_NUMBER = re.compile(rf"{NUMBER}|[+-]?(?:nan|inf|infinity)", re.I)
_MAX_ROWS = 1_000_000
_LATER = ("(M)", "(P)", "top5")
"""After boxes and top-1: what a rule finds first must not hang on the order of the columns."""


def read_results(path: Path, *, name: str = "results.csv") -> Epochs:
    """The rows of a results.csv; raises UnreadableError when it is none."""
    epochs = parse_results(read_text(path), name=name)
    if epochs is None:
        raise UnreadableError("no results.csv of a training: the header has no losses or metrics")
    return epochs


def parse_results(text: str, *, name: str = "results.csv") -> Epochs | None:
    """Rows of full width with numbers in them; others are counted in `dropped`. None if this is no results file.

    A short row is not a row: YOLOv5-seg appends 13 shifted cells of another table. One odd cell
    becomes nan, and an unreadable epoch cell takes the number after its predecessor's. Tables that went through a
    spreadsheet have semicolons or tabs, and then perhaps decimal commas.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    csv.field_size_limit(1_000_000)
    try:
        separator = delimiter(next((line for line in lines if line.strip()), ""))
        reader = csv.reader((line.replace("\0", "") for line in lines), delimiter=separator)
        table = [row for row in reader if any(c.strip() for c in row)]
    except csv.Error:
        return None
    if not table:
        return None
    columns = tuple(cell.strip().lstrip("\ufeff") for cell in table[0])
    if not any(c.startswith(("train/", "val/", "metrics/")) for c in columns):
        return None
    order = sorted(range(len(columns)), key=lambda i: columns[i].endswith(_LATER))
    rows: list[Epoch] = []
    dropped = 0
    for number, row in enumerate(table[1 : _MAX_ROWS + 1], 1):
        cells = row if separator == "," else pointed(row)
        if tuple(c.strip() for c in cells) == columns:
            dropped += 1  # a header in the middle: another run was appended
            continue
        values = {columns[i]: _cell(cells[i]) for i in order if i < len(cells)}
        if len(cells) != len(columns) or (
            all(math.isnan(v) for v in values.values()) and "nan" not in str(cells).lower()
        ):
            dropped += 1
            continue
        epoch = values.get("epoch", float(number))
        if not math.isfinite(epoch):
            epoch = rows[-1].epoch + 1 if rows else 1.0
        rows.append(Epoch(number, epoch, values))
    return Epochs(tuple(rows), tuple(columns[i] for i in order), dropped, name)


def _cell(cell: str) -> float:
    found = _NUMBER.fullmatch(cell.strip().strip("`'\""))
    return bounded(float(found[0])) if found else math.nan
