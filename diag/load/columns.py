"""Names and units of telemetry columns: nvidia-smi, dcgm, W&B, psutil, Prometheus, people -> one vocabulary.

Rules know a quantity by one name with its unit (`gpu_util_pct`, `ram_used_gb`); a column of another name or unit is
renamed and its cells are scaled. A name that is not known stays as it is.
"""

import math
import re
from collections.abc import Sequence

Cells = tuple[str, ...]
_QUANTITIES: dict[str, str] = {
    "gpu_util_pct": r"(?:system_)?gpu_(?:utili[sz]ation|util|load|usage|busy|use|gpu|sm|percent)(?:_rate)?"
    r"|utili[sz]ation_gpu|volatile_gpu_util|dcgm_fi_dev_gpu_util|nvidia_smi_utilization_gpu_ratio|sm_util",
    "gpu_mem_util_pct": r"utili[sz]ation_memory|dcgm_fi_dev_mem_copy_util|(?:system_)?gpu_memory_util(?:ization)?",
    "gpu_mem_mib": r"memory_usage|(?:system_)?gpu_mem(?:ory)?_(?:used|usage|use)|dcgm_fi_dev_fb_used|vram(?:_used)?"
    r"|(?:system_)?gpu_memoryallocatedbytes|memory_used_gpu|gpu_mem",
    "gpu_mem_total_mib": r"(?:system_)?gpu_mem(?:ory)?_(?:total|size|max)|dcgm_fi_dev_fb_total|vram_total",
    "power_w": r"(?:gpu_)?power_(?:draw|usage|use)|(?:system_)?gpu_power(?:watts)?|power_draw_average"
    r"|dcgm_fi_dev_power_usage|power",
    "power_limit_w": r"(?:gpu_)?power_(?:limit|cap|management_limit)|(?:system_)?gpu_enforcedpowerlimitwatts"
    r"|dcgm_fi_dev_power_mgmt_limit|gpu_power_(?:limit|cap)",
    "gpu_temp_c": r"temperature_gpu|(?:system_)?gpu_temp(?:erature)?|dcgm_fi_dev_gpu_temp",
    "sm_clock_mhz": r"dcgm_fi_dev_sm_clock|(?:system_)?gpu_(?:smclock|clock)|clocks_(?:current_)?(?:sm|graphics)",
    "cpu_util_pct": r"(?:system_|node_)?cpu(?:_(?:utili[sz]ation|util|usage|percent|load_percent|busy|total))?",
    "iowait_pct": r"(?:node_)?(?:cpu_)?(?:io_?wait|wa)|cpu_times_percent_iowait|wait_io",
    "ram_used_gb": r"(?:system_|host_|node_)?(?:ram|mem(?:ory)?)_(?:used|usage)|virtual_memory_used|ram|kbmemused",
    "ram_total_gb": r"(?:system_|host_)?(?:ram|mem(?:ory)?)_(?:total|size)|virtual_memory_total|node_memory_memtotal",
    "swap_used_gb": r"(?:system_|host_)?swap(?:_(?:used|usage|memory_used))?|swap_memory_used|kbswpused|swpd",
    "disk_read_mb_s": r"(?:system_)?disk_(?:read|in)(?:_(?:rate|speed|throughput))?|rmb_s|rkb_s",
    "t_s": r"(?:elapsed|relative)?_?time(?:_elapsed)?|_?runtime|elapsed|t",
}
_KNOWN = {name: re.compile(pattern) for name, pattern in _QUANTITIES.items()}
_KEPT = re.compile(r"gpu_mem_g|ram_used_pct|mem_used_pct")
_BYTES = {
    "b": 1.0,
    "bytes": 1.0,
    "byte": 1.0,
    "kb": 2.0**10,
    "kib": 2.0**10,
    "k": 2.0**10,
    "mb": 2.0**20,
    "mib": 2.0**20,
    "m": 2.0**20,
    "gb": 2.0**30,
    "gib": 2.0**30,
    "g": 2.0**30,
    "tb": 2.0**40,
    "tib": 2.0**40,
}
_PLAIN_UNITS = {
    "%": 1.0,
    "pct": 1.0,
    "percent": 1.0,
    "w": 1.0,
    "watt": 1.0,
    "watts": 1.0,
    "mw": 1e-3,
    "kw": 1e3,
    "c": 1.0,
    "celsius": 1.0,
    "mhz": 1.0,
    "ghz": 1e3,
    "s": 1.0,
    "sec": 1.0,
    "seconds": 1.0,
    "ms": 1e-3,
    "min": 60.0,
}
_PERCENT = {"%", "pct", "percent"}
_RATES = {
    "b_s": 2.0**-20,
    "kb_s": 2.0**-10,
    "mb_s": 1.0,
    "mbps": 1.0,
    "mib_s": 1.0,
    "gb_s": 2.0**10,
    "kbps": 2.0**-10,
    "bytes_s": 2.0**-20,
}
_UNIT = re.compile(r"^(.*?)\s*[\[(]\s*([^\[\]()]{1,10})\s*[\])]\s*$")
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z%]{0,4})")
_SCALES = {"_gb": 2.0**30, "_mib": 2.0**20, "_s": 1.0}
_NO_UNIT = {"rkb_s": "kb_s", "kbmemused": "kb", "kbswpused": "kb", "swpd": "kb"}


def vocabulary(columns: Sequence[str], rows: Sequence[Cells]) -> tuple[tuple[str, ...], tuple[Cells, ...]]:
    """Header and rows with the names and units that rules know; other columns as they are.

    Percentages told as shares (no unit in the name, the utilisation never above 1 and not only 0 and 1) are multiplied.
    """
    names = list(columns)
    factors = [1.0] * len(names)
    unitless: list[int] = []
    taken = set(columns)
    phased = any(c.lower() == "phase" for c in columns)
    for i, column in enumerate(columns):
        low = column.lower() if column.isupper() else column
        if phased and low.endswith("_ms"):
            names[i], factors[i] = f"{low.removesuffix('_ms')}_s", 1e-3
            continue
        found = known(low)
        if found is None or (found[0] in taken and found[0] != column):
            names[i] = low
            continue
        factor = _by_size(rows, i) if math.isnan(found[1]) else found[1]
        if math.isnan(factor):
            names[i] = low
            continue
        names[i] = found[0]
        taken.add(found[0])
        factors[i] = factor if factor else 1.0
        if found[0].endswith("_pct") and not factor:
            unitless.append(i)
    if unitless and _shares(names, unitless, rows):
        for i in unitless:
            factors[i] = 100.0
    if all(f == 1.0 for f in factors):
        return tuple(names), tuple(rows)
    return tuple(names), tuple(tuple(_scaled(c, f) for c, f in zip(row, factors, strict=True)) for row in rows)


def known(column: str) -> tuple[str, float] | None:
    """Name in the vocabulary and the factor to its unit; None if unknown.

    The factor is 0 for a percentage without a unit, which may be a share, and nan for a memory without one.
    """
    name, unit = _split(column)
    if _KEPT.fullmatch(column):
        return None
    base = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    base = re.sub(r"(?:^|_)gpu_?\d+_", lambda m: "system_gpu_" if m[0].startswith("_") else "gpu_", base)
    base = base.replace("system_system_gpu", "system_gpu").replace("systemsystem_", "system_")
    if base.startswith("systemsystem"):
        base = base.removeprefix("system")
    for canonical, pattern in _KNOWN.items():
        if not pattern.fullmatch(base):
            continue
        unit = unit or _NO_UNIT.get(base, "") or ("bytes" if base.endswith("bytes") else "")
        factor = _factor(canonical, unit)
        return None if factor is None else (canonical, factor)
    return None


def _split(column: str) -> tuple[str, str]:
    """The name and its unit: `Power Draw (W)`, `ram_used_mib`, `CPU%`, `memory.used [MiB]`."""
    if found := _UNIT.match(column):
        return found[1], re.sub(r"[^a-z%]+", "_", found[2].lower()).strip("_")
    if column.rstrip().endswith("%"):
        return column.rstrip().rstrip("%"), "%"
    low = column.lower()
    for unit in (*_RATES, *_BYTES, *_PLAIN_UNITS):
        if len(unit) > 1 or unit in {"w", "c", "s", "g"}:
            for mark in ("_", " ", "."):
                if low.endswith(f"{mark}{unit}"):
                    return column[: -len(unit) - 1], unit
    return column, ""


def _factor(canonical: str, unit: str) -> float | None:
    """From this unit to that of the name; None where the unit is of another quantity."""
    if canonical == "disk_read_mb_s":
        return _RATES.get(unit) if unit else None
    for end, scale in _SCALES.items():
        if canonical.endswith(end) and canonical != "t_s":
            if unit in _BYTES:
                return _BYTES[unit] / scale
            # nvidia-smi and dcgm count MiB; the memory of a host may be told in anything.
            return (1.0 if end == "_mib" else math.nan) if not unit else None
    if canonical.endswith("_pct"):
        return {"": 0.0, "%": 1.0, "pct": 1.0, "percent": 1.0, "ratio": 100.0}.get(unit)
    return None if unit in _PERCENT else _PLAIN_UNITS.get(unit, 1.0 if not unit else None)


def _by_size(rows: Sequence[Cells], i: int) -> float:
    """The factor of a memory without a unit: so large a number counts bytes; nan for one that may be anything."""
    found = (_NUMBER.fullmatch(row[i].strip()) for row in rows)
    return 2.0**-30 if max((float(m[1]) for m in found if m and not m[2]), default=0.0) >= 2**28 else math.nan


def _shares(names: Sequence[str], unitless: Sequence[int], rows: Sequence[Cells]) -> bool:
    top, fraction = 0.0, False
    for i in unitless:
        if names[i] not in {"gpu_util_pct", "cpu_util_pct"}:
            continue
        for row in rows:
            if found := _NUMBER.fullmatch(row[i].strip()):
                if found[2]:
                    return False
                value = float(found[1])
                top = max(top, value)
                fraction = fraction or 0 < value < 1
    return fraction and top <= 1.0


def _scaled(cell: str, factor: float) -> str:
    if factor == 1.0:
        return cell
    found = _NUMBER.fullmatch(cell.strip())
    return f"{float(found[1]) * factor:.10g}" if found else cell
