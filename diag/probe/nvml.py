"""The only importer of pynvml: NVIDIA's management library as plain values, with a reason for each gap.

Not tried on every platform: the rows for GeForce, MIG, vGPU and WSL rest on NVIDIA's documentation and on fakes.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from diag.model.hardware import Gpu

T = TypeVar("T")
RECOVERY_ACTION_FIELD = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, nvml.h 13


class Gap(StrEnum):
    """Why a value is not there. `lost` means the GPU itself; everything else is about this one query."""

    NOT_SUPPORTED = "not_supported"
    NO_PERMISSION = "no_permission"
    FUNCTION_MISSING = "function_missing"
    LOST = "lost"
    ERROR = "error"


@dataclass(frozen=True)
class Reading(Generic[T]):
    """A value, or the gap and the library's own words on it."""

    value: T | None = None
    gap: Gap | None = None
    detail: str = ""


@dataclass(frozen=True)
class NvmlState:
    """All that NVML says. `error` is "" or why it could not be started: one of no_library, version_mismatch,
    no_driver, no_permission, unknown."""

    error: str = ""
    detail: str = ""
    driver: str | None = None
    driver_cuda: str | None = None
    gpus: tuple[Gpu, ...] = ()


def query(call: Callable[[], T]) -> Reading[T]:
    """Ask one thing. No failure of one query takes another one down.

    Every exception counts: pynvml's NVMLLibraryMismatchError is no NVMLError, and an old driver lacks functions.
    """
    try:
        return Reading(call())
    except Exception as error:
        return Reading(gap=_gap(error), detail=f"{type(error).__name__}: {error}")


def _gap(error: Exception) -> Gap:
    names = {
        "NVMLError_NotSupported": Gap.NOT_SUPPORTED,
        "NVMLError_NoPermission": Gap.NO_PERMISSION,
        "NVMLError_FunctionNotFound": Gap.FUNCTION_MISSING,
        "NVMLLibraryMismatchError": Gap.FUNCTION_MISSING,
        "NVMLError_GpuIsLost": Gap.LOST,
        "NVMLError_ResetRequired": Gap.LOST,
        "NVMLError_GpuNotFound": Gap.LOST,
    }
    return names.get(type(error).__name__, Gap.ERROR)


def read_nvml(*, pause_s: float = 0.1) -> NvmlState:
    """Start NVML, read every GPU once, stop it. Never raises; `pause_s` lies between two looks at the clocks."""
    import pynvml  # analysis and machines without a GPU must not need it

    started = query(pynvml.nvmlInit)
    if started.gap is not None:
        return NvmlState(error=_init_error(started), detail=started.detail)
    try:
        cuda = query(pynvml.nvmlSystemGetCudaDriverVersion_v2).value
        count = query(pynvml.nvmlDeviceGetCount)
        return NvmlState(
            error="unknown" if count.gap else "",
            detail=count.detail,
            driver=query(pynvml.nvmlSystemGetDriverVersion).value,
            driver_cuda=None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
            gpus=tuple(_read_gpu(pynvml, index, pause_s) for index in range(count.value or 0)),
        )
    finally:
        with suppress(Exception):
            pynvml.nvmlShutdown()


def _init_error(started: Reading[Any]) -> str:
    names = {
        "NVMLError_LibraryNotFound": "no_library",
        "NVMLError_LibRmVersionMismatch": "version_mismatch",
        "NVMLError_DriverNotLoaded": "no_driver",
        "NVMLError_NoPermission": "no_permission",
    }
    return names.get(started.detail.partition(":")[0], "unknown")


class _Asker:
    """Collects one GPU's values and sorts its gaps: what it does not report, and what went wrong."""

    def __init__(self) -> None:
        self.not_supported: list[str] = []
        self.unknown: list[str] = []
        self.lost = ""

    def __call__(self, name: str, call: Callable[[], T]) -> T | None:
        reading = query(call)
        if reading.gap in {Gap.NOT_SUPPORTED, Gap.FUNCTION_MISSING}:
            self.not_supported.append(name)
        elif reading.gap is not None:
            self.unknown.append(f"{name}: {reading.gap.value}: {reading.detail}")
            if reading.gap is Gap.LOST:
                self.lost = reading.detail
        return reading.value


def _read_gpu(nvml: Any, index: int, pause_s: float) -> Gpu:
    ask = _Asker()
    handle = ask("handle", lambda: nvml.nvmlDeviceGetHandleByIndex(index))
    if handle is None:
        return Gpu(index=index, unknown=tuple(ask.unknown), lost=ask.lost or "NVML gives no handle for it")
    capability = ask("compute_capability", lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
    memory = ask("memory", lambda: _memory(nvml, handle))
    remap = ask("remapped_rows", lambda: nvml.nvmlDeviceGetRemappedRows(handle))
    mig = ask("mig", lambda: nvml.nvmlDeviceGetMigMode(handle))
    processes = ask("processes", lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle))
    volatile, aggregate, uncorrected = 0, 1, 1  # nvml.h: counter and error types
    power_mw, limit_mw, default_mw = (
        ask("power_w", lambda: nvml.nvmlDeviceGetPowerUsage(handle)),
        ask("power_limit_w", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle)),
        ask("power_default_w", lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle)),
    )
    return Gpu(
        index=index,
        name=ask("name", lambda: nvml.nvmlDeviceGetName(handle)),
        uuid=ask("uuid", lambda: nvml.nvmlDeviceGetUUID(handle)),
        compute_capability=None if capability is None else f"{capability[0]}.{capability[1]}",
        memory_total_bytes=None if memory is None else memory[0],
        memory_used_bytes=None if memory is None else memory[1],
        temperature_c=ask("temperature_c", lambda: nvml.nvmlDeviceGetTemperature(handle, 0)),
        power_w=None if power_mw is None else power_mw / 1000,
        power_limit_w=None if limit_mw is None else limit_mw / 1000,
        power_default_w=None if default_mw is None else default_mw / 1000,
        pcie_gen=ask("pcie_gen", lambda: nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle)),
        pcie_gen_max=ask("pcie_gen_max", lambda: nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
        pcie_width=ask("pcie_width", lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(handle)),
        pcie_width_max=ask("pcie_width_max", lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        mig=None if mig is None else mig[0] == 1,
        pci_bus_id=ask("pci_bus_id", lambda: _plain(nvml.nvmlDeviceGetPciInfo(handle).busId)),
        clocks_event_reasons=ask("clocks_event_reasons", lambda: _lasting_reasons(nvml, handle, pause_s)),
        ecc_uncorrected=ask("ecc", lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, uncorrected, volatile)),
        ecc_uncorrected_total=ask(
            "ecc_total", lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, uncorrected, aggregate)
        ),
        remapped_uncorrectable=None if remap is None else remap[1],
        remap_pending=None if remap is None else bool(remap[2]),
        remap_failed=None if remap is None else bool(remap[3]),
        retired_pending=ask("retired_pages", lambda: bool(nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle))),
        recovery_action=ask("recovery_action", lambda: _field(nvml, handle, RECOVERY_ACTION_FIELD)),
        compute_mode=ask("compute_mode", lambda: nvml.nvmlDeviceGetComputeMode(handle)),
        persistence=ask("persistence", lambda: bool(nvml.nvmlDeviceGetPersistenceMode(handle))),
        virtualization=ask("virtualization", lambda: nvml.nvmlDeviceGetVirtualizationMode(handle)),
        processes=None if processes is None else tuple((p.pid, p.usedGpuMemory) for p in processes),
        lost=ask.lost,
        not_supported=tuple(ask.not_supported),
        unknown=tuple(ask.unknown),
    )


def _memory(nvml: Any, handle: Any) -> tuple[int, int]:
    """(total, used) bytes. Version 2 keeps the driver's own reserve out of `used`; old drivers have version 1."""
    second = query(lambda: nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2))
    memory: Any = second.value if second.gap is None else nvml.nvmlDeviceGetMemoryInfo(handle)
    return int(memory.total), int(memory.used)


def _lasting_reasons(nvml: Any, handle: Any, pause_s: float) -> int:
    """Bits that are set in two looks: a single one may be a change of the power state (nvml.h)."""
    first = clocks_event_reasons(nvml, handle)
    if first:
        time.sleep(pause_s)
        return first & clocks_event_reasons(nvml, handle)
    return first


def clocks_event_reasons(nvml: Any, handle: Any) -> int:
    """What holds the clocks down now; drivers before 535 know the query by its old name."""
    reading = query(lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    if reading.gap is Gap.FUNCTION_MISSING:
        return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    if reading.value is None:
        return int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))  # raises what the first try raised
    return int(reading.value)


def _field(nvml: Any, handle: Any, field_id: int) -> int:
    value = nvml.nvmlDeviceGetFieldValues(handle, [field_id])[0]
    if value.nvmlReturn != 0:
        raise nvml.NVMLError(value.nvmlReturn)
    return int(value.value.uiVal)


def _plain(text: Any) -> str:
    return text.decode(errors="replace") if isinstance(text, bytes) else str(text)
