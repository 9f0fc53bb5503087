"""The machine during a training, as rows of a small table."""

from collections.abc import Callable

from diag.messages import text
from diag.model.counters import Counters, Series

Row = tuple[str, str, str, str, str]
COLUMNS = ("value", "mean", "median", "max", "trend")

_GIB = 2**30


def _cores(value: float) -> str:
    return f"{value:.2f}"


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.1 else f"{value:.1%}"


def _gib(value: float) -> str:
    return f"{value / _GIB:.2f} GiB"


def _rate(value: float) -> str:
    return f"{value / 1e6:.1f} MB/s"


def _number(unit: str) -> Callable[[float], str]:
    return lambda value: f"{value:.0f} {unit}"


_ROWS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("cpu_training", "cpu_tree_s_per_s", _cores),
    ("cpu_group", "cpu_cgroup_s_per_s", _cores),
    ("throttled", "throttled_s_per_s", _share),
    ("memory_main", "rss_main_bytes", _gib),
    ("memory_workers", "rss_workers_bytes", _gib),
    ("memory_group", "cgroup_memory_bytes", _gib),
    ("swap", "swap_bytes", _gib),
    ("shm", "shm_used_bytes", _gib),
    ("read", "read_bytes_per_s", _rate),
    ("written", "written_bytes_per_s", _rate),
    ("received", "net_received_bytes_per_s", _rate),
    ("pressure_cpu", "psi_cpu_some_s_per_s", _share),
    ("pressure_io", "psi_io_some_s_per_s", _share),
    ("pressure_memory", "psi_memory_some_s_per_s", _share),
)
_GPU_ROWS: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("gpu_util", "util", _share),
    ("gpu_memory", "memory_used_bytes", _gib),
    ("gpu_clock", "sm_mhz", _number("MHz")),
    ("gpu_temperature", "temperature_c", _number("°C")),
    ("gpu_power", "power_w", _number("W")),
)
_TREND = {"rss_main_bytes", "rss_workers_bytes", "cgroup_memory_bytes", "shm_used_bytes"}
_QUIET = {"throttled", "swap", "shm", "read", "written", "received", "pressure_io", "pressure_memory"}
"""Rows that are left out while they stay at nothing."""


def machine_rows(counters: Counters, lang: str) -> list[Row]:
    """Label, mean, median, maximum and trend per hour of each value that was seen."""
    rows = []
    for key, name, form in _ROWS:
        series = counters.series.get(name)
        if series is not None and not (key in _QUIET and float(form(series.max).split()[0].rstrip("%")) == 0):
            rows.append(_row(text(lang, "machine", key), series, form, trend=name in _TREND))
    for gpu in counters.gpus:
        for key, name, form in _GPU_ROWS:
            series = counters.series.get(f"gpu{gpu.index}_{name}")
            if series is not None:
                rows.append(_row(text(lang, "machine", key, {"index": gpu.index}), series, form))
    return rows


def _row(label: str, series: Series, form: Callable[[float], str], *, trend: bool = False) -> Row:
    slope = series.slope_per_h if trend else None
    change = "" if slope is None else f"{slope / _GIB:+.2f} GiB/h"
    return label, form(series.mean), form(series.p50), form(series.max), change


def machine_note(counters: Counters, lang: str) -> str:
    """How long and how often was looked, and where that was read."""
    count = max((series.count for series in counters.series.values()), default=0)
    return text(lang, "machine", "note", {"count": count, "seconds": counters.seconds, "file": counters.file})
