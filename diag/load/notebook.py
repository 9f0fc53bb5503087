"""A Jupyter notebook (.ipynb) -> the lines that its cells printed, as a console would have shown them.

A notebook holds several programs: downloads, the training, predictions, exports. What a prediction cell fails with is
no fault of the training, so only cells that train count, and all cells where none does.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from diag.load.read import UnreadableError, read_bytes

SUFFIX = ".ipynb"
MAX_NOTEBOOK_BYTES = 128 * 1024 * 1024
_TRAINS = re.compile(
    r"^\W{0,12}Epoch\s+gpu_mem\b|Starting training for \d+ epochs|\d+ epochs completed in"
    r"|^\W{0,12}\d+/\d+\s+\d+(?:\.\d+)?[GM]\s+\d",
    re.I | re.M,
)
"""What a training prints: the head of its table, a row of it, or that it began or ended."""
_LAUNCHES = re.compile(
    r"\.train\(|\byolo\b[^\n]{0,200}\btrain\b|\bmode=['\"]?train\b|\btrain(?:_dual|_aux)?\.py\b|\btorchrun\b"
)
"""A cell whose source starts a training: its output may be nothing but an error."""
_MAX_TEXT = 64 * 1024 * 1024
_MAX_LINE = 10_000


def is_notebook(path: Path) -> bool:
    """True for a file that is called a notebook."""
    return path.suffix.lower() == SUFFIX


def looks_like_notebook(head: bytes) -> bool:
    """True for the first bytes of a notebook without a name (standard input)."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and (
        b'"cell_type"' in head or b'"nbformat"' in head or b'"cells"' in head
    )


def read_notebook(path: Path) -> Iterator[tuple[int, bytes]]:
    """Numbered lines of what the cells printed; the number is that of the line in the file.

    Raises UnreadableError for what is no notebook, and for one whose outputs were cleared.
    """
    data = read_bytes(path, limit=MAX_NOTEBOOK_BYTES)
    if data.startswith((b"<<<<<<<", b"version https://git-lfs")):
        raise UnreadableError("a Git merge conflict or a Git LFS pointer, not the notebook itself")
    try:
        book = json.loads(data)
    except ValueError as error:
        line = getattr(error, "lineno", None)
        raise UnreadableError(f"a notebook that is no JSON{f' (line {line})' if line else ''}") from error
    printed = [(cell, list(_outputs(cell))) for cell in _cells(book)]
    printed = [(cell, outputs) for cell, outputs in printed if outputs]
    if not printed:
        raise UnreadableError("a notebook without outputs: run it and save it, or give the results.csv of the run")
    training = [outputs for cell, outputs in printed if _trains(cell, outputs)]
    return _numbered(data, training or [outputs for _, outputs in printed])


def _cells(book: Any) -> list[dict[str, Any]]:
    """The cells of a notebook of format 4, or of format 3 with its worksheets."""
    if not isinstance(book, dict):
        raise UnreadableError("no notebook: no cells in it")
    sheets = book.get("worksheets")
    holders = sheets if isinstance(sheets, list) else [book]
    lists = [h.get("cells") for h in holders if isinstance(h, dict)]
    cells = [c for found in lists if isinstance(found, list) for c in found if isinstance(c, dict)]
    if not cells:
        raise UnreadableError("no notebook: no cells in it")
    return cells


def _outputs(cell: dict[str, Any]) -> Iterator[list[str]]:
    """What a cell printed, output by output: streams, and the name and message of an error.

    Pictures, tables and the values of expressions are no output of a program. Of a traceback nothing is taken but its
    last line: IPython's tracebacks quote source code, with the messages of errors that did not happen.
    """
    found = cell.get("outputs")
    for output in found if isinstance(found, list) else []:
        if not isinstance(output, dict):
            continue
        kind = output.get("output_type")
        if kind == "stream":
            if texts := _texts(output.get("text")):
                yield texts
        elif kind in {"error", "pyerr"}:
            name, value = (str(output.get(k) or "") for k in ("ename", "evalue"))
            if name:
                yield ["Traceback (most recent call last):\n", f"{name}: {value}\n"]


def _texts(value: Any) -> list[str]:
    """A text as the notebook holds it: one string, or one a line."""
    if isinstance(value, str):
        return [value] if value else []
    return [v for v in value if isinstance(v, str) and v] if isinstance(value, list) else []


def _trains(cell: dict[str, Any], outputs: list[list[str]]) -> bool:
    source = "".join(_texts(cell.get("source", cell.get("input"))))
    code = "\n".join(line for line in source.splitlines() if not line.lstrip().startswith("#"))
    return _LAUNCHES.search(code) is not None or any(_TRAINS.search("".join(texts)) for texts in outputs)


def _numbered(data: bytes, cells: list[list[list[str]]]) -> Iterator[tuple[int, bytes]]:
    """The lines of these cells. A piece of text that goes on in the next one (a bar, split streams) is one line."""
    place = _Places(data)
    size = 0
    for outputs in cells:
        number, pending = 1, ""
        for texts in outputs:
            for text in texts:
                number = place.of(text)
                *whole, pending = (pending + text).split("\n")
                for line in whole:
                    size += len(line)
                    if size > _MAX_TEXT:
                        return
                    yield number, line.encode("utf-8", "replace")
        if pending:
            yield number, pending.encode("utf-8", "replace")


class _Places:
    """In which line of the file a text of the notebook stands. Texts must be asked for in their order."""

    def __init__(self, data: bytes) -> None:
        self._next = 0
        self._texts: dict[bytes, list[int]] = {}
        self._errors: list[tuple[int, bytes]] = []
        for number, raw in enumerate(data.split(b"\n")):
            line = raw.strip().rstrip(b",")
            if line[:1] == b'"' and len(line) <= _MAX_LINE:
                self._texts.setdefault(line, []).append(number)
                if line.startswith(b'"evalue"'):
                    self._errors.append((number, line))

    def of(self, text: str) -> int:
        """The line, or that of the text before where it is not found (a notebook in one line, or of another tool)."""
        found = None
        for ascii_only in (True, False):
            places = self._texts.get(json.dumps(text, ensure_ascii=ascii_only).encode("utf-8", "replace"), [])
            at = bisect_left(places, self._next)
            found = places[at] if found is None and at < len(places) else found
        if found is None:
            at = bisect_left(self._errors, (self._next, b""))
            end = json.dumps(text[-61:-1])[1:-1].encode()
            if end and at < len(self._errors) and end in self._errors[at][1]:
                found = self._errors[at][0]
        self._next = self._next if found is None else found
        return self._next + 1
