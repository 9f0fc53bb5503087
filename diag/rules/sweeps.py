"""speed.*: tables in which somebody tried several batch sizes, workers or numbers of GPUs, and profiles."""

import math
import re
from statistics import median

from diag.model.evidence import Console
from diag.model.finding import Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import Notes, Table, Tables
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.facts import on_cpu, whole
from diag.rules.limits import cpus_allowed, cpus_visible

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
        evidence=(whole(sweep),),
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
        evidence=(whole(sweep),),
    )


@rule("speed.cpu_oversubscription@sweep", Severity.CRITICAL)
def cpu_oversubscription(
    tables: Tables,
    notes: Notes | None,
    args: TrainArgs | None,
    console: Console | None,
    *,
    min_loss: float = 1.3,
    crowd: float = 1.25,
    max_iowait: float = 15.0,
) -> Verdict:
    """More workers than CPUs make it slower: in a sweep of worker counts the one in use loses to fewer.

    WongKinYiu/yolov9#361. min_loss: the speed of the best smaller count over that of the one in use (or of the most
    that were tried). crowd: workers for each CPU, or the load for each CPU; a disk that many readers make slower shows
    in iowait (max_iowait), and is another thing.
    """
    sweep = _sweep(tables, "workers")
    if sweep is None:
        return Skip("no_column", {"column": "workers"})
    cpus = cpus_allowed(notes, tables) or cpus_visible(notes)
    wait, load = tables.series("iowait"), sweep.numbers("^load1$")
    rows = zip(sweep.numbers("^workers$"), _images(sweep), load or (0.0,) * len(sweep.rows), strict=True)
    points = sorted((int(w), r, n) for w, r, n in rows if 0 <= w < 1e5 and 0 < r < math.inf)
    if not cpus or len(points) < 3 or on_cpu(args, None, console) or (wait and median(wait) > max_iowait):
        return None
    asked = args.get("workers") if args else None
    workers, now, runnable = next((p for p in points if p[0] == asked), points[-1])
    few, best, _ = max((p for p in points if p[0] <= workers), key=lambda p: p[1])
    if best < min_loss * now or (workers < crowd * cpus and runnable < crowd * cpus):
        return None
    return Hit(
        values={"workers": workers, "cpus": cpus, "few": few, "loss": best / now},
        fixes=(Fix("workers", {"workers": few}),),
        evidence=(whole(sweep),),
        severity=Severity.MEDIUM,
    )


@rule("speed.batch_small", Severity.LOW)
def batch_small(notes: Notes, *, min_launch: float = 25.0, min_ratio: float = 1.5) -> Verdict:
    """The step is bound by launching kernels: a profile spends its CPU time in cudaLaunchKernel while the GPU idles.

    PyTorch's profiler: min_launch percent of the CPU's own time, and min_ratio of CPU over CUDA time in all. A step
    that waits for its loader has its time in the loader's rows instead.
    """
    launch = next((n for n in notes.find(r"^(?:cuda|hip|cu)LaunchKernel\S*\s+[\d.]+%")), None)
    times = {}
    for note in notes.find(r"^Self (?:CPU|CUDA) time total: [\d.]+(?:us|ms|s)\b"):
        found = re.search(r"Self (CPU|CUDA) time total: (\d+(?:\.\d+)?)(us|ms|s)\b", note.text)
        if found:
            times[found[1]] = float(found[2]) * {"us": 1e-6, "ms": 1e-3, "s": 1.0}[found[3]]
    if launch is None or len(times) < 2 or times["CUDA"] <= 0:
        return Skip("not_said", {"what": "torch.profiler"})
    found = re.search(r"(\d+(?:\.\d+)?)%", launch.text)
    share = float(found[1]) if found else 0.0
    if share < min_launch or times["CPU"] < min_ratio * times["CUDA"]:
        return None
    return Hit(
        values={"share": share / 100, "ratio": times["CPU"] / times["CUDA"]},
        fixes=(Fix("batch"), Fix("fewer_launches")),
        evidence=(Source(launch.file, launch.line, launch.text),),
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
