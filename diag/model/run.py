"""What is known of a run beside its time: arguments, epochs, how it ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ExitCause:
    """How a run ended.

    `kind` is one of `EXIT_KINDS`; `detail` is a line for people, `evidence` the text it rests on.
    """

    kind: str
    code: int | None = None
    signal: str = ""
    detail: str = ""
    evidence: str = ""


EXIT_KINDS = (
    "running",  # not ended yet, or the machine went away: see the summary's `updated`
    "finished",
    "failed",  # an exception; its last line is the detail
    "check_failed",  # stopped before training by a failed check
    "input_error",
    "stopped",  # SIGTERM or SIGINT
    "stalled",  # hung, and ended by the watchdog (DIAG_STALL_ABORT=1)
    "killed",  # SIGKILL without an out-of-memory kill
    "ram_oom",
    "gpu_oom",
    "disk_full",
    "shm_small",
    "thread_limit",
    "gpu_lost",
    "internal_error",
)


@dataclass(frozen=True)
class Resumed:
    """`resume.json`: how the training child went on.

    `how` is `start`, `exact` (with the state of our own), `plain` (as Ultralytics resumes) or `final` (only the final
    evaluation was left); `epoch` counts the epochs that were finished before. `exact` says whether the rest equals an
    uninterrupted run bit for bit, `why_not` why it does not.
    """

    how: str
    epoch: int = 0
    exact: bool = False
    why_not: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attempt:
    """One start of a run, from process start to its end. Times are ISO 8601 with zone."""

    started: str
    ended: str = ""
    exit_cause: ExitCause = field(default_factory=lambda: ExitCause("running"))
    resumed: Resumed | None = None
    """None until the training child has chosen a checkpoint."""
    machine: str = ""
    """Digest of image and hardware; a mini-run that passed is not repeated on the same one."""
    changed: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that the user changed with `resume=`."""


@dataclass(frozen=True)
class RunRecord:
    """`run.json`: what was asked for and what became of it. Times are ISO 8601 with zone.

    `ended` and `exit_cause` are those of the last attempt.
    """

    id: str
    schema_version: int
    started: str
    overrides: Mapping[str, Any]
    """The user's `key=value` arguments as given."""
    args: Mapping[str, Any]
    """What Ultralytics was called with: defaults, overrides, resolved paths."""
    task: str = ""
    stack: str = ""
    lock_sha256: str = ""
    ended: str = ""
    pid: int = 0
    exit_cause: ExitCause = field(default_factory=lambda: ExitCause("running"))
    key: str = ""
    """Digest of what makes it the same training; empty for a run that does not train, and for old ones."""
    attempts: tuple[Attempt, ...] = ()


@dataclass(frozen=True)
class Epoch:
    """One row of results.csv. `row` counts rows from 1, `epoch` is the file's own number.

    `values` maps the stripped column names to numbers (nan and inf are kept).
    """

    row: int
    epoch: float
    values: Mapping[str, float]


@dataclass(frozen=True)
class Epochs:
    """All full-width rows of a results.csv in file order; `dropped` counts rows that were not usable."""

    rows: tuple[Epoch, ...]
    columns: tuple[str, ...]
    dropped: int = 0
    file: str = "results.csv"

    def column(self, name: str) -> tuple[float, ...]:
        """The values of one column, nan where a row lacks it."""
        return tuple(row.values.get(name, float("nan")) for row in self.rows)


@dataclass(frozen=True)
class TrainArgs:
    """The arguments that training really used (args.yaml, run.json). `raw` holds all of them."""

    raw: Mapping[str, Any]
    places: Mapping[str, tuple[str, int, str]] = field(default_factory=dict)
    """Where an argument was read: file, line and what stands there; absent where that is not known."""

    def get(self, name: str, default: Any = None) -> Any:
        """One argument, or `default` where it is absent or null."""
        value = self.raw.get(name)
        return default if value is None else value
