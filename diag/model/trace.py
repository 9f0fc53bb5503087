"""The time ledger of a run: laps without gaps, counters, marks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Stage(StrEnum):
    """Named parts of a run. Every nanosecond of the recorded time belongs to exactly one."""

    STARTUP = "startup"
    """From the trainer's start to the first batch request: imports, label scan, model build."""
    DATA_WAIT = "data_wait"
    """Until the batch arrived from the loader."""
    TRANSFER = "transfer"
    """`preprocess_batch`: to the device, to float, resize for multi-scale."""
    FORWARD = "forward"
    """Model and loss."""
    BACKWARD = "backward"
    """From the loss to the end of backward."""
    OPTIMIZER = "optimizer"
    """`optimizer_step`: unscale, clip, step, EMA."""
    LOG = "log"
    """Progress bar, callbacks and plots at the end of a batch."""
    VALIDATE = "validate"
    CHECKPOINT = "checkpoint"
    EPOCH_GAP = "epoch_gap"
    """Between epochs: scheduler, mosaic close, worker restart, csv."""
    PLOT = "plot"
    """Training samples, labels and curves as images; plots of a validation belong to it."""
    FINAL_EVAL = "final_eval"
    """Validation of best.pt and final plots after the last epoch."""
    OTHER = "other"


STEP_STAGES = (
    Stage.DATA_WAIT,
    Stage.TRANSFER,
    Stage.FORWARD,
    Stage.BACKWARD,
    Stage.OPTIMIZER,
    Stage.LOG,
)
"""The stages that make up one training step, in order."""


@dataclass(frozen=True)
class Lap:
    """One timed piece of a stage. Times are CLOCK_MONOTONIC nanoseconds; `step` counts batches from
    0 over the whole run, `epoch` counts from 0; both are -1 outside the batch loop."""

    stage: Stage
    start_ns: int
    end_ns: int
    step: int = -1
    epoch: int = -1

    @property
    def ns(self) -> int:
        """Length in nanoseconds."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Mark:
    """An instant: `start`, `oom_retry`, `nan_recovery`, `end` ..."""

    name: str
    t_ns: int
    values: Mapping[str, str | int | float | bool | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Trace:
    """All records of one rank, in file order. `lost_lines` counts lines that could not be read."""

    laps: tuple[Lap, ...]
    marks: tuple[Mark, ...]
    lost_lines: int = 0
