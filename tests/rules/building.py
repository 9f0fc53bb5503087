"""Evidence from the short notation of the case files."""

import re
from array import array
from dataclasses import replace
from typing import Any

import msgspec

from diag.load.compare import compare
from diag.load.console import parse_console, parse_log
from diag.load.counters import summarize
from diag.load.curves import curves
from diag.load.foreign import assemble
from diag.model.check import Checks
from diag.model.counters import CountedGpu, Counters
from diag.model.curves import Curves
from diag.model.evidence import Dataset, Evidence, Ledger, LoaderStats, Ranks, SaveStats, ValidationStats
from diag.model.hardware import Baseline
from diag.model.run import Epoch, Epochs, RunRecord, TrainArgs
from diag.model.trace import Lap, Mark, Stage
from diag.stats import step_stats

_RAMP = re.compile(r"(\S+?)(?:>(\S+))? x(\d+)")


def evidence(raw: dict[str, Any]) -> Evidence:  # noqa: PLR0912 # one flat case per kind of evidence
    """The evidence that a case describes; see the case files for the notation."""
    made: dict[str, Any] = {}
    foreign: dict[str, Any] = {}
    for name, value in raw.items():
        match name:
            case "args":
                made["args"] = TrainArgs(value)
            case "curves":
                made["curves"] = make_curves(value)
            case "steps":
                stages = {k: v for k, v in value.items() if k not in {"count", "tail"}}
                laps = make_laps(value["count"], stages, **value.get("tail", {}))
                made["steps"] = step_stats(laps, file="trace/rank0.jsonl")
            case "loader":
                made["loader"] = make_loader(**value)
            case "ranks":
                traces = {int(rank): make_laps(value["count"], stages) for rank, stages in value["each"].items()}
                steps = {r: stats for r, laps in traces.items() if (stats := step_stats(laps, file=f"rank{r}"))}
                made["ranks"] = Ranks(steps)
            case "validation":
                parts = {k: float(v) for k, v in value.items() if k not in {"runs", "images"}}
                made["validation"] = ValidationStats(value["runs"], value["images"], parts, "trace/rank0.jsonl")
            case "saves":
                made["saves"] = SaveStats(**value, file="trace/rank0.jsonl")
            case "ledger":
                seconds = {Stage(k): float(v) for k, v in value.items()}
                made["ledger"] = Ledger(seconds, sum(seconds.values()))
            case "console":
                made["console"] = parse_console(value)
            case "run":
                base = {"id": "r", "schema_version": 1, "started": "2026-01-02T03:04:05Z", "overrides": {}, "args": {}}
                made["run"] = msgspec.convert({**base, **value}, RunRecord)
            case "dataset":
                base = {"yaml": "data.yaml", "task": "detect", "names": {0: "a"}, "splits": {}, "class_counts": {}}
                made["dataset"] = msgspec.convert({**base, **value}, Dataset)
            case "counters":
                made["counters"] = make_counters(**value)
            case "checks":
                made["checks"] = msgspec.convert({"file": "check.json", **value}, Checks)
            case "baseline":
                made["baseline"] = msgspec.convert(value, Baseline)
            case "log" | "notes" | "tables" | "labels" | "data":
                foreign[name] = value
            case "peers":
                made["peers"] = compare({run: evidence(facts) for run, facts in value.items()})
            case _:
                raise ValueError(f"unknown evidence {name}")
    known = Evidence(**made)
    return _foreign(known, foreign) if foreign else known


def _foreign(known: Evidence, raw: dict[str, Any]) -> Evidence:
    """`log` is a console log; `notes`, `tables` and `labels` map file names to texts; `data` is a data.yaml."""
    return assemble(
        known,
        logs=[parse_log(raw["log"])] if "log" in raw else [],
        texts=list(raw.get("notes", {}).items()),
        tables=raw.get("tables", {}),
        labels=list(raw.get("labels", {}).items()),
        yamls={"data.yaml": raw["data"]} if "data" in raw else {},
    )


def make_loader(
    *, workers: int = 0, hits: float = 0.0, kb: float = 200.0, megapixels: float = 1.0, slow: float = 0.1, **ms: float
) -> LoaderStats:
    """Loader times in milliseconds a sample by part, e.g. `read: 1, decode: 5, augment: 3, collate: 1`."""
    parts = {part: ms.get(part, 0.0) / 1e3 for part in ("read", "decode", "augment", "collate")}
    rate = 1 / sum(parts.values())
    return LoaderStats(
        images=1000,
        batches=100,
        workers=workers,
        mean_s=parts,
        images_per_s=dict.fromkeys(range(workers) if workers else [-1], rate),
        hit_share=hits,
        bytes_per_file=kb * 1e3,
        pixels_per_image=megapixels * 1e6,
        slowest=(("images/train/big.jpg", slow),),
        file="trace/rank0.jsonl",
    )


def make_curves(columns: dict[str, Any]) -> Curves | None:
    """Columns as ramps: `0.1>0.5 x40, 0.5 x10` is 40 rows from 0.1 to 0.5, then ten of 0.5."""
    values = {name: ramp(str(text)) for name, text in columns.items()}
    count = max(map(len, values.values()))
    values.setdefault("epoch", [float(i + 1) for i in range(count)])
    rows = tuple(Epoch(i + 1, values["epoch"][i], {n: v[i] for n, v in values.items()}) for i in range(count))
    return curves(Epochs(rows, tuple(values)))


def make_counters(
    seconds: float,
    series: dict[str, str],
    gpus: list[dict[str, Any]] | None = None,
    marks: list[tuple[str, float, dict[str, Any]]] | None = None,
    *,
    steady: bool = True,
) -> Counters:
    """Ramps (see make_curves) spread evenly over so many seconds, as counters.jsonl would hold them.

    `marks` are name, second and values.
    """
    columns: dict[str, tuple[array[float], array[float]]] = {}
    for name, text in series.items():
        values = ramp(text)
        times = [seconds * i / (len(values) - 1) for i in range(len(values))]
        columns[name] = array("d", times), array("d", values)
    told = tuple(Mark(name, int(at * 1e9), values) for name, at, values in marks or ())
    made = summarize(columns, tuple(msgspec.convert(gpu, CountedGpu) for gpu in gpus or ()), told)
    return replace(made, steady=steady)


def ramp(text: str) -> list[float]:
    """The numbers of one column."""
    numbers: list[float] = []
    for start, end, count in _RAMP.findall(text):
        first, last, n = float(start), float(end or start), int(count)
        numbers += [first if n == 1 or first == last else first + (last - first) * i / (n - 1) for i in range(n)]
    return numbers


def make_laps(
    count: int, seconds: dict[str, float], *, epoch_steps: int = 1000, every: int = 0, data_wait: float = 0.0
) -> list[Lap]:
    """Laps of `count` equal steps; with `every`, each so many-th waits `data_wait` seconds instead."""
    laps, clock = [], 0
    for step in range(count):
        slow = {"data_wait": data_wait} if every and step % every == every - 1 else {}
        for stage, length in (seconds | slow).items():
            end = clock + round(length * 1e9)
            laps.append(Lap(Stage(stage), clock, end, step, step // epoch_steps))
            clock = end
    return laps
