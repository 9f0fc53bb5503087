"""How far a training child is, read from the last line of its train.log."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

_LINE = re.compile(r"epoch (\d+)/(\d+) batch (\d+)/(\d+)")


@dataclass(frozen=True)
class Progress:
    """Epoch and batch count from 1; `epochs` and `batches` are the planned numbers."""

    epoch: int
    epochs: int
    batch: int
    batches: int

    def __str__(self) -> str:
        return f"epoch {self.epoch}/{self.epochs} batch {self.batch}/{self.batches}"


def read_progress(run_dir: Path) -> Progress | None:
    """The last complete line of `run_dir/train.log`; None before the first batch."""
    try:
        with (run_dir / "train.log").open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 400))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return None
    found = _LINE.findall(text)
    return Progress(*map(int, found[-1])) if found else None
