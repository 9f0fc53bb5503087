"""One training of scripts/bench-overhead, in a process of its own: plain, watched, or watched by a peer."""

import contextlib
import itertools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WARMUP = 5
MODES = ("plain", "diag", "interleaved", "torch_profiler", "traceml")
SEAMS = ("batch_start", "loaded", "transferred", "forward_done", "backward_done", "optimizer_done", "batch_end")
PROBES = ("__getitems__", "load_image", "collate_fn")


class Done(BaseException):
    """Enough batches."""


def is_on(step: int) -> bool:
    """A B B A, step by step: is the recorder on in this one?"""
    return step % 4 in {1, 2}


def train(mode: str, folder: Path, data: str, steps: int) -> dict[str, Any]:
    """One training of so many batches in this process; CPU and wall seconds of each batch."""
    ends: list[tuple[float, float]] = []
    facts: dict[str, Any] = {}
    finish: list[Callable[[], None]] = []

    def batch_end(_: Any) -> None:
        ends.append((time.process_time(), time.perf_counter()))
        if len(ends) > WARMUP + steps:
            for work in finish:
                work()
            raise Done

    from ultralytics import YOLO

    model = YOLO("yolo11n.yaml")
    trainer = None
    if mode == "diag":
        trainer = _with_diag(folder, model, facts, finish)
    elif mode == "interleaved":
        trainer = _interleaved(folder, model, batch_end)
    elif mode == "torch_profiler":
        _with_torch_profiler(model, finish)
    elif mode == "traceml":
        _with_traceml(model)
    if mode != "interleaved":
        model.add_callback("on_train_batch_end", batch_end)
    args = {"data": data, "imgsz": 160, "batch": 4, "epochs": 1000, "device": "cpu", "seed": 0, "val": False}
    args |= {"plots": False, "save": False, "project": str(folder), "name": "u", "exist_ok": True, "verbose": False}
    if mode == "interleaved":  # every batch the same work: four images, neither mosaic nor a step that only some make
        args |= {"mosaic": 0.0, "nbs": 4, "warmup_epochs": 0}
    with contextlib.suppress(Done):
        model.train(trainer=trainer, **args)
    laps = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(ends[WARMUP:])]
    return {"cpu": [c for c, _ in laps], "wall": [w for _, w in laps], **facts}


def _with_diag(folder: Path, model: Any, facts: dict[str, Any], finish: list[Callable[[], None]]) -> Any:
    """What `diag train` does: the recording trainer, train.log, the trace, and the counters process beside it."""
    from diag.counters.files import read
    from diag.counters.process import CountersProcess
    from diag.record.alive import Heartbeat, stacks_on_signal
    from diag.record.trainer import trainer_for

    os.environ["DIAG_RUN_DIR"] = str(folder)
    stacks_on_signal(folder)
    for event in ("on_train_batch_end", "on_val_batch_end"):
        model.add_callback(event, Heartbeat(folder))
    counters = CountersProcess(folder, {})
    counters.start(os.getpid())
    started = time.perf_counter()
    pid = counters._process.pid if counters._process else 0

    def end() -> None:
        memory = read(f"/proc/{pid}/smaps_rollup").decode()
        facts["counters_pss_mb"] = next(
            (int(line.split()[1]) / 1024 for line in memory.splitlines() if line.startswith("Pss:")), 0.0
        )
        facts["counters_s"] = time.perf_counter() - started
        counters.stop()
        lines = (folder / "trace" / "counters.jsonl").read_text().splitlines()
        facts["counters_cost"] = next(json.loads(line)["v"] for line in lines if '"m":"cost"' in line)

    finish.append(end)
    return trainer_for(model)


def _interleaved(folder: Path, model: Any, batch_end: Callable[[Any], None]) -> Any:
    """The recording trainer, recorder and probe off, on, on, off by steps: two processes differ more than they cost."""
    from diag.record.trainer import trainer_for

    os.environ["DIAG_RUN_DIR"] = str(folder)
    seen = 0

    class Switching(trainer_for(model)):  # type: ignore[misc]
        def run_callbacks(self, event: str) -> None:
            super().run_callbacks(event)
            if event == "on_train_batch_end":  # the recorder has written this batch: the next one begins
                nonlocal seen
                seen += 1
                _switch(self, on=is_on(seen - WARMUP - 1))
                batch_end(self)

    return Switching


def _switch(trainer: Any, *, on: bool) -> None:
    """Both ways cost the same, so that what is left of their difference is the recorder's."""
    recorder, dataset = trainer._diag, trainer.train_loader.dataset
    kept = trainer.__dict__.setdefault("bench_probes", {name: vars(dataset).get(name) for name in PROBES})
    for name in SEAMS:
        recorder.__dict__.pop(name, None)
        if not on:
            setattr(recorder, name, _nothing)
    for name in PROBES:
        vars(dataset).pop(name, None)
        if on:
            vars(dataset)[name] = kept[name]
    # The loader has no workers here: its fetcher is in this process, and took collate_fn along when it was built.
    trainer.train_loader.iterator._dataset_fetcher.collate_fn = dataset.collate_fn


def _nothing(*_: Any) -> None:
    """A seam of a recorder that is off."""


def _with_torch_profiler(model: Any, finish: list[Callable[[], None]]) -> None:
    """The profiler as its tutorial has it, stepping in cycles (wait 1, warm up 1, record 3) for the whole run."""
    from torch.profiler import ProfilerActivity, profile, schedule

    profiler = profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=3))
    model.add_callback("on_train_start", lambda _: profiler.start())
    model.add_callback("on_train_batch_end", lambda _: profiler.step())
    finish.append(profiler.stop)


def _with_traceml(model: Any) -> None:
    """TraceML's documented API through Ultralytics' callbacks; run by `traceml run`."""
    import traceml_ai as traceml

    traceml.init(mode="auto")
    steps: list[Any] = []

    def enter(trainer: Any) -> None:
        steps.append(traceml.trace_step(trainer.model))
        steps[-1].__enter__()

    model.add_callback("on_train_batch_start", enter)
    model.add_callback("on_train_batch_end", lambda _: steps.pop().__exit__(None, None, None))


def tight_loop(folder: Path, *, count: int = 5000, repeats: int = 5) -> float:
    """Microseconds of CPU that the recorder takes for one batch, files included; median of the repeats."""
    import statistics

    from diag.record.recorder import Recorder

    found = []
    for repeat in range(repeats):
        recorder = Recorder(str(folder / f"loop{repeat}"), 0)
        recorder.epoch_start(0, 4)
        started = time.process_time()
        for _ in range(count):
            recorder.batch_start()
            recorder.transferred()
            recorder.forward_done()
            recorder.backward_done()
            recorder.optimizer_done()
            recorder.batch_end(1, count)
        found.append((time.process_time() - started) / count * 1e6)
    return statistics.median(found)
