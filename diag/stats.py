"""Pure numbers: means that survive nan, trends, noise, and what a time line says about steps."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from diag.model.evidence import Ledger, StepStats
from diag.model.trace import STEP_STAGES, Lap, Stage

WARMUP_STEPS = 10
"""Steps left out at the start: cuDNN autotuning, allocator growth, worker start. At most a fifth of all."""


def finite(values: Iterable[float]) -> list[float]:
    """The values that are numbers: neither nan nor inf."""
    return [v for v in values if math.isfinite(v)]


def mean(values: Iterable[float]) -> float:
    """Mean of the finite values; nan without any."""
    numbers = finite(values)
    return sum(numbers) / len(numbers) if numbers else math.nan


def line(values: Sequence[float]) -> tuple[float, float]:
    """Least-squares slope per step and intercept over the finite values; (0, value) below two of them."""
    points = [(float(x), y) for x, y in enumerate(values) if math.isfinite(y)]
    if len(points) < 2:
        return 0.0, points[0][1] if points else math.nan
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    return slope, mean_y - slope * mean_x


def noise(values: Sequence[float]) -> float:
    """Standard deviation around the values' own straight trend; 0 with fewer than three numbers."""
    slope, start = line(values)
    rest = [y - (start + slope * x) for x, y in enumerate(values) if math.isfinite(y)]
    return statistics.pstdev(rest) if len(rest) >= 3 else 0.0


def smooth(values: Sequence[float], *, window: int = 5) -> list[float]:
    """Centred moving mean that skips nan; windows are cut at the ends."""
    half = window // 2
    return [mean(values[max(0, i - half) : i + half + 1]) for i in range(len(values))]


def steady_steps(steps: Sequence[Sequence[Lap]], *, warmup: int = WARMUP_STEPS) -> list[Sequence[Lap]]:
    """The steps without the warm-up of the run and the first step of each epoch (worker start, first fetch)."""
    skip = min(warmup, len(steps) // 5)
    kept = []
    epoch: int | None = None
    for number, laps in enumerate(steps):
        first, epoch = laps[0].epoch != epoch, laps[0].epoch
        if number >= skip and not first:
            kept.append(laps)
    return kept or list(steps)


def step_stats(laps: Sequence[Lap], *, file: str) -> StepStats | None:
    """Seconds per step and stage; None without a complete step. A step that was cut off is left out."""
    by_step: dict[tuple[int, int], list[Lap]] = defaultdict(list)
    for lap in laps:
        if lap.step >= 0 and lap.stage in STEP_STAGES:
            by_step[lap.epoch, lap.step].append(lap)
    steps = [group for group in by_step.values() if any(lap.stage is Stage.FORWARD for lap in group)]
    if not steps:
        return None
    steady = steady_steps(steps)
    seconds = [_seconds(step) for step in steps]
    steady_seconds = [_seconds(step) for step in steady]
    used = [stage for stage in STEP_STAGES if any(stage in s for s in seconds)]
    return StepStats(
        steps=len(steps),
        steady_steps=len(steady),
        mean_s={stage: mean(s.get(stage, 0.0) for s in seconds) for stage in used},
        steady_mean_s={stage: mean(s.get(stage, 0.0) for s in steady_seconds) for stage in used},
        steady_median_s={stage: statistics.median(s.get(stage, 0.0) for s in steady_seconds) for stage in used},
        step_s=mean(sum(s.values()) for s in steady_seconds),
        file=file,
    )


def ledger(laps: Sequence[Lap]) -> Ledger | None:
    """Seconds of all recorded time by stage; None without laps."""
    if not laps:
        return None
    total: dict[Stage, int] = defaultdict(int)
    for lap in laps:
        total[lap.stage] += lap.ns
    return Ledger({stage: total[stage] / 1e9 for stage in Stage if total[stage]}, sum(total.values()) / 1e9)


def _seconds(step: Sequence[Lap]) -> Mapping[Stage, float]:
    seconds: dict[Stage, float] = defaultdict(float)
    for lap in step:
        seconds[lap.stage] += lap.ns / 1e9
    return seconds
