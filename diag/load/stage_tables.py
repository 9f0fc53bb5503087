"""Step times and epoch times in tables of foreign profilers, whatever their columns are called and however they lie."""

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from statistics import fmean, median

from diag.load.tables import made_table
from diag.model.columns import plain, seconds
from diag.model.evidence import StepStats
from diag.model.foreign import Phase, Phases, Table, Tables
from diag.model.trace import Stage

_PARTS = (
    (Stage.DATA_WAIT, r"(?:data|batch|input|loader|dataloader)_?(?:wait|time|load(?:ing)?|fetch|next)?"
                      r"|wait_(?:for_)?data|(?:data_?)?load(?:er|ing)?|fetch|get_batch"),
    (Stage.TRANSFER, r"h2d|to_(?:device|gpu|cuda)|(?:host_to_)?device(?:_copy)?|transfer|memcpy|copy(?:_to_\w+)?"),
    (Stage.FORWARD, r"(?:model_)?(?:forward|fwd)(?:_pass)?|loss(?:_fn)?|criterion|compute_loss"),
    (Stage.BACKWARD, r"(?:loss_)?(?:backward|bwd)(?:_pass)?"),
    (Stage.OPTIMIZER, r"optim(?:izer)?(?:_step)?|opt(?:_step)?|(?:clip|grad)_?(?:grad|clip|norm)\w*|clip|unscale"
                      r"|(?:update_)?ema(?:_update)?|zero_grad|scaler\w*"),
)  # fmt: skip
_TOTAL = r"(?:total|step|iter|iteration|wall|batch_total)(?:_time)?"
_LABEL = r"(?:stage|step|phase|part|name|op|operation|component|section|function)s?"
_EPOCH_PARTS = (
    ("train", r"train(?:ing)?(?:_time)?"),
    ("val", r"val(?:id|idate|idation)?(?:_time)?|eval(?:uation)?(?:_time)?"),
    ("save", r"sav(?:e|ing)(?:_\w+)?|ckpt(?:_\w+)?|checkpoint(?:s|ing)?(?:_\w+)?|write_checkpoint"),
    ("plots", r"plots?(?:ting)?(?:_time)?"),
    ("log", r"log(?:s|ging|ger)?(?:_time)?|wandb|tensorboard|callbacks?|mlflow|comet|clearml"),
)
_MAX_STEPS = 100_000


def turned(tables: Tables | None) -> Tables | None:
    """The tables, and those that hold one stage a row turned into one row, so that stages are columns."""
    if tables is None:
        return None
    made = [t for table in tables.tables if (t := _turned(table)) is not None]
    return Tables((*tables.tables, *made)) if made else tables


def _turned(table: Table) -> Table | None:
    if not 2 <= len(table.rows) <= 60 or not re.fullmatch(_LABEL, plain(table.columns[0])[0]):
        return None
    names = [row[0].strip() for row in table.rows]
    if len(set(names)) < len(names) or any(_finite(n) is not None for n in names):
        return None
    for at, column in enumerate(table.columns[1:], 1):
        cells = [row[at] for row in table.rows]
        known, unit = seconds(column, cells[0])[1], re.search(r"(?:^|[_ (\[])(ns|us|ms|s|sec|min)(?:$|[_ )\]])", column)
        if known and unit and all(_finite(c) is not None for c in cells):
            return made_table(table.file, [f"{n} [{unit[1]}]" for n in names], [cells], table.line)
    return None


def table_steps(tables: Tables | None) -> StepStats | None:
    """Seconds of a training step by stage, from a table with a column for each of its parts.

    At least the backward pass beside the loader or the forward pass has to be there; a table of ranks is none.
    """
    for table in tables.tables if tables else ():
        if table.find(r"^(?:phase|rank|worker)$") or len(table.rows) > _MAX_STEPS:
            continue
        parts = list(_parts(table))
        stages = {stage for stage, _, _ in parts}
        if Stage.BACKWARD not in stages or not stages & {Stage.DATA_WAIT, Stage.FORWARD}:
            continue
        made = _steps(table, parts)
        if made is not None:
            return made
    return None


def _parts(table: Table) -> Iterator[tuple[Stage, int, float]]:
    for at, column in enumerate(table.columns):
        name, factor = seconds(column, table.rows[0][at] if table.rows else "")
        stage = next((s for s, pattern in _PARTS if re.fullmatch(pattern, name)), None)
        if stage is not None and factor:
            yield stage, at, factor


def _steps(table: Table, parts: list[tuple[Stage, int, float]]) -> StepStats | None:
    each: dict[Stage, list[float]] = {stage: [] for stage, _, _ in parts}
    totals: list[float] = []
    whole = next(((i, f) for i, c in enumerate(table.columns) if (f := _total(c))), None)
    count = table.numbers(r"^(?:iters?|steps?_done|batches)$")
    if len(count) > 1 and all(a < b for a, b in pairwise(count)):
        count = ()  # they number the steps
    for n, row in enumerate(table.rows):
        per = count[n] if n < len(count) and count[n] > 0 else 1.0
        values = [(s, v * f / per) for s, i, f in parts if (v := _finite(row[i])) is not None and v >= 0]
        if len(values) < len(parts):
            continue
        sums = {stage: sum(v for s, v in values if s is stage) for stage in each}
        for stage, value in sums.items():
            each[stage].append(value)
        named = _finite(row[whole[0]]) if whole else None
        totals.append(max(named * whole[1] / per if named is not None and whole else 0.0, sum(sums.values())))
    if not totals or fmean(totals) <= 0:
        return None
    mean = {stage: fmean(v) for stage, v in each.items()}
    # A profile of one row is a mean over steps that it doesn't count.
    steps = len(totals) if len(totals) > 1 else 5
    middle = {stage: median(v) for stage, v in each.items()}
    return StepStats(steps, steps, mean, mean, middle, fmean(totals), table.file, sampled=True, line=table.line)


def _total(column: str) -> float:
    """What makes seconds of a column with the time of a whole step; 0 for another, and for a mere counter."""
    name, unit = plain(column)
    return seconds(column)[1] if unit and re.fullmatch(_TOTAL, name) else 0.0


def epoch_phases(tables: Tables | None) -> Phases | None:
    """Seconds of training, validation, saving ... by epoch, from a table with a column for each. None without one."""
    for table in tables.tables if tables else ():
        if not table.find(r"^epochs?$") or table.find(r"^(?:phase|rank)$"):
            continue
        found = [(part, i, f) for i, c in enumerate(table.columns) if (f := _timed(c)) and (part := _epoch_part(c))]
        if len({part for part, _, _ in found}) < 2 or "train" not in {part for part, _, _ in found}:
            continue
        epochs, rows = table.numbers(r"^epochs?$"), []
        for n, row in enumerate(table.rows):
            epoch = int(epochs[n]) if math.isfinite(epochs[n]) else n
            for part, at, factor in found:
                value = _finite(row[at])
                if value is not None and value >= 0:
                    spent = {"forward": value * factor} if part == "train" else {}
                    rows.append(Phase(epoch, part, 0, spent, value * factor))
        if rows:
            return Phases(tuple(rows), table.file, table.line)
    return None


def _timed(column: str) -> float:
    name, unit = plain(column)
    return seconds(column)[1] if unit or name.endswith("_time") else 0.0


def _epoch_part(column: str) -> str:
    name = plain(column)[0]
    return next((part for part, pattern in _EPOCH_PARTS if re.fullmatch(pattern, name)), "")


def _finite(cell: str) -> float | None:
    found = re.match(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?)", cell)
    value = float(found[1]) if found else math.nan
    return value if math.isfinite(value) else None
