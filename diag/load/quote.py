"""Evidence that names a line, with the words of that line."""

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from diag.model.finding import Finding, Report, Source

MAX_BYTES = 16 * 1024 * 1024
"""Of a file that is read again; in a larger one the line's number has to do."""
_MAX_LINE = 4096
_CODES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_TABLES = {".csv", ".tsv"}
"""A row of numbers without its header says nothing."""


def quoted(report: Report, path: Path) -> Report:
    """The report whose evidence quotes the lines that it names by number only.

    `path` is the run folder, or the one file that was analysed. What can't be read is left as it is.
    """
    wanted: dict[str, set[int]] = {}
    for source in (s for f in report.findings for s in f.evidence):
        if source.line and not source.text and Path(source.file).suffix.lower() not in _TABLES:
            wanted.setdefault(source.file, set()).add(source.line)
    base = path if path.is_dir() else path.parent
    lines = {name: _lines(base, name, numbers) for name, numbers in wanted.items()}
    return replace(report, findings=tuple(_finding(f, lines) for f in report.findings))


def _finding(finding: Finding, lines: dict[str, dict[int, str]]) -> Finding:
    return replace(finding, evidence=tuple(_source(s, lines.get(s.file, {})) for s in finding.evidence))


def _source(source: Source, lines: dict[int, str]) -> Source:
    return replace(source, text=lines[source.line]) if not source.text and source.line in lines else source


def _lines(base: Path, name: str, numbers: Collection[int]) -> dict[int, str]:
    file = base / name
    found: dict[int, str] = {}
    try:
        inside = file.resolve().is_relative_to(base.resolve()) and not file.is_symlink()
        if not inside or not file.is_file() or file.stat().st_size > MAX_BYTES:
            return {}
        last = max(numbers)
        with file.open("rb") as text:
            for number, raw in enumerate(text, 1):
                if number in numbers:
                    found[number] = _words(raw)
                if number >= last:
                    break
    except (OSError, ValueError):
        return {}
    return found


def _words(raw: bytes) -> str:
    """The last thing that a line showed: bars draw themselves again after a carriage return."""
    parts = [part for part in raw[-_MAX_LINE:].decode("utf-8", "replace").rstrip("\r\n").split("\r") if part.strip()]
    return " ".join(_CODES.sub("", parts[-1]).split())[:300] if parts else ""
