"""A run as TensorBoard events: stage times, shares, the machine, curves, findings. Torch is not needed."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from diag.load.counters import parse_counters, rates
from diag.load.read import MAX_TRACE_BYTES, UnreadableError, read_bytes
from diag.load.trace import read_trace
from diag.model.evidence import Evidence
from diag.model.finding import Report
from diag.model.trace import STEP_STAGES, Lap, Trace
from diag.render import words

FOLDER = "tensorboard"
MAX_POINTS = 2000
"""Points of one curve: longer ones are shown as means of equal parts."""

Point = tuple[float, int, float]
"""Wall-clock seconds, step, value."""


def export(run_dir: Path, evidence: Evidence, report: Report, *, lang: str = "en") -> Path:
    """Write RUN/tensorboard/ anew and return the event file. Raises ImportError without tensorboard, OSError."""
    from tensorboard.compat.proto.event_pb2 import Event  # late: over a second, and a torch-free stack may lack it
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    trace = _read_trace(run_dir)
    start_s, offset_s = _clock(trace)
    folder = run_dir / FOLDER
    folder.mkdir(exist_ok=True)
    name = f"events.out.tfevents.{int(start_s)}.diag"
    part = folder / f".{name}.part"
    with part.open("wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(wall_time=start_s, file_version="brain.Event:2").SerializeToString())
        for tag, points in _curves(run_dir, evidence, trace, start_s, offset_s):
            for wall, step, value in thin(points):
                summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
                writer.write(Event(wall_time=wall, step=step, summary=summary).SerializeToString())
        for tag, markdown in _texts(report, lang):
            summary = Summary(value=[_text(Summary, tag, markdown)])
            writer.write(Event(wall_time=start_s, summary=summary).SerializeToString())
        writer.flush()
    for old in folder.glob("events.out.tfevents.*.diag"):
        old.unlink()
    return part.replace(folder / name)


def thin(points: Sequence[Point], *, limit: int = MAX_POINTS) -> list[Point]:
    """At most `limit` points: means of equal parts, each at the place of its last point."""
    size = -(-len(points) // limit) if points else 1
    parts = [points[i : i + size] for i in range(0, len(points), size)]
    return [(part[-1][0], part[-1][1], sum(value for *_, value in part) / len(part)) for part in parts]


def _read_trace(run_dir: Path) -> Trace | None:
    with suppress(UnreadableError):
        return read_trace(run_dir / "trace" / "rank0.jsonl")
    return None


def _clock(trace: Trace | None) -> tuple[float, float]:
    """Wall-clock seconds of the run's start, and what must be added to monotonic seconds to get the wall clock."""
    start = next((mark for mark in trace.marks if mark.name == "start"), None) if trace else None
    try:
        wall = datetime.fromisoformat(str(start.values.get("wall"))).timestamp() if start else time.time()
    except ValueError:
        wall = time.time()
    return wall, wall - (start.t_ns / 1e9 if start else 0.0)


def _curves(
    run_dir: Path, evidence: Evidence, trace: Trace | None, start_s: float, offset_s: float
) -> Iterator[tuple[str, list[Point]]]:
    if trace is not None:
        yield from _step_curves(trace.laps, offset_s)
        yield from _share_curves(trace.laps, offset_s)
    yield from _machine_curves(run_dir / "trace" / "counters.jsonl", start_s, offset_s)
    if evidence.epochs is not None:
        seconds = evidence.epochs.column("time")
        for column in evidence.epochs.columns:
            if column in {"epoch", "time"}:
                continue
            values = zip(evidence.epochs.rows, seconds, evidence.epochs.column(column), strict=True)
            yield column, [(start_s + (t if t == t else 0.0), int(r.epoch), v) for r, t, v in values if v == v]  # noqa: PLR0124


def _step_curves(laps: Iterable[Lap], offset_s: float) -> Iterator[tuple[str, list[Point]]]:
    """Seconds of each stage by batch."""
    steps: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    ends: dict[int, int] = {}
    for lap in laps:
        if lap.step >= 0 and lap.stage in STEP_STAGES:
            steps[lap.step][lap.stage.value] += lap.ns / 1e9
            ends[lap.step] = lap.end_ns
    for stage in STEP_STAGES:
        points = [(offset_s + ends[n] / 1e9, n, seconds.get(stage.value, 0.0)) for n, seconds in steps.items()]
        if any(value for *_, value in points):
            yield f"step_seconds/{stage.value}", points
    yield "step_seconds/all", [(offset_s + ends[n] / 1e9, n, sum(seconds.values())) for n, seconds in steps.items()]


def _share_curves(laps: Iterable[Lap], offset_s: float) -> Iterator[tuple[str, list[Point]]]:
    """Share of each stage in the time of an epoch's batches."""
    epochs: dict[int, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    ends: dict[int, int] = {}
    for lap in laps:
        if lap.step >= 0 and lap.epoch >= 0 and lap.stage in STEP_STAGES:
            epochs[lap.epoch][lap.stage.value] += lap.ns
            ends[lap.epoch] = lap.end_ns
    for stage in STEP_STAGES:
        points = []
        for epoch, ns in epochs.items():
            whole = sum(ns.values())
            points.append((offset_s + ends[epoch] / 1e9, epoch + 1, ns.get(stage.value, 0.0) / whole if whole else 0.0))
        if any(value for *_, value in points):
            yield f"share_of_step/{stage.value}", points


def _machine_curves(path: Path, start_s: float, offset_s: float) -> Iterator[tuple[str, list[Point]]]:
    """Every counter by seconds since the run's start; cumulative ones as rates."""
    try:
        columns, *_ = parse_counters(read_bytes(path, limit=MAX_TRACE_BYTES))
    except UnreadableError:
        return
    for name, (times, values) in columns.items():
        plain, at, shown = name, list(times), list(values)
        if name.endswith("_total"):
            plain = name.removesuffix("_total") + "_per_s"
            at, shown, _ = rates(times, values)
        walls = [offset_s + t for t in at]
        yield f"machine/{plain}", [(w, round(w - start_s), v) for w, v in zip(walls, shown, strict=True)]


def _texts(report: Report, lang: str) -> Iterator[tuple[str, str]]:
    """Each finding as a Markdown text, the primary one first."""
    if not report.findings:
        yield "findings", words.headline(report, lang)
    for number, finding in enumerate(report.findings, 1):
        told = words.story(finding, lang)
        lines = [f"**{told.title}** ({finding.severity}, `{finding.id}`)", told.cause]
        lines += [f"- {advice.sentence} {advice.change}".rstrip() for advice in told.advice]
        yield f"findings/{number:02d}_{finding.id}", "\n\n".join(lines)


def _text(summary: Any, tag: str, markdown: str) -> Any:
    """A value of the text plugin."""
    from tensorboard.compat.proto.summary_pb2 import SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    tensor = TensorProto(dtype="DT_STRING", string_val=[markdown.encode()], tensor_shape=shape)
    plugin = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    return summary.Value(tag=tag, metadata=plugin, tensor=tensor)
