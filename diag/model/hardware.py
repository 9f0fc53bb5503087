"""Facts about the machine that a run was made on. `None` always means "not known"."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Gpu:
    """One GPU as NVML reports it. A field that the driver does not report is None."""

    index: int
    name: str | None = None
    uuid: str | None = None
    compute_capability: str | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    pcie_gen: int | None = None
    pcie_gen_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    mig: bool | None = None
    pci_bus_id: str | None = None
    clocks_event_reasons: int | None = None
    """NVML's bits for what holds the clocks down; 0x40 is hardware thermal slowdown."""
    ecc_uncorrected: int | None = None
    """Uncorrected memory errors since the driver was loaded."""
    ecc_uncorrected_total: int | None = None
    """Uncorrected memory errors in the GPU's life."""
    remapped_uncorrectable: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retired_pending: bool | None = None
    recovery_action: int | None = None
    """What the driver asks for: 0 nothing, 1 reset, 2 reboot, 3 drain, 4 drain and reset ..."""
    compute_mode: int | None = None
    """0 default, 2 prohibited, 3 exclusive process."""
    persistence: bool | None = None
    virtualization: int | None = None
    """0 none, 1 passthrough, 2 vGPU."""
    processes: tuple[tuple[int, int | None], ...] | None = None
    """(process id on the host, bytes) of each compute process; often empty inside a container."""
    lost: str = ""
    """Why the GPU can't be used any more: lost, or a reset is required."""
    not_supported: tuple[str, ...] = ()
    """Fields that this GPU or driver does not report (GeForce, MIG, vGPU, WSL)."""
    unknown: tuple[str, ...] = ()
    """Fields whose query failed for another reason, as `field: error`."""


@dataclass(frozen=True)
class Host:
    """CPU, memory and disks as this process may use them (cgroup limits counted in)."""

    cpus_visible: int | None = None
    cpus_effective: float | None = None
    memory_total_bytes: int | None = None
    memory_limit_bytes: int | None = None
    """The smallest limit of the cgroup and its ancestors; None without a limit."""
    shm_total_bytes: int | None = None
    shm_free_bytes: int | None = None
    cgroup_version: int | None = None
    container: bool = False
    os: str = ""
    kernel: str = ""
    cpu_model: str = ""


@dataclass(frozen=True)
class Software:
    """Versions of what runs. `drift` lists packages that differ from the lock (`name: lock -> installed`)."""

    python: str = ""
    torch: str | None = None
    torch_cuda: str | None = None
    """The CUDA version that torch was built with; None for a CPU build."""
    cudnn: str | None = None
    torchvision: str | None = None
    ultralytics: str | None = None
    driver: str | None = None
    driver_cuda: str | None = None
    """The newest CUDA version that the driver supports."""
    stack: str = ""
    lock_sha256: str = ""
    drift: tuple[str, ...] = ()


@dataclass(frozen=True)
class Baseline:
    """What the machine is: written once per run as baseline.json."""

    host: Host = field(default_factory=Host)
    gpus: tuple[Gpu, ...] = ()
    software: Software = field(default_factory=Software)
    gpu_triage: str = "unknown"
    """The state of diag.probe.gpu: none, usable, not_passed, utility_only, no_telemetry, no_driver, ..."""
    cuda_usable: bool | None = None
    """True only if an allocation and a matmul on the GPU really worked."""
    images_per_s: float | None = None
    """Speed of the synthetic YOLO step on the device that training would use."""
    decode_images_per_cpu_s: float | None = None
    """Images decoded per second of CPU time (one core), from the data set's own files."""
