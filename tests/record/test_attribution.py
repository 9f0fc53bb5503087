"""Real sleeps of a known length in ten places of a real training: each is found in its own place of the ledger.

The truth is what the slowed call itself took by the same clock. The lap around it holds it wholly, always; how much
more it holds is judged in the quietest step, since other processes may interrupt any of the others. That nothing lands
elsewhere is tested exactly, on a clock that stands still, in test_traps.py.
"""

import pkgutil
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.record.training import MS, Run, fit, old_release

pytest.importorskip("torch")

SLEEP_MS = 20
ALLOWED_NS = 2 * MS + SLEEP_MS * MS // 50
"""2 ms and 2 % of what was slept."""
IMAGES = 8
YOLO = "ultralytics.models.yolo.detect.Detection"
STEP = {
    "transfer": YOLO + "Trainer.preprocess_batch",
    "forward": "ultralytics.nn.tasks.BaseModel.loss",
    "backward": "torch.Tensor.backward",
    "optimizer": "ultralytics.engine.trainer.BaseTrainer.optimizer_step",
    "log": "callback",
}
LOADER = {"read": "numpy.fromfile", "decode": "cv2.imdecode", "augment": "ultralytics.data.augment.Compose.__call__"}


class Truth:
    """Slows functions down and notes what each call took, in nanoseconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.calls: dict[str, list[int]] = defaultdict(list)
        self.loading = False
        self.epoch = -1
        self.by_epoch: dict[tuple[str, int], int] = defaultdict(int)
        """Of calls while a batch is loaded: the sum in an epoch."""

    def slow(self, place: str, when: Callable[..., bool] = lambda *_: True) -> None:
        original, inside = pkgutil.resolve_name(place), False

        def slower(*args: Any, **kwargs: Any) -> Any:
            nonlocal inside
            if inside or not when(*args):
                return original(*args, **kwargs)
            inside, start = True, time.monotonic_ns()
            time.sleep(SLEEP_MS / 1000)
            try:
                return original(*args, **kwargs)
            finally:
                inside = False
                took = time.monotonic_ns() - start
                self.calls[place].append(took)
                self.by_epoch[place, self.epoch] += took

        self._monkeypatch.setattr(place, slower)


@pytest.fixture
def slowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ultralytics: Any) -> tuple[Run, Truth]:
    from diag.record import loader
    from diag.record.trainer import ProfiledDetectionTrainer

    monkeypatch.setenv("DIAG_RUN_DIR", str(tmp_path))
    monkeypatch.delenv("DIAG_T0_NS", raising=False)
    truth = Truth(monkeypatch)
    for name, place in STEP.items():
        if name == "forward":
            truth.slow(place, lambda model, *_: bool(model.training))  # validation asks for the loss, too
        elif name != "log":
            truth.slow(place)
    truth.slow(YOLO + "Validator.postprocess")
    truth.slow("ultralytics.engine.trainer.BaseTrainer.save_model")
    fetch, fetched = loader.LoaderProbe.fetch, [0]

    def fetch_of_training(probe: Any, indices: Any) -> Any:
        truth.loading = True
        truth.epoch = fetched[0] // 2  # two batches an epoch, and nobody loads ahead
        fetched[0] += 1
        try:
            return fetch(probe, indices)
        finally:
            truth.loading = False

    monkeypatch.setattr(loader.LoaderProbe, "fetch", fetch_of_training)
    for place in LOADER.values():
        truth.slow(place, lambda *_: truth.loading)

    def callback(trainer: Any) -> None:
        start = time.monotonic_ns()
        time.sleep(SLEEP_MS / 1000)
        truth.calls["callback"].append(time.monotonic_ns() - start)

    def prepare(trainer: Any) -> None:
        trainer.add_callback("on_train_batch_end", callback)

    run = fit(tmp_path, ProfiledDetectionTrainer, prepare=prepare, mosaic=0.0, nbs=4, epochs=3, cache=False)
    return run, truth


def test_a_sleep_of_known_length_is_found_in_each_of_ten_places(slowed: tuple[Run, Truth]) -> None:
    run, truth = slowed
    if old_release():
        pytest.skip("not run: 8.3.9 reads and decodes in one call, cv2.imread")
    steps = run.steps
    assert len(steps) == 6
    over: dict[str, list[int]] = {}
    for stage, place in STEP.items():
        over[stage] = [step[stage] - took for step, took in zip(steps, truth.calls[place], strict=True)]
    sums = run.records("loader")
    for part, place in LOADER.items():
        assert len(truth.calls[place]) >= IMAGES  # later epochs find some images in Ultralytics' buffer
        by_epoch = [sum(r["ns"][part] for r in sums if r["e"] == epoch) for epoch in range(3)]
        over[part] = [(have - truth.by_epoch[place, epoch]) // IMAGES for epoch, have in enumerate(by_epoch)]
    post = [record["ns"]["postprocess"] for record in run.records("val")]
    over["postprocess"] = [a - b for a, b in zip(post, truth.calls[YOLO + "Validator.postprocess"], strict=True)]
    saved = [ns for r in run.records("laps") for stage, ns in r["l"] if stage == "checkpoint"]
    took = truth.calls["ultralytics.engine.trainer.BaseTrainer.save_model"]
    over["checkpoint"] = [a - b for a, b in zip(saved, took, strict=True)]
    assert len(over) == 10
    assert {place: times for place, times in over.items() if min(times) < 0} == {}
    allowed = {"checkpoint": 4 * ALLOWED_NS}  # three of them, and our own files are written in it
    assert {place: times for place, times in over.items() if min(times) > allowed.get(place, ALLOWED_NS)} == {}
