"""Why the loader is slow: storage, decoding, augmentation, a few slow files, too few workers.

They are causes of speed.loader_bound, so all of them are quiet unless waiting is a large share of the step.
"""

import math
from collections.abc import Mapping

from diag.model.evidence import LoaderStats, StepStats
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Value, Verdict
from diag.model.hardware import Baseline
from diag.model.run import TrainArgs
from diag.model.trace import Stage
from diag.rules.base import rule
from diag.rules.facts import on_cpu

MAX_WAIT = 0.20
"""The limit of speed.loader_bound."""


@rule("speed.storage_slow", Severity.HIGH)
def storage_slow(
    steps: StepStats,
    loader: LoaderStats,
    args: TrainArgs | None,
    baseline: Baseline | None,
    *,
    max_wait: float = MAX_WAIT,
    min_share: float = 0.40,
    min_steps: int = 5,
) -> Verdict:
    """Training waits for data, and the loader spends its time reading files.

    max_wait: the limit of speed.loader_bound. min_share: the largest part of a sample and at least 40 % of it; from
    the page cache or a local SSD reading is below 10 %, decoding and augmentation need the rest.
    """
    if steps.steady_steps < min_steps:
        return Skip("too_few_steps", {"have": steps.steady_steps, "need": min_steps})
    if not _is_limit("read", steps, loader, max_wait, min_share):
        return None
    fixes = [Fix("local_disk"), *_cache(args), *_workers(loader, args, baseline)]
    read_s = loader.mean_s["read"]
    values = {"mb_per_s": loader.bytes_per_file * (1 - loader.hit_share) / read_s / 1e6 if read_s > 0 else 0.0}
    return _hit("read", steps, loader, fixes, values)


@rule("speed.decode_bound", Severity.MEDIUM, explained_by=("speed.loader_long_tail",))
def decode_bound(
    steps: StepStats,
    loader: LoaderStats,
    args: TrainArgs | None,
    baseline: Baseline | None,
    *,
    max_wait: float = MAX_WAIT,
    min_share: float = 0.40,
    min_steps: int = 5,
) -> Verdict:
    """Training waits for data, and the loader spends its time decoding and shrinking images.

    max_wait: the limit of speed.loader_bound. min_share: as for speed.storage_slow.
    """
    if steps.steady_steps < min_steps:
        return Skip("too_few_steps", {"have": steps.steady_steps, "need": min_steps})
    if not _is_limit("decode", steps, loader, max_wait, min_share):
        return None
    if loader.bytes_per_file == 0 and loader.hit_share < 1:
        return Skip("read_with_decode")
    imgsz = args.get("imgsz") if args else None
    large = isinstance(imgsz, int) and loader.pixels_per_image > 2 * imgsz * imgsz
    fixes = [*([Fix("smaller_images")] if large or not isinstance(imgsz, int) else []), *_cache(args)]
    fixes += _workers(loader, args, baseline)
    values: dict[str, Value] = {"megapixels": loader.pixels_per_image / 1e6, "imgsz": str(imgsz or "imgsz")}
    return _hit(
        "decode", steps, loader, fixes or [Fix("faster_cpu")], values, overlaps=on_cpu(args, baseline) is not True
    )


@rule("speed.augment_bound", Severity.MEDIUM, explained_by=("speed.loader_long_tail",))
def augment_bound(
    steps: StepStats,
    loader: LoaderStats,
    args: TrainArgs | None,
    baseline: Baseline | None,
    *,
    max_wait: float = MAX_WAIT,
    min_share: float = 0.40,
    min_steps: int = 5,
) -> Verdict:
    """Training waits for data, and the loader spends its time in augmentation.

    max_wait: the limit of speed.loader_bound. min_share: as for speed.storage_slow.
    """
    if steps.steady_steps < min_steps:
        return Skip("too_few_steps", {"have": steps.steady_steps, "need": min_steps})
    if not _is_limit("augment", steps, loader, max_wait, min_share):
        return None
    classify = args is not None and args.get("task") == "classify"
    lighter = Fix("lighter_classify", {"auto_augment": None}) if classify else Fix("lighter_augment")
    fixes = [*_workers(loader, args, baseline), lighter]
    return _hit("augment", steps, loader, fixes, {}, overlaps=on_cpu(args, baseline) is not True)


@rule("speed.loader_long_tail", Severity.MEDIUM, explained_by=("speed.storage_slow",))
def loader_long_tail(
    steps: StepStats,
    loader: LoaderStats,
    *,
    max_wait: float = MAX_WAIT,
    min_ratio: float = 10.0,
    min_tail_steps: float = 1.0,
    min_steps: int = 100,
) -> Verdict:
    """Most batches come at once, a few keep training waiting: rare huge or slow files.

    max_wait: the limit of speed.loader_bound. min_ratio: the slowest 1 % wait ten times the median, and the mean
    three times; a loader that is evenly too slow stays below two. min_tail_steps: they wait for more than one
    whole step. Reported in ultralytics#4597.
    """
    if steps.steady_steps < min_steps:
        return Skip("too_few_steps", {"have": steps.steady_steps, "need": min_steps})
    if steps.share(Stage.DATA_WAIT) <= max_wait or not loader.slowest:
        return None
    mean, p50, p99 = steps.steady_mean_s.get(Stage.DATA_WAIT, 0.0), steps.wait_p50_s, steps.wait_p99_s
    if p99 < min_ratio * p50 or mean < 3 * p50 or p99 < min_tail_steps * steps.step_s:
        return None
    file, slow_s = loader.slowest[0]
    return Hit(
        values={
            "p50_s": p50, "p99_s": p99, "wait": steps.share(Stage.DATA_WAIT), "file": file, "slow_s": slow_s,
            "load_s": loader.load_s,
        },
        fixes=(Fix("slow_files"),),
        evidence=(Source(loader.file, text=file),),
        confidence=Confidence.MEDIUM,
        headroom=steps.share(Stage.DATA_WAIT),
    )  # fmt: skip


@rule(
    "speed.raise_workers",
    Severity.MEDIUM,
    explained_by=(
        "speed.storage_slow",
        "speed.loader_long_tail",
        "speed.decode_bound",
        "speed.augment_bound",
    ),
)
def raise_workers(
    steps: StepStats,
    loader: LoaderStats,
    args: TrainArgs | None,
    baseline: Baseline | None,
    *,
    max_wait: float = MAX_WAIT,
    min_steps: int = 30,
) -> Verdict:
    """Training waits for data while CPUs are free: more workers would help.

    max_wait: the limit of speed.loader_bound. Free are the CPUs that this container may use, less the workers that
    loaded; on the CPU Ultralytics loads in the training process, whatever is asked. Reported in ultralytics#13938.
    """
    if steps.steady_steps < min_steps:
        return Skip("too_few_steps", {"have": steps.steady_steps, "need": min_steps})
    if steps.share(Stage.DATA_WAIT) <= max_wait:
        return None
    fixes = _workers(loader, args, baseline)
    if not fixes:
        return None
    wait = steps.share(Stage.DATA_WAIT)
    cpus = baseline.host.cpus_effective if baseline else None
    return Hit(
        values={"workers": loader.workers, "cpus": cpus, "wait": wait, "sample_s": loader.sample_s},
        fixes=tuple(fixes),
        evidence=(Source(loader.file),),
        confidence=Confidence.MEDIUM,  # that CPUs are free is counted, not measured
        headroom=wait,
    )


def _is_limit(part: str, steps: StepStats, loader: LoaderStats, max_wait: float, min_share: float) -> bool:
    largest = max(loader.mean_s, key=lambda name: loader.mean_s[name], default="")
    return steps.share(Stage.DATA_WAIT) > max_wait and part == largest and loader.share(part) >= min_share


def _hit(
    part: str,
    steps: StepStats,
    loader: LoaderStats,
    fixes: list[Fix],
    values: Mapping[str, Value],
    *,
    high_wait: float = 0.35,
    overlaps: bool = True,
) -> Hit:
    """A part of the loader as the cause. Severity follows the waiting, as in speed.loader_bound; `overlaps` is False
    where the training process loads by itself."""
    wait = steps.share(Stage.DATA_WAIT)
    return Hit(
        values={
            "part": loader.share(part),
            "part_s": loader.mean_s[part],
            "sample_s": loader.sample_s,
            "wait": wait,
            "workers": loader.workers,
            "speedup": 1 / (1 - wait * loader.share(part)) if wait * loader.share(part) < 1 else math.inf,
            **values,
        },
        fixes=tuple(fixes),
        evidence=(Source(loader.file),),
        confidence=Confidence.HIGH if steps.steady_steps >= 30 else Confidence.MEDIUM,
        headroom=wait * loader.share(part),
        severity=Severity.HIGH if wait >= high_wait else None if overlaps else Severity.INFO,
    )


def _cache(args: TrainArgs | None) -> list[Fix]:
    return [Fix("cache", {"cache": "disk"})] if args is None or not args.get("cache", False) else []


def _workers(loader: LoaderStats, args: TrainArgs | None, baseline: Baseline | None) -> list[Fix]:
    """More workers, if CPUs are free for them: at most twice as many and never more than CPUs a rank may use."""
    cpus = baseline.host.cpus_effective if baseline else None
    if cpus is None or not math.isfinite(cpus) or on_cpu(args, baseline) is not False:
        return []
    limit = math.floor(cpus / ranks(args))
    more = min(limit, max(2 * loader.workers, 2))
    return [Fix("more_workers", {"workers": more})] if more > loader.workers else []


def ranks(args: TrainArgs | None) -> int:
    """How many GPUs a run was given: device=0,1 or [0, 1] are two."""
    device = str(args.get("device", "")) if args else ""
    return max(1, sum(part.strip(" []()'\"").isdigit() for part in device.split(",")))
