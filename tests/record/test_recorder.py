"""The recorder, driven by a double that fires the training loop's boundaries in their true order."""

import copy
import json
import pickle
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from diag.model.trace import Stage
from diag.record.clock import StageClock
from diag.record.recorder import Recorder


class Clock:
    """Time that passes by one millisecond a look."""

    def __init__(self) -> None:
        self.t = 0

    def __call__(self) -> int:
        self.t += 1_000_000
        return self.t


class FakeTrainer:
    """Fires what a real trainer fires. `steps` says for each batch whether it makes an optimizer step."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def batch(self, *, step: bool, batches: int = 3) -> None:
        self.recorder.batch_start()
        self.recorder.transferred()
        self.recorder.forward_done()
        self.recorder.backward_done()
        if step:
            self.recorder.optimizer_done()
        self.recorder.backward_done()  # the progress bar asks for the memory
        self.recorder.batch_end(2, batches)

    def epoch(self, number: int, steps: list[bool]) -> None:
        self.recorder.epoch_start(number, 8)
        for step in steps:
            self.batch(step=step)
        self.recorder.between()  # on_train_epoch_end
        self.recorder.between()
        self.recorder.between(Stage.VALIDATE)
        self.recorder.between()
        self.recorder.between(Stage.CHECKPOINT)
        self.recorder.between()  # on_fit_epoch_end


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setenv("DIAG_T0_NS", "0")
    monkeypatch.setenv("DIAG_RUN_DIR", str(tmp_path))
    return Recorder(str(tmp_path), 0, Clock())


def records(folder: Path, rank: int = 0) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "trace" / f"rank{rank}.jsonl").read_text().splitlines()]


def laps(folder: Path) -> list[tuple[str, int, int, int]]:
    """(stage, start, end, step) of all laps."""
    found = []
    for record in records(folder):
        if record["k"] == "laps":
            start = record["t"]
            for stage, ns in record["l"]:
                found.append((stage, start, start + ns, record["n"]))
                start += ns
    return found


def test_laps_touch_and_sum_to_the_wall_clock(recorder: Recorder, tmp_path: Path) -> None:
    trainer = FakeTrainer(recorder)
    recorder.between(Stage.STARTUP)
    trainer.epoch(0, [True, False, True])
    trainer.epoch(1, [False, False, False])
    recorder.final_eval()
    recorder.between()
    recorder.end("finished")
    found = laps(tmp_path)
    assert all(a[2] == b[1] for a, b in pairwise(found))
    assert found[0][1] == 0
    assert sum(end - start for _, start, end, _ in found) == found[-1][2]
    assert {stage for stage, *_ in found} >= {
        "startup",
        "data_wait",
        "backward",
        "validate",
        "checkpoint",
        "final_eval",
    }


def test_a_batch_without_an_optimizer_step_has_none(recorder: Recorder, tmp_path: Path) -> None:
    trainer = FakeTrainer(recorder)
    trainer.recorder.epoch_start(0, 8)
    trainer.batch(step=True)
    trainer.batch(step=False)
    by_step = {n: [s for s, _, _, step in laps(tmp_path) if step == n] for n in (0, 1)}
    assert by_step[0] == ["data_wait", "transfer", "forward", "backward", "optimizer", "log"]
    assert by_step[1] == ["data_wait", "transfer", "forward", "backward", "log"]


def test_train_log_has_the_classic_line_a_batch(recorder: Recorder, tmp_path: Path) -> None:
    trainer = FakeTrainer(recorder)
    trainer.epoch(0, [True, False, True])
    lines = (tmp_path / "train.log").read_text().splitlines()
    form = (
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \| INFO \| diag\.record \| epoch 1/2 batch (\d)/3 \| "
        r"dataloader: (\d+\.\d{3})s, model: (\d+\.\d{3})s, optimizer: (\d+\.\d{3})s"
    )
    matches = [re.fullmatch(form, line) for line in lines]
    assert [m.groups() for m in matches if m] == [
        ("1", "0.001", "0.003", "0.001"),
        ("2", "0.001", "0.003", "0.000"),
        ("3", "0.001", "0.003", "0.001"),
    ]
    assert re.search(r"dataloader: ([\d.]+)s", lines[0])


def test_an_oom_retry_leaves_no_gap_and_a_mark(recorder: Recorder, tmp_path: Path) -> None:
    trainer = FakeTrainer(recorder)
    recorder.epoch_start(0, 16)
    trainer.batch(step=True)
    recorder.batch_start()  # out of memory in forward: no batch end, the epoch starts over with half the batch
    recorder.transferred()
    trainer.epoch(0, [True, True, True])
    found = laps(tmp_path)
    assert all(a[2] == b[1] for a, b in pairwise(found))
    marks = [r for r in records(tmp_path) if r["k"] == "mark"]
    assert [(m["m"], m["v"]) for m in marks] == [("oom_retry", {"epoch": 0, "batch": 8})]
    assert len((tmp_path / "train.log").read_text().splitlines()) == 4


def test_an_exception_in_a_batch_is_closed_and_named(recorder: Recorder, tmp_path: Path) -> None:
    recorder.epoch_start(0, 8)
    recorder.batch_start()
    recorder.end("RuntimeError")
    assert records(tmp_path)[-1] == {
        "k": "mark",
        "m": "end",
        "t": records(tmp_path)[-1]["t"],
        "v": {"reason": "RuntimeError"},
    }


def test_plots_are_their_own_stage_in_a_batch_and_between(recorder: Recorder, tmp_path: Path) -> None:
    recorder.plot_start()  # labels, before training
    recorder.plotted()
    recorder.epoch_start(0, 8)
    recorder.batch_start()
    recorder.transferred()
    recorder.forward_done()
    recorder.plot_start()  # a batch without an optimizer step: this is the first boundary after backward
    recorder.plotted()
    recorder.batch_end(1, 1)
    found = [(stage, step) for stage, _, _, step in laps(tmp_path)]
    assert found[:3] == [("startup", -1), ("plot", -1), ("startup", -1)]
    assert found[3:] == [(s, 0) for s in ("data_wait", "transfer", "forward", "backward", "log", "plot", "log")]


def test_only_rank_0_writes_train_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIAG_T0_NS", "0")
    FakeTrainer(Recorder(str(tmp_path), 1, Clock())).epoch(0, [True])
    assert (tmp_path / "trace" / "rank1.jsonl").exists()
    assert not (tmp_path / "train.log").exists()


def test_it_pickles_and_copies_without_open_files(recorder: Recorder) -> None:
    FakeTrainer(recorder).epoch(0, [True])
    assert isinstance(pickle.loads(pickle.dumps(recorder)), Recorder)
    assert copy.deepcopy({"r": recorder})["r"] is recorder


def test_a_full_disk_stops_recording_once_and_training_goes_on(
    recorder: Recorder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trace").write_text("a file where a folder must be")
    FakeTrainer(recorder).epoch(0, [True, True, True])
    assert capsys.readouterr().err.count("recording stopped") == 1


def test_the_clock_gives_every_nanosecond_to_one_stage() -> None:
    clock = StageClock(0, Clock())
    assert clock.lap(Stage.DATA_WAIT) == 1_000_000
    clock.lap(Stage.FORWARD)
    assert clock.take() == (0, [(Stage.DATA_WAIT, 1_000_000), (Stage.FORWARD, 1_000_000)])
    clock.lap(Stage.LOG)
    assert clock.take() == (2_000_000, [(Stage.LOG, 1_000_000)])


def test_a_run_that_goes_on_ends_the_half_line_of_the_killed_one(tmp_path: Path) -> None:
    trace = tmp_path / "trace" / "rank0.jsonl"
    trace.parent.mkdir()
    trace.write_text('{"k":"mark","m":"end","t":1,"v":{}}\n{"k":"laps","e":0,"n":')
    recorder = Recorder(str(tmp_path), 0, Clock())
    recorder.resumed(12)
    recorder.epoch_start(2, 4)
    recorder.batch_start()
    recorder.batch_end(3, 6)
    recorder.end("finished")
    first, half, *rest = trace.read_text().splitlines()
    assert first.endswith("}")
    assert half == '{"k":"laps","e":0,"n":'
    assert [json.loads(line)["n"] for line in rest if '"k":"laps"' in line and '"n":-1' not in line] == [12]
