"""Is there an NVIDIA GPU, and was it given to this process? Read from files and libraries, without torch, in 1 ms."""

import ctypes
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from diag.probe.host import in_container


class Triage(StrEnum):
    """How far an NVIDIA GPU gets from the board to this process."""

    NONE = "none"
    USABLE = "usable"
    NOT_PASSED = "not_passed"
    NO_DRIVER = "no_driver"
    NO_PERMISSION = "no_permission"
    NO_LIBRARIES = "no_libraries"
    UTILITY_ONLY = "utility_only"
    NO_TELEMETRY = "no_telemetry"
    HIDDEN = "hidden"
    JETSON = "jetson"


TRAINABLE = frozenset((Triage.USABLE, Triage.NO_TELEMETRY, Triage.JETSON))


@dataclass(frozen=True)
class GpuSigns:
    """What can be seen of NVIDIA GPUs from here."""

    pci_gpus: int = 0
    pci_drivers: tuple[str, ...] = ()
    """Kernel drivers bound to them: nvidia, nouveau, vfio-pci ..."""
    kernel_driver: str = ""
    """Version from /proc/driver/nvidia/version."""
    device_nodes: tuple[str, ...] = ()
    unopenable: tuple[str, ...] = ()
    """Device nodes that exist and can't be opened, as `path: why`."""
    wsl: bool = False
    tegra: bool = False
    nvml_loads: bool = False
    nvml_gpus: int = 0
    """GPUs that NVML lists; the libraries alone may be left over from an image for GPU machines."""
    cuda_loads: bool = False
    container: bool = False
    visible_devices: str | None = None
    capabilities: str | None = None
    cuda_visible_devices: str | None = None

    @property
    def on_host(self) -> bool:
        """True if anything says that the host has an NVIDIA GPU."""
        wsl = self.wsl and (self.nvml_loads or self.cuda_loads)  # /dev/dxg is there for any maker's GPU
        return bool(self.pci_gpus or self.device_nodes or self.tegra or self.nvml_gpus or wsl)


@dataclass(frozen=True)
class Diagnosis:
    """The state, one line on it, and the exact thing to do (empty where nothing is wrong)."""

    state: Triage
    says: str
    remedy: str = ""


def see_gpu(
    root: Path = Path("/"),
    env: Mapping[str, str] = os.environ,
    loads: Callable[[str], bool] | None = None,
) -> GpuSigns:
    """Look at PCI, /proc, /dev, the driver's libraries and the environment. `loads` says if a library loads."""
    loads = loads or _loads
    devices = sorted(p for p in (root / "sys/bus/pci/devices").glob("*") if _is_gpu(p))
    version = _text(root / "proc/driver/nvidia/version")
    nodes = sorted(p for p in (root / "dev").glob("nvidia*") if p.name.removeprefix("nvidia").isdigit())
    control = [p for p in (root / "dev/nvidiactl", root / "dev/nvidia-uvm") if p.exists()] if nodes else []
    tegra = (root / "etc/nv_tegra_release").exists() or "tegra" in _text(root / "proc/device-tree/compatible")
    return GpuSigns(
        pci_gpus=len(devices),
        pci_drivers=tuple(sorted({(d / "driver").resolve().name for d in devices if (d / "driver").exists()})),
        kernel_driver=_driver_version(version),
        device_nodes=tuple(str(p) for p in nodes),
        unopenable=tuple(f"{p}: {why}" for p in [*nodes, *control] if (why := _unopenable(p))),
        wsl=(root / "dev/dxg").exists(),
        tegra=tegra,
        nvml_loads=loads("libnvidia-ml.so.1"),
        cuda_loads=loads("libcuda.so.1"),
        container=in_container(root),
        visible_devices=env.get("NVIDIA_VISIBLE_DEVICES"),
        capabilities=env.get("NVIDIA_DRIVER_CAPABILITIES"),
        cuda_visible_devices=env.get("CUDA_VISIBLE_DEVICES"),
    )


def triage(signs: GpuSigns) -> Diagnosis:
    """The decision table: from the board outward, the first thing that is missing."""
    if not signs.on_host:
        return Diagnosis(Triage.NONE, "no NVIDIA GPU on this machine")
    if signs.tegra:
        return Diagnosis(Triage.JETSON, "NVIDIA Jetson: an integrated GPU without NVML telemetry")
    reached = bool(signs.device_nodes or signs.wsl or signs.nvml_gpus)
    if not signs.kernel_driver and not reached:
        return _no_driver(signs)
    if not reached:
        return _not_passed(signs)
    if signs.unopenable:
        return Diagnosis(
            Triage.NO_PERMISSION,
            f"the GPU's device file can't be opened ({signs.unopenable[0]})",
            "recreate the container: its device permission is lost after `systemctl daemon-reload` on the host "
            "(docker compose up --force-recreate); outside a container, give the user access to /dev/nvidia*",
        )
    if signs.cuda_visible_devices is not None and signs.cuda_visible_devices.strip() in {"", "-1", "NoDevFiles"}:
        return Diagnosis(
            Triage.HIDDEN,
            f"CUDA_VISIBLE_DEVICES={signs.cuda_visible_devices!r} hides every GPU from torch",
            "unset CUDA_VISIBLE_DEVICES, or set it to the GPU to use (CUDA_VISIBLE_DEVICES=0)",
        )
    return _libraries(signs)


def _no_driver(signs: GpuSigns) -> Diagnosis:
    bound = ", ".join(signs.pci_drivers) or "none"
    if "vfio-pci" in signs.pci_drivers:
        fix = "the GPU is handed to a virtual machine (vfio-pci): train there, or bind it to the nvidia driver"
    else:
        fix = "install and load NVIDIA's driver on the host (check: nvidia-smi on the host; lsmod | grep nvidia)"
    return Diagnosis(Triage.NO_DRIVER, f"an NVIDIA GPU is on the PCI bus, without its driver (bound: {bound})", fix)


def _not_passed(signs: GpuSigns) -> Diagnosis:
    if not signs.container:
        fix = "load the driver's device files: `nvidia-modprobe -u -c=0`, or run nvidia-smi once as root"
        return Diagnosis(Triage.NOT_PASSED, "NVIDIA's driver is loaded, and there is no /dev/nvidia0", fix)
    hidden = (signs.visible_devices or "").lower() in {"void", "none"}
    fix = (
        "compose: ACCEL=cuda; docker run: --gpus all. If Docker then says `could not select device driver`, install "
        "the NVIDIA Container Toolkit on the host: nvidia-ctk runtime configure --runtime=docker, then restart Docker"
    )
    if hidden:
        fix = f"NVIDIA_VISIBLE_DEVICES={signs.visible_devices} keeps the GPU out: remove it. Then {fix}"
    return Diagnosis(Triage.NOT_PASSED, "the host has an NVIDIA GPU and this container was not given it", fix)


def _libraries(signs: GpuSigns) -> Diagnosis:
    set_to = f"NVIDIA_DRIVER_CAPABILITIES={signs.capabilities}" if signs.capabilities else "the default `utility`"
    where = "set NVIDIA_DRIVER_CAPABILITIES=compute,utility for the container and start it again"
    reinstall = "install the driver's user libraries (Debian: libcuda1, libnvidia-ml1; RHEL: nvidia-driver-cuda)"
    fix = where if signs.container else reinstall
    if signs.cuda_loads and signs.nvml_loads:
        return Diagnosis(Triage.USABLE, "an NVIDIA GPU, its device files and its libraries are here")
    if signs.cuda_loads:
        return Diagnosis(
            Triage.NO_TELEMETRY, "libnvidia-ml.so.1 does not load: training works, telemetry does not", fix
        )
    if signs.nvml_loads:
        says = "libcuda.so.1 does not load: nvidia-smi works, torch can't use the GPU"
        return Diagnosis(Triage.UTILITY_ONLY, f"{says} ({set_to})" if signs.container else says, fix)
    return Diagnosis(Triage.NO_LIBRARIES, "device files are here, libcuda.so.1 and libnvidia-ml.so.1 do not load", fix)


def _is_gpu(device: Path) -> bool:
    """NVIDIA (0x10de) and a display (0x0300) or 3D (0x0302) controller; not its audio or USB function."""
    return _text(device / "vendor") == "0x10de" and _text(device / "class")[:6] in {"0x0300", "0x0302"}


def _driver_version(text: str) -> str:
    """`NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun ...` -> `580.65.06`."""
    for word in text.partition("\n")[0].split():
        if word[0].isdigit() and "." in word and word.replace(".", "").isdigit():
            return word
    return ""


def _unopenable(path: Path) -> str:
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
