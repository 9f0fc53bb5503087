"""hw.* and speed.*: clocks, heat and CPU quotas in telemetry and captures that other tools recorded."""

import re
from statistics import median

from diag.model.evidence import Console
from diag.model.finding import Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import Notes, Table, Tables
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.facts import low_and_high, noted, on_cpu, table_source
from diag.rules.limits import cpus_allowed

_TEMP = r"(?:^|_)temp(?:erature)?(?:_c)?$|gpu_temp"
_CLOCK = r"(?:sm|gpu|gr|graphics|core)_?clock|clock_?(?:sm|gpu|mhz)|sm_mhz"
_REASONS = r"throttl|clocks?_?event|reasons?(?:\.|$)"


@rule("hw.thermal_throttle@foreign", Severity.CRITICAL)
def thermal_throttle(
    tables: Tables | None, notes: Notes | None, *, hot_c: float = 83.0, min_drop: float = 0.12
) -> Verdict:
    """Clocks are held down by temperature.

    hot_c: most NVIDIA boards begin to slow down between 83 and 88 C. min_drop: the SM clock in hot samples lies
    this much below that in cool ones while the GPU is busy. The driver's own reason counts without both. The drop
    is a proposal. Reported in nvidia-settings#67.
    """
    said = noted(
        notes,
        r"(?:HW|SW) Thermal Slowdown\s*:\s*Active"
        r"|thermal.{0,30}(?:throttl|slowdown).{0,12}(?<!not )(?<!in)(?:active|yes|true)",
    )
    if tables is None and notes is None:
        return Skip("no_evidence", {"missing": "tables, notes"})
    tables = tables or Tables()
    temps, clocks = tables.series(_TEMP), tables.series(_CLOCK)
    reason = next((t for t in tables.tables if "thermal" in _reasons(t)), None)
    drop = _hot_drop(tables, hot_c)
    if not said and reason is None:
        if not temps or not clocks:
            return Skip("no_column", {"column": "temperature, clock"})
        if drop < min_drop:
            return None
    return Hit(
        values={"case": "clock" if drop >= min_drop else "reason", "temp": max(temps, default=None), "drop": drop},
        fixes=(Fix("cooling"), Fix("power_limit")),
        evidence=said or table_source(tables, _CLOCK) or table_source(tables, _REASONS),
    )


@rule("speed.thermal_throttle", Severity.CRITICAL, explained_by=("hw.thermal_throttle",))
def thermal_speed(tables: Tables, *, hot_c: float = 83.0, min_drop: float = 0.12, min_loss: float = 0.10) -> Verdict:
    """Throughput fell while temperature rose and clocks fell.

    hot_c, min_drop: as for hw.thermal_throttle. min_loss: of the images (or batches) per second at the start. The
    limit is a proposal.
    """
    speed = tables.series("images_per_s|img_s|it_per_s|throughput")
    step = tables.series("^(?:s_per_it|step_s|step_ms|epoch_s)$")
    speed = speed or tuple(1 / v for v in step if v > 0)
    if not speed or not tables.series(_TEMP):
        return Skip("no_column", {"column": "images_per_s, temperature"})
    first, last = low_and_high(speed)
    drop = _hot_drop(tables, hot_c)
    if first <= 0 or 1 - last / first < min_loss or drop < min_drop:
        return None
    return Hit(
        values={"loss": 1 - last / first, "drop": drop, "temp": max(tables.series(_TEMP))},
        fixes=(Fix("cooling"), Fix("power_limit")),
        evidence=table_source(tables, "images_per_s|img_s|it_per_s|throughput|s_per_it|step_"),
    )


@rule("hw.power_throttle@foreign", Severity.MEDIUM, explained_by=("hw.thermal_throttle",))
def power_throttle(
    tables: Tables | None,
    notes: Notes | None,
    *,
    min_share: float = 0.97,
    min_drop: float = 0.15,
    min_cap_drop: float = 0.3,
    min_limit: float = 0.95,
) -> Verdict:
    """Clocks are held down by the power cap or brake.

    min_share: of the limit, in the median; min_drop: the clock lies this much below its own maximum meanwhile. A
    power brake is always a fault; "SW Power Cap: Active" is the normal state of a card under full load, so it
    counts with a clock of min_cap_drop below the highest in the same capture (cards at their own limit run at 0.8
    and more). min_limit: a limit below this share of the card's
    default was set by somebody; reaching it is enough. Reported in
    reverse-engineering-dell-idrac-to-get-rid-of-gpu-throttling#3.
    """
    if tables is None and notes is None:
        return Skip("no_evidence", {"missing": "tables, notes"})
    tables = tables or Tables()
    said = noted(notes, r"HW Power Brake\w*(?: Slowdown)?\s*:\s*Active")
    capped = noted(notes, r"SW Power Cap\s*:\s*Active")
    sm = [_first_number(n.text) for n in notes.find(r"^SM\s*:\s*\d+ MHz")] if notes else []
    if capped and len(sm) >= 2 and sm[0] < (1 - min_cap_drop) * sm[1]:
        said = (*said, *capped)
    power, limit, clocks = (
        tables.series("^power(?:_draw)?(?:_w)?$"),
        tables.series("power_limit"),
        tables.series(_CLOCK),
    )
    said = said or _lowered(notes, min_limit, min_share)
    braked = any("brake" in _reasons(t) for t in tables.tables)
    if not said and not braked and not (power and limit and clocks):
        return Skip("no_column", {"column": "power_w, power_limit_w, clock"})
    share = median(power) / median(limit) if power and limit and median(limit) > 0 else 0.0
    drop = 1 - median(clocks) / max(clocks) if clocks and max(clocks) > 0 else 0.0
    most, usual = tables.series("^max_sm_mhz_limit$"), tables.series("^power_default_w$")
    if clocks and most and max(most) > 0 and 1 - median(clocks) / max(most) >= min_cap_drop:
        drop = 1 - median(clocks) / max(most)
    lowered = bool(limit and usual) and median(limit) < min_limit * median(usual)
    if not said and not braked and (share < min_share or not (drop >= min_drop or lowered)):
        return None
    return Hit(
        values={"case": "measured" if share else "reason", "share": share, "drop": drop},
        fixes=(Fix("power_limit"),),
        evidence=said or table_source(tables, "power"),
    )


@rule("hw.pcie_degraded", Severity.HIGH)
def pcie_degraded(tables: Tables, *, busy: float = 50.0, min_busy: int = 3, max_share: float = 0.3) -> Verdict:
    """The PCIe link under load is narrower or slower than the card and slot allow.

    `pcie.link.gen.max` and `.width.max` of nvidia-smi are what this card can do in this system. An idle link is always
    slow, so only samples with more than busy percent utilisation count, at least min_busy of them. max_share: of the
    rate (twofold per generation, in proportion to the width); half the width is how many boards are wired, and costs
    a training nothing.
    """
    table = tables.having("^pcie_gen$", "^pcie_gen_max$", "^gpu_util")
    if table is None:
        return Skip("no_column", {"column": "pcie.link.gen.current, utilization.gpu"})
    gen, most, util = table.numbers("^pcie_gen$"), table.numbers("^pcie_gen_max$"), table.numbers("^gpu_util")
    width, widest = table.numbers("^pcie_width$") or gen, table.numbers("^pcie_width_max$") or gen
    rows = [i for i, u in enumerate(util) if u > busy and 0 < most[i] < 32 and 0 <= gen[i] < 32 and widest[i] > 0]
    if len(rows) < min_busy:
        return Skip("too_few_steps", {"have": len(rows), "need": min_busy})
    share = median(2.0 ** (gen[i] - most[i]) * width[i] / widest[i] for i in rows)
    if not share <= max_share:
        return None
    at = rows[0]
    return Hit(
        values={"gen": gen[at], "gen_max": most[at], "width": width[at], "width_max": widest[at], "share": share},
        fixes=(Fix("reseat"), Fix("bios")),
        evidence=(Source(table.file, at + 2),),
    )


@rule("speed.cpu_oversubscription@foreign", Severity.CRITICAL)
def cpu_oversubscription(
    tables: Tables | None,
    notes: Notes | None,
    args: TrainArgs | None,
    console: Console | None,
    *,
    min_throttled: float = 0.25,
    min_ratio: float = 2.0,
) -> Verdict:
    """Threads or workers exceed the CPUs that the process may use, and the cgroup is throttled.

    min_throttled: of the cgroup's periods. min_ratio: runnable threads (load) for each CPU of the quota; a GPU run
    only, as training on the CPU loads all cores by itself. cpu.stat counts periods and throttled periods
    (docs.kernel.org, cgroup-v2); the limits are proposals.
    """
    if tables is None and notes is None:
        return Skip("no_evidence", {"missing": "tables, notes"})
    periods = _count(notes, r"nr_periods\D{1,4}(\d+)"), _count(notes, r"nr_throttled\D{1,4}(\d+)")
    share = periods[1] / periods[0] if periods[0] and periods[1] is not None else 0.0
    held = tables.series("nr_throttled|throttled") if tables else ()
    cores = cpus_allowed(notes, tables)
    load = tables.series("load1|load_?avg|threads_running|procs_running") if tables else ()
    ratio = median(load) / cores if load and cores else 0.0
    rising = len(held) > 1 and held[-1] > held[0]
    workers = args.get("workers") if args else None
    crowded = isinstance(workers, int) and cores > 0 and workers > 2 * cores
    if on_cpu(args, None, console) or not (share >= min_throttled or (rising and (crowded or ratio >= min_ratio))):
        return None
    few = max(1, int(cores)) if cores else 2
    return Hit(
        values={
            "case": "quota" if cores else "unknown",
            "share": share,
            "cores": cores or None,
            "load": median(load) if load else None,
            "workers": str(workers) if workers is not None else None,
        },
        fixes=(Fix("workers", {"workers": few}), Fix("threads")),
        evidence=noted(notes, r"nr_throttled|(?:cpu\.max|cfs_quota_us)\D{0,4}\d|^\d{4,7} \d{4,7}$")
        or (table_source(tables, "throttled|load") if tables else ()),
    )


def _lowered(notes: Notes | None, min_limit: float, min_share: float) -> tuple[Source, ...]:
    """nvidia-smi -q with a power limit that somebody set below the default, and that is reached."""
    watts: dict[str, float] = {}
    for note in notes.find(r"Power (?:Draw|Limit)\s*:\s*[\d.]+ W") if notes is not None else ():
        name, _, value = note.text.partition(":")
        watts.setdefault(name.strip().lower(), _first_number(value))
    limit = watts.get("current power limit") or watts.get("enforced power limit") or watts.get("power limit") or 0.0
    usual = watts.get("default power limit", 0.0)
    draw = watts.get("power draw") or watts.get("instantaneous power draw") or watts.get("average power draw") or 0.0
    reached = 0 < limit < min_limit * usual and draw >= min_share * limit
    return noted(notes, r"(?:Current|Enforced|Default) Power Limit", limit=2) if reached else ()


_BITS = {0x20: "thermal", 0x40: "thermal", 0x80: "brake", 0x4: "cap"}
"""NVML's clocks event reasons as a number."""


def _reasons(table: Table) -> set[str]:
    """What a table names as reasons for low clocks: thermal, brake, cap.

    By a column for each (`clocks_event_reasons.hw_thermal_slowdown`: Active), by words, or by NVML's number.
    """
    found: set[str] = set()
    for at, column in enumerate(table.columns):
        if not re.search(r"throttl|clocks?_?event|reasons?(?:\.|$)", column, re.I):
            continue
        cells = {row[at].strip().lower() for row in table.rows}
        for word, name in (("thermal", "thermal"), ("brake", "brake"), ("power_cap", "cap")):
            if (word in column.lower() and cells & {"active", "1", "true", "yes"}) or any(word in c for c in cells):
                found.add(name)
        for cell in cells:
            if re.fullmatch(r"0x[0-9a-f]{1,16}", cell):
                found |= {name for bit, name in _BITS.items() if int(cell, 16) & bit}
    return found


def _first_number(text: str) -> float:
    found = re.search(r"\d+(?:\.\d+)?", text)
    return float(found[0]) if found else 0.0


def _count(notes: Notes | None, pattern: str, *, group: int = 1) -> float | None:
    for note in notes.find(pattern) if notes is not None else ():
        found = re.search(pattern, note.text, re.I)
        if found:
            return float(found[group])
    return None


def _hot_drop(tables: Tables, hot_c: float) -> float:
    """How far the median clock of hot, busy samples lies below the best of the cool ones."""
    table = tables.having(_TEMP, _CLOCK)
    if table is None:
        return 0.0
    pairs = [(t, c) for t, c in zip(table.numbers(_TEMP), table.numbers(_CLOCK), strict=True) if t > 0 and c > 0]
    hot, cool = [c for t, c in pairs if t >= hot_c], [c for t, c in pairs if t < hot_c]
    if len(hot) < 3:
        return 0.0
    best = median(sorted(cool)[-max(1, len(cool) // 2) :]) if cool else max(c for _, c in pairs)
    return max(0.0, 1 - median(hot) / best)
