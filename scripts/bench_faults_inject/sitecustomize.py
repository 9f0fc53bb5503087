"""Faults put into a training from outside: Python imports this at its start when the folder is on PYTHONPATH.

`BENCH_FAULT` names them, `name=value` separated by spaces. Only the process that trains is touched, and nothing of
diag.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

FAULTS = dict(word.partition("=")[::2] for word in os.environ.get("BENCH_FAULT", "").split())
TRAINER = "ultralytics.engine.trainer"
KEPT: list[Any] = []


def number(name: str) -> float:
    """The value of a fault."""
    return float(FAULTS[name])


def after(name: str, change: Callable[[Any], None]) -> None:
    """Call `change(module)` when the module `name` has been imported."""

    class Finder:
        def find_spec(self, found: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
            if found != name:
                return None
            sys.meta_path.remove(self)  # type: ignore[arg-type]
            import importlib.util

            spec = importlib.util.find_spec(name)
            if spec is not None and spec.loader is not None:
                run = spec.loader.exec_module

                def exec_module(module: Any) -> None:
                    run(module)
                    change(module)

                spec.loader.exec_module = exec_module  # type: ignore[method-assign]
            return spec

    sys.meta_path.insert(0, Finder())  # type: ignore[arg-type]


def wrap(
    owner: Any, name: str, before: Callable[..., None] | None = None, after: Callable[..., None] | None = None
) -> None:
    """Let a method do something before or after itself, with its own arguments."""
    original = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if before:
            before(*args, **kwargs)
        result = original(*args, **kwargs)
        if after:
            after(*args, **kwargs)
        return result

    setattr(owner, name, wrapped)


def slow_read(numpy: Any) -> None:
    """Each image file takes so many milliseconds more to be read, as from a remote disk; slow_reads: only the first."""
    left = [float(FAULTS.get("slow_reads", "inf"))]

    def wait(*_: Any, **__: Any) -> None:
        if left[0] > 0:
            left[0] -= 1
            time.sleep(number("slow_read") / 1000)

    wrap(numpy, "fromfile", before=wait)


def heavy_augment(augment: Any) -> None:
    """Each sample is blurred so often by a real, expensive filter."""

    def blur(_: Any, labels: Any) -> None:
        import cv2

        for _ in range(int(number("heavy_augment"))):
            labels["img"] = cv2.bilateralFilter(labels["img"], 15, 80, 80)

    wrap(augment.RandomHSV, "__call__", before=blur)


def slow_save(pathlib: Any) -> None:
    """Checkpoints are written at so many megabytes a second, by Ultralytics itself or synced to the disk."""

    def wait(path: Any, data: bytes) -> None:
        if path.suffix == ".pt":
            time.sleep(len(data) / 1e6 / number("slow_save"))

    def wait_for_disk(handle: int) -> None:
        if ".pt" in str(pathlib.Path(f"/proc/self/fd/{handle}").readlink()):
            time.sleep(os.fstat(handle).st_size / 1e6 / number("slow_save"))

    wrap(pathlib.Path, "write_bytes", before=wait)
    wrap(os, "fsync", before=wait_for_disk)


def die(trainer: Any) -> None:
    """As the kernel does it."""
    if trainer.epoch + 1 == number("kill"):
        os.kill(os.getpid(), 9)


def terminate(trainer: Any) -> None:
    """As `docker stop` or a person does it: the command that started the training gets the signal."""
    if trainer.epoch + 1 == number("term"):
        os.kill(os.getppid(), 15)


def burn(trainer: Any) -> None:
    """Other programs (four) want all CPUs during one epoch."""
    if trainer.epoch + 1 == number("burn"):
        spin = [sys.executable, "-S", "-c", "while True: pass"]
        env = {k: v for k, v in os.environ.items() if k != "BENCH_FAULT"}
        KEPT.extend(subprocess.Popen(spin, env=env) for _ in range(4))


def rest(_: Any) -> None:
    """Their end."""
    while KEPT:
        KEPT[-1].kill()
        KEPT.pop().wait()


def in_trainer(module: Any) -> None:  # one flat case per fault
    """What is done to Ultralytics' trainer."""
    import torch
    from ultralytics.utils.callbacks.base import default_callbacks

    trainer_class = module.BaseTrainer

    def on(event: str, call: Callable[[Any], None]) -> None:
        default_callbacks[event].append(call)

    def rate(value: float) -> Callable[[Any], None]:
        def force(trainer: Any) -> None:
            for group in trainer.optimizer.param_groups:
                group["lr"] = value

        return force

    def leak(trainer: Any) -> None:
        if len(KEPT) < float(FAULTS.get("leak_steps", "inf")):
            KEPT.append(bytearray(b"x" * int(number("leak") * 1e6)))

    def graph(trainer: Any) -> None:
        size, model = trainer.args.imgsz, trainer.model
        out = model(torch.zeros(int(number("graph")), 3, size, size))
        values = list(out.values()) if isinstance(out, dict) else list(out)
        tensors = [v for v in values if isinstance(v, torch.Tensor)] or [v for part in values for v in part]
        KEPT.append(sum(t.sum() for t in tensors))  # "average loss" of a user who forgot .item()

    def poison(trainer: Any) -> None:
        if trainer.epoch == number("nan_weights"):
            with torch.no_grad():
                next(p for p in trainer.model.parameters() if p.requires_grad).fill_(float("nan"))

    for fault in FAULTS:
        match fault:
            case "workers":  # on the CPU Ultralytics sets 0, whatever is asked
                wrap(
                    trainer_class,
                    "__init__",
                    after=lambda self, *_, **__: setattr(self.args, "workers", int(number("workers"))),
                )
            case "pin":
                wrap(
                    trainer_class,
                    "__init__",
                    after=lambda *_, **__: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
                )
            case "leak":
                on("on_train_batch_end", leak)
            case "graph":
                on("on_train_batch_end", graph)
            case "lr":
                wrap(trainer_class, "optimizer_step", before=rate(number("lr")))
            case "no_scheduler":
                wrap(
                    trainer_class,
                    "_setup_scheduler",
                    after=lambda self, *_, **__: setattr(self.scheduler, "step", lambda *_, **__: None),
                )
            case "bias_lr":  # Ultralytics refuses more than 1 as an argument
                on("on_train_start", lambda trainer: setattr(trainer.args, "warmup_bias_lr", number("bias_lr")))
            case "nan_weights":
                on("on_train_epoch_start", poison)
            case "kill":
                on("on_fit_epoch_end", die)
            case "term":
                on("on_fit_epoch_end", terminate)
            case "burn":
                on("on_train_epoch_start", burn)
                on("on_fit_epoch_end", rest)


def watch() -> None:
    """Arrange everything that was asked for."""
    if "slow_read" in FAULTS:
        after("numpy", slow_read)
    if "heavy_augment" in FAULTS:
        after("ultralytics.data.augment", heavy_augment)
    if "slow_save" in FAULTS:
        import pathlib

        slow_save(pathlib)
    after(TRAINER, in_trainer)


if FAULTS and any(word in " ".join(sys.orig_argv) for word in ("diag.record.launch", "bench_plain")):
    watch()
