"""`@rule`: a pure function becomes a rule; its signature is its registration.

Positional parameters name fields of `Evidence`; keyword-only parameters are thresholds with defaults.
"""

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from diag.model.evidence import Evidence
from diag.model.finding import Severity, Verdict

_EVIDENCE = {f.name for f in fields(Evidence)}


@dataclass(frozen=True)
class Rule:
    """A registered rule.

    `needs` are the Evidence fields it can't do without, `wants` those that it takes as `X | None`;
    `thresholds` maps keyword names to defaults; `explained_by` lists ids that explain it away.
    """

    id: str
    severity: Severity
    summary: str
    function: Callable[..., Verdict]
    needs: tuple[str, ...]
    wants: tuple[str, ...]
    thresholds: dict[str, Any]
    explained_by: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    """Findings beside which this one would be a contradiction ("converged" beside "overfit"): it is not said then."""

    @property
    def finding(self) -> str:
        """The id in the finding catalog: the rule's own without a variant (`speed.storage_slow@foreign`)."""
        return self.id.partition("@")[0]


def rule(
    id: str, severity: Severity, *, explained_by: tuple[str, ...] = (), unless: tuple[str, ...] = ()
) -> Callable[[Callable[..., Verdict]], Rule]:
    """Make a rule of a function. `id` is a name of the finding catalog.

    `explained_by` names the causes that this finding goes under, `unless` the findings that it would contradict: where
    one of them is found, this one counts as passed.

    A finding that is known from two kinds of evidence has two rules: `id` and `id@variant`, each with its own
    sentences and cases; a report holds the finding once.

    Raises TypeError at import when a parameter is no field of Evidence or a threshold has no default.
    """

    def make(function: Callable[..., Verdict]) -> Rule:
        hints = typing.get_type_hints(function)
        needs, wants, thresholds = [], [], {}
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind is parameter.KEYWORD_ONLY:
                if parameter.default is parameter.empty:
                    raise TypeError(f"{id}: threshold {name} has no default")
                thresholds[name] = parameter.default
            elif name not in _EVIDENCE:
                raise TypeError(f"{id}: {name} is no field of Evidence")
            elif type(None) in typing.get_args(hints[name]):
                wants.append(name)
            else:
                needs.append(name)
        summary = (function.__doc__ or "").strip().splitlines()[0]
        return Rule(id, severity, summary, function, tuple(needs), tuple(wants), thresholds, explained_by, unless)

    return make
