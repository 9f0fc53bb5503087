"""A trace as sums: one pass over the file, no object per lap, so that a million steps load in seconds."""

import gc
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from diag.load.read import MAX_TRACE_BYTES, UnreadableError
from diag.load.trace_lines import DAY_NS, MAX_NS, KnownLaps, Laps, LoaderSums
from diag.model.evidence import DeviceStats, Ledger, LoaderStats, SaveStats, StepStats, ValidationStats
from diag.model.trace import Stage
from diag.stats import StepTable, ledger

_STAGES = {stage.value: stage for stage in Stage}
_BROKEN = (
    msgspec.DecodeError, AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError,
)  # fmt: skip
_LAPS = b'{"k":"laps"'
BATCH = 2048
"""Lines that are taken together: what is done once per batch costs nothing, and a batch is below a megabyte."""
READ_BYTES = 256 * 1024
SLOWEST = 5
"""Slowest files that are kept."""
VAL_PARTS = ("setup", "wait", "preprocess", "inference", "loss", "postprocess", "metrics", "plots")
PARTS = ("read", "decode", "augment", "collate")


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
        self._saves = (0, 0, 0)
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

    def saves(self) -> SaveStats | None:
        """The writing of checkpoints; None when none was timed."""
        count, ns, size = self._saves
        return SaveStats(count, ns / 1e9, size, self.file) if count else None

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
        decode_many = msgspec.json.Decoder(KnownLaps).decode_lines
        rest = iter(lines)
        with _no_garbage_collector():
            self._batches(rest, decode_many)
        return self

    def _batches(self, rest: Iterator[bytes], decode_many: Any) -> None:
        while batch := list(islice(rest, BATCH)):
            laps = [line for line in batch if line.startswith(_LAPS)]
            if not self._many(laps, decode_many):
                self._each(laps)
            if len(laps) < len(batch):
                self._each([line for line in batch if not line.startswith(_LAPS)])

    def _each(self, lines: Iterable[bytes]) -> None:
        """One after the other: every kind, odd and broken ones, too."""
        decode_laps, decode = msgspec.json.Decoder(Laps).decode, msgspec.json.Decoder().decode
        decode_loader = msgspec.json.Decoder(LoaderSums, strict=False).decode
        for line in lines:
            try:
                if line.startswith(_LAPS):
                    laps = decode_laps(line)
                    self._laps(laps.e, laps.n, laps.t, laps.l)
                elif line.startswith(b'{"k":"loader"'):
                    self._on_loader(decode_loader(line))
                elif line.strip():
                    self._other(decode(line))
            except _BROKEN:
                self._odd(line, decode)

    def _many(self, lines: Sequence[bytes], decode_many: Any) -> bool:
        """Many laps at once; False, and nothing is taken, unless all are as this release writes them."""
        try:
            records = decode_many(b"\n".join(lines))
        except _BROKEN:
            return False
        if len(records) != len(lines):  # two records on one line: broken
            return False
        steps = [record for record in records if record.n >= 0 and record.l]
        if not self._steps.add_many([record.e for record in steps], [record.l for record in steps]):
            return False
        for record in records:
            if record.n < 0:
                self._laps(record.e, record.n, record.t, record.l)
        if not steps:
            return True
        self.records += len(steps)
        if self._first_epoch is None:
            self._first_epoch = steps[0].e
        if not self._steady_from_ns:
            self._steady_from_ns = next((r.t for r in steps if r.e != self._first_epoch), 0)
        self._steps_until_ns = steps[-1].t + sum(ns for _, ns in steps[-1].l)
        return True

    def _odd(self, line: bytes, decode: Any) -> None:
        """A line that the quick way does not know: laps with more fields, from a newer recorder, or a broken one."""
        try:
            record = decode(line)
            laps = [(str(name), int(ns)) for name, ns, *_ in record["l"]] if record["k"] == "laps" else None
            if laps is None or abs(int(record.get("t", 0))) >= MAX_NS or not all(0 <= ns < DAY_NS for _, ns in laps):
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
            case "save":
                ns, size = _count(record["ns"]), _count(record["bytes"])
                self._saves = (self._saves[0] + 1, self._saves[1] + ns, self._saves[2] + size)
            case "laps" | "loader":
                raise ValueError("written in another way")
            case _:
                pass  # marks, and kinds from a newer recorder
        self.records += 1

    def _on_loader(self, record: LoaderSums) -> None:
        sums, parts = self._loader, record.ns
        sums["b"] += record.b
        sums["images"] += record.images
        sums["loads"] += record.loads
        sums["hits"] += record.hits
        sums["opened"] += record.opened
        sums["bytes"] += record.bytes
        sums["pixels"] += record.pixels
        sums["read"] += parts.read
        sums["decode"] += parts.decode
        sums["augment"] += parts.augment
        sums["collate"] += parts.collate
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


@contextmanager
def _no_garbage_collector() -> Iterator[None]:
    """Decoded records hold no cycles, yet the search for some took more time than all the rest of reading them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


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
        with path.open("rb", buffering=READ_BYTES) as file:
            summary.feed(file)
    except OSError as error:
        raise UnreadableError(error.strerror or type(error).__name__) from error
    if not summary.records:
        raise UnreadableError("no record in it" if summary.lost_lines else "empty")
    return summary
