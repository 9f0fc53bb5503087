"""Where a training is killed, and what must be true after the same command has gone on with it."""

import csv
import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from diag import settings
from tests.e2e.conftest import DIAG, environment
from tests.e2e.test_tasks import ROWS, draw
from tests.processes import run

EPOCHS, BATCHES = 4, 6
WORDS = (
    f"epochs={EPOCHS}", "imgsz=32", "batch=4", "nbs=12", "close_mosaic=2", "device=cpu", "plots=False", "seed=1",
)  # fmt: skip
"""Six batches an epoch and a step every third one, so that gradients wait over the end of an epoch; mosaic until the
second epoch, so that a resume lies before, at and after its end."""

POINTS = {
    "import": "startup: the child imports Ultralytics",
    "model": "startup: the model is built",
    "loader": "startup: the labels are read",
    "batch:1": "epoch 1, first batch",
    "batch:5": "epoch 1, fifth batch",
    "stepped:7": "epoch 2, after an optimizer step",
    "batch:16": "epoch 3, fourth batch",
    "batch:21": "epoch 4, third batch",
    "validation:2": "validation of epoch 2 begins",
    "validated:3": "validation of epoch 3 ends",
    "row:1": "row of epoch 1 written, no checkpoint yet",
    "half_row:3": "half the row of epoch 3 written",
    "half_last.pt:2": "half of last.pt of epoch 2 written",
    "half_resume_state.pt:3": "last.pt of epoch 3 written, its state begun, nothing renamed",
    "before_last.pt:3": "state of epoch 3 renamed, last.pt not",
    "after_last.pt:2": "last.pt of epoch 2 renamed, best.pt not",
    "half_best.pt:3": "best.pt of epoch 3 begun",
    "final": "all epochs done, final evaluation begins",
    "half_strip_last.pt": "final evaluation: last.pt being stripped",
    "strip_best.pt": "final evaluation: last.pt stripped, best.pt not",
    f"validation:{EPOCHS + 1}": "final evaluation: best.pt is validated",
    "final_done": "final evaluation done, nothing said yet",
}


@dataclass(frozen=True)
class Outcome:
    """What a killed and resumed training came to; `faults` is empty when all is well."""

    saved: int
    """Epochs that were finished (row and checkpoint) when it was killed."""
    resumed: str
    seconds: float
    faults: tuple[str, ...]


def make_data(root: Path) -> Path:
    """24 + 8 images of 64 px."""
    for split, count in (("train", EPOCHS * BATCHES), ("val", 8)):
        for number in range(count):
            draw(root / "images" / split / f"{number}.png", number + (100 if split == "val" else 0))
            label = root / "labels" / split / f"{number}.txt"
            label.parent.mkdir(parents=True, exist_ok=True)
            label.write_text(ROWS["detect"] + "\n")
    (root / "data.yaml").write_text("train: images/train\nval: images/val\nnames: [box]\n")
    return root / "data.yaml"


def train(workspace: Path, data: Path, name: str, kill_at: str = "") -> subprocess.CompletedProcess[str]:
    """`diag train name=NAME`, with the killer beside it."""
    killer = {"KILL_AT": kill_at, "PYTHONPATH": str(Path(__file__).parent / "killer")} if kill_at else {}
    quiet = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    words = [str(DIAG), "train", f"data={data}", f"name={name}", *WORDS]
    return run(words, env=environment(workspace, **quiet, **killer), timeout=600, cwd=settings.ROOT)


def rows(run_dir: Path) -> list[dict[str, str]]:
    """results.csv without its times."""
    with (run_dir / "ultralytics" / "results.csv").open() as file:
        return [{k.strip(): v for k, v in row.items() if k.strip() != "time"} for row in csv.DictReader(file)]


def kill_and_resume(workspace: Path, data: Path, point: str, whole: Sequence[dict[str, str]]) -> Outcome:
    """Kill at the point, start the same command again, and compare with the rows of an uninterrupted run."""
    start = time.monotonic()
    name = point.replace(":", "_")
    run_dir = workspace / "runs" / name
    killed = train(workspace, data, name, point)
    faults = [] if killed.returncode == -9 else [f"was not killed: {killed.returncode} {killed.stderr[-200:]}"]
    time.sleep(0.5)  # the counters process sees its parent's end
    last = run_dir / "ultralytics" / "weights" / "last.pt"
    again = train(workspace, data, name)
    if again.returncode:
        faults.append(f"exit code {again.returncode}: {again.stdout[-600:]}")
    record = json.loads((run_dir / "run.json").read_text())
    attempts = record.get("attempts", [])
    how = (attempts[-1].get("resumed") if attempts else None) or {}
    others = [d.name for d in (workspace / "runs").iterdir() if d != run_dir and d.name.startswith(f"{name}-")]
    got = rows(run_dir) if (run_dir / "ultralytics" / "results.csv").exists() else []
    checks = {
        "another run was begun": bool(others),
        "the run is not finished": record["exit_cause"]["kind"] != "finished",
        "it was not the second start": len(attempts) != 2 or attempts[0]["exit_cause"]["kind"] != "killed",
        "epochs lost or counted twice": [row["epoch"] for row in got] != [row["epoch"] for row in whole],
        "results.csv differs": got != list(whole),
        "last.pt is missing": not last.exists(),
        "parts were left": any(last.parent.glob(".*.part")) or any(last.parent.glob("resume_state*")),
    }
    faults += [fault for fault, wrong in checks.items() if wrong]
    said = f"{how.get('how')} after {how.get('epoch')}"
    return Outcome(int(how.get("epoch") or 0), said, time.monotonic() - start, tuple(faults))


def expected_epochs(point: str) -> int:
    """How many epochs are finished and saved when a training is killed there."""
    name, _, count = point.partition(":")
    n = int(count or 1)
    if name in {"batch", "stepped"}:
        return {"batch": (n - 1) // BATCHES, "stepped": 1}[name]
    if name.startswith(("after_last", "half_best")):
        return n
    if name.startswith(("final", "strip", "half_strip")) or (name == "validation" and n > EPOCHS):
        return EPOCHS
    return n - 1 if name not in {"import", "model", "loader"} else 0
