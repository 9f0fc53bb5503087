"""Which checkpoint a run can go on from: verified, with the state and the rows that belong to it."""

import csv
import io
import os
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from diag import codec
from diag.errors import DiagError
from diag.model.run import Resumed
from diag.record import exact
from diag.record.files import LAST, PREVIOUS, STATE, remove_parts, sha256, sync

CHECKPOINT = "DIAG_RESUME"
"""Environment variable for the trainer: what `Plan.how` says. It reaches the ranks of several GPUs, too."""


@dataclass(frozen=True)
class Plan:
    """How a training goes on.

    `how` is `exact` (our state is there), `plain` (as Ultralytics resumes), `final` (all epochs are done, the final
    evaluation is not) or `start`. `epoch` counts finished epochs; `notes` are lines for people.
    """

    how: str
    epoch: int = 0
    notes: tuple[str, ...] = ()


class CheckpointError(DiagError):
    """No checkpoint of the run can be used."""


def plan(yolo: Path, epochs: int | None) -> Plan:
    """Choose and, where needed, repair: afterwards last.pt, its state, best.pt and results.csv agree.

    yolo: the folder that Ultralytics writes to. epochs: as planned, None where unknown. Raises CheckpointError when
    there are checkpoints, but each is damaged.
    """
    weights = yolo / "weights"
    if weights.is_dir():
        remove_parts(weights)
    last, previous = weights / LAST, weights / PREVIOUS[LAST]
    if not last.exists() and not previous.exists():
        return Plan("start", notes=_forget(yolo))
    notes: list[str] = []
    for path in (last, previous):
        if not path.exists():
            continue
        state = _state_of(path)
        checkpoint, fault = _verify(path, trusted=state is not None)
        if fault:
            notes.append(f"{path.name} is damaged ({fault})")
            continue
        if path == previous:
            notes.append(f"going on from {previous.name}, one epoch earlier")
            _put_back(last, previous)
        _match_state(last, state)
        return _use(yolo, checkpoint, state, epochs, notes)
    raise CheckpointError(
        f"{'; '.join(notes)}: nothing to resume from in {weights}. Start anew with --fresh; "
        "best.pt and results.csv stay where they are"
    )


def _use(yolo: Path, checkpoint: Any, state: exact.State | None, epochs: int | None, notes: list[str]) -> Plan:
    stripped = checkpoint.get("epoch", -1) < 0
    done = stripped or bool(state and state["done"]) or (epochs is not None and checkpoint["epoch"] + 1 >= epochs)
    rows = yolo / "results.csv"
    if stripped:
        return Plan("final", _rows(rows), tuple(notes))
    epoch = int(checkpoint["epoch"]) + 1
    if state:
        codec.write_text(rows, state["csv"])
    elif cut := _trim(rows, epoch):
        notes.append(f"results.csv: {cut} rows beyond the checkpoint left out, they are trained again")
    fitness = (checkpoint.get("train_metrics") or {}).get("fitness")
    best, last = yolo / "weights" / "best.pt", yolo / "weights" / LAST
    if fitness is not None and fitness == checkpoint.get("best_fitness") and sha256(best) != sha256(last):
        codec.write_bytes(best, last.read_bytes())  # killed between the two
    if done:
        return Plan("final", epoch, tuple(notes))
    if state is None:
        notes.append(f"no {STATE} that belongs to {LAST}: resumed the Ultralytics way, not bit for bit")
    return Plan("exact" if state else "plain", epoch, tuple(notes))


def _verify(path: Path, *, trusted: bool) -> tuple[Any, str]:
    """The checkpoint, or what is wrong with it. `trusted`: its checksum is that of the bytes that we wrote."""
    try:
        if not trusted:
            with zipfile.ZipFile(path) as archive:
                if broken := archive.testzip():
                    return None, f"{broken} is not what was written"
        checkpoint = torch.load(path, map_location="cpu", weights_only=False)  # this run's own file
    except Exception as error:
        return None, (str(error).splitlines() or [type(error).__name__])[0][:160]
    if not isinstance(checkpoint, dict) or not isinstance(checkpoint.get("epoch"), int):
        return None, "no checkpoint of a training"
    if checkpoint["epoch"] < 0:  # stripped by the final evaluation
        return (checkpoint, "") if checkpoint.get("model") is not None else (None, "no weights in it")
    for name in ("optimizer", "ema"):
        if checkpoint.get(name) is None:
            return None, f"no {name} in it"
    return checkpoint, ""


def _state_of(checkpoint: Path) -> exact.State | None:
    """The state that was saved with exactly these bytes, of either generation."""
    digest = sha256(checkpoint)
    for name in (STATE, PREVIOUS[STATE]):
        path = checkpoint.with_name(name)
        state = exact.load(path) if path.exists() else None
        if state and state.get("checkpoint") == digest:
            return {**state, "file": name}
    return None


def _put_back(last: Path, previous: Path) -> None:
    """Make the previous generation the last one; the damaged file stays as last.damaged.pt."""
    if last.exists():
        last.replace(last.with_name("last.damaged.pt"))
    previous.replace(last)
    sync(last.parent)


def _match_state(last: Path, state: exact.State | None) -> None:
    """Leave only the state that belongs to last.pt, under its first name."""
    first, second = last.with_name(STATE), last.with_name(PREVIOUS[STATE])
    if state is None:
        first.unlink(missing_ok=True)
    elif state["file"] != first.name:
        second.replace(first)


def forget(yolo: Path) -> None:
    """Remove what only a resume needs, when the run is finished."""
    for name in (PREVIOUS[LAST], STATE, PREVIOUS[STATE]):
        (yolo / "weights" / name).unlink(missing_ok=True)


def _forget(yolo: Path) -> tuple[str, ...]:
    """Nothing was saved: rows without a checkpoint are trained again."""
    rows = yolo / "results.csv"
    if not rows.exists():
        return ()
    rows.unlink()
    return ("results.csv had rows, but no checkpoint was saved: they are trained again",)


def _rows(path: Path) -> int:
    try:
        return max(0, len(path.read_text(encoding="utf-8").splitlines()) - 1)
    except OSError:
        return 0


def _trim(path: Path, epochs: int) -> int:
    """Keep the header and the whole rows of the first `epochs` epochs; returns how many were left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except OSError:
        return 0
    if not lines:
        return 0
    width = len(next(csv.reader(io.StringIO(lines[0])), []))
    kept = [lines[0]]
    for line in lines[1:]:
        cells = next(csv.reader(io.StringIO(line)), [])
        try:
            whole = line.endswith("\n") and len(cells) == width and 0 < float(cells[0]) <= epochs
        except ValueError:
            whole = False
        if whole:
            kept.append(line)
    if len(kept) < len(lines):
        codec.write_text(path, "".join(kept))
    return len(lines) - len(kept)


def announce(plan: Plan, run_dir: Path) -> None:
    """Say on stderr how the training goes on; tell the trainer, and in resume.json the stage."""
    os.environ[CHECKPOINT] = "\n".join((plan.how, *plan.notes))
    note(run_dir, Resumed(plan.how, plan.epoch, False, "", plan.notes))
    for line in plan.notes:
        print(f"diag: {line}", file=sys.stderr)
    if plan.how == "final":
        print("diag: all epochs are trained; the final evaluation is done again", file=sys.stderr)
    elif plan.how != "start":
        print(f"diag: resuming after epoch {plan.epoch}", file=sys.stderr)


def note(run_dir: Path, resumed: Resumed) -> None:
    """Write resume.json; a full disk costs only this note."""
    try:
        codec.write_json(run_dir / "resume.json", resumed)
    except OSError as error:
        print(f"diag: resume.json is not written: {error}", file=sys.stderr)
