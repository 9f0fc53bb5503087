"""What NVML counts on every GPU, in a thread of its own: a driver that hangs must not stop the watchdog."""

import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Self

from diag.probe.nvml import Gap, clocks_event_reasons, query

_THROTTLE_FIELDS = {
    # nvml.h: time in ns, cumulative. The software power cap is normal at full load; the others are not.
    74: "power_cap_s_total",  # NVML_FI_DEV_PERF_POLICY_POWER
    75: "thermal_s_total",  # NVML_FI_DEV_PERF_POLICY_THERMAL, all that older cards have
    269: "sw_thermal_s_total",  # NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN
    270: "hw_thermal_s_total",  # NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN
    271: "power_brake_s_total",  # NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN
}
_SM, _MEM = 1, 2  # nvml.h: clock types
_UNSUPPORTED = {Gap.NOT_SUPPORTED, Gap.FUNCTION_MISSING}

Ask = Callable[[Any, Any], dict[str, float]]


def _throttle(nvml: Any, handle: Any) -> dict[str, float]:
    values = {}
    for field in nvml.nvmlDeviceGetFieldValues(handle, list(_THROTTLE_FIELDS)):
        if field.nvmlReturn == 0:
            values[_THROTTLE_FIELDS[field.fieldId]] = field.value.ullVal / 1e9
    return values


def _memory(nvml: Any, handle: Any) -> dict[str, float]:
    second = query(lambda: nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2))
    memory: Any = second.value if second.gap is None else nvml.nvmlDeviceGetMemoryInfo(handle)
    return {"memory_used_bytes": int(memory.used)}


# nvmlDeviceGetPcieThroughput is not among them: it blocks for 20 ms a counter.
_QUERIES: dict[str, Ask] = {
    "util": lambda n, h: {"util": n.nvmlDeviceGetUtilizationRates(h).gpu / 100},
    "memory": _memory,
    "sm": lambda n, h: {"sm_mhz": n.nvmlDeviceGetClockInfo(h, _SM)},
    "mem": lambda n, h: {"mem_mhz": n.nvmlDeviceGetClockInfo(h, _MEM)},
    "temperature": lambda n, h: {"temperature_c": n.nvmlDeviceGetTemperature(h, 0)},
    "power": lambda n, h: {"power_w": n.nvmlDeviceGetPowerUsage(h) / 1000},
    "energy": lambda n, h: {"energy_j_total": n.nvmlDeviceGetTotalEnergyConsumption(h) / 1000},
    "reasons": lambda n, h: {"clocks_event_reasons": clocks_event_reasons(n, h)},
    "throttle": _throttle,
    "pcie_gen": lambda n, h: {"pcie_gen": n.nvmlDeviceGetCurrPcieLinkGeneration(h)},
    "pcie_width": lambda n, h: {"pcie_width": n.nvmlDeviceGetCurrPcieLinkWidth(h)},
}


class Gpus:
    """All GPUs that NVML shows. A query that a GPU does not support is not asked again."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        handles = {i: self._handle(i) for i in range(query(nvml.nvmlDeviceGetCount).value or 0)}
        self._handles = {index: handle for index, handle in handles.items() if handle is not None}
        self._asked = {index: dict(_QUERIES) for index in self._handles}
        self.lost: list[dict[str, Any]] = []

    def facts(self) -> list[dict[str, Any]]:
        """What does not change: name, UUID, limits."""
        return [self._fact(index, handle) for index, handle in self._handles.items()]

    def _handle(self, index: int) -> Any:
        return query(lambda: self._nvml.nvmlDeviceGetHandleByIndex(index)).value

    def _fact(self, index: int, handle: Any) -> dict[str, Any]:
        n = self._nvml
        limit_mw = query(lambda: n.nvmlDeviceGetEnforcedPowerLimit(handle)).value
        return {
            "index": index,
            "name": query(lambda: _text(n.nvmlDeviceGetName(handle))).value,
            "uuid": query(lambda: _text(n.nvmlDeviceGetUUID(handle))).value,
            "memory_total_bytes": query(lambda: int(n.nvmlDeviceGetMemoryInfo(handle).total)).value,
            "power_limit_w": None if limit_mw is None else limit_mw / 1000,
            "pcie_gen_max": query(lambda: n.nvmlDeviceGetMaxPcieLinkGeneration(handle)).value,
            "pcie_width_max": query(lambda: n.nvmlDeviceGetMaxPcieLinkWidth(handle)).value,
        }

    def look(self) -> dict[str, float]:
        """The values of each second, as `gpu<index>_<name>`. A GPU that is lost goes to `lost` and is asked no more."""
        values: dict[str, float] = {}
        for index, handle in list(self._handles.items()):
            for name, ask in list(self._asked[index].items()):
                reading = query(partial(ask, self._nvml, handle))
                if reading.gap is Gap.LOST:  # for good: only a reset brings it back, and every question may hang
                    del self._handles[index]
                    self.lost.append({"gpu": index, "said": reading.detail})
                    break
                if reading.gap in _UNSUPPORTED:
                    del self._asked[index][name]
                for key, value in (reading.value or {}).items():
                    values[f"gpu{index}_{key}"] = value
        return values


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


class GpuThread:
    """Reads the GPUs each second; `take` gives what was read since the last call and never waits."""

    def __init__(self, every_s: float = 1.0) -> None:
        self._every_s = every_s
        self._latest: dict[str, float] = {}
        self._facts: list[dict[str, Any]] = []
        self._lost: list[dict[str, Any]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> Self:
        """Begin, if NVIDIA's management library loads."""
        if _library_loads():
            self._thread.start()
        return self

    def take(self) -> dict[str, float]:
        """The newest values; empty when there are none since the last call."""
        latest, self._latest = self._latest, {}
        return latest

    def take_facts(self) -> list[dict[str, Any]]:
        """The lasting facts, once they are known; then empty."""
        facts, self._facts = self._facts, []
        return facts

    def take_lost(self) -> list[dict[str, Any]]:
        """GPUs that were lost since the last call: `gpu` index and what NVML `said`."""
        lost, self._lost = self._lost, []
        return lost

    def _run(self) -> None:
        if sys.flags.no_site:  # the quick start leaves the environment's packages out
            import site

            site.main()
        import pynvml  # costs time and memory that a machine without a GPU need not pay

        if query(pynvml.nvmlInit).gap is not None:
            return
        gpus = Gpus(pynvml)
        self._facts = gpus.facts()
        while not self._stop.wait(self._every_s):
            self._latest = gpus.look()
            if gpus.lost:
                self._lost, gpus.lost = gpus.lost, []


def _library_loads() -> bool:
    """True if libnvidia-ml can be loaded; asked without importing pynvml."""
    import ctypes

    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True
