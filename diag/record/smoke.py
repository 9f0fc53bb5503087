"""Child process of the mini-run: `python -m diag.record.smoke RUN_DIR`. Trains, then uses what training saved.

Writes RUN_DIR/proof.json after every step, so that a crash leaves what was proved until then.
"""

import math
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from diag import codec
from diag.model.run import RunRecord
from diag.record.alive import stacks_on_signal
from diag.record.launch import train


def main(run_dir: Path) -> None:
    """Train as run.json says, then: losses, saved file, load and predict, resume."""
    record = codec.read_json(run_dir / "run.json", RunRecord)
    os.environ["DIAG_RUN_DIR"] = str(run_dir)
    stacks_on_signal(run_dir)
    proof: dict[str, Any] = {}

    def note(name: str, **values: Any) -> None:
        proof[name] = values
        codec.write_json(run_dir / "proof.json", proof)

    losses: list[float] = []
    train(run_dir, dict(record.args), record.task, lambda trainer: losses.append(_summed(trainer.loss_items)))
    note("losses", per_batch=[round(v, 5) if math.isfinite(v) else str(v) for v in losses])
    weights = run_dir / "ultralytics" / "weights"
    last = weights / "last.pt"
    note("saved", file=last.name, bytes=last.stat().st_size if last.exists() else 0)
    note("predicted", **_predict(last, record, run_dir))
    note("resumed", **_resume(weights, record, run_dir))


def _summed(loss_items: Any) -> float:
    """The sum of a batch's loss items (a dict in new releases, a tensor in old ones)."""
    items = loss_items.values() if isinstance(loss_items, dict) else loss_items.flatten()
    return sum(float(item) for item in items)


def _predict(last: Path, record: RunRecord, run_dir: Path) -> dict[str, Any]:
    """Load the saved model afresh and predict on one validation image."""
    start = time.monotonic()
    model = _load(last, record)
    data = Path(str(record.args["data"]))
    folder = (data / "val") if data.is_dir() else data.parent / "images" / "val"
    image = next(iter(sorted(p for p in folder.rglob("*") if p.is_file())), None)
    if image is None:
        return {"error": f"no validation image in {folder}"}
    result = model.predict(
        str(image), imgsz=record.args["imgsz"], device=record.args.get("device"), conf=0.01, verbose=False,
        save=False, project=str(run_dir), name="predict", exist_ok=True,
    )[0]  # fmt: skip
    found = len(result.boxes) if result.boxes is not None else len(result.probs.top5) if result.probs else 0
    obb = getattr(result, "obb", None)
    found = len(obb) if obb is not None else found
    return {"image": image.name, "found": found, "seconds": round(time.monotonic() - start, 3)}


def _resume(weights: Path, record: RunRecord, run_dir: Path) -> dict[str, Any]:
    """Train the last epoch again from the checkpoint of the epoch before it, in a folder of its own."""
    import torch

    from diag.record.trainer import trainer_for

    checkpoint = weights / "epoch1.pt"
    if not checkpoint.exists():
        return {"error": f"no {checkpoint.name} was saved"}
    state = torch.load(checkpoint, map_location="cpu", weights_only=False)  # our own file, seconds old
    folder = run_dir / "resume"
    (folder / "weights").mkdir(parents=True, exist_ok=True)
    last = folder / "weights" / "last.pt"
    state["train_args"] |= {"save_dir": str(folder), "project": str(run_dir), "name": "resume", "save_period": -1}
    torch.save(state, last)
    os.environ["DIAG_RUN_DIR"] = str(folder)
    start = time.monotonic()
    model = _load(last, record)
    losses: list[float] = []
    model.add_callback("on_train_batch_end", lambda trainer: losses.append(_summed(trainer.loss_items)))
    model.train(trainer=trainer_for(model), resume=True)
    mean = sum(losses) / len(losses) if losses else math.nan
    shutil.rmtree(folder, ignore_errors=True)
    return {
        "epoch": int(state["epoch"]) + 2,
        "batches": len(losses),
        "mean_loss": round(mean, 5) if math.isfinite(mean) else str(mean),
        "optimizer_state": state.get("optimizer") is not None,
        "seconds": round(time.monotonic() - start, 3),
    }


def _load(weights: Path, record: RunRecord) -> Any:
    """A checkpoint as the kind of model (YOLO or RT-DETR) that the run trains."""
    from ultralytics import RTDETR, YOLO

    return (RTDETR if "rtdetr" in Path(str(record.args["model"])).stem.lower() else YOLO)(str(weights))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
