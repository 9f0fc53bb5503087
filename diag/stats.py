"""Pure numbers: means that survive nan, trends, noise, and what a time line says about steps."""

import math
import statistics
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

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


class StepTable:
    """The steps of a run as columns of nanoseconds, eight bytes a number: a million of them fit in 60 MB."""

    def __init__(self) -> None:
        self._epochs = array("q")
        self._columns = {stage: array("q") for stage in STEP_STAGES}
        self._used: set[Stage] = set()

    def __len__(self) -> int:
        return len(self._epochs)

    def add(self, epoch: int, ns: Mapping[Stage, int]) -> None:
        """One step; a step without a forward pass was cut off and is left out."""
        if Stage.FORWARD not in ns:
            return
        self._epochs.append(epoch)
        for stage, column in self._columns.items():
            column.append(ns.get(stage, 0))
        if not self._used >= ns.keys():
            self._used |= ns.keys()

    def steady(self, *, warmup: int = WARMUP_STEPS) -> list[int]:
        """The steps without the warm-up of the run and the first step of each epoch (worker start, first fetch)."""
        skip = min(warmup, len(self) // 5)
        first = (a != b for a, b in pairwise([None, *self._epochs]))
        kept = [number for number, is_first in enumerate(first) if number >= skip and not is_first]
        return kept or list(range(len(self)))

    def stats(self, *, file: str) -> StepStats | None:
        """Seconds per step and stage; None without a complete step."""
        if not self._epochs:
            return None
        steady = self.steady()
        used = [stage for stage in STEP_STAGES if stage in self._used]
        kept = {stage: [column[i] for i in steady] for stage, column in self._columns.items() if stage in used}
        waits = sample(kept.get(Stage.DATA_WAIT, []))
        return StepStats(
            steps=len(self),
            steady_steps=len(steady),
            mean_s={stage: sum(self._columns[stage]) / len(self) / 1e9 for stage in used},
            steady_mean_s={stage: sum(kept[stage]) / len(steady) / 1e9 for stage in used},
            steady_median_s={stage: statistics.median(sample(kept[stage])) / 1e9 for stage in used},
            step_s=sum(map(sum, kept.values())) / len(steady) / 1e9,
            file=file,
            wait_p50_s=quantile(waits, 0.50) / 1e9,
            wait_p99_s=quantile(waits, 0.99) / 1e9,
        )


SAMPLE = 100_000
"""Order statistics are taken over so many values, evenly spaced; their error is far below the noise of a step."""


def sample(values: Sequence[int]) -> Sequence[int]:
    """At most SAMPLE of the values, evenly spaced."""
    return values[:: -(-len(values) // SAMPLE)] if len(values) > SAMPLE else values


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed; 0 without any."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def step_stats(laps: Sequence[Lap], *, file: str) -> StepStats | None:
    """Seconds per step and stage of laps in memory; None without a complete step."""
    by_step: dict[tuple[int, int], dict[Stage, int]] = defaultdict(lambda: defaultdict(int))
    for lap in laps:
        if lap.step >= 0 and lap.stage in STEP_STAGES:
            by_step[lap.epoch, lap.step][lap.stage] += lap.ns
    table = StepTable()
    for (epoch, _), ns in by_step.items():
        table.add(epoch, ns)
    return table.stats(file=file)


def ledger(ns: Mapping[Stage, int]) -> Ledger | None:
    """Seconds of all recorded time by stage; None when nothing was recorded."""
    seconds = {stage: ns[stage] / 1e9 for stage in Stage if ns.get(stage)}
    return Ledger(seconds, sum(ns.values()) / 1e9) if ns else None
