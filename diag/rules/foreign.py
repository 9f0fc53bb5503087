"""speed.* and mem.* from telemetry and stage tables that other tools recorded.

These ids are also answered from this project's own counters; a table of somebody else's is all that is read here.
"""

import itertools
import math
import re
from collections.abc import Iterator
from statistics import median

from diag.model.columns import plain, seconds
from diag.model.evidence import Console, StepStats
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import Phases, Table, Tables, TrainLog
from diag.model.run import TrainArgs
from diag.model.trace import Stage
from diag.rules.base import rule
from diag.rules.facts import low_and_high, on_cpu, ram_cache, table_source, whole


@rule(
    "speed.storage_slow@foreign",
    Severity.HIGH,
    explained_by=("speed.storage_remote", "speed.ram_cache_swapping", "hw.disk_slow"),
)
def storage_slow(
    tables: Tables, phases: Phases | None, *, min_iowait: float = 25.0, max_swap_gb: float = 1.0
) -> Verdict:
    """Loader time is spent reading files.

    min_iowait: a quarter of all CPU time waits for the disk; a healthy loader on a local SSD shows 0 to 5 %.
    max_swap_gb: with swap in use the disk is busy with memory, not with images.
    """
    iowait, swap = tables.series("iowait"), tables.series("swap.*gb|swap_used")
    if not iowait:
        return Skip("no_column", {"column": "iowait_pct"})
    if median(iowait) < min_iowait or (swap and median(swap) >= max_swap_gb):
        return None
    read = tables.series("disk_read")
    return Hit(
        values={"iowait": median(iowait) / 100, "read_mb_s": median(read) if read else None},
        fixes=(Fix("local_disk"), Fix("cache", {"cache": "disk"})),
        evidence=table_source(tables, "iowait"),
        confidence=Confidence.MEDIUM,
    )


@rule("speed.decode_bound@foreign", Severity.MEDIUM)
def decode_bound(tables: Tables, steps: StepStats | None, *, min_share: float = 0.5) -> Verdict:
    """Loader time is spent decoding images. min_share: of the seconds that read, decode and augment take together.

    More than half is the largest part, whatever the others are.
    """
    return _loader_part(tables, steps, "decode", min_share, (Fix("smaller_images"), Fix("cache", {"cache": "ram"})))


@rule("speed.augment_bound@foreign", Severity.MEDIUM)
def augment_bound(tables: Tables, steps: StepStats | None, *, min_share: float = 0.5) -> Verdict:
    """Loader time is spent in augmentation. min_share: of the seconds that read, decode and augment take together.

    More than half is the largest part, whatever the others are.
    """
    return _loader_part(tables, steps, "augment", min_share, (Fix("cheaper"), Fix("more_workers")))


@rule("speed.loader_long_tail@foreign", Severity.MEDIUM)
def loader_long_tail(
    tables: Tables, *, min_ratio: float = 5.0, min_share: float = 0.2, min_batches: int = 20
) -> Verdict:
    """Data wait has a long tail: many fast batches, a few very slow ones.

    min_ratio: the slowest hundredth against the median; Pareto-like fetch times stand for single slow files
    (pytorch#13246 and torchvision's decode tables). min_share: the slowest twentieth holds this part of all waiting.
    """
    waits = sorted(tables.series("^(?:data_?wait|fetch|data_time|wait)_?(?:s|ms)?$"))
    if len(waits) < min_batches or tables.having("^phase$") is not None:
        return Skip("too_few_steps", {"have": len(waits), "need": min_batches})
    p50, p99 = median(waits), waits[min(len(waits) - 1, round(len(waits) * 0.99))]
    tail = sum(waits[-max(1, len(waits) // 20) :]) / (sum(waits) or 1.0)
    if p99 < min_ratio * p50 or tail < min_share:
        return None
    return Hit(
        values={"ratio": p99 / p50 if p50 else None, "tail": tail, "batches": len(waits)},
        fixes=(Fix("slow_files"), Fix("prefetch")),
        evidence=table_source(tables, "wait|fetch|data_time"),
    )


@rule("speed.raise_workers@foreign", Severity.MEDIUM, explained_by=("speed.loader_single_core", "speed.storage_remote"))
def raise_workers(tables: Tables, args: TrainArgs | None, console: Console | None, *, min_gain: float = 1.2) -> Verdict:
    """More loader workers would help: a sweep of worker counts still gets faster at its upper end.

    min_gain: the best count against the one in use. On the CPU the model is the limit, not the loader. The limit
    is a proposal: a fifth, as for speed.loader_bound. Reported in ultralytics#13938.
    """
    sweep = tables.having("workers", "s_per_it|it_per_s|images_per_s|img_s|epoch_s")
    if sweep is None:
        return Skip("no_column", {"column": "workers"})
    if on_cpu(args, None, console):
        return None
    rate = sweep.find("it_per_s|images_per_s|img_s")
    cost = (
        [1 / v if v else 0.0 for v in sweep.numbers(f"^{re.escape(rate)}$")]
        if rate
        else list(sweep.numbers("s_per_it|epoch_s"))
    )
    points = [(int(w), c) for w, c in zip(sweep.numbers("workers"), cost, strict=False) if 0 <= w < 1e6 and c > 0]
    if len(points) < 2:
        return Skip("too_few_steps", {"have": len(points), "need": 2})
    used = args.get("workers") if args else None
    now = next((c for w, c in points if w == used), points[0][1])
    best_workers, best = min(points, key=lambda item: (item[1], item[0]))
    if now / best < min_gain or (isinstance(used, int) and best_workers <= used):
        return None
    return Hit(
        values={"workers": best_workers, "gain": now / best - 1},
        fixes=(Fix("workers", {"workers": best_workers}),),
        evidence=(whole(sweep),),
    )


@rule("speed.ddp_straggler@foreign", Severity.HIGH)
def ddp_straggler(tables: Tables, *, min_ratio: float = 1.25) -> Verdict:
    """One rank is slower than the others. min_ratio.

    Its own step time (without waiting for others) over their median. The limit is a proposal.
    """
    table = tables.having("^(?:local_|global_)?rank$", "step|forward|compute|iter|backward")
    wide = next((t for t in tables.tables if len(_rank_columns(t)) > 1), None)
    ranks: dict[str, list[float]] = {}
    if table is not None:
        for rank, spent in zip(table.texts(table.find("rank$")), _own_time(table), strict=True):
            if spent > 0:
                ranks.setdefault(rank, []).append(spent)
    elif wide is not None:
        table = wide
        for column, rank in _rank_columns(wide).items():
            ranks[rank] = [v for v in wide.numbers(f"^{re.escape(column)}$") if v > 0]
        ranks = {rank: v for rank, v in ranks.items() if v}
    else:
        return Skip("no_column", {"column": "rank"})
    if len(ranks) < 2:
        return None
    means = {rank: median(v) for rank, v in ranks.items()}
    slow = max(means, key=lambda rank: means[rank])
    rest = median(v for rank, v in means.items() if rank != slow)
    if means[slow] < min_ratio * rest:
        return None
    return Hit(
        values={"rank": slow, "ratio": means[slow] / rest}, fixes=(Fix("look_at_rank"),), evidence=(whole(table),)
    )


@rule("speed.ddp_straggler@clocks", Severity.HIGH, explained_by=("hw.thermal_throttle", "hw.power_throttle"))
def slow_clock(
    tables: Tables, args: TrainArgs | None, log: TrainLog | None, *, max_share: float = 0.7, min_util: float = 80.0
) -> Verdict:
    """One of several GPUs that train together runs at a much lower clock: the others wait for it.

    All read busy, as waiting in the exchange of gradients is a kernel, too. max_share: of the others' median clock; the
    boost of equal cards differs by a few percent. min_util: percent in the median, of each of them.
    """
    table = tables.having("^(?:gpu|index|idx|gpu_?id|device)$", "^sm_clock_mhz$", "^gpu_util")
    device = str(args.get("device", "")) if args else ""
    several = (log is not None and log.gpus > 1) or "," in device
    if table is None:
        return Skip("no_column", {"column": "gpu, sm_clock_mhz"})
    seen: dict[str, list[tuple[float, float]]] = {}
    which = table.texts(table.find("^(?:gpu|index|idx|gpu_?id|device)$"))
    for gpu, clock, util in zip(which, table.numbers("^sm_clock_mhz$"), table.numbers("^gpu_util"), strict=True):
        if clock > 0 and util >= 0:
            seen.setdefault(gpu, []).append((clock, util))
    busy = {g: median(c for c, _ in v) for g, v in seen.items() if median(u for _, u in v) >= min_util and len(v) > 2}
    if not several or len(busy) < 2:
        return None
    slow = min(busy, key=lambda g: busy[g])
    rest = median(c for g, c in busy.items() if g != slow)
    if busy[slow] > max_share * rest:
        return None
    return Hit(
        values={"gpu": slow, "clock": busy[slow], "others": rest},
        fixes=(Fix("look_at_gpu"),),
        evidence=(whole(table),),
    )


@rule("mem.ram_growth@foreign", Severity.HIGH, explained_by=("mem.ram_cache_too_big", "speed.worker_respawn"))
def ram_growth(
    tables: Tables, args: TrainArgs | None, log: TrainLog | None, *, min_rise: float = 0.15, min_points: int = 8
) -> Verdict:
    """Host memory rises steadily.

    Copies of Python objects in loader workers (pytorch#13246) or a nightly build (ultralytics#14150). min_rise:
    by this share of where it started, and never going back: a saw-tooth per epoch is workers that start and
    end. While images are being cached the rise is the cache.
    """
    if log is not None and any(c.done < c.total for c in log.caches):
        return None
    ram = tables.series("ram_used|rss|mem(?:ory)?_used|host_mem")
    if len(ram) < min_points:
        return Skip("too_few_steps", {"have": len(ram), "need": min_points})
    first, last = low_and_high(ram)
    start = next((i for i, v in enumerate(ram) if v > first * 1.02), len(ram))
    rising = ram[start:]
    falls = sum(b < a * 0.99 for a, b in itertools.pairwise(rising))
    if min(ram[-max(1, len(ram) // 4) :]) <= max(ram[: len(ram) // 2]):
        return None  # it comes and goes
    if last < first * (1 + min_rise) or len(rising) < min_points // 2 or falls > len(rising) // 10 or ram[-1] < last:
        return None
    if ram_cache(args, log) and len(rising) < len(ram) // 2:
        return None
    workers = args.get("workers") if args else None
    nightly = log is not None and (".dev" in log.torch or "nightly" in log.torch)
    return Hit(
        values={
            "case": "nightly" if nightly else None,
            "rise": ram[-1] / first - 1,
            "points": len(rising),
            "torch": log.torch if log else None,
        },
        fixes=(
            *((Fix("stable"),) if nightly else ()),
            Fix("fewer_workers", {"workers": max(1, workers // 2)} if isinstance(workers, int) and workers > 1 else {}),
            Fix("restart", {"resume": True}),
        ),
        evidence=table_source(tables, "ram_used|rss|mem(?:ory)?_used|host_mem"),
        confidence=Confidence.MEDIUM,
    )


def _rank_columns(table: Table) -> dict[str, str]:
    """Columns with the time of one rank each: `rank0_s`, `rank_1_step_ms`."""
    found = {
        c: re.fullmatch(r"rank_?(\d{1,4})(?:_(?:step|iter|compute|epoch|time))*", plain(c)[0]) for c in table.columns
    }
    return {c: m[1] for c, m in found.items() if m and plain(c)[1] in {"ms", "s", "sec", "min"}}


def _own_time(table: Table) -> tuple[float, ...]:
    """What a rank needs by itself: its forward and backward pass where they are told, else its compute or step time.

    The time of the whole step is the same on all ranks, as all wait for the last one. A mere counter of steps has no
    unit.
    """
    timed = [c for c in table.columns if plain(c)[1] in {"ms", "s", "sec", "us"}]
    parts = [c for c in timed if re.search("forward|fwd|backward|bwd|compute|data|load", c, re.I)]
    parts = [c for c in parts if not re.search("wait|sync|reduce|comm", c, re.I)]
    whole = [c for c in timed if re.search("step|iter", c, re.I) and not re.search("wait|sync|reduce|comm", c, re.I)]
    used = [c for c in parts if "compute" in c.lower()] or parts or whole[:1]
    rows = zip(*(table.numbers(f"^{re.escape(c)}$") for c in used), strict=True)
    return tuple(sum(row) for row in rows) if used else (math.nan,) * len(table.rows)


_NO_WAIT = 0.1
"""A step that waits for less than this share of its time has a loader that keeps up."""
_LOADER_PARTS = {
    "read": r"(?:file_)?read|io|disk|open|fetch_file",
    "decode": r"decode|imread|cv2_imread|jpe?g(?:_decode)?|load_image|resize|letterbox",
    "augment": r"aug\w*|transforms?|albu\w*|mosaic|mix_?up|cut_?mix|copy_?paste|random_\w+|perspective|affine|hsv"
    r"|flip\w*|elastic\w*|blur\w*|clahe",
}


def _loader_part(
    tables: Tables, steps: StepStats | None, part: str, min_share: float, fixes: tuple[Fix, ...]
) -> Verdict:
    spent = dict.fromkeys(_LOADER_PARTS, 0.0)
    file = ""
    for table in tables.tables:
        found = dict(_parts_of(table))
        if len(found) > 1 or (found and not file):
            file, spent = table.file, dict.fromkeys(_LOADER_PARTS, 0.0) | found
            if len(found) > 1:
                break
    total = sum(spent.values())
    if not total or not spent[part]:
        return Skip("no_column", {"column": f"{part}_s"})
    util = tables.series("gpu_util")
    if spent[part] / total < min_share or (steps is not None and steps.share(Stage.DATA_WAIT) < _NO_WAIT):
        return None
    if steps is None and len(util) >= 10 and median(util) >= 90:
        return None  # whatever the loader does, the GPU doesn't wait for it
    return Hit(values={"share": spent[part] / total}, fixes=fixes, evidence=(Source(file),))


def _parts_of(table: Table) -> Iterator[tuple[str, float]]:
    for part, pattern in _LOADER_PARTS.items():
        total = 0.0
        for column in table.columns:
            name, factor = seconds(column)
            if factor and plain(column)[1] and re.fullmatch(pattern, name):
                total += factor * sum(v for v in table.numbers(f"^{re.escape(column)}$") if 0 <= v < math.inf)
        if total:
            yield part, total
