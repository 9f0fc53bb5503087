"""speed.*: what two runs with and without an image cache, and a validation's own summary, say of the limit."""

import re
from itertools import permutations
from statistics import median

from diag.model.evidence import Console, Evidence, Peers, StepStats
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import Tables, TrainLog
from diag.model.run import TrainArgs
from diag.model.trace import Stage
from diag.rules.base import rule
from diag.rules.facts import on_cpu, ram_cache, table_source

_SAME = {"model", "batch", "imgsz", "device", "gpu", "gpus", "data", "workers", "amp"}


@rule("speed.enable_cache@compared", Severity.LOW, explained_by=("speed.storage_remote",))
def enable_cache(peers: Peers, *, min_gain: float = 1.25) -> Verdict:
    """The same training with a cache of images takes clearly less time an epoch.

    min_gain: the limit of the loader's rules, as speed.loader_bound asks for a wait of 20 % (yolov5#6457: 80 to 20 s).
    """
    pairs = cache_pairs(peers)
    if not pairs:
        return Skip("nothing_to_compare")
    for with_, cached, without, plain in pairs:
        fast, slow = epoch_time(cached), epoch_time(plain)
        if fast and slow and slow >= min_gain * fast:
            return Hit(
                values={"with": fast, "without": slow, "gain": slow / fast},
                fixes=(Fix("ram", {"cache": "ram"}),),
                evidence=(Source(with_), Source(without)),
            )
    return None


@rule("speed.gpu_bound@compared", Severity.INFO)
def gpu_bound(peers: Peers, *, within: float = 0.1, min_util: float = 90.0) -> Verdict:
    """With and without a cache of images an epoch takes the same time, and the GPU is busy: the loader is no limit.

    within: of the longer time (ultralytics#4010: 20 min either way). min_util: percent in the median of any of the two;
    without it the augmentation, which no cache saves, may be the limit.
    """
    pairs = cache_pairs(peers)
    if not pairs:
        return Skip("nothing_to_compare")
    for a, cached, b, plain in pairs:
        fast, slow = epoch_time(cached), epoch_time(plain)
        if not fast or not slow or abs(fast - slow) > within * max(fast, slow):
            continue
        util = [u for r in (cached, plain) if r.tables for u in r.tables.series("gpu_util")]
        if len(util) >= 5 and median(util) >= min_util:
            return Hit(
                values={"seconds": slow, "util": median(util) / 100},
                fixes=(Fix("larger_batch"), Fix("smaller_model")),
                evidence=(Source(a), Source(b)),
            )
    return None


def cache_pairs(peers: Peers) -> tuple[tuple[str, Evidence, str, Evidence], ...]:
    """Runs of which one caches images, and that differ in nothing else that sets the pace."""
    return tuple(
        (a, one, b, two)
        for (a, one), (b, two) in permutations(peers.runs.items(), 2)
        if _caches(one) and not _caches(two) and all(_value(one, k) == _value(two, k) for k in _SAME)
    )


def _caches(run: Evidence) -> bool:
    asked = str(run.args.get("cache", False)).lower() if run.args else "false"
    return asked == "disk" or ram_cache(run.args, run.log)


def _value(run: Evidence, name: str) -> str:
    return str(run.args.get(name, "")) if run.args else ""


def epoch_time(run: Evidence) -> float | None:
    """The median of the epochs' times; the first one, which fills caches, is left out where there are more."""
    times = [e.train_s for e in run.log.epochs if e.train_s and e.complete] if run.log else []
    return median(times[1:] or times) if times and median(times) >= 5 else None


@rule("speed.val_postproc_cpu@log", Severity.MEDIUM)
def val_postproc(console: Console, *, min_ms: float = 20.0, min_share: float = 0.6) -> Verdict:
    """What comes after the model takes most of a validation, by its own summary line (`Speed: ... postprocess`).

    min_ms: an image; NMS of a trained detector takes 1 to 3 ms. min_share: of all parts. On many classes conf=0.001
    leaves tens of thousands of boxes (ultralytics#14585: conf=0.01 cured it). Only the last summary counts, as the
    first epochs of a net are slow there anyway; single images (predict) have the start-up in them.
    """
    said = [line for line in console.of("speed_line") if "shape (1," not in line.text]
    for line in said[-1:]:
        parts = {name.lower(): float(ms) for ms, name in re.findall(r"(\d+(?:\.\d+)?)ms ([A-Za-z-]+)", line.text)}
        post = max((v for k, v in parts.items() if k.startswith("post") or k == "nms"), default=0.0)
        total = sum(parts.values())
        if post >= min_ms and post >= min_share * total:
            return Hit(
                values={"post_ms": post, "share": post / total},
                fixes=(Fix("conf", {"conf": 0.01}), Fix("max_det", {"max_det": 100})),
                evidence=(Source(line.file or console.file, line.line, line.text),),
            )
    return None if said else Skip("not_said", {"what": "Speed:"})


@rule(
    "speed.loader_bound@telemetry",
    Severity.HIGH,
    explained_by=("speed.storage_remote", "speed.storage_slow", "speed.loader_single_core",
                  "speed.cpu_oversubscription", "hw.cpu_quota", "speed.ram_cache_swapping",
                  "speed.worker_respawn", "speed.decode_bound", "speed.augment_bound",
                  "env.torch_cpu", "speed.val_dominates", "speed.val_postproc_cpu"),
)  # fmt: skip
def loader_bound(
    tables: Tables,
    args: TrainArgs | None,
    log: TrainLog | None,
    steps: StepStats | None,
    console: Console | None,
    *,
    max_gpu: float = 60.0,
    min_cpu: float = 85.0,
    max_iowait: float = 10.0,
    min_rows: int = 20,
) -> Verdict:
    """The GPU starves beside CPUs that are all busy: loading is too dear for them, and more workers can't help.

    WongKinYiu/yolov7#2064. max_gpu, min_cpu, max_iowait: percent in the median of min_rows samples; a GPU that is
    idle now and then is busy in the median. Only where batches were made and no step was timed.
    """
    gpu, cpu, wait = (tables.series(p) for p in ("gpu_util", "cpu_util", "iowait"))
    if not gpu or not cpu:
        return Skip("no_column", {"column": "gpu_util, cpu_util"})
    if steps is not None or len(gpu) < min_rows or log is None or not (log.epochs or log.parts):
        return None
    if (
        on_cpu(args, None, console)
        or median(gpu) > max_gpu
        or median(cpu) < min_cpu
        or (wait and median(wait) > max_iowait)
    ):
        return None
    return Hit(
        values={"gpu": median(gpu) / 100, "cpu": median(cpu) / 100},
        fixes=(Fix("cheaper"), Fix("cache", {"cache": "ram"})),
        evidence=table_source(tables, "gpu_util"),
        confidence=Confidence.MEDIUM,
    )


@rule("mem.gpu_underused@foreign", Severity.LOW)
def gpu_underused(
    tables: Tables | None,
    log: TrainLog | None,
    args: TrainArgs | None,
    steps: StepStats | None,
    console: Console | None,
    *,
    max_share: float = 0.5,
    max_util: float = 60.0,
    max_wait: float = 0.2,
) -> Verdict:
    """The GPU's memory stayed far from full and the GPU is not busy, though the loader keeps up: a larger batch fits.

    max_share: of the card, at the peak; half, as other tools' figures hold less than ours. max_util: percent that nine
    of ten samples stay below: pauses between epochs and a busy minute say nothing of the batch. max_wait: of the
    step; a GPU that waits for data gains nothing from a larger batch.
    """
    table = tables.having("^gpu_mem_mib$", "^gpu_mem_total_mib$") if tables is not None else None
    share = 0.0
    if table is not None:
        used, total = table.numbers("^gpu_mem_mib$"), table.numbers("^gpu_mem_total_mib$")
        share = max((u / t for u, t in zip(used, total, strict=True) if t > 0), default=0.0)
    elif log is not None and log.gpu_mib:
        share = max((e.gpu_mem_g for e in log.epochs if e.gpu_mem_g), default=0.0) * 1e9 / (log.gpu_mib * 2**20)
    util = tables.series("gpu_util") if tables is not None else ()
    if not share or not util or steps is None:
        return Skip("no_column", {"column": "gpu_mem_mib, gpu_util"})
    waits = steps.share(Stage.DATA_WAIT) > max_wait
    if share > max_share or sorted(util)[int(len(util) * 0.9)] > max_util or waits or on_cpu(args, None, console):
        return None
    batch = args.get("batch") if args else None
    larger = {"batch": batch * 2} if isinstance(batch, int) and not isinstance(batch, bool) and batch > 0 else {}
    return Hit(
        values={"share": share, "util": median(util) / 100, "batch": str(batch) if batch is not None else None},
        fixes=(Fix("larger_batch", larger),),
        evidence=table_source(tables, "gpu_util"),
        confidence=Confidence.MEDIUM,
    )
