"""speed.loader_bound: the model waits for the data loader."""

import math

from diag.model.evidence import StepStats
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Verdict
from diag.model.hardware import Baseline
from diag.model.run import TrainArgs
from diag.model.trace import Stage
from diag.rules.base import rule
from diag.rules.facts import on_cpu, whole


@rule(
    "speed.loader_bound",
    Severity.HIGH,
    explained_by=(
        "speed.storage_remote",
        "speed.storage_slow",
        "hw.disk_slow",
        "speed.loader_long_tail",
        "speed.decode_bound",
        "speed.augment_bound",
        "speed.raise_workers",
        "speed.loader_single_core",
        "speed.ram_cache_swapping",
        "speed.cpu_oversubscription",
        "hw.cpu_quota",
        "speed.worker_respawn",
        "env.torch_cpu",
    ),
)
def loader_bound(
    steps: StepStats,
    args: TrainArgs | None,
    baseline: Baseline | None,
    *,
    max_share: float = 0.20,
    high_share: float = 0.35,
    min_steps: int = 5,
    sure_steps: int = 30,
) -> Verdict:
    """The model waits for batches: data wait is a large share of the step.

    max_share: 20 % of the step, the limit that LibreYOLO's profiler, fournex and TraceML's higher level
    use; below it even a perfect loader makes training at most 1.25 times faster.
    high_share: from 35 % on (1.5 times faster at best) it is high, else medium. On the CPU Ultralytics loads in the
    training process, so nothing can overlap and small models always wait some: below high_share that is info.
    min_steps, sure_steps: a handful of batches is mostly start-up; below 30 confidence is medium.
    """
    if steps.steady_steps < min_steps:
        return Skip("too_few_steps", {"have": steps.steady_steps, "need": min_steps})
    wait = steps.share(Stage.DATA_WAIT)
    if wait <= max_share:
        return None
    cpus = baseline.host.cpus_effective if baseline else None
    asked = args.get("workers", 8) if args else None
    workers = asked if isinstance(asked, int) else None
    in_process = on_cpu(args, baseline)
    if in_process:
        workers = 0
    fixes = []
    limit = math.floor(cpus) if cpus else None
    more = None if in_process or workers is None or limit is None else min(limit, max(2 * workers, 2))
    if more is not None and workers is not None and more > workers:
        fixes.append(Fix("more_workers", {"workers": more}))
    elif more is not None and workers is not None and limit is not None and workers > limit:
        fixes.append(Fix("fewer_workers", {"workers": max(limit, 1)}))
    if args is None or not args.get("cache", False):
        fixes.append(Fix("cache", {"cache": "disk"}))
    imgsz = args.get("imgsz") if args else None
    fixes.append(Fix("smaller_images" if imgsz is not None else "small_files"))
    case = "cpu" if in_process else "workers" if workers is not None and cpus else "unknown"
    return Hit(
        values={
            "case": case,
            "wait": wait,
            "wait_s": steps.steady_mean_s.get(Stage.DATA_WAIT, 0.0),
            "step_s": steps.step_s,
            "speedup": 1 / (1 - wait) if wait < 1 else math.inf,
            "workers": workers,
            "cpus": cpus,
            "imgsz": str(imgsz) if imgsz is not None else None,
            "try_workers": more,
        },
        fixes=tuple(fixes),
        evidence=(whole(steps),),
        confidence=Confidence.HIGH if steps.steady_steps >= sure_steps else Confidence.MEDIUM,
        headroom=wait,
        severity=Severity.HIGH if wait >= high_share else Severity.INFO if in_process else Severity.MEDIUM,
    )
