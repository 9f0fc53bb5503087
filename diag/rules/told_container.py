"""hw.cpu_quota, hw.mem_limit, env.version_drift: limits and package lists as people paste them."""

import re

from diag.model.evidence import Console, StepStats
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import Note, Notes, Tables
from diag.model.run import TrainArgs
from diag.model.trace import Stage
from diag.rules.base import rule
from diag.rules.facts import noted, on_cpu, sources
from diag.rules.limits import cpus_allowed, cpus_visible, memory_limit

_PIN = re.compile(r"([A-Za-z][\w.-]{1,60})\s*==\s*([\w.!+-]+)")
_LISTED = re.compile(r"([A-Za-z][\w.-]{1,60})(?:==|\s+)(\d[\w.!+-]*)(?:\s|$)")
_LOCK = re.compile(r"lock|requirements(?!.*(?:freeze|installed))|constraints", re.I)
_FREEZE = re.compile(r"freeze|pip[_-]?list|installed|pip\.txt|conda[_-]?list|packages", re.I)


@rule("hw.cpu_quota@told", Severity.MEDIUM, explained_by=("speed.cpu_oversubscription",))
def cpu_quota(
    notes: Notes,
    tables: Tables | None,
    args: TrainArgs | None,
    steps: StepStats | None,
    console: Console | None,
    *,
    max_part: float = 0.5,
    min_wait: float = 0.2,
) -> Verdict:
    """The container or job may use far fewer CPUs than it sees, and the loader needs them.

    Docker's NanoCpus, cpu.max, a pod's limit, Slurm's cpus-per-task against nproc, lscpu or os.cpu_count(). max_part:
    at most half of what is seen, or fewer than workers. min_wait: the step waits for data, as for speed.loader_bound;
    without timed steps there have to be more than twice as many workers as CPUs, and it is low: nobody saw a wait.
    """
    allowed = cpus_allowed(notes, tables)
    if not allowed:
        return Skip("not_said", {"what": "cpu.max"})
    seen, workers = cpus_visible(notes), args.get("workers", 8) if args else None
    crowd = workers if isinstance(workers, int) and not isinstance(workers, bool) else 0
    if on_cpu(args, None, console) or not (allowed <= max_part * seen or crowd > allowed):
        return None
    waits = steps.share(Stage.DATA_WAIT) >= min_wait if steps is not None else crowd > 2 * allowed
    if not waits:
        return None
    fits = max(1, int(allowed))
    return Hit(
        values={
            "case": "seen" if seen else None,
            "allowed": allowed,
            "seen": seen or None,
            "workers": str(workers) if workers is not None else None,
        },
        fixes=(Fix("more_cpus"), Fix("workers", {"workers": fits})),
        evidence=noted(notes, r"NanoCpus|cpu\.max|cfs_quota|^\d{4,7} \d{4,7}$|^cpu:\s|--cpus|SLURM_CPUS|NumCPUs"),
        confidence=Confidence.HIGH if steps is not None else Confidence.MEDIUM,
        severity=None if steps is not None else Severity.LOW,
    )


@rule("hw.mem_limit@told", Severity.MEDIUM, explained_by=("mem.ram_cache_too_big",))
def mem_limit(
    notes: Notes, console: Console | None, *, full: float = 0.97, own: float = 0.8, often: int = 100
) -> Verdict:
    """The job sits at its memory limit and reclaims all the time, though nothing was killed.

    full: of the limit in use. A control group counts the page cache in, which fills any limit and costs nothing: so
    own of it has to be the processes' memory by memory.stat (`docker stats` leaves the cache out by itself), and the
    limit was hit often by memory.events.
    """
    if sources(console, ("ram_oom",)):
        return None
    for note in notes.find(r"[\d.]+[MG]iB / [\d.]+[MG]iB\s+[\d.]+%"):
        found = re.search(r"/ (\d+(?:\.\d+)?[MG])iB\s+(\d+(?:\.\d+)?)%", note.text)
        if found and float(found[2]) >= 100 * full:
            return _at_limit(found[1] + "iB", float(found[2]) / 100, Source(note.file, note.line, note.text))
    limit, used = memory_limit(notes), _value(notes, r"memory\.current$|memory\.usage_in_bytes$")
    anon = _field(notes, r"^(?:anon|rss|total_rss) (\d+)$") + _field(notes, r"^shmem (\d+)$")
    hits = _field(notes, r"^max (\d+)$")
    if not limit or not used:
        return Skip("not_said", {"what": "memory.current, memory.max"})
    if used < full * limit or anon < own * limit or hits < often:
        return None
    return _at_limit(f"{limit / 2**30:.1f} GiB", anon / limit, *noted(notes, r"^max \d+$", limit=1))


def _at_limit(limit: str, share: float, *where: Source) -> Hit:
    return Hit(
        values={"case": "full", "limit": limit, "share": share},
        fixes=(Fix("raise_limit"), Fix("fewer_workers", {"workers": 2})),
        evidence=where,
    )


def _value(notes: Notes, file: str) -> float:
    return next((float(n.text) for n in notes.lines if re.search(file, n.file) and n.text.isdigit()), 0.0)


def _field(notes: Notes, pattern: str) -> float:
    return next((float(m[1]) for n in notes.lines if (m := re.match(pattern, n.text))), 0.0)


@rule("env.version_drift@told", Severity.HIGH)
def version_drift(notes: Notes, *, min_pins: int = 3) -> Verdict:
    """Installed packages differ from the lock: a list of pins (requirements, lock) beside `pip freeze` or `pip list`.

    min_pins: packages that both name; with fewer the two lists are not of one environment. A local suffix that only
    one of them has (`2.5.1+cu124`) is no difference.
    """
    pins = _packages(notes, _LOCK, _PIN)
    installed = _packages(notes, _FREEZE, _LISTED)
    both = sorted(set(pins) & set(installed))
    if len(both) < min_pins:
        return Skip("not_said", {"what": "requirements, pip freeze"})
    drift = [n for n in both if _differ(pins[n][0], installed[n][0])]
    if not drift:
        return None
    told = [f"{n}: {pins[n][0]} -> {installed[n][0]}" for n in drift]
    where = [note for n in drift[:2] for note in (pins[n][1], installed[n][1])]
    return Hit(
        values={"count": len(drift), "packages": ", ".join(told[:5])},
        fixes=(Fix("rebuild"),),
        evidence=tuple(Source(n.file, n.line, n.text) for n in where[:4]),
    )


def _packages(notes: Notes, file: re.Pattern[str], line: re.Pattern[str]) -> dict[str, tuple[str, Note]]:
    found: dict[str, tuple[str, Note]] = {}
    for note in notes.lines:
        if file.search(note.file.rsplit("/", 1)[-1]) and (made := line.match(note.text)):
            found.setdefault(re.sub(r"[_.]+", "-", made[1].lower()), (made[2], note))
    return found


def _differ(pin: str, installed: str) -> bool:
    if ("+" in pin) != ("+" in installed):
        pin, installed = pin.partition("+")[0], installed.partition("+")[0]
    return pin != installed
