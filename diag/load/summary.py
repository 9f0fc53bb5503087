"""A trace as sums: one pass over the file, no object per lap, so that a million steps load in seconds."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from diag.load.read import MAX_TRACE_BYTES, UnreadableError
from diag.model.evidence import DeviceStats, Ledger, LoaderStats, StepStats, ValidationStats
from diag.model.trace import Stage
from diag.stats import StepTable, ledger

_STAGES = {stage.value: stage for stage in Stage}
_DAY_NS = 10**15
"""A lap longer than eleven days is a broken line."""
_BROKEN = (
    msgspec.DecodeError, AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError,
)  # fmt: skip
SLOWEST = 5
"""Slowest files that are kept."""
VAL_PARTS = ("setup", "wait", "preprocess", "inference", "loss", "postprocess", "metrics", "plots")
_COUNTS = ("b", "images", "loads", "hits", "opened", "bytes", "pixels")
PARTS = ("read", "decode", "augment", "collate")


class _Laps(msgspec.Struct, gc=False):
    l: list[tuple[str, Annotated[int, msgspec.Meta(ge=0, lt=_DAY_NS)]]]  # noqa: E741 # the names of the format
    t: Annotated[int, msgspec.Meta(gt=-(2**62), lt=2**62)] = 0
    e: int = -1
    n: int = -1


Count = Annotated[int, msgspec.Meta(ge=0, lt=10**18)]


class _Parts(msgspec.Struct, gc=False):
    read: Count
    decode: Count
    augment: Count
    collate: Count


class _Loader(msgspec.Struct, gc=False):
    b: Count
    ns: _Parts
    images: Count
    loads: Count
    hits: Count
    opened: Count
    bytes: Count
    pixels: Count
    workers: dict[int, tuple[Count, Count]]
    slow: list[tuple[str, Count]]


class TraceSummary:
    """Everything that a report needs of one rank's trace. `lost_lines` counts lines that could not be read."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lost_lines = 0
        self.records = 0
        self._first_epoch: int | None = None
        self._steady_from_ns = self._steps_until_ns = 0
        self._steps = StepTable()
        self._between = StepTable()
        self._loader: dict[str, int] = defaultdict(int)
        self._workers: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        self._slowest: dict[str, int] = {}
        self._slow_floor_ns = -1
        self._device_ms: dict[Stage, float] = defaultdict(float)
        self._device_laps = 0
        self._alloc: dict[str, int] = {}
        self._validations: list[tuple[int, dict[str, int]]] = []

    def steps(self) -> StepStats | None:
        """Seconds per step and stage."""
        return self._steps.stats(file=self.file)

    def ledger(self) -> Ledger | None:
        """Seconds of all recorded time by stage; None without laps."""
        total: dict[Stage, int] = defaultdict(int)
        for name, ns in (*self._steps.total().items(), *self._between.total().items()):
            # A stage from a newer recorder keeps its time: every nanosecond belongs to one stage.
            total[_STAGES.get(name, Stage.OTHER)] += ns
        return ledger(total)

    def steady_part(self) -> tuple[float, float] | None:
        """Monotonic seconds from the first batch of the second epoch to the last batch; None without a second epoch."""
        if not self._steady_from_ns:
            return None
        return self._steady_from_ns / 1e9, self._steps_until_ns / 1e9

    def loader(self) -> LoaderStats | None:
        """Where the loader's time went; None when it was not timed."""
        sums = self._loader
        if not sums["images"]:
            return None
        opened, loads = max(sums["opened"], 1), max(sums["loads"], 1)
        slowest = sorted(self._slowest.items(), key=lambda item: -item[1])[:SLOWEST]
        return LoaderStats(
            images=sums["images"],
            batches=sums["b"],
            workers=sum(id >= 0 for id in self._workers),
            mean_s={part: sums[part] / sums["images"] / 1e9 for part in PARTS},
            images_per_s={id: n / ns * 1e9 for id, (n, ns) in sorted(self._workers.items()) if ns > 0},
            hit_share=sums["hits"] / loads,
            bytes_per_file=sums["bytes"] / opened,
            pixels_per_image=sums["pixels"] / opened,
            slowest=tuple((file, ns / 1e9) for file, ns in slowest),
            file=self.file,
        )

    def validation(self) -> ValidationStats | None:
        """The parts of the validations during training; None without one."""
        runs = self._validations
        if not runs:
            return None
        mean_s = {part: sum(ns[part] for _, ns in runs) / len(runs) / 1e9 for part in VAL_PARTS}
        return ValidationStats(len(runs), runs[-1][0], mean_s, self.file)

    def device(self) -> DeviceStats | None:
        """Times on the GPU; None without CUDA events."""
        # Every step has one forward pass; its share of all laps says how many steps they are.
        kinds = max(len(self._steps), 1)
        if not self._device_laps:
            return None
        get = self._alloc.get
        return DeviceStats(
            mean_s={stage: ms / kinds / 1e3 for stage, ms in self._device_ms.items()},
            steps=kinds,
            allocated_bytes=get("allocated", 0),
            reserved_bytes=get("reserved", 0),
            peak_bytes=get("peak", 0),
            alloc_retries=get("retries", 0),
            file=self.file,
        )

    def feed(self, lines: Iterable[bytes]) -> "TraceSummary":
        """Take lines in; one that is no record of a known shape is counted and left out."""
        decode_laps, decode = msgspec.json.Decoder(_Laps).decode, msgspec.json.Decoder().decode
        decode_loader = msgspec.json.Decoder(_Loader, strict=False).decode
        for line in lines:
            try:
                if line.startswith(b'{"k":"laps"'):
                    laps = decode_laps(line)
                    self._laps(laps.e, laps.n, laps.t, laps.l)
                elif line.startswith(b'{"k":"loader"'):
                    self._on_loader(decode_loader(line))
                elif line.strip():
                    self._other(decode(line))
            except _BROKEN:
                self._odd(line, decode)
        return self

    def _odd(self, line: bytes, decode: Any) -> None:
        """A line that the quick way does not know: laps with more fields, from a newer recorder, or a broken one."""
        try:
            record = decode(line)
            laps = [(str(name), int(ns)) for name, ns, *_ in record["l"]] if record["k"] == "laps" else None
            if laps is None or abs(int(record.get("t", 0))) >= 2**62 or not all(0 <= ns < _DAY_NS for _, ns in laps):
                raise ValueError("broken")
            self._laps(int(record.get("e", -1)), int(record.get("n", -1)), int(record.get("t", 0)), laps)
        except _BROKEN:
            self.lost_lines += 1

    def _laps(self, epoch: int, step: int, start_ns: int, laps: list[tuple[str, int]]) -> None:
        if not laps:
            return
        names, ns = zip(*laps, strict=True)
        self.records += 1
        if step < 0:
            self._between.add(epoch, names, ns)
            return
        self._steps.add(epoch, names, ns)
        if self._first_epoch is None:
            self._first_epoch = epoch
        elif epoch != self._first_epoch and not self._steady_from_ns:
            self._steady_from_ns = start_ns
        self._steps_until_ns = start_ns + sum(ns)

    def _other(self, record: Mapping[str, Any]) -> None:
        match record["k"]:
            case "device":
                ms = {_STAGES.get(name, Stage.OTHER): float(value) for name, value in record["ms"].items()}
                self._device_laps += _count(record["laps"])
                for stage, value in ms.items():
                    self._device_ms[stage] += value
            case "alloc":
                self._alloc = {name: _count(record[name]) for name in ("allocated", "reserved", "peak", "retries")}
            case "val":
                parts = {part: _count(record["ns"][part]) for part in VAL_PARTS}
                if record["final"] is False:
                    self._validations.append((_count(record["images"]), parts))
            case "laps" | "loader":
                raise ValueError("written in another way")
            case _:
                pass  # marks, and kinds from a newer recorder
        self.records += 1

    def _on_loader(self, record: _Loader) -> None:
        sums = self._loader
        for name in _COUNTS:
            sums[name] += getattr(record, name)
        for name in PARTS:
            sums[name] += getattr(record.ns, name)
        for id, (images, ns) in record.workers.items():
            worker = self._workers[id]
            worker[0] += images
            worker[1] += ns
        slowest = self._slowest
        for file, ns in record.slow:
            if ns > self._slow_floor_ns:
                slowest[file] = max(ns, slowest.get(file, 0))
                if len(slowest) > 100:
                    self._slowest = slowest = dict(sorted(slowest.items(), key=lambda item: -item[1])[:SLOWEST])
                    self._slow_floor_ns = min(slowest.values())
        self.records += 1


def _count(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < 10**18:
        raise ValueError("a count")
    return value


def summarize(path: Path, *, name: str = "") -> TraceSummary:
    """Read one rank's trace; raises UnreadableError when it holds no record at all."""
    summary = TraceSummary(name or path.name)
    try:
        if not path.is_file():
            raise UnreadableError("not a regular file")
        if path.stat().st_size > MAX_TRACE_BYTES:
            raise UnreadableError(f"larger than {MAX_TRACE_BYTES >> 20} MiB")
        with path.open("rb") as file:
            summary.feed(file)
    except OSError as error:
        raise UnreadableError(error.strerror or type(error).__name__) from error
    if not summary.records:
        raise UnreadableError("no record in it" if summary.lost_lines else "empty")
    return summary
