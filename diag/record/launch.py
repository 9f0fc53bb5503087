"""Child process that trains as run.json says: `python -m diag.record.launch RUN_DIR`."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from diag import codec
from diag.model.run import RunRecord
from diag.record.alive import Heartbeat, stacks_on_signal


def main(run_dir: Path) -> None:
    """Train; exceptions end the process with their traceback, which is evidence in console.log."""
    record = codec.read_json(run_dir / "run.json", RunRecord)
    os.environ["DIAG_RUN_DIR"] = str(run_dir)
    stacks_on_signal(run_dir)
    train(run_dir, dict(record.args), record.task)


def train(
    run_dir: Path, args: dict[str, Any], task: str, on_batch_end: Callable[[Any], None] = lambda trainer: None
) -> None:
    """Run one training with a recording trainer; Ultralytics writes into `run_dir/ultralytics`.

    `on_batch_end` is called with the trainer after every batch.
    """
    from diag.record.trainer import trainer_for

    model = load_model(str(args.pop("model")), task)
    model.add_callback("on_train_batch_end", on_batch_end)
    for event in ("on_train_batch_end", "on_val_batch_end"):
        model.add_callback(event, Heartbeat(run_dir))
    base = trainer_for(model)

    def build(*a: Any, **k: Any) -> Any:
        trainer = base(*a, **k)
        signal.signal(signal.SIGTERM, lambda *_: setattr(trainer._diag, "stop_requested", True))
        return trainer

    args.pop("task", None)
    model.train(trainer=build, **args, project=str(run_dir), name="ultralytics", exist_ok=True)


def load_model(name: str, task: str) -> Any:
    """The Ultralytics model object for a yaml or weights file: RT-DETR by its name, else YOLO."""
    from ultralytics import RTDETR, YOLO

    return RTDETR(name) if "rtdetr" in Path(name).stem.lower() else YOLO(name, task=task)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
