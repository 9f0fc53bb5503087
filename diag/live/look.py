"""One look at a run: its evidence, the verdict of the rules, how far it is and how long it will take."""

import math
import statistics
from dataclasses import dataclass, field
from pathlib import Path

from diag import codec
from diag.engine import Overrides, evaluate
from diag.errors import InputError
from diag.health import now
from diag.live.state import State, run_state
from diag.load import load_run
from diag.load.follow import Files
from diag.model.evidence import Evidence
from diag.model.finding import Report
from diag.rules.ending import planned_epochs
from diag.stages.progress import Progress, read_progress


@dataclass(frozen=True)
class Look:
    """What was seen at `time` (ISO 8601). `stage` is the pipeline's running stage, or empty."""

    time: str
    state: State
    stage: str
    progress: Progress | None
    eta_s: float | None
    report: Report
    evidence: Evidence
    metrics: dict[str, float] = field(default_factory=dict)
    """Scores and losses of the newest epoch by short name (`mAP50-95`, `box_loss`), and `lr`."""

    @property
    def epoch(self) -> int | None:
        """The epoch that is trained, counted from 1."""
        return self.progress.epoch if self.progress else None


def take_look(path: Path, files: Files, *, overrides: Overrides | None = None, patience_s: float | None = None) -> Look:
    """Read what is there and judge it. A run that has written nothing yet is an empty look, not an error."""
    try:
        evidence = load_run(path, files)
    except InputError:
        if not (path / "run.json").exists():
            raise
        evidence = Evidence(path=str(path))
    state = run_state(path, evidence, patience_s=patience_s)
    report = evaluate(evidence, overrides=overrides, living=state.living)
    progress = how_far(path, evidence)
    eta = eta_s(progress, evidence) if state.living else None
    return Look(now(), state, _stage(path), progress, eta, report, evidence, newest(evidence))


def how_far(path: Path, evidence: Evidence) -> Progress | None:
    """Epoch and batch from train.log, else from the log's open bar and the rows of results.csv."""
    if path.is_dir() and (known := read_progress(path)):
        return known
    log, curves, planned = evidence.log, evidence.curves, planned_epochs(evidence.args)
    rows = [*log.epochs[-1:], *log.parts[-1:]] if log else []
    if rows:
        row = max(rows, key=lambda r: r.line)
        zero = bool(log and log.epochs and log.epochs[0].epoch == 0)  # YOLOv5 counts from 0
        if row.planned:
            total = row.total or 0
            whole = row.metrics and row.done is None
            return Progress(row.epoch + zero, row.planned + zero, total if whole else row.done or 0, total)
    if curves is None:
        return None
    return Progress(curves.rows, planned or 0, 0, 0)


def eta_s(progress: Progress | None, evidence: Evidence) -> float | None:
    """Seconds until the last planned epoch is done, early stopping aside; None where that can't be known yet.

    From the median of the last five epochs of the `time` column; in the first epoch from the mean step so far.
    """
    if progress is None or not progress.epochs:
        return None
    within = progress.batch / progress.batches if progress.batches else 1.0
    left = max(0.0, progress.epochs - (progress.epoch - 1) - within)
    clock = evidence.curves.clock if evidence.curves else ()
    lengths = [b - a for a, b in zip((0.0, *clock), clock, strict=False) if b > a][-5:]
    if lengths:
        return left * statistics.median(lengths)
    if evidence.steps is not None and progress.batches:
        return left * progress.batches * evidence.steps.step_s
    return None


def newest(evidence: Evidence) -> dict[str, float]:
    """The newest row's scores, training losses and learning rate, by short names; numbers that are none are left out.

    An epoch that is still running counts with its losses so far, if the log shows them.
    """
    curves, log = evidence.curves, evidence.log
    found: dict[str, float] = {}
    if curves is not None and curves.rows:
        found |= {short_name(name): values[-1] for name, values in curves.columns.items() if values}
        found |= {name: values[-1] for name, values in curves.train.items() if values}
        if curves.lr:
            found["lr"] = curves.lr[-1]
    if log is not None and log.parts and (not log.epochs or log.parts[-1].line > log.epochs[-1].line):
        found |= log.parts[-1].losses
    return {name: value for name, value in found.items() if not math.isnan(value)}


def short_name(column: str) -> str:
    """`metrics/mAP50-95(B)` -> `mAP50-95`, `metrics/mAP50(M)` -> `mAP50(M)`."""
    return column.removeprefix("metrics/").removesuffix("(B)")


def _stage(path: Path) -> str:
    """The stage that the run's own summary says is running."""
    try:
        document = codec.read_json(path / "health.json", dict)
    except (OSError, InputError):
        return ""
    running = {"status": "unknown", "reason": "running"}
    return next((n for n, s in document.items() if isinstance(s, dict) and running.items() <= s.items()), "")
