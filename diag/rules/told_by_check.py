"""What `diag check` found before the run, as findings; nothing that the run itself could show better."""

from collections.abc import Callable
from datetime import datetime

from diag.model.check import Check, Checks, Status
from diag.model.curves import Curves
from diag.model.evidence import Console, StepStats
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import TrainLog
from diag.model.hardware import Baseline
from diag.model.run import RunRecord, TrainArgs
from diag.rules.base import Rule, rule
from diag.rules.facts import chose_cpu

FORETOLD = frozenset({
    "data.corrupt_images", "hw.cpu_quota", "hw.disk_low", "hw.gpu_busy", "hw.mem_limit", "mem.ram_cache_too_big",
    "mem.shm_small", "speed.cpu_oversubscription", "speed.decode_bound",
})  # fmt: skip
"""A warning of these is a forecast: a run that trained shows by itself whether it came true."""
_STOPPERS = FORETOLD - {"hw.cpu_quota", "hw.gpu_busy", "speed.cpu_oversubscription", "speed.decode_bound"}
"""Forecasts that may be why a run ended badly without a word."""
_OF_ARGUMENTS = frozenset({
    "data.corrupt_images", "data.path_mismatch", "env.weights_missing", "env.workspace_unwritable", "hw.disk_low",
    "hw.mem_limit", "mem.ram_cache_too_big", "mem.wrong_device", "speed.decode_bound", "env.check_failed",
    "env.check_warned",
})  # fmt: skip
"""`diag collect` asks without the run's arguments and folders, so its answers to these are not the run's."""
_WELL = {"finished", "stopped", "running"}
_GPU_LOST = {"not_passed", "utility_only", "no_permission"}


def _told(id: str, severity: Severity, *, explained_by: tuple[str, ...] = ()) -> Rule:
    """The rule for one finding that checks name; `env.check_failed` and `env.check_warned` are for all others."""

    def told(  # noqa: PLR0917 # each is a field of Evidence
        checks: Checks,
        run: RunRecord | None,
        args: TrainArgs | None,
        baseline: Baseline | None,
        console: Console | None,
        log: TrainLog | None,
        steps: StepStats | None,
        curves: Curves | None,
    ) -> Verdict:
        mine = [c for c in checks.checks if c.status in {Status.FAIL, Status.WARN} and _name(c) == id]
        if not mine:
            return None
        if id in {"env.torch_cpu", "env.docker_no_gpu"} and (
            chose_cpu(args, run)
            or (id == "env.torch_cpu" and baseline is not None and baseline.gpu_triage in _GPU_LOST)
        ):
            return None  # asked for; or env.docker_no_gpu tells it from the same facts
        trained = steps is not None or curves is not None
        failed = mine[0].status is Status.FAIL or any(c.status is Status.FAIL for c in mine)
        if checks.later:
            if not failed or trained or id in _OF_ARGUMENTS:
                return None
            if _elsewhere(baseline, console, log):
                return Skip("check_elsewhere")
        elif why := _outdated(checks, run):
            return Skip(why)
        kind = run.exit_cause.kind if run is not None else ""
        well = run is None or kind in _WELL
        if not failed and id in FORETOLD and trained and (well or id not in _STOPPERS):
            return None
        first = min(mine, key=lambda c: (c.status is not Status.FAIL, checks.checks.index(c)))
        return Hit(
            values={"case": "later" if checks.later else None, "check": first.id, "said": _said(first),
                    "remedy": first.remedy},
            fixes=(Fix("remedy"),) if first.remedy else (Fix("check"),),
            evidence=tuple(Source(checks.file, text=f"{c.id} {c.status.value}: {_said(c)}"[:300]) for c in mine[:3]),
            confidence=Confidence.LOW if checks.later else Confidence.HIGH if failed else Confidence.MEDIUM,
            severity=_severity(
                severity, kind, failed=failed, later=checks.later, ended_badly=not well and id in _STOPPERS
            ),
        )  # fmt: skip

    told.__doc__ = _DOC.format(id=id) if id not in _NAMELESS else _NAMELESS[id]
    name = id if id in _OWN else f"{id}@check"
    return rule(name, severity, explained_by=explained_by)(told)


_DOC = """`diag check` found it before the run.

    A failed check stopped the run, so it is the cause. A warning is low; if the run trained, nothing is said of what
    it would have shown itself. Answers from before the last start of the run, or from other hardware, are skipped.
    """
_NAMELESS = {
    "env.check_failed": "`diag check` failed before the run, in a check that no finding of its own stands for.",
    "env.check_warned": "`diag check` warned before the run, in a check that no finding of its own stands for.",
}
_OWN = set(_NAMELESS)
"""Findings that only a check knows."""


def _name(check: Check) -> str:
    """The finding that an answer stands for."""
    if check.finding:
        return check.finding
    return "env.check_failed" if check.status is Status.FAIL else "env.check_warned"


def _said(check: Check) -> str:
    """What was found, expected, and why that is bad, in the check's own words."""
    wanted = f" (expected: {check.expected})" if check.expected else ""
    why = f": {check.reason}" if check.reason else ""
    return " ".join(f"{check.value}{wanted}{why}".split()).lstrip(": ") or check.id


def _severity(severity: Severity, kind: str, *, failed: bool, later: bool, ended_badly: bool) -> Severity | None:
    """Failed: as the catalog says, critical where it kept the run from starting.

    Warned: low, medium where the run may have ended of it. Later: medium at most.
    """
    if failed and not later:
        return Severity.CRITICAL if kind == "check_failed" else None
    most = Severity.MEDIUM if later or ended_badly else Severity.LOW
    return min(severity, most, key=lambda s: s.rank)


def _outdated(checks: Checks, run: RunRecord | None) -> str:
    """Why the answers are not about the last start of this run; empty if they are, or if nothing speaks against it."""
    if run is None or not run.attempts:
        return ""
    last = run.attempts[-1]
    if checks.machine and last.machine and checks.machine != last.machine:
        return "check_elsewhere"
    made, started = _time(checks.created), _time(last.started)
    if made is None or started is None:
        again = len(run.attempts) > 1 and run.exit_cause.kind != "check_failed"
        return "check_older" if again else ""
    return "check_older" if made < started else ""


def _time(text: str) -> datetime | None:
    """Seconds are enough; without a zone it can't be compared."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(microsecond=0) if found.tzinfo else None


def _elsewhere(baseline: Baseline | None, console: Console | None, log: TrainLog | None) -> bool:
    """True if the log names a GPU that the checked machine does not have."""
    gpus = [gpu.name or "" for gpu in baseline.gpus] if baseline else []
    if log is not None and log.gpu:
        return not any(log.gpu in name or name in log.gpu for name in gpus if name)
    return console is not None and console.device in {"cuda", "mps"} and not gpus


_make: Callable[..., Rule] = _told
C, H, M, L = Severity.CRITICAL, Severity.HIGH, Severity.MEDIUM, Severity.LOW
torch_cpu = _make("env.torch_cpu", C)
docker_no_gpu = _make("env.docker_no_gpu", C)
driver_old = _make("env.driver_old", C)
no_kernel = _make("env.no_kernel", C)
torchvision = _make("env.torchvision_mismatch", C)
version_drift = _make("env.version_drift", H)
weights_missing = _make("env.weights_missing", H)
unwritable = _make("env.workspace_unwritable", C)
check_failed = _make("env.check_failed", H)
check_warned = _make("env.check_warned", Severity.INFO)
gpu_busy = _make("hw.gpu_busy", H)
thermal = _make("hw.thermal_throttle", C)
power = _make("hw.power_throttle", M)
pcie = _make("hw.pcie_degraded", H)
ecc = _make("hw.ecc_errors", C)
xid = _make("hw.xid", C)
wrong_result = _make("hw.gpu_wrong_result", C)
disk_low = _make("hw.disk_low", H)
cpu_quota = _make("hw.cpu_quota", M, explained_by=("speed.cpu_oversubscription",))
mem_limit = _make("hw.mem_limit", M)
oversubscription = _make("speed.cpu_oversubscription", C)
decode_bound = _make("speed.decode_bound", M)
gpu_oom = _make("mem.gpu_oom", C)
wrong_device = _make("mem.wrong_device", C)
ram_cache = _make("mem.ram_cache_too_big", C)
shm_small = _make("mem.shm_small", C)
path_mismatch = _make("data.path_mismatch", C)
corrupt_images = _make("data.corrupt_images", H)
