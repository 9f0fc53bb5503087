"""Child process that trains as run.json says: `python -m diag.record.launch RUN_DIR`."""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from diag import codec
from diag.errors import DiagError
from diag.model.run import RunRecord
from diag.record.alive import Heartbeat, ask_to_stop, end_with_parent, leave_in_time, only_one, stacks_on_signal


def main(run_dir: Path) -> None:
    """Train; exceptions end the process with their traceback, which is evidence in console.log."""
    record = codec.read_json(run_dir / "run.json", RunRecord)
    os.environ["DIAG_RUN_DIR"] = str(run_dir)
    end_with_parent()
    lock = only_one(run_dir)
    stacks_on_signal(run_dir)
    from diag.record import checkpoints
    from diag.record.resumable import CHANGED, KEEP

    os.environ[KEEP] = "small" if os.environ.get("EXACT_RESUME", "").lower() in {"0", "false", "no"} else "full"
    epochs = record.args.get("epochs")
    try:
        plan = checkpoints.plan(run_dir / "ultralytics", epochs if isinstance(epochs, int) else None)
    except DiagError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    checkpoints.announce(plan, run_dir)
    last = "" if plan.how == "start" else str(run_dir / "ultralytics" / "weights" / "last.pt")
    changed = record.attempts[-1].changed if record.attempts else {}
    os.environ[CHANGED] = ", ".join(sorted(changed))
    train(run_dir, dict(record.args), record.task, resume=last, changed=changed)
    checkpoints.forget(run_dir / "ultralytics")
    if lock:
        lock.close()


def train(
    run_dir: Path,
    args: dict[str, Any],
    task: str,
    on_batch_end: Callable[[Any], None] = lambda trainer: None,
    *,
    resume: str = "",
    changed: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Run one training with a recording trainer; Ultralytics writes into `run_dir/ultralytics`.

    `on_batch_end` is called with the trainer after every batch. `resume`: the checkpoint to go on from, which knows
    the arguments; of `args` only the data are used then, and `changed` is what the user gave anew.
    """
    from diag.record.trainer import trainer_for

    name = str(args.pop("model"))
    model = load_model(resume, task, like=name) if resume else load_model(name, task)
    model.add_callback("on_train_batch_end", on_batch_end)
    for event in ("on_train_batch_end", "on_val_batch_end"):
        model.add_callback(event, Heartbeat(run_dir))
    model.add_callback("on_val_batch_end", leave_in_time)
    base = trainer_for(model)

    def build(*a: Any, **k: Any) -> Any:
        trainer = base(*a, **k)

        def on_term(*_: Any) -> None:
            trainer._diag.stop_requested = True
            ask_to_stop()

        signal.signal(signal.SIGTERM, on_term)
        return trainer

    args.pop("task", None)
    if resume:
        model.train(trainer=build, resume=resume, **{**changed, "data": args["data"]})
    else:
        model.train(trainer=build, **args, project=str(run_dir), name="ultralytics", exist_ok=True)


def load_model(name: str, task: str, *, like: str = "") -> Any:
    """The Ultralytics model object for a yaml or weights file: RT-DETR by its name (or that of `like`), else YOLO."""
    from ultralytics import RTDETR, YOLO

    return RTDETR(name) if "rtdetr" in Path(like or name).stem.lower() else YOLO(name, task=task)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
