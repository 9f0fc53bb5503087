"""What breaks other recorders: each trap of Ultralytics' training loop, with the real trainer on the CPU."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from diag.load.summary import summarize
from diag.record.recorder import Recorder
from tests.record.training import MS, Run, Time, fit, old_release

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ultralytics: Any) -> None:
    monkeypatch.setenv("DIAG_RUN_DIR", str(tmp_path))
    monkeypatch.delenv("DIAG_T0_NS", raising=False)


def profiled(task: str = "detect") -> Any:
    from diag.record.trainer import _TRAINERS

    return _TRAINERS[task]


def plain(task: str) -> Any:
    return profiled(task).__mro__[3]


@pytest.mark.parametrize("task", ["detect", "segment", "classify"])
def test_losses_are_the_same_bit_for_bit_and_nothing_is_other(tmp_path: Path, task: str) -> None:
    without = fit(tmp_path / "without", plain(task), task=task)
    run = fit(tmp_path, profiled(task), task=task)
    assert run.losses == without.losses
    assert len(run.losses) == 2
    run.assert_gapless()
    assert run.ledger["other"] < 0.005 * run.ledger.total()
    assert run.records("loader")
    assert all(record["bytes"] > 0 and record["ns"] > 0 for record in run.records("save"))
    assert len(run.records("save")) == 2
    assert [record["final"] for record in run.records("val")] == [False, False, True]


def test_real_workers_time_themselves_and_change_nothing(tmp_path: Path) -> None:
    def two_workers(trainer: Any) -> None:
        trainer.args.workers = 2  # the constructor has set it to 0, as always on the CPU

    without = fit(tmp_path / "without", plain("detect"), prepare=two_workers)
    run = fit(tmp_path, profiled(), prepare=two_workers)
    assert run.losses == without.losses
    workers = {id for record in run.records("loader") for id in record["workers"]}
    assert workers
    assert workers <= {"0", "1"}  # one of them on a machine with a single CPU
    assert sum(record["images"] for record in run.records("loader")) == 2 * 8


def test_the_parts_of_a_validation_fill_its_lap(tmp_path: Path) -> None:
    run = fit(tmp_path, profiled(), epochs=1)
    parts = sum(run.records("val")[0]["ns"].values())
    assert run.ledger["validate"] * 0.98 <= parts <= run.ledger["validate"]


def test_accumulation_leaves_batches_without_an_optimizer_step(tmp_path: Path) -> None:
    run = fit(tmp_path, profiled(), nbs=64, batch=2, epochs=3, warmup_epochs=1)
    assert len(run.steps) == 3 * 4
    assert 0 < sum("optimizer" in step for step in run.steps) < 9
    assert all({"data_wait", "transfer", "forward", "backward", "log"} <= step.keys() for step in run.steps)
    run.assert_gapless()


def test_an_out_of_memory_retry_keeps_the_loaders_times(tmp_path: Path) -> None:
    class Trainer(profiled()):  # type: ignore[misc]
        failed = False

        def preprocess_batch(self, batch: Any) -> Any:
            batch = super().preprocess_batch(batch)
            if not self.failed:
                self.failed = True
                raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
            return batch

    if old_release():
        pytest.skip("not run: 8.3.9 does not retry after out of memory")
    run = fit(tmp_path, Trainer)
    assert [(name, values) for name, values in run.marks if name == "oom_retry"] == [
        ("oom_retry", {"epoch": 0, "batch": 2})
    ]
    run.assert_gapless()
    assert sum(record["images"] for record in run.records("loader")) == 4 + 2 * 8  # the lost batch, then two epochs
    summary = summarize(tmp_path / "trace/rank0.jsonl")
    steps = summary.steps()
    assert steps is not None
    assert steps.steps == 2 * 4  # of two; the batch that failed is no step


def test_a_recovered_nan_epoch_leaves_a_mark_though_no_row_tells(tmp_path: Path) -> None:
    class Trainer(profiled()):  # type: ignore[misc]
        poisoned = False

        def _handle_nan_recovery(self, epoch: int) -> bool:
            if epoch == 1 and not self.poisoned:
                self.poisoned = True
                self.loss = torch.tensor(float("nan"))
            return bool(super()._handle_nan_recovery(epoch))

    if old_release():
        pytest.skip("not run: 8.3.9 does not recover from NaN")
    run = fit(tmp_path, Trainer, epochs=3)
    assert ("nan_recovery", {"epoch": 1}) in run.marks
    assert len(run.losses) == 3
    assert len(run.steps) == 4 * 2  # epoch 1 twice
    run.assert_gapless()


def test_the_trainer_class_and_what_it_owns_travel_to_other_processes(tmp_path: Path) -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    seen: list[Any] = []

    def copies(trainer: Any) -> None:
        seen.append(copy.deepcopy(trainer.ema.ema))
        seen.append(copy.deepcopy(trainer.model))
        seen.append(pickle.loads(pickle.dumps(trainer._diag)))
        seen.append(pickle.loads(cloudpickle.dumps(type(trainer))))
        seen.append(pickle.loads(cloudpickle.dumps(trainer.validator.args)))
        seen.append(pickle.loads(pickle.dumps(trainer.train_loader.dataset)))

    fit(tmp_path, profiled(), epochs=1, prepare=lambda t: t.add_callback("on_train_epoch_end", copies))
    assert isinstance(seen[2], Recorder)
    assert seen[3] is profiled()
    assert len(seen) == 6


def test_a_resumed_run_goes_on_in_the_same_trace(tmp_path: Path) -> None:
    def stop(trainer: Any) -> None:
        if trainer.epoch == 0 and trainer.last.exists():
            raise KeyboardInterrupt

    first = fit(
        tmp_path,
        profiled(),
        epochs=3,
        prepare=lambda t: t.add_callback("on_fit_epoch_end", stop),
        expect=KeyboardInterrupt,
    )
    assert first.marks[-1] == ("end", {"reason": "KeyboardInterrupt"})
    last = tmp_path / "ultralytics" / "weights" / "last.pt"
    fit(tmp_path, profiled(), model=str(last), resume=str(last), epochs=3)
    run = Run(tmp_path, None)
    assert [record["e"] for record in run.records("laps") if record["n"] >= 0] == [0, 0, 1, 1, 2, 2]
    assert len(run.records("start")) == 2
    assert len(run.losses) == 3
    steps = summarize(tmp_path / "trace/rank0.jsonl").steps()
    assert steps is not None
    assert steps.steps == 6


def test_time_lands_where_it_is_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from diag.record import loader

    old = old_release()
    time = Time()
    monkeypatch.setattr(loader, "_now", time)
    monkeypatch.setattr(Recorder, "from_environment", classmethod(lambda cls: cls(str(tmp_path), 0, time)))
    images = {"cv2.imread": 3 + 5} if old else {"numpy.fromfile": 3, "cv2.imdecode": 5}
    for place, ms in {
        **images,
        "ultralytics.data.augment.Format.__call__": 7,
        "ultralytics.models.yolo.detect.DetectionTrainer.preprocess_batch": 11,
        "torch.Tensor.backward": 17,
        "ultralytics.engine.trainer.BaseTrainer.optimizer_step": 19,
        "ultralytics.models.yolo.detect.DetectionValidator.postprocess": 23,
        "ultralytics.models.yolo.detect.DetectionValidator.update_metrics": 29,
        "ultralytics.engine.trainer.BaseTrainer.save_model": 31,
    }.items():
        time.before(monkeypatch, place, ms)
    time.before(monkeypatch, "ultralytics.nn.tasks.BaseModel.loss", 13, training=True)

    def callback(trainer: Any) -> None:
        time.t += 37 * MS

    def between(trainer: Any) -> None:
        time.t += 41 * MS

    def prepare(trainer: Any) -> None:
        trainer.add_callback("on_train_batch_end", callback)
        trainer.add_callback("on_train_epoch_end", between)
        time.t = 0  # what was read while the trainer was built is not of interest here

    run = fit(tmp_path, profiled(), prepare=prepare, mosaic=0.0, nbs=4, epochs=2)
    steps = [{stage: ns // MS for stage, ns in step.items()} for step in run.steps]
    for step in steps[:2]:  # four images each, read for the first time
        assert step == {
            "data_wait": 4 * (3 + 5 + 7), "transfer": 11, "forward": 13, "backward": 17, "optimizer": 19, "log": 37,
        }  # fmt: skip
    assert run.ledger["checkpoint"] == 2 * 31 * MS
    assert run.ledger["epoch_gap"] == 2 * 41 * MS
    first = run.records("loader")[0]
    assert {part: ns // MS for part, ns in first["ns"].items()} == {
        "read": 0 if old else 8 * 3, "decode": 8 * 8 if old else 8 * 5, "augment": 8 * 7, "collate": 0,
    }  # fmt: skip
    validations = run.records("val")
    assert validations[0]["ns"]["postprocess"] == 23 * MS
    assert validations[0]["ns"]["metrics"] == 29 * MS
    assert run.ledger["validate"] == sum(sum(v["ns"].values()) for v in validations if not v["final"])
    assert "other" not in run.ledger
