"""On PYTHONPATH of a training: dies with SIGKILL at a named point of the training child.

KILL_AT=POINT[:N] dies the N-th time that the point is reached (tests/kill/points.py lists them); the `diag` process
above dies with it, as in a power cut. Nothing of this is in diag itself.
"""

import functools
import importlib.abc
import importlib.util
import os
import signal
import sys
from pathlib import Path
from typing import Any

POINT, _, COUNT = os.environ.get("KILL_AT", "").partition(":")
SEEN: list[str] = []


def reach(name: str) -> None:
    """Die if this is the point, reached often enough."""
    if name != POINT:
        return
    SEEN.append(name)
    if len(SEEN) == int(COUNT or 1):
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def around(owner: Any, attribute: str, *, before: str = "", after: str = "") -> None:
    """Points before and after each call of a function."""
    original = getattr(owner, attribute)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        reach(before)
        result = original(*args, **kwargs)
        reach(after)
        return result

    setattr(owner, attribute, call)


def arm(trainer: Any) -> None:
    """Set all points; `trainer` is the module diag.record.trainer."""
    import ultralytics.engine.trainer as engine
    from ultralytics.models.yolo.detect import DetectionTrainer, DetectionValidator

    from diag.record import exact, files

    around(DetectionTrainer, "get_model", before="model")
    around(DetectionTrainer, "get_dataloader", before="loader")
    around(trainer.Profiled, "preprocess_batch", before="batch")
    around(engine.BaseTrainer, "optimizer_step", after="stepped")
    around(DetectionValidator, "init_metrics", before="validation")
    around(DetectionValidator, "finalize_metrics", before="validated")
    around(trainer.Profiled, "final_eval", before="final", after="final_done")
    save_metrics, replace, write_part, strip = (
        engine.BaseTrainer.save_metrics, Path.replace, files.write_part, engine.strip_optimizer,
    )  # fmt: skip

    def row(self: Any, metrics: Any) -> None:
        size = self.csv.stat().st_size if self.csv.exists() else 0
        save_metrics(self, metrics)
        if POINT == "half_row":
            whole = self.csv.read_bytes()
            self.csv.write_bytes(whole[: (size + len(whole)) // 2])
            reach("half_row")
            self.csv.write_bytes(whole)
        reach("row")

    def renamed(self: Path, target: Any) -> Path:
        reach(f"before_{Path(target).name}")
        result = replace(self, target)
        reach(f"after_{Path(target).name}")
        return result

    def written(path: Path, data: bytes = b"") -> Path:
        if f"half_{path.name}" == POINT:
            part = write_part(path, data[: len(data) // 2])
            reach(POINT)
            part.unlink()
        return write_part(path, data)

    def stripped(f: Any, s: Any = "", updates: Any = None) -> Any:
        reach(f"strip_{Path(f).name}")
        if f"half_strip_{Path(f).name}" == POINT:
            Path(s).write_bytes(Path(f).read_bytes()[:1000])
            reach(POINT)
        return strip(f, s, updates=updates)

    engine.BaseTrainer.save_metrics, Path.replace = row, renamed  # type: ignore[method-assign,assignment]
    files.write_part = written
    vars(exact)["write_part"] = written
    engine.strip_optimizer = stripped


class Finder(importlib.abc.MetaPathFinder):
    """Arms the points when the trainer's module has been imported."""

    busy = False

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name == "ultralytics":
            reach("import")
        if name != "diag.record.trainer" or self.busy:
            return None
        self.busy = True
        spec = importlib.util.find_spec(name)
        self.busy = False
        assert spec and spec.loader
        run = spec.loader.exec_module

        def execute(module: Any) -> None:
            run(module)
            arm(module)

        spec.loader.exec_module = execute  # type: ignore[method-assign]
        return spec


if POINT and "diag.record.launch" in sys.orig_argv:
    sys.meta_path.insert(0, Finder())
