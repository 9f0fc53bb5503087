"""mem.* and disk.*: what the run ran out of."""

from diag.model.curves import Curves
from diag.model.evidence import Console
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import Notes, TrainLog
from diag.model.hardware import Baseline
from diag.model.run import RunRecord, TrainArgs
from diag.rules.base import rule
from diag.rules.facts import free_memory, out_of_memory, sources

PREFETCH = 4
"""Batches that each Ultralytics loader worker prepares ahead in training (data/build.py)."""


@rule(
    "mem.gpu_oom",
    Severity.CRITICAL,
    explained_by=(
        "mem.wrong_device", "mem.gpu_oom_val", "mem.gpu_oom_dense", "mem.gpu_oom_late", "mem.fragmentation",
        "mem.gpu_leak", "mem.gpu_shared", "mem.pinned_limit",
    ),
)  # fmt: skip
def gpu_oom(
    run: RunRecord | None,
    console: Console | None,
    args: TrainArgs | None,
    curves: Curves | None,
    log: TrainLog | None,
) -> Verdict:
    """CUDA out of memory. Ultralytics halves the batch and tries again: a run that went on is medium.

    Reported in ultralytics#7030, ultralytics#1654.
    """
    seen = _seen("gpu_oom", run, console)
    if isinstance(seen, Skip):
        return seen
    if not seen:
        return None
    if all("Assigner" in s.text for s in seen):
        return None  # the assignment is made again in another way, training goes on
    oom = out_of_memory(console)
    if oom is not None and log is not None and log.oom_phase == "val" and log.ended == "error":
        return None  # training fits: mem.gpu_oom_val says what validation needs
    if oom is not None and oom.tried and oom.free and oom.free > max(2 * oom.tried, 1.0):
        return None  # the card has room: something else is reported as out of memory
    if console is not None and console.of("pin_memory") and (oom is None or oom.tried is None):
        return None  # host memory could not be pinned
    died = _died(run, "gpu_oom") or curves is None or (log is not None and log.ended == "error")
    batch, imgsz = (args.get("batch"), args.get("imgsz")) if args else (None, None)
    case = "unknown" if batch is None or imgsz is None else "died" if died else "went_on"
    fixes = [Fix("smaller_batch", {"batch": max(1, batch // 2)})] if isinstance(batch, int) and batch > 1 else []
    if isinstance(imgsz, int) and imgsz > 320:
        fixes.append(Fix("smaller_imgsz", {"imgsz": max(320, imgsz // 64 * 32)}))
    if args is not None and args.get("amp", True) is False:
        fixes.append(Fix("amp", {"amp": True}))
    return Hit(
        values={"case": case, "batch": _word(batch), "imgsz": _word(imgsz)},
        fixes=tuple(fixes) or (Fix("smaller_model"),),
        evidence=seen,
        severity=Severity.CRITICAL if died else Severity.MEDIUM,
    )


@rule(
    "mem.ram_oom_killed",
    Severity.CRITICAL,
    explained_by=("mem.ram_cache_too_big", "mem.ram_growth", "hw.mem_limit"),
    unless=("mem.pagefile",),  # Windows kills nobody for memory
)
def ram_oom(
    run: RunRecord | None,
    console: Console | None,
    args: TrainArgs | None,
    baseline: Baseline | None,
    notes: Notes | None,
    *,
    full: float = 0.05,
) -> Verdict:
    """The kernel killed the process, or a loader worker, for memory (RAM).

    A bare `Killed` counts beside a listing of free that has less than full of the memory available.
    Reported in ultralytics#7471, yolov3#155, OpenNMT-Tutorial#6.
    """
    seen = _seen("ram_oom", run, console)
    if isinstance(seen, Skip):
        return seen
    memory = free_memory(notes)
    bare = bool(memory) and not seen and memory is not None and memory[0] < full * memory[1]
    if bare:
        seen = sources(console, ("killed",), limit=1)
    if not seen:
        return None
    workers, cache = (args.get("workers", 8), args.get("cache", False)) if args else (None, False)
    fixes = [Fix("no_ram_cache", {"cache": "disk"})] if str(cache).lower() in {"true", "ram"} else []
    if isinstance(workers, int) and workers > 1:
        fixes.append(Fix("fewer_workers", {"workers": workers // 2}))
    host = baseline.host if baseline else None
    limit = (host.memory_limit_bytes or host.memory_total_bytes) if host else None
    # Exit code 137 is SIGKILL: the kernel for memory, most often, but a person can send it as well.
    only_code = bare or (all("137" in s.text or "SIGKILL" in s.text for s in seen) and not _died(run, "ram_oom"))
    return Hit(
        values={
            "case": "known" if limit and workers is not None else "unknown",
            "workers": _word(workers),
            "limit_gib": limit / 2**30 if limit else None,
        },
        fixes=(*fixes, Fix("more_memory")),
        evidence=seen,
        confidence=Confidence.MEDIUM if only_code else Confidence.HIGH,
    )


@rule("mem.shm_small", Severity.CRITICAL)
def shm_small(
    run: RunRecord | None,
    console: Console | None,
    args: TrainArgs | None,
    baseline: Baseline | None,
    notes: Notes | None,
    *,
    full: float = 0.95,
) -> Verdict:
    """/dev/shm is too small for the loader: workers x prefetch x batch of images pass through it.

    full: of /dev/shm in a listing of df; counts like the words of the error when NCCL or a worker failed. Docker
    gives 64 MiB (docs.docker.com, --shm-size). Reported in Protenix#2, pytorch#108861, pytorch#5040.
    """
    seen = _seen("shm_small", run, console)
    if isinstance(seen, Skip):
        return seen
    if any("Too many open files" in s.text for s in seen):
        return None  # the limit of file handles (ulimit -n), whatever lies in /dev/shm
    if not seen and notes is not None and any(d.mount == "/dev/shm" and d.used_share >= full for d in notes.disks):
        seen = sources(console, ("nccl_system", "worker_died"), limit=1)
    if not seen:
        return None
    workers, batch, imgsz = (args.get(n) for n in ("workers", "batch", "imgsz")) if args else (None, None, None)
    need = None
    if isinstance(workers, int) and isinstance(batch, int) and isinstance(imgsz, int):
        need = (workers * PREFETCH + 1) * batch * 3 * imgsz * imgsz / 2**20
    have = baseline.host.shm_total_bytes if baseline else None
    fixes = [Fix("larger_shm")]
    if isinstance(workers, int) and workers > 1:
        fixes.append(Fix("fewer_workers", {"workers": workers // 2}))
    return Hit(
        values={
            "case": "known" if need and have else "unknown",
            "need_mib": need,
            "have_mib": have / 2**20 if have else None,
            "workers": _word(workers),
        },
        fixes=tuple(fixes),
        evidence=seen,
    )


@rule("disk.full", Severity.CRITICAL, explained_by=("mem.shm_small", "disk.cache_full"))
def disk_full(run: RunRecord | None, console: Console | None) -> Verdict:
    """No space left for checkpoints or logs. A full /dev/shm uses the same words, so it is ruled out first.

    Reported in ultralytics#1238, yolov5#6756, mmdetection#12069.
    """
    if console is not None and console.of("shm_small"):
        return None
    seen = _seen("disk_full", run, console)
    if isinstance(seen, Skip):
        return seen
    if not seen:
        return None
    fixes = (Fix("free"), Fix("fewer_checkpoints", {"save_period": -1}))
    return Hit(values={"line": seen[0].text}, fixes=fixes, evidence=seen)


def _seen(kind: str, run: RunRecord | None, console: Console | None) -> tuple[Source, ...] | Skip:
    """Where the run says so: the console's lines, else the recorded exit cause. Empty if it does not."""
    if run is None and console is None:
        return Skip("no_evidence", {"missing": "run, console"})
    lines = sources(console, (kind,), limit=2)
    if not lines and _died(run, kind) and run is not None:
        return (Source("run.json", text=run.exit_cause.evidence or run.exit_cause.detail or kind),)
    return lines


def _died(run: RunRecord | None, kind: str) -> bool:
    return run is not None and run.exit_cause.kind == kind


def _word(value: object) -> str | None:
    return None if value is None else str(value)
