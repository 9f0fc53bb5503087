"""Results as trackers export them -> one results table: TensorBoard, W&B, MLflow, Comet, JSON records."""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from diag.load.dialect import Grid, grid

Pairs = list[tuple[float, float]]
"""(step, value)."""
_HEADS = ("(B)", "(M)", "(P)")
_LOSSES = ("box", "obj", "cls", "dfl", "seg", "pose", "kobj", "giou", "l1", "rle", "sem")
_METRICS = ("precision", "recall", "mAP50", "mAP50-95")
RESULTS: tuple[str, ...] = (
    *(f"{split}/{name}_loss" for split in ("train", "val") for name in _LOSSES),
    *(
        f"{split}/{name}"
        for split in ("train", "val")
        for name in ("loss", "box_om", "cls_om", "dfl_om", "box_oo", "cls_oo", "dfl_oo")
    ),
    *(f"metrics/{name}{head}" for head in _HEADS for name in _METRICS),
    *(f"metrics/{name}" for name in (*_METRICS, "mAP_0.5", "mAP_0.5:0.95", "accuracy_top1", "accuracy_top5")),
    *(f"lr/pg{i}" for i in range(4)),
    *(f"x/lr{i}" for i in range(3)),
)
"""The columns of results.csv of all releases."""


def _normal(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


_LOSS = re.compile(r"(train|val)[/_.](\w{1,30}_loss)")
_BY_NORMAL = {_normal(name): name for name in reversed(RESULTS)}
_STEPS = ("step", "_step", "epoch", "global_step", "trainer/global_step", "iteration")
_MAX_RECORDS = 200_000


def column(name: str) -> str:
    """The column of results.csv that a chart, a tag or a file name stands for; empty for another one.

    Separators and brackets do not count: `metrics_mAP50-95_B_`, `metrics/mAP50-95B` and `val_box_loss` are known. A
    name may stand behind that of a run: `glad-sun-7 - train/box_loss`, `run-.-tag-val_box_loss.csv`.
    """
    rest = re.sub(r"\.(?:csv|tsv|txt|json)$", "", name)
    rest = re.split(r" - |-tag-|tag=", rest)[-1]
    if known := _BY_NORMAL.get(_normal(rest), ""):
        return known
    loss = _LOSS.fullmatch(rest.strip())  # of a task that came later
    return f"{loss[1]}/{loss[2]}" if loss else ""


@dataclass(frozen=True)
class Merged:
    """One results.csv of exports that hold a part each, the files it was made of, and values that had no place."""

    text: str
    used: frozenset[str]
    doubled: int
    """Values for a step that had one already: runs that were mixed, or a run that was resumed."""


def merged(files: Mapping[str, str]) -> Merged | None:
    """The table of these exports; None when they tell of no training.

    Values of one step go into one row, the last one of each; steps of different charts are joined.
    """
    found: dict[str, dict[float, float]] = {}
    used: set[str] = set()
    doubled = 0
    for name, text in files.items():
        for title, pairs in _series(name, text):
            if pairs and title not in found:
                found[title] = dict(pairs)
                doubled = max(doubled, len(pairs) - len(found[title]))
                used.add(name)
    if sum(t.startswith(("train/", "val/", "metrics/")) for t in found) < 2:
        return None
    return Merged(_csv(found), frozenset(used), doubled)


def _series(name: str, text: str) -> Iterable[tuple[str, Pairs]]:
    rows = grid(text)
    if rows is None or len(rows) < 2:
        return ()
    head = [c.strip().strip('"') for c in rows[0]]
    low = [_normal(c) for c in head]
    if low[:3] == ["walltime", "step", "value"] or set(low) == {"step", "value"}:
        title = column(name)
        return [(title, _pairs(rows, low.index("step"), low.index("value")))] if title else ()
    if long := _long(rows, low):
        return long
    if (at := next((i for i, c in enumerate(low) if c in map(_normal, _STEPS)), None)) is None:
        return ()
    # One chart with its extremes, or a single run's history: other runs of the chart have no name to be told by.
    titles = [(i, column(c)) for i, c in enumerate(head) if i != at and not c.endswith(("__MIN", "__MAX"))]
    known = [(i, t) for i, t in titles if t]
    names = [t for _, t in known]
    return [(t, _pairs(rows, at, i)) for i, t in known] if len(set(names)) == len(names) else ()


def _long(rows: Grid, low: list[str]) -> list[tuple[str, Pairs]]:
    """A row for each value: a name, a value, a step."""
    key = next(
        (i for i, c in enumerate(low) if c in {"key", "metric", "metricname", "tag", "name", "series", "variable"}),
        None,
    )
    value = next((i for i, c in enumerate(low) if c in {"value", "metricvalue", "y"}), None)
    step = next((i for i, c in enumerate(low) if c in {"step", "epoch", "iteration", "x"}), None)
    if key is None or value is None or step is None:
        return []
    groups: dict[str, Grid] = {}
    for row in rows[1:]:
        if len(row) == len(low) and (title := column(row[key])):
            groups.setdefault(title, [rows[0]]).append(row)
    return [(title, _pairs(group, step, value)) for title, group in groups.items()]


def _pairs(rows: Grid, step: int, value: int) -> Pairs:
    made: Pairs = []
    for row in rows[1:]:
        if len(row) > max(step, value) and (at := _float(row[step])) is not None and row[value].strip():
            number = _float(row[value])
            made.append((at, float("nan") if number is None else number))
    return made


def _float(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _csv(found: Mapping[str, Mapping[float, float]]) -> str:
    order = [name for name in RESULTS if name in found] + [name for name in found if name not in RESULTS]
    steps = sorted({step for series in found.values() for step in series})
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["epoch", *order])
    for step in steps:
        writer.writerow([f"{step:g}", *(_cell(found[name].get(step)) for name in order)])
    return out.getvalue()


def _cell(value: float | None) -> str:
    return "nan" if value is None else repr(value)


def records(text: str) -> str | None:
    """JSON records (a list of objects, an object of lists, or an object a line) as CSV; None for anything else."""
    made = _objects(text)
    if not made:
        return None
    names = list(dict.fromkeys(str(k) for record in made for k in record))
    if len(names) < 2 or sum(isinstance(v, (dict, list)) for v in made[0].values()):
        return None
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([["nan" if (v := record.get(n)) is None else str(v) for n in names] for record in made])
    return out.getvalue() if grid(out.getvalue()) else None


def _flat(record: Any) -> bool:
    """A single sample: mostly numbers, and none of them within another thing."""
    numbers = [isinstance(v, (int, float)) for v in record.values()] if isinstance(record, dict) else []
    return len(numbers) >= 3 and sum(numbers) > len(numbers) / 2


def _objects(text: str) -> list[dict[str, Any]]:
    head = text.lstrip()[:1]
    try:
        if head == "[":
            made = json.loads(text)
        elif head == "{":
            lines = [line for line in text.splitlines() if line.strip()][:_MAX_RECORDS]
            try:
                made = [json.loads(line) for line in lines] if len(lines) > 1 else []
            except ValueError:
                made = []
            if not made and len(lines) == 1 and _flat(whole := json.loads(text)):
                made = [whole]
            if not made and isinstance(whole := json.loads(text), dict):
                lists = {k: v for k, v in whole.items() if isinstance(v, list)}
                same = len({len(v) for v in lists.values()}) == 1 and len(lists) == len(whole) >= 2
                made = [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)] if same else []
        else:
            return []
    except (ValueError, RecursionError):
        return []
    made = made[:_MAX_RECORDS] if isinstance(made, list) else []
    ours = bool(made) and isinstance(made[0], dict) and "k" in made[0]  # a trace of diag
    return made if made and not ours and all(isinstance(r, dict) and r for r in made) else []
