"""trace/counters.jsonl -> Counters: every value as a summary, cumulative ones as growth and rate."""

import statistics
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from diag.load.read import MAX_TRACE_BYTES, UnreadableError, read_bytes
from diag.model.counters import CountedGpu, Counters, Series
from diag.model.trace import Mark

POINTS = 60
START_SHARE = 0.3
"""Without a second epoch so much of the time counts as start-up."""
_HUGE = 1e18
"""No counter of a machine is so large, and sums of squares stay numbers below it."""
_TOTAL = "_total"
_REASONS = "clocks_event_reasons"
_THERMAL, _BRAKE = 0x20 | 0x40, 0x80
"""nvml.h: software and hardware thermal slowdown; power brake."""
Columns = dict[str, tuple["array[float]", "array[float]"]]
"""Name -> (times in seconds, values)."""


def read_counters(path: Path, steady: tuple[float, float] | None = None) -> Counters:
    """The counters in `path`; `steady` is where the run's steady part lies (`TraceSummary.steady_part`).

    Raises UnreadableError when it holds no sample at all.
    """
    reader = CounterReader()
    reader.feed(read_bytes(path, limit=MAX_TRACE_BYTES))
    return reader.counters(steady)


def parse_counters(data: bytes) -> tuple[Columns, tuple[CountedGpu, ...], tuple[Mark, ...], int]:
    """All samples by name, the GPUs, the marks, and how many lines could not be read."""
    reader = CounterReader()
    reader.feed(data)
    return reader.columns, reader.gpus, tuple(reader.marks), reader.lost


class CounterReader:
    """Takes the file in pieces of whole lines; a later start of the run goes on where the one before ended."""

    def __init__(self) -> None:
        self.columns: Columns = {}
        self.gpus: tuple[CountedGpu, ...] = ()
        self.marks: list[Mark] = []
        self.lost = 0
        self._joined_ns = self._last_ns = 0
        self._joined = _Joined()

    def feed(self, data: bytes) -> None:
        """Take lines in; one that is no record of a known shape is counted and left out."""
        decode = msgspec.json.Decoder().decode
        for line in data.split(b"\n"):
            if not line.strip():
                continue
            try:
                self._take(decode(line))
            except (
                msgspec.MsgspecError,
                AttributeError,
                KeyError,
                TypeError,
                ValueError,
                OverflowError,
                RecursionError,
            ):
                self.lost += 1

    def counters(self, steady: tuple[float, float] | None) -> Counters:
        """The summary so far; UnreadableError as long as there is no sample."""
        if not self.columns:
            raise UnreadableError("no sample in it")
        if sum(mark.name == "start" for mark in self.marks) > 1:
            steady = None  # of a run with several starts: its clock is that of the trace, not the joined one
        return summarize(self.columns, self.gpus, tuple(self.marks), lost_lines=self.lost, steady=steady)

    def _take(self, record: Mapping[str, Any]) -> None:
        match record.get("k"):
            case "c":
                _seconds(record["t"])
                self._last_ns = int(record["t"]) + self._joined_ns
                _take(self.columns, self._last_ns / 1e9, self._joined.values(self.columns, record["v"]))
            case "gpus":
                self.gpus = tuple(msgspec.convert(gpu, CountedGpu) for gpu in record["gpus"])
            case "mark":
                values = {str(k): v for k, v in dict(record.get("v") or {}).items() if _plain(v)}
                _seconds(record["t"])
                self.marks.append(Mark(str(record["m"]), int(record["t"]), values))
            case "start":
                if self.columns:  # started again: the time between, or a new boot's clock, is not the training's
                    self._joined_ns = self._last_ns - int(record["t"])
                    self._joined = _Joined(again=True)
                self.marks.append(Mark("start", int(record["t"])))
            case _:
                pass  # a kind from a newer process


def summarize(
    columns: Columns,
    gpus: tuple[CountedGpu, ...] = (),
    marks: tuple[Mark, ...] = (),
    *,
    lost_lines: int = 0,
    steady: tuple[float, float] | None = None,
) -> Counters:
    """Summaries of all columns."""
    start = min(times[0] for times, _ in columns.values())
    end = max(times[-1] for times, _ in columns.values())
    begin, until = steady or (start + START_SHARE * (end - start), end)
    series: dict[str, Series] = {}
    grew: dict[str, float] = {}
    for name, (times, values) in columns.items():
        if not name.endswith(_TOTAL):
            series[name] = _series(times, values, start, begin, until)
            continue
        plain = name.removesuffix(_TOTAL)
        rate_times, speeds, grew[plain] = rates(times, values)
        if speeds:
            series[f"{plain}_per_s"] = _series(rate_times, speeds, start, begin, until)
    return Counters(end - start, series, grew, gpus, marks, lost_lines, steady is not None)


class _Joined:
    """Totals of one start of a run, moved so that they go on where those of the start before ended."""

    def __init__(self, *, again: bool = False) -> None:
        self._again = again
        self._shift: dict[str, float] = {}

    def values(self, columns: Columns, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """The values of one sample; `columns` are those before it."""
        if not self._again:
            return values
        moved = dict(values)
        for name, value in values.items():
            if name.endswith(_TOTAL) and name in columns:
                moved[name] = float(value) + self._shift.setdefault(name, columns[name][1][-1] - float(value))
        return moved


def _seconds(t: Any) -> float:
    seconds = int(t) / 1e9
    if not abs(seconds) < _HUGE:
        raise ValueError("no time")
    return seconds


def _take(columns: Columns, t: float, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        number = float(value)
        if not abs(number) < _HUGE:
            continue
        _put(columns, name, t, number)
        if name.endswith(_REASONS):  # older cards do not count these times: then the share of looks has to do
            gpu = name.removesuffix(_REASONS)
            _put(columns, f"{gpu}thermal_held", t, float(bool(int(number) & _THERMAL)))
            _put(columns, f"{gpu}brake_held", t, float(bool(int(number) & _BRAKE)))


def _put(columns: Columns, name: str, t: float, value: float) -> None:
    times, column = columns.setdefault(name, (array("d"), array("d")))
    times.append(t)
    column.append(value)


def _plain(value: object) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))


def rates(times: Sequence[float], values: Sequence[float]) -> tuple[list[float], list[float], float]:
    """Times and rates per second between samples, and the growth. A counter that fell was reset: not counted."""
    at, speeds, grew = [], [], 0.0
    for i in range(1, len(values)):
        seconds, more = times[i] - times[i - 1], values[i] - values[i - 1]
        if seconds > 0 and more >= 0:
            at.append(times[i])
            speeds.append(more / seconds)
            grew += more
    return at, speeds, grew


def _series(times: Sequence[float], values: Sequence[float], start: float, begin: float, until: float) -> Series:
    points = _points(times, values, start, begin, until)
    return Series(
        count=len(values),
        mean=statistics.fmean(values),
        p50=statistics.median(values),
        max=max(values),
        first=values[0],
        last=values[-1],
        points=points,
        slope_per_h=_slope(points) * 3600 if len(points) >= 3 else None,
    )


def _points(
    times: Sequence[float], values: Sequence[float], start: float, begin: float, until: float
) -> tuple[tuple[float, float], ...]:
    if until <= begin:
        return ()
    parts: dict[int, list[float]] = {}
    width = (until - begin) / POINTS
    for t, value in zip(times, values, strict=True):
        if begin <= t <= until:
            parts.setdefault(min(POINTS - 1, int((t - begin) / width)), []).append(value)
    middle = begin - start + width / 2
    return tuple((middle + n * width, statistics.median(found)) for n, found in sorted(parts.items()))


def _slope(points: Sequence[tuple[float, float]]) -> float:
    fit = statistics.linear_regression([t for t, _ in points], [v for _, v in points])
    return fit.slope
