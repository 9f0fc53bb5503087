"""speed.*: several GPUs, single cores, checkpoints, and times that are no fault."""

import math
from statistics import median

from diag.model.evidence import Console, Evidence, Ledger, Peers, SaveStats, StepStats
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import Notes, Phases, Tables, TrainLog
from diag.model.hardware import Baseline
from diag.model.run import TrainArgs
from diag.model.trace import Stage
from diag.rules.base import rule
from diag.rules.facts import argued, gpu_name, noted, on_cpu, ram_cache, sources, table_source, whole

_NO_TENSOR = ("GTX", "MX", "P100", "P40", "P4 ", "K80", "M60", "940", "750")


@rule("speed.loader_single_core", Severity.CRITICAL)
def loader_single_core(
    tables: Tables | None,
    args: TrainArgs | None,
    notes: Notes | None,
    console: Console | None,
    *,
    min_workers: int = 2,
    max_cores: float = 1.3,
    max_gpu: float = 60.0,
) -> Verdict:
    """All loader workers share one core: a library pinned the parent process, and children inherit its affinity.

    OpenMP (KMP_AFFINITY, GOMP_CPU_AFFINITY) and conda's numpy do it (pytorch#99625, yolov5#3319). max_cores:
    busy in the median though there are min_workers workers or more; max_gpu: percent, as the GPU waits. By a list of
    CPUs alone it is said only where that is known: the trainer of a busy GPU keeps one core busy, too. A
    process that waits for a disk keeps no core busy: that is not meant.
    """
    if tables is None and notes is None:
        return Skip("no_evidence", {"missing": "tables, notes"})
    tables = tables or Tables()
    cores = tables.series("cores_busy|busy_cores|cores_used")
    one = noted(
        notes,
        r"(?:affinity|Cpus_allowed_list|taskset).{0,60}(?::|=|mask)\s*(?:\[?0\]?|0x1|1)\s*$|Cpus_allowed_list:\s*\d+\s*$|KMP_AFFINITY=(?!disabled|none)\S+|GOMP_CPU_AFFINITY=\S+",
    )
    workers = args.get("workers", 8) if args else 8
    alone = _one_cpu(tables)
    if not cores and not one and not alone:
        return Skip("no_column", {"column": "cores_busy"})
    if on_cpu(args, None, console) or not isinstance(workers, int) or workers < min_workers:
        return None
    busy = median(cores) if cores else 1.0
    gpu, iowait = tables.series("gpu_util"), tables.series("iowait")
    waits = median(gpu) <= max_gpu if gpu else not alone
    if not (0.7 <= busy <= max_cores and waits) or (iowait and median(iowait) > 15):
        return None
    return Hit(
        values={"cores": busy, "workers": workers},
        fixes=(Fix("affinity"), Fix("check")),
        evidence=one or alone or table_source(tables, "cores_busy|busy_cores|cores_used"),
        confidence=Confidence.HIGH if one else Confidence.MEDIUM,
    )


def _one_cpu(tables: Tables) -> tuple[Source, ...]:
    """A table with a row for each CPU (mpstat -P ALL) in which one is busy and all others, four or more, idle."""
    table = tables.having("^cpus?$", r"idle") if tables else None
    if table is None:
        return ()
    idle: dict[str, list[float]] = {}
    for cpu, value in zip(table.texts(table.find("^cpus?$")), table.numbers("idle"), strict=True):
        if cpu.isdigit() and 0 <= value <= 100:
            idle.setdefault(cpu, []).append(value)
    means = sorted(median(v) for v in idle.values())
    return (whole(table),) if len(means) > 4 and means[0] <= 15 and means[1] >= 90 else ()


@rule("speed.ddp_no_scaling", Severity.HIGH, explained_by=("env.nccl_hang_p2p",))
def ddp_no_scaling(peers: Peers, *, min_efficiency: float = 0.65) -> Verdict:
    """Adding GPUs did not raise images per second.

    Compared are runs of the same data on one and on several GPUs: images per second, or the seconds of an epoch.
    min_efficiency: of the speed that as many GPUs would give; below two thirds the loader or the CPU is usually
    shared out. The limit is a proposal. Reported in ultralytics#7642.
    """
    found: list[tuple[int, float, str]] = []
    for name, run in peers.runs.items():
        speed = _speed(run)
        if speed and (gpus := _gpus(run)):
            found.append((gpus, speed, name))
    found.sort()
    if len(found) < 2 or found[0][0] == found[-1][0]:
        return Skip("nothing_to_compare")
    (few, slow, first), (many, fast, last) = found[0], found[-1]
    efficiency = (fast / slow) / (many / few)
    if efficiency >= min_efficiency:
        return None
    return Hit(
        values={"gpus": many, "few": few, "gain": fast / slow, "efficiency": efficiency},
        fixes=(Fix("cpus"), Fix("cheaper"), Fix("one_gpu", {"device": 0})),
        evidence=(Source(first), Source(last)),
    )


def _gpus(run: Evidence) -> int:
    device = run.args.get("device") if run.args else None
    if isinstance(device, list):
        return len(device)
    if isinstance(device, str) and device[:1].isdigit():
        return device.count(",") + 1
    return run.log.gpus if run.log else 0


def _speed(run: Evidence) -> float | None:
    """Images per second of training, or epochs per second where the batch is not known."""
    series = run.tables.series("images_per_s|img_s|imgs_per_s") if run.tables else ()
    if series:
        return median(series)
    times = [e.train_s for e in run.log.epochs if e.train_s] if run.log else []
    return 1 / median(times) if times and median(times) >= 10 else None  # bars count whole seconds


@rule(
    "speed.throughput_drop",
    Severity.MEDIUM,
    explained_by=(
        "speed.thermal_throttle",
        "hw.thermal_throttle",
        "mem.ram_growth",
        "speed.ram_cache_swapping",
        "hw.gpu_busy",
    ),
)
def throughput_drop(
    log: TrainLog, *, min_epochs: int = 8, min_rise: float = 0.3, few_epochs: int = 5, few_rise: float = 1.0
) -> Verdict:
    """The time of an epoch rose during the run with no change of work.

    min_rise: of the median of the last quarter over the first, the first epoch (start-up) left out, and nearly every
    later epoch is slower than the early median. few_epochs, few_rise: from five epochs on it is said of a time that
    doubled (yolov5#12083: three times as long from the fourth epoch on).
    A step at close_mosaic makes epochs faster, not slower. The
    limit is a proposal. Reported in ultralytics#4276.
    """
    times = [e.train_s for e in log.epochs[1:] if e.train_s]
    if len(times) < few_epochs:
        return Skip("too_few_epochs", {"have": len(times), "need": few_epochs})
    early = median(times[: max(2, len(times) // 4)])
    late = median(times[-max(2, len(times) // 4) :])
    enough = min_rise if len(times) >= min_epochs else few_rise
    if early < 5 or late < early * (1 + enough):
        return None
    return Hit(
        values={"early_s": early, "late_s": late, "rise": late / early - 1, "factor": late / early},
        fixes=(Fix("telemetry"), Fix("memory")),
        evidence=(Source(log.file, log.epochs[-1].line),),
    )


@rule("speed.checkpoint_heavy", Severity.MEDIUM)
def checkpoint_heavy(phases: Phases, *, max_share: float = 0.15) -> Verdict:
    """Saving checkpoints takes a large share. max_share: of all recorded time.

    A YOLO checkpoint takes well under a second. The limit is a proposal.
    """
    wall = sum(r.wall_s for r in phases.rows)
    saving = sum(r.wall_s for r in phases.rows if r.name.startswith(("save", "ckpt", "checkpoint")))
    if wall <= 0 or saving / wall <= max_share:
        return None
    return Hit(
        values={"share": saving / wall, "seconds": saving},
        fixes=(Fix("less_often", {"save_period": -1}), Fix("disk")),
        evidence=(whole(phases),),
        headroom=saving / wall,
    )


@rule("speed.checkpoint_heavy@own", Severity.MEDIUM)
def checkpoint_heavy_own(
    saves: SaveStats, ledger: Ledger, *, max_share: float = 0.15, high_share: float = 0.35, min_wall_s: float = 10.0
) -> Verdict:
    """Writing checkpoints to the disk takes a large share; the time to pack them is not counted, that is the CPU's.

    max_share: of the time after start-up, as for checkpoints of other tools; high from high_share on, as for the
    loader. Writing a nano checkpoint into the page cache takes some 10 ms (own recordings), on a tiny set too.
    min_wall_s: shorter runs are too small to say.
    """
    wall = ledger.wall_s - ledger.seconds.get(Stage.STARTUP, 0.0)
    if wall < min_wall_s:
        return Skip("run_too_short", {"have": wall, "need": min_wall_s})
    share = saves.write_s / wall
    if share <= max_share:
        return None
    return Hit(
        values={
            "share": share,
            "seconds": saves.write_s,
            "each_s": saves.write_s / saves.saves,
            "mb_per_s": saves.bytes / saves.write_s / 1e6,
        },
        fixes=(Fix("disk"), Fix("less_often", {"save_period": -1})),
        evidence=(Source(saves.file),),
        headroom=share,
        severity=Severity.HIGH if share >= high_share else None,
    )


@rule("speed.enable_cache", Severity.LOW, explained_by=("speed.storage_remote", "speed.loader_bound"))
def enable_cache(
    tables: Tables,
    steps: StepStats | None,
    args: TrainArgs | None,
    console: Console | None,
    log: TrainLog | None,
    *,
    min_wait: float = 0.2,
    min_free: float = 0.5,
) -> Verdict:
    """Loading dominates and memory is free: a cache would help.

    min_wait: as for speed.loader_bound. min_free: half of the memory is unused, so that a cache of a usual set
    has room; swap is empty.
    """
    used, total, swap = tables.series("ram_used.*gb"), tables.series("ram_total.*gb"), tables.series("swap")
    if steps is None or not used or not total:
        return Skip("no_column", {"column": "ram_used_gb, ram_total_gb"})
    if ram_cache(args, log) or on_cpu(args, None, console) or (args and args.get("cache") == "disk"):
        return None
    if steps.share(Stage.DATA_WAIT) < min_wait or max(used) / max(total) > min_free or (swap and max(swap) > 0.1):
        return None
    return Hit(
        values={"wait": steps.share(Stage.DATA_WAIT), "free_gb": max(total) - max(used)},
        fixes=(Fix("ram", {"cache": "ram"}),),
        evidence=(whole(steps), *table_source(tables, "ram_total")),
    )


def _broke(run: Evidence) -> bool:
    """True if this run, with mixed precision, has training losses of NaN or inf."""
    on = run.args is None or run.args.get("amp", True) is not False
    return on and run.curves is not None and not all(math.isfinite(v) for c in run.curves.train.values() for v in c)


@rule("speed.amp_off", Severity.MEDIUM, explained_by=("num.amp_gpu_arch",))
def amp_off(  # noqa: PLR0917 # six kinds of evidence
    args: TrainArgs | None,
    log: TrainLog | None,
    notes: Notes | None,
    baseline: Baseline | None,
    console: Console | None,
    peers: Peers | None,
) -> Verdict:
    """Mixed precision is off on a GPU that gains from it: one with tensor cores. GTX 16xx are told to switch it off.

    Switched off by an argument, or by Ultralytics' own check of it, which a card of the kind should pass. Beside a run
    with it whose losses became NaN it was switched off for a reason.
    """
    if args is None and console is None:
        return Skip("no_evidence", {"missing": "args, console"})
    name = gpu_name(log, notes, baseline)
    failed = sources(console, ("amp_failed",), limit=1)
    off = args is not None and args.get("amp", True) is False
    if not (off or failed) or on_cpu(args, baseline, console) is True:
        return None
    if not name:
        return Skip("gpu_unknown")
    if any(word in name.upper() for word in _NO_TENSOR):
        return None
    if peers is not None and any(_broke(run) for run in peers.runs.values()):
        return None
    return Hit(
        values={"case": None if off else "check", "gpu": name},
        fixes=(Fix("amp", {"amp": True}),) if off else (Fix("check"),),
        evidence=failed or argued(args, "amp"),
    )


@rule(
    "speed.epoch_time",
    Severity.INFO,
    explained_by=(
        "env.torch_cpu",
        "speed.ram_cache_swapping",
        "speed.storage_remote",
        "speed.storage_slow",
        "speed.sysmem_spill",
        "speed.tal_cpu_fallback",
        "speed.cpu_oversubscription",
        "speed.loader_single_core",
    ),
)
def epoch_time(log: TrainLog, *, min_minutes: float = 30.0) -> Verdict:
    """Where an epoch's time goes by the log's own bars: images, seconds, images per second. min_minutes.

    Per epoch, from which on people ask. The limit is a proposal.
    """
    rows = [e for e in log.epochs if e.train_s and e.total]
    if not rows:
        return Skip("too_few_epochs", {"have": 0, "need": 1})
    seconds = median(e.train_s for e in rows if e.train_s)
    if seconds < min_minutes * 60:
        return None
    total = rows[-1].total or 0
    images = next((s.total for s in log.scans if s.split in {"", "train"}), None)
    return Hit(
        values={
            "case": "images" if images else None,
            "minutes": seconds / 60,
            "batches": total,
            "images": images,
            "step_s": seconds / total if total else None,
        },
        fixes=(Fix("fraction", {"fraction": 0.25}),),
        evidence=(Source(log.file, rows[-1].line),),
    )
