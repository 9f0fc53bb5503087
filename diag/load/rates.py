"""A log of learning rates (a table of epochs or steps and rates) -> the rates of a run without an LR column."""

import math
import re
from dataclasses import replace

from diag.model.foreign import Table, Tables
from diag.model.run import Epoch, Epochs

_RATE = re.compile(r"(?:^|[/_ ])(?:lr|learning_?rate)(?:$|[/_ ]?(?:pg|group|param_group)?_?\d$)|^pg_?\d$", re.I)
_EPOCH = re.compile(r"^epochs?$", re.I)
_MIN_EPOCHS = 3
_MAX_EPOCHS = 100_000


def with_rates(epochs: Epochs | None, tables: Tables | None) -> Epochs | None:
    """The epochs with the rates of a table where they have none; epochs of the rates alone where there are none.

    Several rows of one epoch (a log of steps) count with their last. The rates are named `lr/pg0`, `lr/pg1` ...
    """
    if epochs is not None and any(c.startswith(("lr/", "x/lr")) for c in epochs.columns):
        return epochs
    table = next((t for t in tables.tables if _is_log(t)), None) if tables else None
    if table is None:
        return epochs
    names = {c: f"lr/pg{i}" for i, c in enumerate(c for c in table.columns if _RATE.search(c))}
    numbers = table.numbers(_EPOCH.pattern)
    found: dict[float, tuple[int, dict[str, float]]] = {}
    for i, epoch in enumerate(numbers[:_MAX_EPOCHS]):
        if math.isfinite(epoch):
            found[epoch] = i + 1, {new: table.numbers(f"^{re.escape(old)}$")[i] for old, new in names.items()}
    if epochs is None:
        if len(found) < _MIN_EPOCHS:
            return None
        made = tuple(Epoch(row, epoch, rates) for epoch, (row, rates) in found.items())
        return Epochs(made, tuple(names.values()), 0, table.file)
    if not {r.epoch for r in epochs.rows} & set(found):
        return epochs
    nan = dict.fromkeys(names.values(), math.nan)
    rows = tuple(replace(r, values={**r.values, **found.get(r.epoch, (0, nan))[1]}) for r in epochs.rows)
    return replace(epochs, rows=rows, columns=(*epochs.columns, *names.values()))


def _is_log(table: Table) -> bool:
    """True for a table of epochs and rates; one that also holds hardware or losses is something else."""
    other = any(re.search(r"loss|util|temp|power|mem", c, re.I) for c in table.columns)
    return not other and any(map(_EPOCH.match, table.columns)) and any(_RATE.search(c) for c in table.columns)
