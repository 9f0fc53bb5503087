"""The validation clock, driven by a double of Ultralytics' validator."""

import pickle
from types import SimpleNamespace
from typing import Any

from diag.record.validation import PARTS, ValidationClock

MS = 1_000_000


class Time:
    """A clock that passes only when work is done."""

    def __init__(self) -> None:
        self.t = 0

    def __call__(self) -> int:
        return self.t

    def work(self, ms: int) -> None:
        self.t += ms * MS


class Validator:
    """Calls itself in the order of BaseValidator.__call__; each part takes its own number of milliseconds."""

    def __init__(self, time: Time) -> None:
        self.time = time
        self.dataloader = SimpleNamespace(dataset=range(10))
        self.speed = {"loss": 0.0}

    def run_callbacks(self, event: str) -> None: ...

    def preprocess(self, batch: Any) -> Any:
        self.time.work(2)
        return batch

    def postprocess(self, preds: Any) -> Any:
        self.time.work(16)
        return preds

    def update_metrics(self, preds: Any, batch: Any) -> None:
        self.time.work(32)

    def plot_val_samples(self, batch: Any, number: int) -> None:
        self.time.work(64)

    def plot_predictions(self, batch: Any, preds: Any, number: int) -> None:
        self.time.work(64)

    def get_stats(self) -> dict[str, Any]:
        self.time.work(3)
        return {}

    def finalize_metrics(self) -> None:
        self.time.work(5)

    def __call__(self, batches: int = 2) -> None:
        self.time.work(100)
        self.run_callbacks("on_val_start")
        for number in range(batches):
            self.time.work(1)
            self.run_callbacks("on_val_batch_start")
            batch = self.preprocess({})
            self.time.work(4 + 8)  # inference and loss
            preds = self.postprocess(batch)
            self.update_metrics(preds, batch)
            self.plot_val_samples(batch, number)
            self.plot_predictions(batch, preds, number)
            self.run_callbacks("on_val_batch_end")
        self.get_stats()
        self.speed = {"loss": 8 * batches / 10}  # ms per image
        self.finalize_metrics()
        self.run_callbacks("on_val_end")
        self.time.work(7)


def made() -> tuple[Validator, ValidationClock, list[dict[str, Any]], Time]:
    time, found = Time(), []  # type: ignore[var-annotated]
    clock = ValidationClock(found.append, time)
    return clock.attach(Validator(time)), clock, found, time


def test_every_part_gets_its_time_and_they_add_up() -> None:
    validator, clock, found, time = made()
    time.work(1000)
    clock.begin()
    validator()
    clock.end(validator)
    (record,) = found
    assert {part: ns // MS for part, ns in record.pop("ns").items()} == {
        "setup": 100, "wait": 2, "preprocess": 4, "inference": 8, "loss": 16, "postprocess": 32,
        "metrics": 64 + 3 + 7, "plots": 256 + 5,
    }  # fmt: skip
    assert record == {"t": 1000 * MS, "final": False, "images": 10, "batches": 2}


def test_the_sum_of_the_parts_is_the_length_of_the_validation() -> None:
    validator, clock, found, time = made()
    clock.begin()
    validator(5)
    time.work(11)
    clock.end(validator)
    assert sum(found[0]["ns"].values()) == time.t
    assert set(found[0]["ns"]) == set(PARTS)


def test_the_final_validation_is_recorded_by_its_own_events() -> None:
    validator, _, found, _ = made()
    validator()
    assert [(r["final"], r["batches"], r["ns"]["setup"]) for r in found] == [(True, 2, 0)]


def test_a_validation_that_dies_is_forgotten() -> None:
    validator, clock, found, _ = made()
    clock.begin()
    clock.begin()  # the next one
    validator()
    clock.end(validator)
    clock.end(validator)
    assert len(found) == 1
    assert found[0]["batches"] == 2


def test_a_validator_with_seams_pickles() -> None:
    validator, _, _, _ = made()
    copy = pickle.loads(pickle.dumps(validator))
    copy()
    assert copy.time.t > 0
