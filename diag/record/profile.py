"""Child process of `diag profile`: `python -m diag.record.profile RUN_DIR STEPS WARMUP`.

Trains as run.json says for WARMUP + STEPS batches with torch.profiler over the last STEPS, and writes
RUN_DIR/profile/profile.json and trace.json. Nothing is saved, validated or plotted.
"""

import os
import resource
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from diag import codec
from diag.model.profile import LayerTime, OperatorTime, Profile
from diag.model.run import RunRecord
from diag.record.launch import load_model
from diag.record.trainer import trainer_for

TOP = 40
_MARK = "diag.layer."
_BACKWARD = "autograd::engine::evaluate_function: "


class Done(BaseException):
    """The profiled batches are over; nothing else of the training is wanted. No Exception, so that nobody retries."""


class Window:
    """The profiler over some steady batches, driven by Ultralytics' callbacks."""

    def __init__(self, steps: int, warmup: int) -> None:
        self._steps = steps
        self._warmup = warmup
        self._profiler: Any = None
        self._ends: list[float] = []
        self.facts: dict[str, Any] = {}
        self.layers: list[tuple[str, int]] = []

    def begin(self, trainer: Any) -> None:
        """on_train_start"""
        gpu = trainer.device.type == "cuda"
        activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if gpu else [])]
        self.facts = {"device": str(trainer.device), "batch": trainer.batch_size, "amp": bool(trainer.amp)}
        self.facts["imgsz"] = int(trainer.args.imgsz) if isinstance(trainer.args.imgsz, int) else None
        self.layers = mark_layers(trainer.model)
        if gpu:
            torch.cuda.reset_peak_memory_stats(trainer.device)
        self._profiler = profile(
            activities=activities,
            # One more warm-up batch inside the profiler, whose own start is slow.
            schedule=schedule(wait=max(0, self._warmup - 1), warmup=1, active=self._steps, repeat=1),
            profile_memory=True,
            with_flops=True,
            record_shapes=True,  # FLOPs are computed from shapes
        )
        self._profiler.start()

    def batch_end(self, trainer: Any) -> None:
        """on_train_batch_end"""
        if trainer.device.type == "cuda":
            torch.cuda.synchronize(trainer.device)
        self._ends.append(time.perf_counter())
        if len(self._ends) < self._warmup + self._steps:
            self._profiler.step()
            return
        if trainer.device.type == "cuda":
            self.facts["peak_memory_bytes"] = torch.cuda.max_memory_reserved(trainer.device)
        else:
            self.facts["peak_memory_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self._profiler.stop()
        raise Done

    def result(self, folder: Path) -> Profile:
        """What was seen; also writes the Chrome trace."""
        self._profiler.export_chrome_trace(str(folder / "trace.json"))
        steps = min(self._steps, len(self._ends) - 1)
        averages = [e for e in self._profiler.key_averages() if not e.key.startswith(("ProfilerStep", _MARK))]
        operators = sorted(map(partial(_operator, steps), averages), key=lambda o: -max(o.self_cpu_s, o.self_device_s))
        return Profile(
            steps=steps,
            step_s=(self._ends[-1] - self._ends[-1 - steps]) / steps,
            cpu_s=sum(o.self_cpu_s for o in operators),
            device_s=sum(o.self_device_s for o in operators),
            flops=sum(o.flops for o in operators),
            operators=tuple(operators[:TOP]),
            layers=layer_times(self._profiler.events(), self.layers, steps),
            trace="trace.json",
            **self.facts,
        )


def mark_layers(model: Any) -> list[tuple[str, int]]:
    """Wrap each layer of the model's main sequence in a named range; returns (type, parameters) by index."""
    open_ranges: list[Any] = []
    found = []
    for index, layer in enumerate(getattr(model, "model", None) or []):
        name = f"{_MARK}{index}"

        def enter(_: Any, __: Any, name: str = name) -> None:
            open_ranges.append(record_function(name).__enter__())

        def leave(*_: Any) -> None:
            open_ranges.pop().__exit__(None, None, None)

        layer.register_forward_pre_hook(enter)
        layer.register_forward_hook(leave)
        found.append((str(getattr(layer, "type", type(layer).__name__)).rpartition(".")[2], _parameters(layer)))
    return found


def layer_times(events: Iterable[Any], layers: list[tuple[str, int]], steps: int) -> tuple[LayerTime, ...]:
    """Time per step of each layer. A backward operator belongs to the layer of the forward operator with its number."""
    forward: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    backward: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    layer_of: dict[int, int] = {}
    listed = list(events)
    for event in listed:
        layer = _layer(event)
        if layer is None:
            continue
        if event.name == f"{_MARK}{layer}":
            forward[layer][0] += event.cpu_time_total
            forward[layer][1] += _device_time(event)
        else:
            forward[layer][2] += event.flops or 0
            if event.sequence_nr >= 0:
                layer_of[event.sequence_nr] = layer
    for event in listed:
        if event.name.startswith(_BACKWARD) and event.sequence_nr in layer_of:
            times = backward[layer_of[event.sequence_nr]]
            times[0] += event.cpu_time_total
            times[1] += _device_time(event)
    us = 1e6 * steps
    return tuple(
        LayerTime(
            index=i,
            type=layers[i][0],
            parameters=layers[i][1],
            forward_s=forward[i][0] / us,
            backward_s=backward[i][0] / us,
            forward_device_s=forward[i][1] / us,
            backward_device_s=backward[i][1] / us,
            flops=forward[i][2] / steps,
        )
        for i in sorted(forward)
    )


def _operator(steps: int, event: Any) -> OperatorTime:
    us = 1e6 * steps
    self_device = getattr(event, "self_device_time_total", None)
    memory = getattr(event, "self_device_memory_usage", None)
    return OperatorTime(
        name=event.key,
        calls=event.count / steps,
        self_cpu_s=event.self_cpu_time_total / us,
        cpu_s=event.cpu_time_total / us,
        self_device_s=(self_device if self_device is not None else getattr(event, "self_cuda_time_total", 0)) / us,
        flops=(event.flops or 0) / steps,
        self_memory_bytes=int((memory or event.self_cpu_memory_usage or 0) / steps),
    )


def _layer(event: Any) -> int | None:
    """The layer in whose forward range an event lies, or is."""
    while event is not None:
        if event.name.startswith(_MARK):
            return int(event.name.removeprefix(_MARK))
        event = event.cpu_parent
    return None


def _device_time(event: Any) -> float:
    """Microseconds on the GPU of an event and all below it; older releases call it CUDA time."""
    value = getattr(event, "device_time_total", None)
    return float(value if value is not None else getattr(event, "cuda_time_total", 0.0))


def _parameters(layer: Any) -> int:
    return sum(p.numel() for p in layer.parameters())


def main(run_dir: Path, steps: int, warmup: int) -> None:
    """Profile one training; exceptions end the process with their traceback."""
    record = codec.read_json(run_dir / "run.json", RunRecord)
    folder = run_dir / "profile"
    os.environ["DIAG_RUN_DIR"] = str(folder / "training")
    args = {k: v for k, v in record.args.items() if k not in {"task", "time", "resume", "name", "project"}}
    if isinstance(args.get("device"), str) and "," in args["device"]:
        args["device"] = args["device"].split(",")[0]  # one rank shows the operators
    # Enough epochs for the wanted batches even on a tiny set; Done ends them.
    args |= {"epochs": warmup + steps + 1, "val": False, "plots": False, "save": False, "exist_ok": True}
    window = Window(steps, warmup)
    model = load_model(str(args.pop("model")), record.task)
    callbacks: dict[str, Callable[[Any], None]] = {
        "on_train_start": window.begin,
        "on_train_batch_end": window.batch_end,
    }
    for event, callback in callbacks.items():
        model.add_callback(event, callback)
    try:
        model.train(trainer=trainer_for(model), **args, project=str(folder), name="training")
    except Done:
        codec.write_json(folder / "profile.json", window.result(folder))
    shutil.rmtree(folder / "training", ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
