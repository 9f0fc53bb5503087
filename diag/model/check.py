"""What a check of the machine answers, and how a pipeline stage ends."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """How a check or a stage ended. `skip` and `unknown` are never a pass."""

    PASS = "pass"
    INFO = "info"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"
    UNKNOWN = "unknown"


_BAD_FIRST = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.PASS, Status.INFO, Status.SKIP)


def worst(statuses: "list[Status] | tuple[Status, ...]") -> Status:
    """The status that a group of checks has together: fail > warn > unknown > pass > info > skip.

    An empty group is `skip`: nothing was looked at.
    """
    return min(statuses, key=_BAD_FIRST.index, default=Status.SKIP)


@dataclass(frozen=True)
class Check:
    """One answered question about the machine.

    `value` is what was measured, `expected` what it was compared with, `reason` why the answer is
    skip/unknown (or what is wrong), `remedy` the exact thing to do, `finding` the id from the
    finding catalog that a fail or warn stands for, `facts` further machine-readable numbers.
    """

    id: str
    status: Status
    value: str = ""
    expected: str = ""
    reason: str = ""
    remedy: str = ""
    finding: str = ""
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Checks:
    """The answers of `diag check` that lie beside a run."""

    checks: tuple[Check, ...]
    file: str
    created: str = ""
    """ISO 8601 with zone; empty in files of an older version."""
    machine: str = ""
    """Digest of image and hardware, as in an attempt of run.json."""
    later: bool = False
    """Made by `diag collect` after the run, without the run's arguments."""


@dataclass(frozen=True)
class StageResult:
    """How one stage of the pipeline (check, data, smoke, train, analyze, report) ended.

    `reason` is one line for people; `details` is what the summary keeps of the stage.
    """

    name: str
    status: Status
    reason: str = ""
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)
