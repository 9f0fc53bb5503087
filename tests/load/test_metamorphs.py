"""The same curves in another dress lead to the same findings, and an excerpt of a healthy run to no fault.

On generated curves, and on the public runs beside the repository where they are there.
"""

import json
import math
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from diag.engine import evaluate
from diag.load import load_run

BENCH = Path(os.environ.get("DIAG_BENCH") or Path(__file__).resolve().parents[3] / "shared" / "bench")
RUNS = BENCH / "runs"
needs_runs = pytest.mark.skipif(not (RUNS / "labels.json").is_file(), reason="not run: no ../shared")
Table = list[list[str]]
FAULTS = {
    "train.overfit", "train.val_gap", "train.plateau", "train.early_peak", "train.not_learning", "train.underfit",
    "train.map_stuck", "num.collapse", "num.diverged", "num.lr_too_high", "data.train_val_leak", "data.no_labels",
}  # fmt: skip
"""What no part of a healthy run may be called; that it is unfinished may be said."""


def _text(table: Table, separator: str = ",", end: str = "\n") -> str:
    return end.join(separator.join(row) for row in table) + end


def _decimal_commas(table: Table) -> str:
    return _text([table[0], *([cell.replace(".", ",") for cell in row] for row in table[1:])], ";")


def _reordered(table: Table) -> str:
    order = [0, *sorted(range(1, len(table[0])), key=lambda i: table[0][i][::-1])]
    return _text([[row[i] for i in order] for row in table])


def _header_again(table: Table) -> str:
    half = len(table) // 2
    return _text([*table[:half], table[0], *table[half:]])


def _cut_row(table: Table) -> str:
    return _text(table) + ",".join(table[-1][: len(table[-1]) // 2])


def _more_columns(table: Table) -> str:
    return _text([[*table[0], "my/extra", "note"], *([*row, "0.5", "x"] for row in table[1:])])


def _index_column(table: Table) -> str:
    return _text([["", *table[0]], *([str(i), *row] for i, row in enumerate(table[1:]))])


DRESSES: dict[str, Callable[[Table], bytes]] = {
    "padded": lambda t: _text([[cell.rjust(23) for cell in row] for row in t]).encode(),
    "spaces": lambda t: _text(t, ", ").encode(),
    "CRLF": lambda t: _text(t, end="\r\n").encode(),
    "CR": lambda t: _text(t, end="\r").encode(),
    "BOM": lambda t: _text(t).encode("utf-8-sig"),
    "UTF-16": lambda t: _text(t).encode("utf-16"),
    "blank lines": lambda t: ("\n" + _text(t, end="\n\n")).encode(),
    "quoted": lambda t: _text([[f'"{cell}"' for cell in row] for row in t]).encode(),
    "more columns": lambda t: _more_columns(t).encode(),
    "index column": lambda t: _index_column(t).encode(),
    "header again": lambda t: _header_again(t).encode(),
    "cut row": lambda t: _cut_row(t).encode(),
    "semicolons": lambda t: _text(t, ";").encode(),
    "decimal commas": lambda t: _decimal_commas(t).encode(),
    "tabs": lambda t: _text(t, "\t").encode(),
    "reordered": lambda t: _reordered(t).encode(),
}


Shape = Callable[[float], float]


def _curves(score: Shape, val: Shape, rows: int = 60, noise: float = 0.004) -> Table:
    """A results.csv: score and validation loss by the share of the run (0..1), training loss falling, linear rate."""
    chance = random.Random(7)
    scores = [f"metrics/{name}(B)" for name in ("precision", "recall", "mAP50", "mAP50-95")]
    losses = ["train/box_loss", "train/cls_loss"]
    table = [["epoch", *losses, *scores, "val/box_loss", "val/cls_loss", "lr/pg0", "lr/pg1"]]
    for row in range(rows):
        part = row / (rows - 1)
        level = max(0.0, score(part) + chance.gauss(0, noise))
        loss = val(part) * (1 + chance.gauss(0, noise))
        rate = 0.01 * min(1, (row + 1) / 3) * (1 - 0.99 * row / rows)
        train = 0.8 + 2.2 * math.exp(-4 * part)
        cells = [train, train * 0.7, level, level * 0.95, min(0.99, level * 1.4), level, loss, loss * 0.6, rate, rate]
        table.append([str(row + 1), *(f"{cell:.5g}" for cell in cells)])
    return table


def _rise(part: float) -> float:
    return 0.6 * (1 - math.exp(-6 * part))


def _fall(part: float) -> float:
    return 1.1 + 1.5 * math.exp(-5 * part)


MADE = {
    "healthy": _curves(_rise, _fall),
    "overfitted": _curves(lambda p: _rise(p) - 0.15 * max(0, p - 0.4), lambda p: _fall(2 * p) + 0.7 * p),
    "too short": _curves(lambda p: 0.1 + 0.4 * p, lambda p: 2.6 - 1.2 * p, rows=20),
    "standing still": _curves(lambda p: 0.15, lambda p: 2.0 + math.exp(-20 * p)),
}
MUST = {"overfitted": "train.overfit", "too short": "train.undertrained", "standing still": "train.plateau"}


def _said(folder: Path, data: bytes) -> set[tuple[str, str]]:
    (folder / "results.csv").write_bytes(data)
    report = evaluate(load_run(folder))
    assert not report.crashed
    return {(finding.id, finding.severity.value) for finding in report.findings}


def _loud(folder: Path, table: Table) -> set[str]:
    return {id for id, severity in _said(folder, _text(table).encode()) if severity not in {"info", "low"}}


@pytest.mark.parametrize("name", MADE)
def test_made_curves_in_every_dress(name: str, tmp_path: Path) -> None:
    rows = len(MADE[name]) - 1
    (tmp_path / "args.yaml").write_text(f"epochs: {rows}\npatience: 100\nbatch: 16\n", encoding="utf-8")
    plain = _said(tmp_path, _text(MADE[name]).encode())
    assert MUST.get(name, "train.converged_ok") in {id for id, _ in plain}
    for dress, wear in DRESSES.items():
        assert _said(tmp_path, wear(MADE[name])) == plain, dress


def test_parts_of_made_healthy_curves(tmp_path: Path) -> None:
    table = _curves(_rise, _fall, rows=100)
    for rows in range(5, 101, 5):
        assert _loud(tmp_path, table[: rows + 1]) <= {"train.undertrained"}, rows


def _table(path: Path) -> Table:
    lines = [line for line in path.read_text(encoding="utf-8-sig", errors="replace").splitlines() if line.strip()]
    return [[cell.strip() for cell in line.split(",")] for line in lines]


@needs_runs
def test_public_runs_in_every_dress(tmp_path: Path) -> None:
    tried = 0
    for path in sorted(RUNS.glob("*/results.csv"))[::12]:
        table = _table(path)
        if any(len(row) != len(table[0]) for row in table):
            continue
        folder = tmp_path / path.parent.name
        folder.mkdir()
        for name in ("args.yaml", "opt.yaml", "hyp.yaml"):
            if (path.parent / name).is_file():
                (folder / name).write_bytes((path.parent / name).read_bytes())
        plain = _said(folder, _text(table).encode())
        for dress, wear in DRESSES.items():
            assert _said(folder, wear(table)) == plain, (path.parent.name, dress)
            tried += 1
    assert tried > 100


@needs_runs
def test_parts_of_healthy_public_runs(tmp_path: Path) -> None:
    labels = json.loads((RUNS / "labels.json").read_text(encoding="utf-8"))
    healthy = [n for n, v in labels.items() if v["primary"] == "train.converged_ok" and not v["ambiguous"]]
    for name in healthy:
        table = _table(RUNS / name / "results.csv")
        for share in (0.2, 0.4, 0.6, 0.8):
            rows = max(3, round(share * (len(table) - 1)))
            assert not _loud(tmp_path, table[: rows + 1]) & FAULTS, (name, share)
