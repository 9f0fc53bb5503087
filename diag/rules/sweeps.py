"""speed.*: tables in which somebody tried several batch sizes or numbers of GPUs."""

import math

from diag.model.evidence import Console
from diag.model.finding import Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import Table, Tables
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.facts import on_cpu

_SPEEDS = "^(?:images_per_s|it_per_s|s_per_it|epoch_s|total_s)$"


@rule("speed.increase_batch", Severity.LOW)
def increase_batch(
    tables: Tables, args: TrainArgs | None, console: Console | None, *, min_gain: float = 1.2, max_memory: float = 0.95
) -> Verdict:
    """A larger batch was tried, fits and raises images per second.

    min_gain: over the batch in use, or over the smallest one tried; the smallest batch within 5 % of the best is
    named. max_memory: of the card, where the table says what each batch takes.
    """
    sweep = _sweep(tables, "batch")
    if sweep is None:
        return Skip("no_column", {"column": "batch, images_per_s"})
    if on_cpu(args, None, console):
        return None
    used, total = sweep.numbers("^gpu_mem_mib$"), sweep.numbers("^gpu_mem_total_mib$")
    points = []
    for i, (batch, speed) in enumerate(zip(sweep.numbers("^batch$"), _images(sweep), strict=True)):
        full = bool(used and total) and used[i] > max_memory * total[i]
        if 0 < batch < 1e6 and 0 < speed < math.inf and not full:
            points.append((int(batch), speed))
    points.sort()
    if len(points) < 2:
        return Skip("too_few_steps", {"have": len(points), "need": 2})
    asked = args.get("batch") if args else None
    batch, now = next((p for p in points if p[0] == asked), points[0])
    best = max(speed for _, speed in points)
    larger, fast = next(p for p in points if p[1] >= 0.95 * best)
    if larger <= batch or fast < min_gain * now:
        return None
    return Hit(
        values={"batch": batch, "larger": larger, "gain": fast / now},
        fixes=(Fix("batch", {"batch": larger}),),
        evidence=(Source(sweep.file),),
    )


@rule("speed.ddp_no_scaling@sweep", Severity.HIGH, explained_by=("env.nccl_hang_p2p", "speed.ddp_straggler"))
def ddp_no_scaling(tables: Tables, *, min_efficiency: float = 0.65, min_gain: float = 1.3) -> Verdict:
    """Adding GPUs did not raise images per second, by a table of GPU counts.

    min_efficiency: as for two runs that are compared; of the fewest GPUs against the most. A table where it stops to
    scale at some count says so at min_gain: the most GPUs are not this much faster than half of them or fewer.
    """
    sweep = _sweep(tables, "gpus")
    if sweep is None:
        return Skip("no_column", {"column": "gpus, epoch_s"})
    rates = _images(sweep)
    points = sorted(
        (int(g), r) for g, r in zip(sweep.numbers("^gpus$"), rates, strict=True) if 0 < g < 1e5 and 0 < r < math.inf
    )
    if len(points) < 2 or points[0][0] == points[-1][0]:
        return Skip("nothing_to_compare")
    (many, fast), halves = points[-1], [p for p in points if p[0] * 2 <= points[-1][0]]
    few, slow = points[0]
    half = halves[-1] if halves else points[0]
    efficiency = (fast / slow) / (many / few)
    if efficiency >= min_efficiency and fast >= min_gain * half[1]:
        return None
    return Hit(
        values={"gpus": many, "few": few, "gain": fast / slow, "efficiency": efficiency},
        fixes=(Fix("cpus"), Fix("cheaper"), Fix("fewer_gpus", {"device": ",".join(map(str, range(max(1, few))))})),
        evidence=(Source(sweep.file),),
    )


def _sweep(tables: Tables, column: str) -> Table | None:
    """The first table of several settings of a column with a speed for each."""
    for table in tables.tables:
        several = len(set(table.numbers(f"^{column}$"))) > 1 and not table.find("^(?:rank|phase|epoch)$")
        if several and table.find(_SPEEDS):
            return table
    return None


def _images(table: Table) -> tuple[float, ...]:
    """Images (or epochs) per second of each row; batches a second times the batch where both are told."""
    batch = table.numbers("^batch$") or (1.0,) * len(table.rows)
    if speed := table.numbers("^images_per_s$"):
        return speed
    if speed := table.numbers("^it_per_s$"):
        return tuple(s * b for s, b in zip(speed, batch, strict=True))
    if seconds := table.numbers("^s_per_it$"):
        return tuple(b / s if s > 0 else math.nan for s, b in zip(seconds, batch, strict=True))
    return tuple(1 / s if s > 0 else math.nan for s in table.numbers("^(?:epoch_s|total_s)$"))
