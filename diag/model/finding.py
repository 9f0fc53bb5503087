"""What a rule answers and what the report shows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from diag.model.outcome import Outcome
from diag.model.views import StepViews

Value = str | int | float | bool | None
"""A number or word of a finding; sentences live in the message catalogs."""


class Severity(StrEnum):
    """How bad a finding is, from a remark to a run that is worthless."""

    INFO = "info"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 for info to 4 for critical."""
        return list(Severity).index(self)


class Confidence(StrEnum):
    """How sure a finding is of its cause."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True)
class Source:
    """Where a number of a finding was read: a file of the run, optionally lines and a quote."""

    file: str
    line: int | None = None
    text: str = ""


@dataclass(frozen=True)
class Fix:
    """Advice. `key` names the sentence in the catalog; `change` the argument overrides in it.

    An empty `change` is advice that is done by hand.
    """

    key: str
    change: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Hit:
    """A rule's yes. `headroom` (0..1) bounds the share of step time that would vanish with the cause."""

    values: Mapping[str, Value] = field(default_factory=dict)
    fixes: tuple[Fix, ...] = ()
    evidence: tuple[Source, ...] = ()
    confidence: Confidence = Confidence.HIGH
    headroom: float | None = None
    severity: Severity | None = None
    """Overrides the rule's severity for this hit (the catalog's severity is the default)."""


@dataclass(frozen=True)
class Skip:
    """A rule's "can't tell": a reason from the catalog's `skip` section, with its numbers."""

    reason: str
    values: Mapping[str, Value] = field(default_factory=dict)


Verdict = Hit | Skip | None
"""A rule ends as hit, skip(reason) or pass (None)."""


@dataclass(frozen=True)
class Finding:
    """A hit with its rule's id and severity; `explains` are ids of findings that it causes."""

    id: str
    severity: Severity
    confidence: Confidence
    values: Mapping[str, Value]
    evidence: tuple[Source, ...]
    fixes: tuple[Fix, ...]
    explains: tuple[str, ...] = ()
    headroom: float | None = None
    message: str = ""
    """Where the catalogs keep its sentences, if not under its id: `id@variant`."""


@dataclass(frozen=True)
class Skipped:
    """A rule that could not answer, and why."""

    id: str
    reason: str
    values: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Crash:
    """A rule that failed by its own fault; shown, never hidden."""

    id: str
    error: str


@dataclass(frozen=True)
class Report:
    """All that an evaluation of the rules gave. `findings[0]` is the primary finding."""

    findings: tuple[Finding, ...]
    passed: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    crashed: tuple[Crash, ...]
    steps: StepViews | None = None
    """The threshold view and the share view of the step times; None without step times."""
    conclusive: bool = True
    """False if too little is known to call the run good: no step times, curves or data audit, or it failed."""
    outcomes: tuple[Outcome, ...] = ()
    """Of several runs: which difference explains how they ended."""

    @property
    def verdict(self) -> str:
        """`fail` with a high or critical finding, `warn` with a medium one, `pass` when rules
        could answer, found nothing worse than low and know enough for it, else `unknown`."""
        worst = max((f.severity.rank for f in self.findings), default=-1)
        if worst >= Severity.HIGH.rank:
            return "fail"
        if worst >= Severity.MEDIUM.rank:
            return "warn"
        return "pass" if self.conclusive and (self.findings or self.passed) else "unknown"
