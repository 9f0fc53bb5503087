"""hw.*, mem.gpu_*, env.pcie_idle_ok: what NVML counted on the GPUs that were trained on."""

from diag.model.counters import CountedGpu, Counters, Series
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.hardware import Baseline, Gpu
from diag.model.run import TrainArgs
from diag.rules.base import rule

_NO_GPU = Skip("no_gpu_used")
_MAX_BATCH = 1_000_000
"""A larger one is a slip of the pen, and no base for advice."""


@rule("hw.thermal_throttle", Severity.CRITICAL)
def thermal_throttle(counters: Counters, *, min_share: float = 0.01, critical_share: float = 0.10) -> Verdict:
    """Temperature held the clocks of a training GPU down.

    Shares of the training's wall time, from NVML's cumulative counters (no gap between samples), else from the
    clocks event reasons of each second. min_share and critical_share: proposals; DCGM fails at any thermal event.
    Reported in nvidia-settings#67.
    """
    used = counters.trained_on()
    if not used:
        return _NO_GPU
    shares = {gpu.index: _held(counters, gpu, ("hw_thermal", "sw_thermal", "thermal"), "thermal_held") for gpu in used}
    known = {index: share for index, share in shares.items() if share is not None}
    if not known:
        return Skip("not_counted")
    index, share = max(known.items(), key=lambda item: item[1])
    if share < min_share:
        return None
    temperature = _series(counters, index, "temperature_c")
    return Hit(
        values={
            "index": index,
            "share": share,
            "celsius": temperature.max if temperature else None,
            "case": "known" if temperature else "unknown",
        },
        fixes=(Fix("cooling"), Fix("power_limit")),
        evidence=(Source(counters.file, text=f"gpu{index} thermal"),),
        severity=Severity.CRITICAL if share >= critical_share else Severity.MEDIUM,
    )


@rule("hw.power_throttle", Severity.MEDIUM)
def power_throttle(
    counters: Counters,
    baseline: Baseline | None,
    *,
    min_share: float = 0.01,
    min_limit: float = 0.95,
    min_capped: float = 0.10,
) -> Verdict:
    """The power supply's brake, or a limit below the card's own, held the clocks down.

    A card at its default power cap is normal at full load and no fault (DCGM leaves it out, too). min_share: of
    wall time under the brake (proposal). min_limit: a limit under 95 % of the default was set by somebody;
    min_capped: and was reached for a tenth of the time. Reported in
    reverse-engineering-dell-idrac-to-get-rid-of-gpu-throttling#3.
    """
    used = counters.trained_on()
    if not used:
        return _NO_GPU
    for gpu in used:
        brake = _held(counters, gpu, ("power_brake",), "brake_held")
        if brake is not None and brake >= min_share:
            return Hit(
                values={"case": "brake", "index": gpu.index, "share": brake, "limit_w": None, "default_w": None},
                fixes=(Fix("supply"),),
                evidence=(Source(counters.file, text=f"gpu{gpu.index}_power_brake_s_total"),),
            )
        known, capped = _baseline_gpu(baseline, gpu), _held(counters, gpu, ("power_cap",), "")
        if known is None or not known.power_limit_w or not known.power_default_w or capped is None:
            continue
        if known.power_limit_w < min_limit * known.power_default_w and capped >= min_capped:
            return Hit(
                values={
                    "case": "limit",
                    "index": gpu.index,
                    "share": capped,
                    "limit_w": known.power_limit_w,
                    "default_w": known.power_default_w,
                },
                fixes=(Fix("raise"),),
                evidence=(Source(counters.file, text=f"gpu{gpu.index}_power_cap_s_total"), Source("baseline.json")),
            )
    return None


@rule("hw.gpu_busy", Severity.HIGH)
def gpu_busy(counters: Counters, baseline: Baseline, *, min_mib: float = 500.0, min_share: float = 0.05) -> Verdict:
    """Another process held memory of the training GPU before training took any.

    Both looks must agree: the check before the run and the first second of it. min_mib and min_share: above what a
    driver and a desktop take (the check's own limit of 500 MiB, and 5 % of the card; proposals). Reported in
    ultralytics#7642.
    """
    used = counters.trained_on()
    if not used:
        return _NO_GPU
    for gpu in used:
        known, memory = _baseline_gpu(baseline, gpu), _series(counters, gpu.index, "memory_used_bytes")
        if known is None or known.memory_used_bytes is None or memory is None or not gpu.memory_total_bytes:
            continue
        foreign = min(known.memory_used_bytes, memory.first)
        if foreign >= max(min_mib * 2**20, min_share * gpu.memory_total_bytes):
            return Hit(
                values={
                    "index": gpu.index,
                    "foreign_gib": foreign / 2**30,
                    "total_gib": gpu.memory_total_bytes / 2**30,
                },
                fixes=(Fix("free"), Fix("other")),
                evidence=(Source(counters.file, text=f"gpu{gpu.index}_memory_used_bytes"), Source("baseline.json")),
            )
    return None


@rule("mem.gpu_oom_risk", Severity.MEDIUM, explained_by=("mem.gpu_oom", "hw.gpu_busy"))
def gpu_oom_risk(counters: Counters, args: TrainArgs | None, *, max_share: float = 0.95) -> Verdict:
    """The card was all but full: a more crowded batch can end the run.

    max_share: of the card's memory, with the allocator's cache and other processes counted in (proposal; public cases
    ran out of memory late from 95 % on).
    """
    fullest = _fullest(counters)
    if fullest is None:
        return _NO_GPU
    gpu, memory, share = fullest
    if share < max_share:
        return None
    batch = args.get("batch") if args else None
    fixes = []
    if isinstance(batch, int) and not isinstance(batch, bool) and 1 < batch < _MAX_BATCH:
        fixes = [Fix("smaller_batch", {"batch": max(1, int(batch * 0.8))})]
    return Hit(
        values={"index": gpu.index, "share": share, "used_gib": memory.max / 2**30, **_total(gpu)},
        fixes=(*fixes, Fix("headroom")),
        evidence=(Source(counters.file, text=f"gpu{gpu.index}_memory_used_bytes"),),
        confidence=Confidence.MEDIUM,
    )


@rule("mem.gpu_underused", Severity.LOW)
def gpu_underused(
    counters: Counters, args: TrainArgs | None, *, max_share: float = 0.70, target: float = 0.80
) -> Verdict:
    """The GPU's memory stayed far from full: a larger batch fits.

    max_share: the catalog's 70 % (SageMaker Debugger's BatchSize rule uses it, too). target: the share that the
    proposed batch would take, if memory grew in proportion; weights do not, so it takes less.
    """
    fullest = _fullest(counters)
    if fullest is None:
        return _NO_GPU
    gpu, memory, share = fullest
    if share >= max_share:
        return None
    batch = args.get("batch") if args else None
    fixes = []
    if isinstance(batch, int) and not isinstance(batch, bool) and 0 < batch < _MAX_BATCH:
        larger = int(batch * min(4.0, target / share)) // 4 * 4
        fixes = [Fix("larger_batch", {"batch": larger})] if larger > batch else []
    return Hit(
        values={"index": gpu.index, "share": share, "used_gib": memory.max / 2**30, **_total(gpu)},
        fixes=tuple(fixes) or (Fix("larger_batch_by_hand"),),
        evidence=(Source(counters.file, text=f"gpu{gpu.index}_memory_used_bytes"),),
        confidence=Confidence.MEDIUM,
    )


@rule("env.pcie_idle_ok", Severity.INFO)
def pcie_idle_ok(counters: Counters, baseline: Baseline) -> Verdict:
    """The PCIe link read low before training because the GPU was idle; under load it was at full speed."""
    used = counters.trained_on()
    if not used:
        return _NO_GPU
    for gpu in used:
        known, link = _baseline_gpu(baseline, gpu), _series(counters, gpu.index, "pcie_gen")
        if known is None or known.pcie_gen is None or gpu.pcie_gen_max is None or link is None:
            continue
        if known.pcie_gen < gpu.pcie_gen_max <= link.max:
            return Hit(
                values={"index": gpu.index, "idle": known.pcie_gen, "full": gpu.pcie_gen_max},
                fixes=(Fix("nothing"),),
                evidence=(Source("baseline.json", text=f"pcie_gen {known.pcie_gen}"), Source(counters.file)),
            )
    return None


def _held(counters: Counters, gpu: CountedGpu, totals: tuple[str, ...], gauge: str) -> float | None:
    """The largest share of wall time that one of these counters grew by; else the gauge's mean; None if not counted."""
    grew = [counters.grew[key] for name in totals if (key := f"gpu{gpu.index}_{name}_s") in counters.grew]
    if grew and counters.seconds > 0:
        return max(grew) / counters.seconds
    series = _series(counters, gpu.index, gauge)
    return series.mean if series else None


def _series(counters: Counters, index: int, name: str) -> Series | None:
    return counters.series.get(f"gpu{index}_{name}")


def _baseline_gpu(baseline: Baseline | None, gpu: CountedGpu) -> Gpu | None:
    return next((g for g in baseline.gpus if g.index == gpu.index), None) if baseline else None


def _fullest(counters: Counters) -> tuple[CountedGpu, Series, float] | None:
    """The training GPU with the largest share of its memory in use at its peak."""
    found = []
    for gpu in counters.trained_on():
        memory = _series(counters, gpu.index, "memory_used_bytes")
        if memory and gpu.memory_total_bytes:
            found.append((memory.max / gpu.memory_total_bytes, gpu.index, gpu, memory))
    if not found:
        return None
    share, _, gpu, memory = max(found)
    return gpu, memory, share


def _total(gpu: CountedGpu) -> dict[str, float | None]:
    return {"total_gib": gpu.memory_total_bytes / 2**30 if gpu.memory_total_bytes else None}
