"""One vocabulary for the columns of foreign tables: what a column measures and in which unit, whatever it is called.

`GPU-Util`, `utilization.gpu [%]`, `sm [%]` and `gpu_usage_percent` are `gpu_util_pct`; `VRAM (GiB)`, `fb_used_mib` and
`memory.used [MiB]` are `gpu_mem_mib`, with the numbers in MiB. A name that says nothing known stays as it is.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_TIME = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "msec": 1e-3, "millis": 1e-3, "s": 1.0, "sec": 1.0,
         "secs": 1.0, "second": 1.0, "seconds": 1.0, "min": 60.0, "mins": 60.0, "minutes": 60.0,
         "h": 3600.0, "hr": 3600.0, "hrs": 3600.0, "hour": 3600.0, "hours": 3600.0}  # fmt: skip
_BYTES = {"bytes": 2.0**-20, "kb": 2.0**-10, "kib": 2.0**-10, "mb": 1.0, "mib": 1.0, "m": 1.0, "gb": 1024.0,
          "gib": 1024.0, "g": 1024.0, "tb": 2.0**20, "tib": 2.0**20}  # fmt: skip
_UNITS: dict[str, tuple[str, float]] = {
    **{name: ("time", factor) for name, factor in _TIME.items()},
    **{name: ("bytes", factor) for name, factor in _BYTES.items()},
    **{f"{name}ps": ("rate", factor) for name, factor in _BYTES.items() if len(name) < 4},
    **dict.fromkeys(("pct", "percent", "percentage", "perc", "%"), ("pct", 1.0)),
    "ratio": ("pct", 100.0),
    "megabytes": ("bytes", 1.0),
    "gigabytes": ("bytes", 1024.0),
    **dict.fromkeys(("w", "watt", "watts"), ("power", 1.0)),
    "mw": ("power", 1e-3),
    **dict.fromkeys(("c", "celsius", "degc", "°c"), ("temp", 1.0)),
    "mhz": ("freq", 1.0),
    "ghz": ("freq", 1e3),
}
_ALIASES = {"kbmemused": "ram_used_kib", "kbswpused": "swap_used_kib", "swpd": "swap_used_kib",
            "Memory-Usage": "gpu_mem_used"}  # fmt: skip
"""Columns of sar and vmstat, whose manual pages say in which unit they are, and the memory in nvidia-smi's box."""
_SURELY_BYTES = 2.0**28
_GIB = 2.0**-10
_LONGEST = 120
_MONITORS = re.compile(r"^(?:dcgm_fi_(?:dev|prof)_|nvidia_smi_|node_|system_(?=gpu|cpu|mem|disk|proc|system)|monitor_)")
"""What DCGM, Prometheus, Weights & Biases and MLflow put first: `DCGM_FI_DEV_GPU_UTIL`, `system.gpu.0.temp`."""
_MEMORY = r"mem(?:ory)?"
_HOST = rf"(?:(?:host|system|sys|cpu|node|main|physical)_)?(?:ram|{_MEMORY})"
_DEVICE = rf"(?:vram|(?:gpu|cuda|device|dedicated|fb|framebuffer)(?:_{_MEMORY})?)"


@dataclass(frozen=True)
class Quantity:
    """Something that tables measure: its name here, the names it goes by, and what it is measured in.

    `bare`: without a unit its own is meant; where it is False such a column stays unknown.
    """

    name: str
    pattern: str
    kind: str = ""
    factor: float = 1.0
    bare: bool = True


_QUANTITIES = (
    Quantity("gpu_mem_total_mib", rf"{_DEVICE}_(?:total|capacity|size)|total_{_DEVICE}", "bytes", bare=False),
    Quantity("shared_gpu_mem_gb", rf"shared(?:_gpu)?(?:_{_MEMORY})?", "bytes", _GIB, bare=False),
    Quantity("gpu_mem_mib", rf"{_DEVICE}(?:_(?:used|usage|use|in_use))?|used_vram|gpu_memused"
             r"|gpu_memory_allocated|mem(?:ory)?_used_gpu", "bytes", bare=False),
    Quantity("gpu_memutil_pct", r"mem(?:ory)?_(?:copy_)?(?:util\w*|controller)|utilization_memory", "pct"),
    Quantity("gpu_util_pct", r"gpu_(?:core_)?(?:util\w*|usage|load|use|busy|activity)|gpu_gpu|volatile_gpu_util"
             r"|sm_(?:util\w*|activity)|util\w*_gpu", "pct"),
    Quantity("gpu_util_pct", r"gpu|sm", "pct", bare=False),
    Quantity("power_default_w", r"(?:gpu_)?(?:power|pwr)_default(?:_limit)?|default_power_limit", "power"),
    Quantity("power_limit_w", r"(?:gpu_)?(?:power|pwr)_(?:(?:management_|mgmt_)?limit|cap|max)"
             r"|(?:gpu_)?(?:enforced_|current_)power_limit", "power"),
    Quantity("power_w", r"(?:gpu_)?(?:power|pwr)(?:_(?:draw(?:_average)?|usage|consumption|avg))?", "power"),
    Quantity("gpu_temp_c", r"(?:gpu_)?(?:core_)?(?:temp|temperature)(?:_gpu)?|gtemp", "temp"),
    Quantity("max_sm_mhz_limit", r"max_(?:sm|gpu|graphics|gr|core)_?clocks?|clocks?_max(?:_sm)?", "freq"),
    Quantity("sm_clock_mhz", r"(?:sm|gr|graphics|core|gpu)_?clocks?|clocks?_(?:current_)?(?:sm|gr|gpu|graphics)"
             r"|gpu_sm_clock|pclk", "freq"),
    Quantity("iowait_pct", r"(?:cpu_)?(?:times_percent_)?io_?wait|wait_io", "pct"),
    Quantity("cpu_util_pct", r"(?:total_)?cpu_(?:util\w*|usage|load|use|busy)", "pct"),
    Quantity("cpu_util_pct", r"cpu(?:_total)?", "pct", bare=False),
    Quantity("load1", r"load_?avg(?:_?1m?(?:in)?)?|load_?1(?:m|min)?|load_average"),
    Quantity("swap_used_gb", r"swap(?:_?(?:used|usage|in_use|memory_used))?|used_swap", "bytes", _GIB, bare=False),
    Quantity("ram_total_gb", rf"{_HOST}(?:_?usage|_?used)?_?(?:total|limit|size)|total_{_HOST}"
             r"|memory_mem_total|virtual_memory_total", "bytes", _GIB,
             bare=False),
    Quantity("ram_used_pct", rf"{_HOST}(?:_?(?:used|usage|use))?", "pct", bare=False),
    Quantity("ram_used_gb", rf"{_HOST}_?(?:used|usage|use|in_use|rss)|used_{_HOST}|ram"
             r"|virtual_memory_used", "bytes", _GIB, bare=False),
    Quantity("disk_read_mb_s", r"(?:disk|io)_read(?:_rate|_speed|_throughput)?|r(?:ead)?", "rate", bare=False),
    Quantity("workers", r"(?:num_|n_|loader_|dataloader_)?workers|nw|n_workers"),
    Quantity("batch", r"batch(?:_?size)?|bs|batch_per_gpu"),
    Quantity("gpus", r"(?:n|num|number_of)_?gpus?|gpus|gpu_count|world_size|n_devices"),
    Quantity("it_per_s", r"(?:it|its|iter|iters|iterations|steps?|batch|batches)_(?:per_)?(?:s|sec|second)|its"),
    Quantity("s_per_it", r"(?:time|t)_per_(?:it|iter|iteration|step|batch)|(?:it|iter|iteration|batch)_time", "time"),
    Quantity("s_per_it", r"(?:s|sec|secs|seconds)_(?:per_)?(?:it|iter|iteration|step|batch)"),
    Quantity("images_per_s", r"(?:im|img|imgs|image|images|samples?|frames?)_(?:per_)?(?:s|sec|second)|fps|ips"),
    Quantity("epoch_s", r"(?:time_per_)?epoch(?:_(?:time|duration|wall))?|train_(?:time_)?per_epoch", "time",
             bare=False),
    Quantity("t_s", r"elapsed(?:_time)?|time_elapsed|relative_time", "time"),
    Quantity("total_s", r"(?:total_|train_|training_|run_)?(?:time|duration)|runtime", "time", bare=False),
)  # fmt: skip
_CELL = re.compile(r"[+-]?\d[\d.,]*(?:[eE][+-]?\d+)? ?(%|°?[A-Za-zµ]{1,7}(?:/s)?)")
NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
"""A decimal number as programs print it; it never looks at a digit twice, however many there are."""
_NUMBER = re.compile(NUMBER)


def plain(column: str) -> tuple[str, str]:
    """A column's name in lower case with underscores, and its unit; the unit is empty where the name has none.

    `Epoch Time (min)` is `epoch_time`, `min`; `MemUsed_GiB` is `mem_used`, `gib`; `img/s` is `img_per_s`.
    """
    text, unit = re.sub(r"^system[/.]", "system_", column.strip()[:_LONGEST], flags=re.I), ""
    if found := re.search(r"\s*[\[(]([^\])]{1,8})[\])]\s*$", text):
        text, unit = text[: found.start()], found[1].strip().lower()
    text = _ALIASES.get(text, text)
    text = re.sub(r"([KMGT])iB\b|([KMGT])iB(?![a-z])", lambda m: f"{m[1] or m[2]}IB", text)
    text = re.sub(r"([a-z])([A-Z])", r"\1_\2", text).lower()
    if text.rstrip().endswith("%") or text.startswith("%"):
        text, unit = text.strip("% "), unit or "pct"
    rate = re.fullmatch(r"(.+?)[ _](k|m|g)i?b[_/ ]?(?:per_)?s(?:ec)?", text)
    if rate:
        text, unit = rate[1], unit or f"{rate[2]}bps"
    text = re.sub(r"\b(\w+)/(\w+)\b", r"\1_per_\2", text)
    text = re.sub(r"[^\wµ%°]+", "_", text).strip("_")
    unit = {"mb/s": "mbps", "mib/s": "mbps", "kb/s": "kbps", "gb/s": "gbps"}.get(unit, unit)
    bare, by = _MONITORS.subn("", text)
    text = re.sub(r"^gpu_?\d+_", "gpu_", bare) if bare else text
    if by and not unit:
        unit = {"fb_used": "mib", "fb_total": "mib", "fb_free": "mib", "cpu": "pct"}.get(text, "")
    head, _, last = text.rpartition("_")
    if not unit and head and last in _UNITS and not head.endswith("_per") and head != "per":
        text, unit = head, last
    elif not unit and not head and last in {"hours", "minutes", "seconds"}:
        text, unit = "time", last
    return text, unit


def seconds(column: str, cell: str = "") -> tuple[str, float]:
    """The plain name of a column of times and what makes seconds of it; 0 when it has another unit.

    A column without a unit (and cells without one) counts as it stands: parts of one table can be compared.
    """
    name, unit = plain(column)
    unit = unit or _unit_of(cell)
    if not unit:
        return name, 1.0
    kind, factor = _UNITS.get(unit, ("", 0.0))
    return name, factor if kind == "time" else 0.0


def standard(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], list[tuple[int, float]]]:
    """The columns by their names here, and the factors of those whose numbers have to be converted, by position.

    The first column that measures something gets its name; a second one of the kind keeps its own. Percentages told as
    shares (no unit, the utilisation never above 1 and not only 0 and 1) are multiplied by 100.
    """
    names, factors, taken = [], [], {c.strip().lower() for c in columns}
    bare: list[int] = []
    for i, column in enumerate(columns):
        first = next((row[i] for row in rows if i < len(row) and row[i].strip()), "")
        unit = plain(column)[1] or _unit_of(first) or ("bytes" if _in_bytes(rows, i) else "")
        found = _quantity(column, unit)
        if found is None or (found[0] != column.strip().lower() and found[0] in taken):
            names.append(column)
            continue
        names.append(found[0])
        taken.add(found[0])
        if found[1] != 1.0:
            factors.append((i, found[1]))
        elif found[0].endswith("_pct") and not unit:
            bare.append(i)
    if _shares(rows, [i for i in bare if names[i] in {"gpu_util_pct", "cpu_util_pct"}]):
        factors += [(i, 100.0) for i in bare]
    return tuple(names), sorted(factors)


def _in_bytes(rows: Sequence[Sequence[str]], at: int) -> bool:
    """So large a number without a unit counts bytes, if it measures a memory."""
    return max(_numbers(rows, at), default=0.0) >= _SURELY_BYTES


def _shares(rows: Sequence[Sequence[str]], columns: Sequence[int]) -> bool:
    values = [v for at in columns for v in _numbers(rows, at)]
    return any(0 < v < 1 for v in values) and max(values) <= 1


def _numbers(rows: Sequence[Sequence[str]], at: int) -> list[float]:
    cells = (row[at].strip() for row in rows if at < len(row))
    return [float(c) for c in cells if _NUMBER.fullmatch(c)]


_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]i?B)")
_PAIR = re.compile(r"(\d+(?:\.\d+)? ?[KMGT]i?B) ?/ ?(\d+(?:\.\d+)? ?[KMGT]i?B)")


def spelled_out(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Columns whose cells bring their own units of memory as plain MiB; `11.2GiB / 62.6GiB` becomes two columns.

    Other programs choose the unit for each cell anew (`docker stats`, gpustat), so a column has no factor of its own.
    """
    firsts = [next((row[i].strip() for row in rows if row[i].strip()), "") for i in range(len(columns))]
    if not any(_PAIR.fullmatch(c) or _SIZE.fullmatch(c) for c in firsts):
        return list(columns), [list(row) for row in rows]
    names: list[str] = []
    made: list[list[str]] = [[] for _ in rows]
    for at, column in enumerate(columns):
        cells = [row[at].strip() for row in rows]
        filled = [c for c in cells if c]
        if filled and all(_PAIR.fullmatch(c) for c in filled):
            names += [f"{column} [MiB]", f"{column}_limit [MiB]"]
            for row, cell in zip(made, cells, strict=True):
                found = _PAIR.fullmatch(cell)
                row.extend([_mib(found[1]), _mib(found[2])] if found else ["", ""])
        elif filled and all(_SIZE.fullmatch(c) for c in filled) and not plain(column)[1]:
            names.append(f"{column} [MiB]")
            for row, cell in zip(made, cells, strict=True):
                row.append(_mib(cell))
        else:
            names.append(column)
            for row, cell in zip(made, cells, strict=True):
                row.append(cell)
    return names, made


def _mib(cell: str) -> str:
    found = _SIZE.fullmatch(cell)
    return f"{float(found[1]) * _BYTES[found[2].lower()]:.10g}" if found else ""


def scaled(cell: str, factor: float) -> str:
    """A cell's number times the factor, as text; a cell without one as it is."""
    found = _NUMBER.match(cell.strip())
    return f"{float(found[0]) * factor:.10g}" if found else cell


def _quantity(column: str, unit: str) -> tuple[str, float] | None:
    name = plain(column)[0]
    kind, factor = _UNITS.get(unit, ("", 1.0))
    for item in _QUANTITIES:
        if not re.fullmatch(item.pattern, name):
            continue
        if item.kind and kind == item.kind:
            return item.name, factor * item.factor
        if item.bare and (not unit or not item.kind):
            return item.name, 1.0
    return None


def _unit_of(cell: str) -> str:
    found = _CELL.fullmatch(cell.strip())
    unit = found[1].lower() if found else ""
    return {"mb/s": "mbps", "mib/s": "mbps", "gb/s": "gbps", "kb/s": "kbps"}.get(unit, unit)
