"""GPUs as NVML would answer for them: function name -> value. Shared by the Python and the C fake.

A missing name is "not supported", `Fails(code)` an error, a tuple several outputs, a dict a struct. The values
are made up after data sheets and documentation; none was recorded from a real card.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

GIB = 1024**3
LOST, RESET_REQUIRED, NO_PERMISSION, VERSION_MISMATCH, UNKNOWN = 15, 16, 4, 18, 999


@dataclass(frozen=True)
class Fails:
    """An NVML return code other than success."""

    code: int


@dataclass(frozen=True)
class Scenario:
    """A machine. `missing` are functions that an old driver's library lacks."""

    gpus: tuple[Mapping[str, Any], ...] = ()
    init: int = 0
    driver: str = "580.65.06"
    cuda: int = 13000
    missing: frozenset[str] = field(default_factory=frozenset)

    def gpu(self, **changes: Any) -> "Scenario":
        """The same machine with other answers of its GPUs; None removes one."""
        changed = tuple({k: v for k, v in {**gpu, **changes}.items() if v is not None} for gpu in self.gpus)
        return replace(self, gpus=changed)


def _card(
    name: str, capability: tuple[int, int], gib: int, watts: int, *, width: int = 16, gen: int = 4
) -> dict[str, Any]:
    return {
        "nvmlDeviceGetName": name,
        "nvmlDeviceGetUUID": "GPU-11111111-2222-3333-4444-555555555555",
        "nvmlDeviceGetCudaComputeCapability": capability,
        "nvmlDeviceGetMemoryInfo": {"total": gib * GIB, "used": GIB // 64, "free": gib * GIB - GIB // 64},
        "nvmlDeviceGetMemoryInfo_v2": {
            "total": gib * GIB,
            "used": GIB // 64,
            "free": gib * GIB - GIB // 64,
            "reserved": 0,
        },
        "nvmlDeviceGetTemperature": 34,
        "nvmlDeviceGetPowerUsage": 28_000,
        "nvmlDeviceGetEnforcedPowerLimit": watts * 1000,
        "nvmlDeviceGetPowerManagementDefaultLimit": watts * 1000,
        "nvmlDeviceGetCurrPcieLinkGeneration": gen,
        "nvmlDeviceGetMaxPcieLinkGeneration": gen,
        "nvmlDeviceGetCurrPcieLinkWidth": width,
        "nvmlDeviceGetMaxPcieLinkWidth": width,
        "nvmlDeviceGetPciInfo_v3": {"busId": "00000000:65:00.0"},
        "nvmlDeviceGetMigMode": (0, 0),
        "nvmlDeviceGetCurrentClocksEventReasons": 0x1,
        "nvmlDeviceGetTotalEccErrors": 0,
        "nvmlDeviceGetRemappedRows": (0, 0, 0, 0),
        "nvmlDeviceGetRetiredPagesPendingStatus": 0,
        "nvmlDeviceGetComputeMode": 0,
        "nvmlDeviceGetPersistenceMode": 1,
        "nvmlDeviceGetVirtualizationMode": 0,
        "nvmlDeviceGetComputeRunningProcesses_v3": (),
        "nvmlDeviceGetFieldValues": {230: 0},
    }


A100 = Scenario(gpus=(_card("NVIDIA A100-SXM4-80GB", (8, 0), 80, 400),))
T4 = Scenario(gpus=(_card("Tesla T4", (7, 5), 16, 70, gen=3),))
V100 = Scenario(gpus=(_card("Tesla V100-SXM2-16GB", (7, 0), 16, 300, gen=3),))
GEFORCE = Scenario(gpus=(_card("NVIDIA GeForce RTX 4090", (8, 9), 24, 450),)).gpu(
    nvmlDeviceGetTotalEccErrors=None,
    nvmlDeviceGetRemappedRows=None,
    nvmlDeviceGetRetiredPagesPendingStatus=None,
    nvmlDeviceGetMigMode=None,
    nvmlDeviceGetFieldValues=None,
)

SCENARIOS: Mapping[str, Scenario] = {
    "healthy A100": A100,
    "healthy T4": T4,
    "GeForce without error counters": GEFORCE,
    "idle link at gen 1": T4.gpu(nvmlDeviceGetCurrPcieLinkGeneration=1, nvmlDeviceGetCurrPcieLinkWidth=8),
    "thermal slowdown": A100.gpu(nvmlDeviceGetCurrentClocksEventReasons=0x40 | 0x8, nvmlDeviceGetTemperature=91),
    "power brake": A100.gpu(nvmlDeviceGetCurrentClocksEventReasons=0x80 | 0x8),
    "software power cap": A100.gpu(nvmlDeviceGetCurrentClocksEventReasons=0x4),
    "power limit lowered": A100.gpu(nvmlDeviceGetEnforcedPowerLimit=250_000),
    "uncorrected ECC errors": A100.gpu(nvmlDeviceGetTotalEccErrors=2),
    "remap pending": A100.gpu(nvmlDeviceGetRemappedRows=(0, 1, 1, 0)),
    "remap failed": A100.gpu(nvmlDeviceGetRemappedRows=(0, 3, 0, 1)),
    "reset asked for": A100.gpu(nvmlDeviceGetFieldValues={230: 1}),
    "old driver": Scenario(
        gpus=T4.gpus,
        driver="470.256.02",
        cuda=11040,
        missing=frozenset(("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetMemoryInfo_v2")),
    ).gpu(nvmlDeviceGetCurrentClocksThrottleReasons=0x1),
    "library and driver differ": Scenario(init=VERSION_MISMATCH),
    "access lost": Scenario(init=UNKNOWN),
    "hardly anything supported": Scenario(
        gpus=({"nvmlDeviceGetName": "NVIDIA GRID A100-10C", "nvmlDeviceGetVirtualizationMode": 2},)
    ),
    "MIG": A100.gpu(nvmlDeviceGetMigMode=(1, 1), nvmlDeviceGetRemappedRows=None),
    "lost GPU": Scenario(gpus=({"*": Fails(LOST)},)),
    "no permission for one value": A100.gpu(nvmlDeviceGetRemappedRows=Fails(NO_PERMISSION)),
    "foreign memory": A100.gpu(
        nvmlDeviceGetMemoryInfo_v2={"total": 80 * GIB, "used": 30 * GIB, "free": 50 * GIB, "reserved": 0},
        nvmlDeviceGetComputeRunningProcesses_v3=((4242, 30 * GIB),),
    ),
    "full memory": A100.gpu(
        nvmlDeviceGetMemoryInfo_v2={"total": 80 * GIB, "used": 80 * GIB - 1, "free": 1, "reserved": 0}
    ),
    "exclusive mode": A100.gpu(nvmlDeviceGetComputeMode=3),
    "prohibited mode": A100.gpu(nvmlDeviceGetComputeMode=2),
    "all at once": replace(V100, driver="470.256.02", cuda=11040).gpu(
        nvmlDeviceGetMemoryInfo_v2={"total": 16 * GIB, "used": 6 * GIB, "free": 10 * GIB, "reserved": 0},
        nvmlDeviceGetComputeRunningProcesses_v3=((4242, 6 * GIB),),
        nvmlDeviceGetCurrentClocksEventReasons=0x40 | 0x8,
        nvmlDeviceGetCurrPcieLinkGeneration=1,
    ),
}
