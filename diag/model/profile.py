"""Where the time of a few training steps goes, operator by operator: `profile/profile.json` of a run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class OperatorTime:
    """One operator, per step. `self_` is without the operators that it calls; device is the GPU."""

    name: str
    calls: float
    self_cpu_s: float
    cpu_s: float
    self_device_s: float = 0.0
    flops: float = 0.0
    self_memory_bytes: int = 0


@dataclass(frozen=True)
class LayerTime:
    """One layer of the model's main sequence, per step, by its index in the model's yaml."""

    index: int
    type: str
    parameters: int
    forward_s: float
    backward_s: float
    forward_device_s: float = 0.0
    backward_device_s: float = 0.0
    flops: float = 0.0
    """Of the forward pass."""


@dataclass(frozen=True)
class Profile:
    """torch.profiler over some steady batches. Seconds, calls and FLOPs are per step."""

    steps: int
    step_s: float
    """Mean wall time of a profiled step; the profiler itself makes it longer."""
    cpu_s: float
    device_s: float
    flops: float
    """Of the forward pass: torch counts convolutions and matrix products there, and nothing in backward."""
    operators: tuple[OperatorTime, ...]
    layers: tuple[LayerTime, ...]
    device: str = "cpu"
    batch: int | None = None
    imgsz: int | None = None
    amp: bool = False
    peak_memory_bytes: int | None = None
    """Reserved on the GPU; on the CPU the largest resident memory of the process."""
    trace: str = "trace.json"
