"""The table of faults: what was done to a run, how it ended, what its summary says, and what was left of it.

Each test of a fault adds its row; the session prints the table in the end, and `scripts/faults` writes docs/faults.md.
"""

import json
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEAD = ("fault", "made by", "exit code", "cause in the summary", "its words", "kept")
ORDER = (
    "memory limit",
    "trainer killed",
    "container killed",
    "disk full",
    "workspace read-only",
    "workspace of another user",
    "limit of threads",
    "CPU quota",
    "slow disk",
    "container paused",
    "clock steps",
    "damaged image",
    "image gone during training",
    "GPU lost",
    "GPU query not supported",
    "Jupyter crashes",
    "TensorBoard crashes",
    "two trainings at once",
    "stop (SIGTERM)",
    "shm too small",
)


@dataclass
class Faults:
    """The rows of one test session."""

    rows: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def add(self, fault: str, how: str, code: int, kind: str, words: str, kept: Sequence[str]) -> None:
        """One row. Numbers that differ from run to run are written as N."""
        assert fault in ORDER, fault
        plain = re.sub(r"\s+", " ", re.sub(r"\d+(?:[.:-]\d+)*", "N", words)).replace("|", "\\|")
        self.rows[fault] = (fault, f"`{how}`", str(code), f"`{kind}`", plain, ", ".join(kept) or "nothing was finished")

    def lines(self) -> list[str]:
        """The rows as Markdown, in the order of the table."""
        return [_line(self.rows[fault]) for fault in ORDER if fault in self.rows]


def table(faults: Faults) -> str:
    """The whole table as Markdown."""
    return "\n".join([_line(HEAD), "|" + " --- |" * len(HEAD), *faults.lines()]) + "\n"


def find_row(page: str, fault: str) -> tuple[str, ...]:
    """The row of a fault in a page; empty without one."""
    line = next((line for line in page.splitlines() if line.startswith(f"| {fault} | ")), "")
    return tuple(line.removeprefix("| ").removesuffix(" |").split(" | ")) if line else ()


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def summary(workspace: Path) -> dict[str, Any]:
    """The health summary."""
    loaded: dict[str, Any] = json.loads((workspace / "health/latest.json").read_text())
    return loaded


def only_run(workspace: Path) -> Path:
    """The one run directory of a workspace."""
    (run,) = (path for path in (workspace / "runs").iterdir() if path.is_dir())
    return run


def kept(run: Path) -> list[str]:
    """What a run left, looked at: finished epochs, checkpoints whose archive is whole, its own summary."""
    found = []
    results = run / "ultralytics/results.csv"
    epochs = max(0, len(results.read_text().splitlines()) - 1) if results.exists() else 0
    if epochs:
        found.append("finished epochs")
    for name in ("last", "best"):
        weights = run / f"ultralytics/weights/{name}.pt"
        if weights.exists():
            whole = zipfile.is_zipfile(weights) and zipfile.ZipFile(weights).testzip() is None
            found.append(f"{name}.pt" if whole else f"a damaged {name}.pt")
    if (run / "health.json").exists():
        found.append("summary")
    if (run / "report.md").exists():
        found.append("report")
    return found
