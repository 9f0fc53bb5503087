"""What the counters process measured beside a training, in summary. Units are part of each name."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from diag.model.trace import Mark


@dataclass(frozen=True)
class Series:
    """One sampled value over the whole training.

    `points` are (seconds after the first sample, median) of at most 60 equal parts of the steady time: from the second
    epoch on and without the final evaluation. `slope_per_h` is their least-squares trend, None with fewer than three.
    """

    count: int
    mean: float
    p50: float
    max: float
    first: float
    last: float
    points: tuple[tuple[float, float], ...] = ()
    slope_per_h: float | None = None


@dataclass(frozen=True)
class CountedGpu:
    """A GPU that was watched."""

    index: int
    name: str | None = None
    uuid: str | None = None
    memory_total_bytes: int | None = None
    power_limit_w: float | None = None
    pcie_gen_max: int | None = None
    pcie_width_max: int | None = None


@dataclass(frozen=True)
class Counters:
    """trace/counters.jsonl. A cumulative `x_total` of the file is here as `grew["x"]` and as the rate `x_per_s`."""

    seconds: float
    """From the first to the last sample."""
    series: Mapping[str, Series]
    grew: Mapping[str, float] = field(default_factory=dict)
    """How much each cumulative counter grew over the training."""
    gpus: tuple[CountedGpu, ...] = ()
    marks: tuple[Mark, ...] = ()
    """`stall`, `resumed`, `stall_abort`, `end`."""
    lost_lines: int = 0
    steady: bool = True
    """False when no second epoch was seen: the summaries may hold allocations that every run makes once."""
    file: str = "trace/counters.jsonl"

    def trained_on(self, *, min_bytes: int = 256 * 1024**2) -> tuple[CountedGpu, ...]:
        """The GPUs whose used memory rose by at least `min_bytes` meanwhile: a CUDA context alone takes that."""
        used = ((gpu, self.series.get(f"gpu{gpu.index}_memory_used_bytes")) for gpu in self.gpus)
        return tuple(gpu for gpu, series in used if series and series.max - series.first >= min_bytes)
