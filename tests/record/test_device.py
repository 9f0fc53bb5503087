"""The GPU's clock with a double of torch.cuda: nothing is waited for, nothing is lost, nothing hurts training."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from diag.load.summary import TraceSummary
from diag.model.trace import Stage
from diag.record.device import ALLOCATOR_EVERY, MAX_PENDING, DeviceClock
from diag.record.recorder import Recorder
from tests.record.test_recorder import Clock, FakeTrainer


class FakeEvent:
    def __init__(self, gpu: "FakeCuda") -> None:
        self.gpu, self.at, self.reads = gpu, -1.0, 0

    def record(self, stream: Any) -> None:
        assert stream == "stream of cuda:0"
        self.gpu.queued += 10.0  # the work before this event takes the GPU 10 ms
        self.at = self.gpu.queued

    def query(self) -> bool:
        return self.at <= self.gpu.done

    def elapsed_time(self, end: "FakeEvent") -> float:
        assert self.query()
        assert end.query()
        return end.at - self.at

    def synchronize(self) -> None:
        raise AssertionError("never wait for the GPU")


class FakeCuda:
    """A GPU that has done the work up to `done` ms; it is up to date unless a test holds it back."""

    def __init__(self, *, behind: float = 0.0) -> None:
        self.queued, self.behind, self.made = 0.0, behind, 0
        self.broken = False

    @property
    def done(self) -> float:
        return self.queued - self.behind

    def Event(self, *, enable_timing: bool) -> FakeEvent:
        assert enable_timing
        self.made += 1
        return FakeEvent(self)

    def current_stream(self, device: Any) -> str:
        if self.broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return f"stream of {device}"

    def memory_stats(self, device: Any) -> Mapping[str, int]:
        return {"allocated_bytes.all.current": 5, "reserved_bytes.all.current": 7, "num_alloc_retries": 1}


def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuda: FakeCuda) -> Recorder:
    monkeypatch.setenv("DIAG_T0_NS", "0")
    made = Recorder(str(tmp_path), 0, Clock())
    made.watch_device(cuda, "cuda:0")
    return made


def records(folder: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "trace" / "rank0.jsonl").read_text().splitlines()]
    return [line for line in lines if line["k"] == kind]


def test_each_lap_of_a_batch_has_its_time_on_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = recorder(tmp_path, monkeypatch, FakeCuda())
    trainer = FakeTrainer(made)
    trainer.epoch(0, [True, False, True])  # a validation in between is no lap of a batch
    trainer.epoch(1, [True])
    made.end("finished")
    ms: dict[str, float] = {}
    for record in records(tmp_path, "device"):
        for stage, value in record["ms"].items():
            ms[stage] = ms.get(stage, 0.0) + value
    assert ms == {"data_wait": 40, "transfer": 40, "forward": 40, "backward": 40, "optimizer": 30, "log": 40}
    stats = TraceSummary("t").feed((tmp_path / "trace/rank0.jsonl").read_bytes().splitlines()).device()
    assert stats is not None
    assert stats.mean_s[Stage.FORWARD] == pytest.approx(0.010)
    assert (stats.allocated_bytes, stats.reserved_bytes, stats.alloc_retries) == (5, 7, 1)


def test_a_gpu_that_is_behind_is_read_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(behind=1000.0)
    made = recorder(tmp_path, monkeypatch, cuda)
    trainer = FakeTrainer(made)
    trainer.epoch(0, [True] * 3)
    assert records(tmp_path, "device") == []
    cuda.behind = 0.0
    trainer.epoch(1, [True])
    made.end("finished")
    assert sum(r["laps"] for r in records(tmp_path, "device")) == 4 * 6


def test_events_are_used_again() -> None:
    cuda = FakeCuda()
    clock = DeviceClock(cuda, "cuda:0", lambda kind, values: None)
    clock.restart()
    for n in range(1000):
        clock.lap(Stage.FORWARD)
        clock.batch_end(n)
    assert cuda.made < 5


def test_a_gpu_that_hangs_does_not_fill_the_memory() -> None:
    written: list[Mapping[str, Any]] = []
    cuda = FakeCuda(behind=1e9)
    clock = DeviceClock(cuda, "cuda:0", lambda kind, values: written.append(values))
    for _ in range(MAX_PENDING + 10):
        clock.lap(Stage.FORWARD)
    cuda.behind = 0.0
    clock.batch_end(0)
    clock.flush(1)
    assert (written[-1]["laps"], written[-1]["dropped"]) == (MAX_PENDING, 9)


def test_the_allocator_is_asked_now_and_then() -> None:
    kinds: list[str] = []
    clock = DeviceClock(FakeCuda(), "cuda:0", lambda kind, values: kinds.append(kind))
    for n in range(2 * ALLOCATOR_EVERY + 1):
        clock.batch_end(n)
    assert kinds == ["alloc"] * 3


def test_a_broken_gpu_stops_its_clock_once_and_not_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cuda = FakeCuda()
    trainer = FakeTrainer(recorder(tmp_path, monkeypatch, cuda))
    cuda.broken = True
    trainer.epoch(0, [True] * 5)
    assert capsys.readouterr().err.count("the GPU's clock stopped") == 1
    assert len(records(tmp_path, "laps")) > 5


def test_without_cuda_nothing_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIAG_T0_NS", "0")
    FakeTrainer(Recorder(str(tmp_path), 0, Clock())).epoch(0, [True] * 3)
    assert records(tmp_path, "device") == records(tmp_path, "alloc") == []
