"""Pure numbers: means that survive nan, trends, noise, and what a time line says about steps."""

import math
import statistics
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress
from operator import eq

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


def would_stop(scores: Sequence[float], patience: int) -> int:
    """The row (1 = first) after which early stopping with this patience ends the run; 0 if it never does.

    As Ultralytics counts: the best row moves with a score that is higher or equal, a row without one counts as no
    better (utils/torch_utils.py, EarlyStopping).
    """
    best, at = -math.inf, 0
    for row, score in enumerate(scores, 1):
        if score >= best:  # never true of nan
            best, at = score, row
        if row - at >= patience:
            return row
    return 0


class _Shape:
    """Steps with the same stages in the same order: their nanoseconds one after the other, and which steps they are."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.complete = Stage.FORWARD.value in names
        self.ns = array("q")
        self.numbers = array("q")

    def column(self, stage: str) -> Sequence[int] | None:
        """Nanoseconds of a stage in each of these steps; None if they do not have it."""
        width = len(self.names)
        columns = [self.ns[i::width] for i, name in enumerate(self.names) if name == stage]
        return list(map(sum, zip(*columns, strict=True))) if len(columns) > 1 else columns[0] if columns else None


class StepTable:
    """The steps of a run, eight bytes a lap; whatever is done once per step is done in C: runs have millions.

    Stages are plain strings here, since the hash of an enum member is a Python call.
    """

    def __init__(self) -> None:
        self._epochs = array("q")
        self._shapes: dict[tuple[str, ...], _Shape] = {}

    def __len__(self) -> int:
        return len(self._epochs)

    def add(self, epoch: int, names: tuple[str, ...], ns: Sequence[int]) -> None:
        """The laps of one batch; without a forward pass it was cut off and is no step, but its time counts."""
        shape = self._shapes.get(names)
        if shape is None:
            shape = self._shapes[names] = _Shape(names)
        if shape.complete:
            self._epochs.append(epoch)
            shape.numbers.append(len(self._epochs) - 1)
        shape.ns.extend(ns)

    def add_many(self, epochs: Sequence[int], laps: Sequence[Sequence[tuple[str, int]]]) -> bool:
        """`add` for many batches at once, three times as fast; False, and nothing is added, if they are not alike.

        Alike: laps of the same number have the same stages in the same order, and all have a forward pass.
        """
        found = []
        every = range(len(laps))
        widths = list(map(len, laps))
        for width in set(widths):
            picked = [i for i, one in enumerate(widths) if one == width] if widths.count(width) < len(laps) else every
            names, ns = zip(*chain.from_iterable(map(laps.__getitem__, picked)), strict=True)
            shape = self._shapes.get(names[:width]) or _Shape(names[:width])
            if not shape.complete or names != shape.names * len(picked):
                return False
            found.append((shape, picked, ns))
        first = len(self._epochs)
        self._epochs.extend(epochs)
        for shape, picked, ns in found:
            self._shapes[shape.names] = shape
            shape.numbers.extend(map(first.__add__, picked))
            shape.ns.extend(array("q", ns))
        return True

    def total(self) -> dict[str, int]:
        """Nanoseconds by stage of everything that was added."""
        total: dict[str, int] = defaultdict(int)
        for shape in self._shapes.values():
            for i, name in enumerate(shape.names):
                total[name] += sum(shape.ns[i :: len(shape.names)])
        return total

    def steady(self, *, warmup: int = WARMUP_STEPS) -> bytearray:
        """1 for each step but the warm-up of the run and the first step of each epoch (worker start, first fetch)."""
        kept = bytearray(map(eq, self._epochs[1:], self._epochs))
        kept[:0] = b"\0"
        skip = min(warmup, len(self) // 5)
        kept[:skip] = bytes(skip)
        return kept if any(kept) else bytearray(b"\1") * len(self)

    def stats(self, *, file: str) -> StepStats | None:
        """Seconds per step and stage; None without a complete step."""
        if not self._epochs:
            return None
        steady = self.steady()
        count = sum(steady)
        shapes = [shape for shape in self._shapes.values() if shape.complete]
        masks = [bytearray(map(steady.__getitem__, shape.numbers)) for shape in shapes]
        mean_s, steady_mean_s, median_s = {}, {}, {}
        waits: Sequence[int] = []
        for stage in STEP_STAGES:
            columns = [shape.column(stage.value) for shape in shapes]
            if all(column is None for column in columns):
                continue
            kept: list[int] = []
            for column, mask in zip(columns, masks, strict=True):
                kept += compress(column, mask) if column is not None else [0] * sum(mask)
            some = sorted(sample(kept))
            mean_s[stage] = sum(map(sum, filter(None, columns))) / len(self) / 1e9
            steady_mean_s[stage] = sum(kept) / count / 1e9
            median_s[stage] = statistics.median(some) / 1e9
            if stage is Stage.DATA_WAIT:
                waits = some
        return StepStats(
            steps=len(self),
            steady_steps=count,
            mean_s=mean_s,
            steady_mean_s=steady_mean_s,
            steady_median_s=median_s,
            step_s=sum(steady_mean_s.values()),
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
    by_step: dict[tuple[int, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for lap in laps:
        if lap.step >= 0 and lap.stage in STEP_STAGES:
            by_step[lap.epoch, lap.step][lap.stage.value] += lap.ns
    table = StepTable()
    for (epoch, _), ns in by_step.items():
        table.add(epoch, tuple(ns), tuple(ns.values()))
    return table.stats(file=file)


def ledger(ns: Mapping[Stage, int]) -> Ledger | None:
    """Seconds of all recorded time by stage; None when nothing was recorded."""
    seconds = {stage: ns[stage] / 1e9 for stage in Stage if ns.get(stage)}
    return Ledger(seconds, sum(ns.values()) / 1e9) if ns else None
