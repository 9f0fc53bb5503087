"""Foreign tables: telemetry, stages.csv, sweeps, counts; and headerless results.txt of YOLOv5 and YOLOv7."""

import csv
import math
import re
from collections.abc import Sequence

from diag.load.dialect import delimiter, pointed
from diag.load.read import bounded
from diag.model.columns import scaled, spelled_out, standard
from diag.model.evidence import Ledger, StepStats
from diag.model.foreign import Phase, Phases, Table, Tables
from diag.model.run import Epoch, Epochs
from diag.model.trace import Stage

MAX_TABLE_BYTES = 32 * 1024 * 1024
_MAX_ROWS = 200_000
_MAX_COLUMNS = 500
_STAGES = {
    "data_wait": Stage.DATA_WAIT,
    "h2d": Stage.TRANSFER,
    "forward": Stage.FORWARD,
    "loss": Stage.FORWARD,
    "backward": Stage.BACKWARD,
    "optim": Stage.OPTIMIZER,
}
_SMI_UNIT = re.compile(r" \[[^\]]{1,8}\]$")
_SMI = {
    "utilization.gpu": "gpu_util_pct",
    "memory.used": "gpu_mem_mib",
    "memory.total": "gpu_mem_total_mib",
    "power.draw": "power_w",
    "power.limit": "power_limit_w",
    "power.default_limit": "power_default_w",
    "enforced.power.limit": "power_limit_w",
    "temperature.gpu": "gpu_temp_c",
    "clocks.sm": "sm_clock_mhz",
    "clocks.current.sm": "sm_clock_mhz",
    "clocks.max.sm": "max_sm_mhz_limit",
    "pcie.link.gen.current": "pcie_gen",
    "pcie.link.gen.gpucurrent": "pcie_gen",
    "pcie.link.gen.max": "pcie_gen_max",
    "pcie.link.gen.gpumax": "pcie_gen_max",
    "pcie.link.width.current": "pcie_width",
    "pcie.link.width.max": "pcie_width_max",
}
"""Columns of `nvidia-smi --query-gpu=... --format=csv` by the names that other telemetry uses; units are cut off."""
_OLD = (
    "train/box_loss", "train/obj_loss", "train/cls_loss", "train/total_loss", "labels", "img_size",
    "metrics/precision", "metrics/recall", "metrics/mAP_0.5", "metrics/mAP_0.5:0.95",
    "val/box_loss", "val/obj_loss", "val/cls_loss",
)  # fmt: skip


def parse_table(text: str, *, name: str) -> Table | None:
    """Header and rows; short rows are filled up, longer ones cut. None without two columns and a row."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "").split("\n")
    csv.field_size_limit(1_000_000)
    mark = delimiter(next((line for line in lines if line.strip()), ""))
    try:
        cells = [row for row in csv.reader(lines[: _MAX_ROWS + 1], delimiter=mark) if any(c.strip() for c in row)]
    except csv.Error:
        return None
    if mark != ",":  # where commas are decimal marks
        cells = [cells[0], *(pointed(row) for row in cells[1:])] if cells else cells
    if len(cells) < 2 or not 1 < len(cells[0]) <= _MAX_COLUMNS:
        return None
    listed = [c.strip().lstrip("\ufeff").strip() for c in cells[0]]
    columns = [_SMI.get(_SMI_UNIT.sub("", c).lower(), c.lower() if c.isupper() else c) for c in listed]
    width = len(columns)
    rows = [[c.strip() for c in (*row, *[""] * width)[:width]] for row in cells[1:]]
    return made_table(name, columns, rows)


def made_table(name: str, columns: Sequence[str], rows: list[list[str]], line: int | None = None) -> Table:
    """A table whose columns have their names and units of `diag.model.columns`.

    `line` is where it begins in a text that holds more. Where host memory is given in percent beside its size, its
    size in use is added.
    """
    listed, rows = spelled_out(columns, rows)
    names, factors = standard(listed, rows)
    if "phase" in {name.lower() for name in names}:  # a stage table, whose columns are seconds
        factors += [(at, 1e-3) for at, name in enumerate(names) if name.lower().endswith("_ms")]
        names = tuple(re.sub(r"_ms$", "_s", name, flags=re.I) for name in names)
    for at, factor in factors:
        for row in rows:
            row[at] = scaled(row[at], factor)
    if {"ram_used_pct", "ram_total_gb"} <= set(names) and "ram_used_gb" not in names:
        share, total = names.index("ram_used_pct"), names.index("ram_total_gb")
        names = (*names, "ram_used_gb")
        for row in rows:
            row.append(_product(row[share], row[total]))
    return Table(name, names, tuple(tuple(row) for row in rows), line)


def _product(percent: str, total: str) -> str:
    try:
        return f"{float(percent.strip('% ')) / 100 * float(total):.6g}"
    except ValueError:
        return ""


def phases(tables: Tables | None) -> Phases | None:
    """The rows of a stages.csv: a table with a phase and its wall seconds."""
    table = tables.having(r"^phase$", r"^wall(_s)?$") if tables else None
    if table is None:
        return None
    walls, iters, epochs = table.numbers(r"^wall(_s)?$"), table.numbers(r"^iters?$"), table.numbers(r"^epoch$")
    seconds = {c.removesuffix("_s"): table.numbers(f"^{re.escape(c)}$") for c in table.columns if c.endswith("_s")}
    seconds.pop("wall", None)
    rows = []
    for i, name in enumerate(table.texts(table.find(r"^phase$"))):
        if not math.isfinite(walls[i]) or walls[i] < 0:
            continue
        spent = {c: v[i] for c, v in seconds.items() if math.isfinite(v[i]) and v[i] >= 0}
        rows.append(Phase(_whole(epochs, i), name.strip().lower(), _whole(iters, i), spent, walls[i]))
    return Phases(tuple(rows), table.file, table.line) if rows else None


def _whole(values: tuple[float, ...], i: int) -> int:
    return int(values[i]) if i < len(values) and math.isfinite(values[i]) and abs(values[i]) < 1e12 else 0


def phase_ledger(found: Phases | None) -> Ledger | None:
    """Seconds by stage of all phases: batches by their parts, validation, and what lies between."""
    if found is None:
        return None
    total = dict.fromkeys(Stage, 0.0)
    for row in found.rows:
        if row.name == "train":
            named = 0.0
            for column, stage in _STAGES.items():
                total[stage] += row.seconds.get(column, 0.0)
                named += row.seconds.get(column, 0.0)
            total[Stage.LOG] += max(0.0, row.wall_s - named)
        else:
            stage = (
                Stage.EPOCH_GAP
                if "start" in row.name
                else Stage.VALIDATE
                if row.name.startswith("val")
                else Stage.OTHER
            )
            total[Stage.CHECKPOINT if row.name.startswith(("save", "ckpt", "checkpoint")) else stage] += row.wall_s
    return Ledger({s: v for s, v in total.items() if v}, sum(total.values()))


def phase_steps(found: Phases | None) -> StepStats | None:
    """Seconds of a training step by stage, from the phases called train."""
    rows = [r for r in found.of("train") if r.iters > 0] if found else []
    steps = sum(r.iters for r in rows)
    wall = sum(r.wall_s for r in rows)
    if found is None or not steps or wall <= 0:
        return None
    mean = dict.fromkeys(dict.fromkeys(_STAGES.values()), 0.0)
    for column, stage in _STAGES.items():
        mean[stage] += sum(r.seconds.get(column, 0.0) for r in rows) / steps
    return StepStats(steps, steps, mean, mean, mean, wall / steps, found.file, line=found.line)


def parse_results_txt(text: str, *, name: str = "results.txt") -> Epochs | None:
    """The rows of a headerless results.txt (`0/99 3.1G 0.08 ...`); None if this is none."""
    rows: list[Epoch] = []
    dropped = 0
    for number, line in enumerate(text.splitlines()[:_MAX_ROWS]):  # a row that counts from 0 stands one line lower
        cells = line.split()
        if len(cells) < 2:
            dropped += bool(cells)
            continue
        epoch = cells[0].partition("/")[0]
        if len(cells) < 14 or not (epoch.isascii() and epoch.isdigit() and len(epoch) < 10):
            dropped += 1
            continue
        numbers = [_float(c) for c in cells[2:]]
        if not ("/" in cells[0] and cells[1][-1:] in "GgMm" and len(numbers) in {12, 13}):
            dropped += 1
            continue
        names = _OLD if len(numbers) == 13 else tuple(n for n in _OLD if n != "train/total_loss")
        values = {n: v for n, v in zip(names, numbers, strict=True) if "/" in n and n != "train/total_loss"}
        rows.append(Epoch(number, float(epoch), values))
    if len(rows) <= dropped:
        return None
    return Epochs(tuple(rows), tuple(rows[0].values), dropped, name)


def _float(cell: str) -> float:
    try:
        return bounded(float(cell))
    except ValueError:
        return math.nan
