"""mem.ram_growth, speed.cpu_oversubscription, hw.cpu_quota: what the machine's counters say of CPU and memory."""

import statistics
from collections.abc import Sequence

from diag.model.counters import Counters, Series
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.hardware import Baseline
from diag.model.run import TrainArgs
from diag.rules.base import rule

Points = Sequence[tuple[float, float]]


@rule("mem.ram_growth", Severity.HIGH)
def ram_growth(
    counters: Counters,
    args: TrainArgs | None,
    baseline: Baseline | None,
    *,
    min_seconds: float = 60.0,
    min_points: int = 20,
    min_growth_mib: float = 256.0,
    min_share: float = 0.10,
    min_signal: float = 5.0,
    min_half: float = 0.5,
    steep_seconds: float = 10.0,
    steep_points: int = 8,
    steep_growth_mib: float = 512.0,
    steep_share: float = 0.30,
    steep_half: float = 0.7,
) -> Verdict:
    """Host memory of the trainer or of its loader workers rises steadily, long after the start.

    Looked at is the time from the second epoch on, without the final evaluation: the first epoch and the first
    validation allocate for good. min_seconds, min_points: less is no trend. min_growth_mib, min_share: a healthy
    trainer on the CPU moves by tens of MiB (own recordings); the leak of the published comparison was 40 MiB a
    step. min_signal: growth against the scatter around the line. min_half: both halves of the time must rise at
    least half as fast as the whole, so that a plateau is no leak. steep_seconds, steep_points: who keeps tensors
    of every step needs no minute, nor a second epoch, to be seen. steep_growth_mib, steep_share, steep_half: half
    a GiB and a third of what was there, about as fast in both halves; the buffers of a healthy start (mosaic:
    batch x 8 images) are smaller and fill once. Reported in yoloe#24, ultralytics#9999, ultralytics#14150.
    """
    candidates = {name: counters.series.get(f"rss_{name}_bytes") for name in ("main", "workers")}
    crew = counters.series.get("workers")
    if crew is None or len({round(value) for _, value in crew.points}) > 1:
        candidates["workers"] = None  # more or fewer processes are not a leak of one
    seen = {name: series for name, series in candidates.items() if series and len(series.points) >= steep_points}
    seconds = max((series.points[-1][0] - series.points[0][0] for series in seen.values()), default=0.0)
    if seconds < steep_seconds:
        return Skip("too_short_for_trend", {"have": seconds, "need": min_seconds})
    hits = []
    for name, series in seen.items():
        slope, growth, scatter = _trend(series.points)
        start = series.points[0][1]
        long = counters.steady and seconds >= min_seconds and len(series.points) >= min_points
        least = max(min_growth_mib * 2**20, min_share * start)
        if not long:
            least = max(steep_growth_mib * 2**20, steep_share * start)
        if growth < least or growth < min_signal * scatter:
            continue
        half = len(series.points) // 2
        slower = min(_trend(series.points[:half])[0], _trend(series.points[half:])[0])
        if slower < (min_half if long else steep_half) * slope:
            continue
        hits.append((growth, name, series, slope, scatter))
    if not hits and (seconds < min_seconds or not counters.steady):
        return Skip("too_short_for_trend", {"have": seconds, "need": min_seconds})
    if not hits:
        return None
    growth, name, series, slope, scatter = max(hits)
    host = baseline.host if baseline else None
    limit = (host.memory_limit_bytes or host.memory_total_bytes) if host else None
    rest_h = max(0.0, (limit - series.last) / (slope * 3600)) if limit else None
    workers = args.get("workers") if args else None
    fixes = []
    if name == "workers" and isinstance(workers, int) and workers > 1:
        fixes = [Fix("fewer_workers", {"workers": workers // 2})]
    return Hit(
        values={
            "case": name if rest_h is None else f"{name}_limit",
            "growth_gib": growth / 2**30,
            "rate_gib_h": slope * 3600 / 2**30,
            "minutes": seconds / 60,
            "from_gib": series.points[0][1] / 2**30,
            "to_gib": series.points[-1][1] / 2**30,
            "limit_gib": limit / 2**30 if limit else None,
            "rest_h": rest_h,
        },
        fixes=(*fixes, Fix("keep_nothing" if name == "main" else "worker_state"), Fix("resume")),
        evidence=(Source(counters.file, text=f"rss_{name}_bytes"),),
        confidence=Confidence.HIGH if seconds >= 600 or growth >= 4 * min_signal * scatter else Confidence.MEDIUM,
    )


@rule("speed.loader_single_core@own", Severity.CRITICAL)
def loader_single_core(counters: Counters, *, min_used: float = 0.7, min_pressure: float = 0.25) -> Verdict:
    """Something in the training bound it, or its loader workers, to one core, though more were given.

    OpenMP does it at import (KMP_AFFINITY, GOMP_CPU_AFFINITY), and children inherit it (pytorch#99625, yolov5#3319).
    Given is what the watching process may run on, which the training can't have bound. With workers theirs counts: a
    trainer on one core feeds a GPU well. min_used: of that core is busy, or else min_pressure: tasks
    wait for a CPU for a quarter of the time (others may have taken it); below both nobody waits for it: low.
    """
    given, crew = counters.series.get("cpus_given"), counters.series.get("cpus_workers")
    bound = crew or counters.series.get("cpus_main")
    if given is None or bound is None:
        return Skip("no_evidence", {"missing": "counters"})
    if given.last < 2 or bound.last > 1:
        return None
    used = _mean(counters.series.get("cpu_tree_s_per_s"))
    pressure = _mean(counters.series.get("psi_cpu_some_s_per_s"))
    idle = used is not None and used < min_used and (pressure or 0.0) < min_pressure
    workers = counters.series.get("workers")
    return Hit(
        values={
            "case": "workers" if crew else None,
            "given": given.last,
            "workers": workers.max if crew and workers else None,
            "used": used,
        },
        fixes=(Fix("affinity"), Fix("check")),
        evidence=(Source(counters.file, text=f"cpus_{'workers' if crew else 'main'} 1, cpus_given {given.last:.0f}"),),
        severity=Severity.LOW if idle else None,
    )


@rule("speed.cpu_oversubscription", Severity.CRITICAL)
def cpu_oversubscription(
    counters: Counters,
    args: TrainArgs | None,
    baseline: Baseline | None,
    *,
    min_share: float = 0.25,
    critical_share: float = 0.5,
    min_held: float = 0.10,
) -> Verdict:
    """More threads want to run than the CPU quota lets, and the control group is held back.

    min_share: a quarter of the quota's periods ran out (proposal; an unhurt training stays near zero). critical_share:
    half of them. min_held: thread-seconds held back per second; a few microseconds a period hurt nobody.
    """
    periods, throttled = counters.grew.get("periods", 0.0), counters.grew.get("throttled_periods", 0.0)
    if periods <= 0:
        return None  # no quota here
    share = throttled / periods
    held = counters.grew.get("throttled_s", 0.0) / counters.seconds if counters.seconds else 0.0
    if share < min_share or held < min_held:
        return None
    cpus = baseline.host.cpus_effective if baseline else None
    workers = args.get("workers") if args else None
    fits = max(1, int(cpus) - 1) if cpus else None
    fixes = [Fix("workers", {"workers": fits})] if fits and isinstance(workers, int) and workers > fits else []
    threads = counters.series.get("threads")
    return Hit(
        values={
            "case": "known" if cpus else "unknown",
            "share": share,
            "cpus": cpus,
            "threads": threads.p50 if threads else None,
            "cores": _mean(counters.series.get("cpu_cgroup_s_per_s")),
        },
        fixes=(*fixes, Fix("threads"), Fix("quota")),
        evidence=(Source(counters.file, text=f"throttled_periods {throttled:.0f} of {periods:.0f}"),),
        severity=Severity.CRITICAL if share >= critical_share else Severity.MEDIUM,
    )


@rule("hw.cpu_quota", Severity.MEDIUM, explained_by=("speed.cpu_oversubscription",))
def cpu_quota(counters: Counters, baseline: Baseline, *, max_part: float = 0.5, min_used: float = 0.85) -> Verdict:
    """The container may use far fewer CPUs than the machine has, and training needed all of them.

    max_part: at most half of the machine's CPUs (psutil, torch and Ultralytics size themselves by all of them).
    min_used: share of the allowed CPUs that the training used on average; below it more CPUs would idle.
    """
    allowed, visible = baseline.host.cpus_effective, baseline.host.cpus_visible
    if not allowed or not visible:
        return Skip("no_evidence", {"missing": "baseline"})
    used = _mean(counters.series.get("cpu_tree_s_per_s"))
    if used is None or allowed > max_part * visible or used < min_used * allowed:
        return None
    return Hit(
        values={"allowed": allowed, "visible": visible, "used": used},
        fixes=(Fix("more_cpus"),),
        evidence=(Source("baseline.json", text=f"cpus_effective {allowed:g} of {visible}"), Source(counters.file)),
    )


def _trend(points: Points) -> tuple[float, float, float]:
    """Slope per second, growth along the line, and the standard deviation around it."""
    times, values = [t for t, _ in points], [v for _, v in points]
    fit = statistics.linear_regression(times, values)
    rest = [v - fit.intercept - fit.slope * t for t, v in points]
    return fit.slope, fit.slope * (times[-1] - times[0]), statistics.pstdev(rest)


def _mean(series: Series | None) -> float | None:
    return series.mean if series else None
