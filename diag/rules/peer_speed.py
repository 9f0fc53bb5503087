"""speed.below_peers: of runs that do the same work on the same hardware, one is slower."""

from itertools import permutations
from statistics import median

from diag.model.evidence import Evidence, Peers
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.rules.base import rule

_SAME = ("imgsz", "batch", "model", "amp")
_OUTCOME = {"step_s", "epoch_s", "score", "epochs", "train_loss", "ended", "images", "transferred"}


@rule(
    "speed.below_peers",
    Severity.MEDIUM,
    explained_by=(
        "speed.loader_bound", "speed.storage_slow", "speed.storage_remote", "speed.decode_bound", "speed.augment_bound",
        "speed.loader_single_core", "speed.cpu_oversubscription", "speed.sysmem_spill", "speed.thermal_throttle",
        "speed.ram_cache_swapping", "hw.thermal_throttle", "hw.power_throttle", "hw.pcie_degraded", "hw.gpu_busy",
    ),
)  # fmt: skip
def below_peers(peers: Peers, *, min_ratio: float = 1.3, min_steps: int = 20) -> Verdict:
    """A run needs clearly longer for a step than another one of the same work on the same hardware.

    The same work: model, image size, batch, amp and data set by name; the same hardware: GPU and their number by the
    log, or the CPU and what may be used of it. min_ratio: of the step times; twins on one machine differed by up to
    a fifth when it was busy (docs/benchmarks.md). What else differs is named; nothing else is a reason to look at
    the machine.
    """
    compared = 0
    for (fast_name, fast), (slow_name, slow) in permutations(peers.runs.items(), 2):
        one, other = _step_s(fast, min_steps), _step_s(slow, min_steps)
        if one is None or other is None or not _alike(fast, slow):
            continue
        compared += 1
        if other < min_ratio * one:
            continue
        names = list(peers.runs)
        a, b = names.index(fast_name), names.index(slow_name)
        differs = [d.what for d in peers.differences if d.what not in _OUTCOME and d.values[a] != d.values[b]]
        return Hit(
            values={
                "case": "known" if differs else None,
                "run": slow_name,
                "other": fast_name,
                "ratio": other / one,
                "step_s": other,
                "other_s": one,
                "differs": ", ".join(differs[:6]),
            },
            fixes=(Fix("look_at"),) if differs else (Fix("machine"),),
            evidence=(Source(slow_name), Source(fast_name)),
            confidence=Confidence.MEDIUM,
        )
    return None if compared else Skip("nothing_to_compare")


def _step_s(run: Evidence, min_steps: int) -> float | None:
    """Seconds a batch: from the trace, else the median of the log's bars; None where too little was seen."""
    if run.steps is not None:
        return run.steps.step_s if run.steps.steady_steps >= min_steps else None
    steps = [e.step_s for e in run.log.epochs if e.step_s] if run.log else []
    return median(steps) if len(steps) >= 2 else None


def _alike(one: Evidence, other: Evidence) -> bool:
    if one.args is None or other.args is None:
        return False
    pairs = [(one.args.get(name), other.args.get(name)) for name in _SAME]
    if any(a is None or a != b for a, b in pairs[:3]) or (pairs[3][0] is not pairs[3][1] and None not in pairs[3]):
        return False
    if _data(one) != _data(other):
        return False
    return bool(_hardware(one)) and _hardware(one) == _hardware(other)


def _data(run: Evidence) -> str:
    """The last two parts of the path: `.../bccd/data.yaml` on two machines is one data set."""
    path = str(run.args.get("data", "")) if run.args else ""
    return "/".join(path.replace("\\", "/").split("/")[-2:])


def _hardware(run: Evidence) -> tuple[object, ...]:
    """GPU and their number by the log, else CPU model and usable CPUs; empty where not known."""
    if run.log is not None and run.log.gpu:
        return (run.log.gpu, run.log.gpus)
    host = run.baseline.host if run.baseline is not None and run.baseline.cuda_usable is False else None
    return (host.cpu_model, host.cpus_effective) if host is not None and host.cpu_model else ()
