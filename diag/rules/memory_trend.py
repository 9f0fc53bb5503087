"""mem.*: GPU memory over time, and AutoBatch's measurement of it."""

import re
from itertools import pairwise

from diag.model.curves import Curves
from diag.model.evidence import Console
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Verdict
from diag.model.foreign import Tables, TrainLog
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.facts import HELD, held_gib, low_and_high, memory_peak, sources, table_source, whole

_WHICH = "^(?:gpu|index|gpu_index|rank)$"
_GROWTH = r"^(?:gpu_?)?mem(?:ory)?_?alloc\w*|allocated"


@rule("mem.gpu_leak", Severity.HIGH)
def gpu_leak(
    tables: Tables | None, log: TrainLog | None, *, min_points: int = 8, min_rise: float = 0.15, full: float = 0.9
) -> Verdict:
    """Allocated GPU memory rises steadily for many epochs.

    Only memory that is allocated counts where it is told apart from what is reserved; a column of reserved memory
    rises in steps and stays. min_rise: of the last quarter over the first, with a rise in nearly every step of
    min_points or more. full: where the log names the card and what is left of the run would not fill it so far, it
    is medium: the run gets through. Of ten public logs one rose in each of its 18 steps (3.3 to 4.4 GiB); in the
    others, from the third epoch on, at most half of the steps rise.
    """
    allocated = tables.series(_GROWTH) if tables else ()
    held = allocated or held_gib(tables)
    held = held or tuple(e.gpu_mem_g for e in (log.epochs if log else ()) if e.gpu_mem_g)
    if len(held) < min_points:
        return Skip("too_few_epochs", {"have": len(held), "need": min_points})
    first, last = low_and_high(held)
    rises = sum(b > a for a, b in pairwise(held)) / (len(held) - 1)
    # Reserved memory needs a rise to the very end; half of the steps is what a plateau after growth gives.
    if first <= 0 or last / first - 1 < min_rise or rises < (0.6 if allocated else 0.8):
        return None
    return Hit(
        values={"case": "allocated" if allocated else "held", "rise": last / first - 1, "points": len(held)},
        fixes=(Fix("detach"), Fix("restart", {"resume": True})),
        severity=Severity.MEDIUM if not tables and log and _fits(log, full) else None,
        evidence=table_source(tables, _GROWTH) or table_source(tables, HELD) or ((memory_peak(log),) if log else ()),
    )


def _fits(log: TrainLog, full: float) -> bool:
    """Whether memory that grows as it did stays below this share of the card up to the last planned epoch."""
    rows = [e for e in log.epochs if e.gpu_mem_g]
    if len(rows) < 2 or not log.gpu_mib:
        return False
    half = rows[len(rows) // 2]
    slope = ((rows[-1].gpu_mem_g or 0.0) - (half.gpu_mem_g or 0.0)) / max(1, rows[-1].epoch - half.epoch)
    left = max(0, rows[-1].planned - rows[-1].epoch)
    return ((rows[-1].gpu_mem_g or 0.0) + slope * left) * 1024 < full * log.gpu_mib


@rule("mem.cache_growth_normal", Severity.INFO, explained_by=("mem.gpu_leak",))
def cache_growth(
    tables: Tables | None,
    log: TrainLog | None,
    curves: Curves | None,
    *,
    min_points: int = 5,
    min_rise: float = 0.1,
    flat: float = 0.03,
) -> Verdict:
    """Reserved memory grew to the most crowded batch and stays: not a leak.

    min_rise: of the highest over the first epoch; flat: spread of the last half, or of the allocated memory where
    it is known. PyTorch's caching allocator never gives back what it holds (pytorch.org/docs, CUDA semantics,
    memory management). The limits are from public logs: +17 and +20 % in the first epochs, then within 1 %.
    """
    allocated = tables.series(_GROWTH) if tables else ()
    held = held_gib(tables) or tuple(e.gpu_mem_g for e in (log.epochs if log else ()) if e.gpu_mem_g)
    if len(held) < min_points:
        return Skip("too_few_epochs", {"have": len(held), "need": min_points})
    half = held[len(held) // 2 :]
    settled = min(half) > 0 and max(half) / min(half) - 1 <= flat
    steady = bool(allocated) and min(allocated) > 0 and max(allocated) / min(allocated) - 1 <= 2 * flat
    if held[0] <= 0 or max(held) / held[0] - 1 < min_rise or not (settled or steady):
        return None
    if _arrived_gib(tables, log):
        return None  # it is another process that grew
    return Hit(
        values={"first": held[0], "most": max(held)},
        evidence=table_source(tables, HELD) or ((memory_peak(log),) if log else ()),
    )


def _arrived_gib(tables: Tables | None, log: TrainLog | None, *, min_gib: float = 3.0, slack: float = 2.0) -> float:
    """GiB of the card that came during the run while what PyTorch holds by the log stayed; 0 without such a jump.

    GPU_mem of the log is the reserved memory of this process, the table's figure is that of the whole card. slack: what
    the card may hold more at the start (CUDA's context, a desktop). One GPU only; validation peaks are no half of a
    record.
    """
    table = tables.having("^gpu_mem_mib$", "^gpu_mem_total_mib$") if tables is not None else None
    own = [e.gpu_mem_g * 1e9 / 2**30 for e in (log.epochs if log else ()) if e.gpu_mem_g]
    if table is None or log is None or log.gpus > 1 or len(own) < 3 or max(own) / min(own) > 1.03:
        return 0.0
    used = [v / 1024 for v in table.numbers("^gpu_mem_mib$") if v > 0]
    gpus = set(table.numbers(_WHICH)) if table.find(_WHICH) else set()
    if len(used) < 10 or len(gpus) > 1:
        return 0.0
    early, late = low_and_high(used)
    came = late - max(own)
    began = early <= max(own) + slack and min(used[-len(used) // 4 :]) >= early + min_gib
    return came if began and came >= min_gib else 0.0


@rule("hw.gpu_busy@telemetry", Severity.HIGH)
def gpu_busy(tables: Tables, log: TrainLog, *, min_rise: float = 0.3) -> Verdict:
    """Another process came to the card during the run: its memory rose, that of the training did not.

    min_rise: of the epochs' time; where they did not become slower, it is medium. pytorch-CycleGAN#281,
    ultralytics#5291 (8 minutes an epoch, then an hour).
    """
    gib = _arrived_gib(tables, log)
    if not gib:
        return None
    times = [e.train_s for e in log.epochs if e.train_s]
    early, late = low_and_high(times) if len(times) >= 4 else (0.0, 0.0)
    slower = early > 0 and late / early - 1 >= min_rise
    return Hit(
        values={"gib": gib, "case": "slower" if slower else None, "factor": late / early if slower else None},
        fixes=(Fix("stop_it"),),
        evidence=(*table_source(tables, "^gpu_mem_mib$"), memory_peak(log)),
        severity=None if slower else Severity.MEDIUM,
    )


@rule("mem.autobatch_unreliable", Severity.MEDIUM)
def autobatch(console: Console, log: TrainLog, *, min_rise: float = 0.05, absurd: int = 1024) -> Verdict:
    """AutoBatch measured with memory already in use, so its straight line through the measurements means

    Nothing. yolov5#9287, #9156: memory does not rise from batch 1 to 16, or it proposes an absurd batch.
    min_rise: over the table; absurd: a batch that no detector needs on one card.
    """
    said = sources(console, ("autobatch_odd",))
    table = log.autobatch_gib
    flat = len(table) >= 3 and table[0] > 0 and table[-1] / table[0] - 1 < min_rise
    proposed = next(
        (int(m[1]) for line in console.of("autobatch") if (m := re.search(r"batch-?size (\d+)", line.text))), None
    )
    if not (said or flat or (proposed or 0) >= absurd):
        return None
    held = next(
        (float(m[1]) for line in console.of("autobatch") if (m := re.search(r"(\d*\.?\d+)G reserved", line.text))), None
    )
    return Hit(
        values={
            "case": "table" if table else None,
            "first": table[0] if table else None,
            "last": table[-1] if table else None,
            "held": held,
            "batch": proposed,
        },
        fixes=(Fix("restart"), Fix("by_hand", {"batch": 16})),
        evidence=said or sources(console, ("autobatch",), limit=2),
    )


def _spills(tables: Tables | None, log: TrainLog | None) -> bool:
    """More is in use than the card has, or memory of the host: such a driver pages instead of failing."""
    shared = tables.series("shared_gpu_mem") if tables is not None else ()
    most = max((e.gpu_mem_g for e in (*log.epochs, *log.parts) if e.gpu_mem_g), default=0.0) if log is not None else 0.0
    over = log is not None and bool(log.gpu_mib) and most * 1e9 > 1.02 * (log.gpu_mib or 0.0) * 2**20
    return over or bool(shared and max(shared) > 0.5)


@rule(
    "mem.gpu_oom_risk@foreign",
    Severity.MEDIUM,
    explained_by=("mem.gpu_oom", "mem.gpu_oom_late", "mem.gpu_oom_val", "mem.gpu_oom_dense", "hw.gpu_busy"),
)
def gpu_oom_risk(log: TrainLog | None, tables: Tables | None, *, min_share: float = 0.95) -> Verdict:
    """Peak memory is within a few percent of the card: one crowded batch more would not fit. min_share.

    Reserved memory as the log prints it, or the card's own figures in telemetry (the context of CUDA is in there, too).
    """
    table = tables.having("^gpu_mem_mib$", "^gpu_mem_total_mib$") if tables is not None else None
    if table is not None and not _spills(tables, log):
        used, total = table.numbers("^gpu_mem_mib$"), table.numbers("^gpu_mem_total_mib$")
        shares = [u / t for u, t in zip(used, total, strict=True) if t > 0 and 0 <= u <= t]
        if shares and max(shares) >= min_share:
            most = max(u for u, t in zip(used, total, strict=True) if t > 0 and 0 <= u <= t)
            return Hit(
                values={"share": max(shares), "memory": most / 1024},
                fixes=(Fix("headroom"), Fix("expandable")),
                evidence=(whole(table),),
            )
    if log is None:
        return Skip("gpu_unknown")
    memory = max((e.gpu_mem_g for e in (*log.epochs, *log.parts) if e.gpu_mem_g), default=0.0)
    if not log.gpu_mib or not memory:
        return Skip("gpu_unknown")
    share = memory * 1e9 / (log.gpu_mib * 2**20)
    if not min_share <= share <= 1.02 or log.gpus > 1:
        return None
    return Hit(
        values={"share": share, "memory": memory},
        fixes=(Fix("headroom"), Fix("expandable")),
        evidence=(memory_peak(log),),
    )


@rule(
    "mem.gpu_underused@log",
    Severity.LOW,
    unless=(
        "mem.gpu_oom",
        "mem.gpu_oom_val",
        "mem.gpu_leak",
        "speed.sysmem_spill",
        "speed.storage_slow",
        "speed.storage_remote",
        "speed.loader_bound",
        "speed.raise_workers",
        "speed.loader_single_core",
        "speed.cpu_oversubscription",
        "speed.worker_respawn",
        "data.train_too_small",
        "data.no_labels",
        "train.warmup_too_long",
        "train.partial_transfer",
        "num.nan_loss",
        "num.collapse",
        "train.not_learning",
    ),
)
def gpu_underused(
    log: TrainLog, args: TrainArgs | None, *, max_share: float = 0.7, target: float = 0.8, few: int = 10
) -> Verdict:
    """The log's GPU memory stayed far from full: a larger batch fits. A remark: it need not be faster.

    max_share, target: as for mem.gpu_underused. few: epochs of fewer batches gain nothing by still fewer. Where
    something else than the GPU limits the run a larger batch is no help, and a run that did not end well has other
    cares.
    """
    rows = [e for e in log.epochs if e.gpu_mem_g]
    if log.ended not in {"completed", "early_stop"}:
        return Skip("excerpt")
    if not log.gpu_mib or not rows or log.gpus > 1:
        return Skip("gpu_unknown")
    memory = max(e.gpu_mem_g or 0.0 for e in (*rows, *log.parts))
    share = memory * 1024 / log.gpu_mib
    batches = max((e.total or 0 for e in rows), default=0)
    if share >= max_share or share <= 0 or 0 < batches < few:
        return None
    batch = args.get("batch") if args else None
    known = isinstance(batch, int) and not isinstance(batch, bool) and 0 < batch < 4096
    larger = int(batch * min(4.0, target / share)) // 4 * 4 if known and isinstance(batch, int) else 0
    by_number = known and isinstance(batch, int) and larger > batch
    return Hit(
        values={"share": share, "used_gib": memory, "total_gib": log.gpu_mib / 1024},
        fixes=(Fix("larger_batch", {"batch": larger}) if by_number else Fix("larger_batch_by_hand"),),
        evidence=(memory_peak(log),),
        confidence=Confidence.MEDIUM,
        severity=Severity.INFO,
    )
