"""Evidence -> Report: run every rule, put symptoms under their causes, sort the causes to the top."""

import difflib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from diag.errors import ConfigError
from diag.model.evidence import Evidence
from diag.model.finding import Crash, Finding, Hit, Report, Severity, Skip, Skipped, Source, Verdict
from diag.model.foreign import TrainLog
from diag.model.outcome import Outcome
from diag.model.views import StepViews
from diag.rules import broken_plugins, load_rules, step_views
from diag.rules.base import Rule
from diag.rules.living import too_early
from diag.rules.outcome import outcomes, runs_of

_VERDICT = "train.converged_ok"
"""Of remarks of the same weight the one on the whole curve comes before those on parts of it."""
_HOW_FAR = "train.incomplete"
"""Of findings of the same weight it comes last: where a run ended says nothing of why it is bad."""
_LEARNED = 0.02
"""A best score below it is as good as none (train.not_learning's limit)."""
_UNHARMED = {"finished", "running", "stopped"}
Overrides = Mapping[str, Mapping[str, Any]]
"""Rule id -> threshold name -> value; also `enabled` and `severity`."""


def evaluate(
    evidence: Evidence,
    *,
    overrides: Overrides | None = None,
    rules: Sequence[Rule] | None = None,
    living: bool = False,
) -> Report:
    """Judge a run. Raises ConfigError for overrides that name no rule or threshold; a rule never raises through.

    `living`: the run still trains, so what only its end can show is a skip (diag/rules/living.py).
    """
    crashed: list[Crash] = [] if rules is not None else list(broken_plugins())
    rules = load_rules() if rules is None else rules
    changes = {key: dict(value) for key, value in (overrides or {}).items()}
    check_overrides(rules, changes)
    findings: dict[str, Finding] = {}
    passed: list[str] = []
    skipped: list[Skipped] = []
    for rule in rules:
        change = changes.get(rule.id, {})
        severity = Severity(change.pop("severity", rule.severity))
        fixed = severity if severity != rule.severity else None
        if not change.pop("enabled", True):
            skipped.append(Skipped(rule.id, "switched_off"))
            continue
        try:
            early = too_early(rule.finding, evidence) if living else None
            verdict = early or _ask_all(rule, evidence, change)
            match verdict:
                case None:
                    passed.append(rule.id)
                case Skip(reason, values):
                    skipped.append(Skipped(rule.id, reason, values))
                case Hit() as hit:
                    findings.setdefault(rule.finding, _finding(rule, hit, fixed))
                case _:
                    raise TypeError(f"a rule answers Hit, Skip or None, not {type(verdict).__name__}")
        except Exception as error:  # one broken rule must not hide what the others found
            crashed.append(Crash(rule.id, f"{type(error).__name__}: {error}"))
    runs = {id: runs_of(f, evidence.peers.runs if evidence.peers else ()) for id, f in findings.items()}
    for id in _contradicted(findings, rules, runs):
        passed.append(id)
        del findings[id]
    explained_by: dict[str, tuple[str, ...]] = {}
    for rule in rules:
        explained_by[rule.finding] = (*explained_by.get(rule.finding, ()), *rule.explained_by)
    ordered = _order(findings, explained_by, runs)
    passed, skipped = _once(findings, passed, skipped)
    views = None
    try:
        views = _views(evidence, findings, skipped, changes.get(step_views.ID, {}))
    except Exception as error:
        crashed.append(Crash(step_views.ID, f"{type(error).__name__}: {error}"))
    apart: tuple[Outcome, ...] = ()
    if evidence.peers is not None:
        each = {n: evaluate(r, overrides=overrides, rules=rules).findings for n, r in evidence.peers.runs.items()}
        try:
            apart = outcomes(evidence.peers, each, ordered)
        except Exception as error:
            crashed.append(Crash("compare", f"{type(error).__name__}: {error}"))
    return Report(ordered, tuple(passed), tuple(skipped), tuple(crashed), views, _conclusive(evidence), apart)


Runs = Mapping[str, frozenset[str]]
"""Finding -> the compared runs that it is of; all empty where one run is judged."""


def _together(a: str, b: str, runs: Runs) -> bool:
    """Two findings may be about the same run: what is wrong with one run neither explains nor contradicts another."""
    return not (runs[a] and runs[b]) or bool(runs[a] & runs[b])


def _contradicted(findings: Mapping[str, Finding], rules: Sequence[Rule], runs: Runs) -> list[str]:
    """Findings that another finding contradicts, by the `unless` of the rule that made them."""
    unless = {rule.id: rule.unless for rule in rules}
    return [
        id
        for id, f in findings.items()
        if any(other in findings and _together(id, other, runs) for other in unless[f.message])
    ]


def _once(
    findings: Mapping[str, Finding], passed: Sequence[str], skipped: Sequence[Skipped]
) -> tuple[list[str], list[Skipped]]:
    """Passes and skips by finding: of a finding's rules a hit outweighs a pass, and a pass a skip."""
    names = dict.fromkeys(name.partition("@")[0] for name in passed)
    passes = [name for name in names if name not in findings]
    rest: dict[str, Skipped] = {}
    for skip in skipped:
        name = skip.id.partition("@")[0]
        if name not in findings and name not in names:
            known = rest.get(name)
            if known is None or (known.reason == "no_evidence" and skip.reason != "no_evidence"):
                rest[name] = replace(skip, id=name)
    return passes, list(rest.values())


def _conclusive(evidence: Evidence) -> bool:
    """Whether silence means that all is well: something was measured, the run did not fail, and it learned."""
    known = any(fact is not None for fact in (evidence.steps, evidence.curves, evidence.dataset, evidence.peers))
    curves = evidence.curves
    if curves is not None and curves.best_at and curves.best < _LEARNED:
        return False  # too short for train.not_learning, and nothing to call good
    return known and (evidence.run is None or evidence.run.exit_cause.kind in _UNHARMED)


def _ask_all(rule: Rule, evidence: Evidence, thresholds: Mapping[str, Any]) -> Verdict:
    """A rule's answer on this evidence or, of several runs, the worst of its answers on each."""
    verdicts = [_ask(rule, evidence, thresholds)]
    if evidence.peers is not None and "peers" not in rule.needs:
        for name, run in evidence.peers.runs.items():
            verdict = _ask(rule, replace(run, peers=evidence.peers), thresholds)
            if isinstance(verdict, Hit):
                named = tuple(replace(s, file=f"{name}/{s.file}") for s in verdict.evidence)
                verdict = replace(verdict, evidence=named)
            verdicts.append(verdict)
    hits = [v for v in verdicts if isinstance(v, Hit)]
    if hits:
        return max(hits, key=lambda hit: (hit.severity or rule.severity).rank)
    return None if None in verdicts else verdicts[-1]


def _ask(rule: Rule, evidence: Evidence, thresholds: Mapping[str, Any]) -> Verdict:
    facts = {name: getattr(evidence, name) for name in (*rule.needs, *rule.wants)}
    missing = [name for name in rule.needs if facts[name] is None]
    if missing:
        return Skip("no_evidence", {"missing": ", ".join(missing)})
    verdict: Verdict = rule.function(**facts, **thresholds)
    log = evidence.log
    if isinstance(verdict, Hit) and log is not None and log.joined:
        return replace(verdict, evidence=tuple(_placed(source, log) for source in verdict.evidence))
    return verdict


def _placed(source: Source, log: TrainLog) -> Source:
    """A line of a log of several files in the one that it stands in."""
    return Source(*log.place(source.line), source.text) if source.file == log.file else source


def _finding(rule: Rule, hit: Hit, fixed: Severity | None) -> Finding:
    return Finding(
        id=rule.finding,
        message=rule.id,
        severity=fixed or hit.severity or rule.severity,
        confidence=hit.confidence,
        values=hit.values,
        evidence=tuple(dict.fromkeys(hit.evidence)),
        fixes=hit.fixes,
        headroom=hit.headroom,
    )


def _order(
    findings: Mapping[str, Finding], explained_by: Mapping[str, tuple[str, ...]], runs: Runs
) -> tuple[Finding, ...]:
    """Causes first, by severity, then confidence, headroom and how much they explain; their symptoms come after them.

    A cause ranks with the worst of what it explains: a low one that killed the run stands above a medium remark.
    What is no fault (info) keeps its own rank. How far a run got stands behind what its epochs say.
    """
    causes = {id: [c for c in explained_by.get(id, ()) if c in findings and _together(id, c, runs)] for id in findings}
    effects = {id: tuple(sorted(e for e in findings if id in causes[e])) for id in findings}

    def rank(id: str, seen: tuple[str, ...] = ()) -> int:
        own = findings[id].severity.rank
        return max([own, *(rank(e, (*seen, id)) for e in effects[id] if own and e not in seen)])

    def key(finding: Finding) -> tuple[bool, int, bool, int, float, int, bool, str]:
        return (
            bool(causes[finding.id]),
            -rank(finding.id),
            finding.id == _HOW_FAR,
            -["low", "medium", "high"].index(finding.confidence),
            -(finding.headroom or 0.0),
            -len(effects[finding.id]),
            finding.id != _VERDICT,
            finding.id,
        )

    return tuple(sorted((replace(f, explains=effects[f.id]) for f in findings.values()), key=key))


def _views(
    evidence: Evidence, findings: Iterable[str], skipped: Iterable[Skipped], thresholds: Mapping[str, Any]
) -> StepViews | None:
    if evidence.steps is None:
        return None
    by_share = tuple(id for id in step_views.BY_LINE.values() if id in findings)
    unjudged = tuple(skip.id for skip in skipped if skip.id in step_views.BY_LINE.values())
    return step_views.step_views(evidence.steps, by_share, unjudged, **thresholds)


def check_overrides(rules: Sequence[Rule], overrides: Overrides) -> None:
    """Raise ConfigError at the first rule, threshold or value that can't be; with a "did you mean"."""
    known = {rule.id: rule.thresholds for rule in rules}
    known[step_views.ID] = view_thresholds()
    for id, change in overrides.items():
        if id not in known:
            raise ConfigError(f"rules: {id}: no such rule{_mean(id, known)}")
        for name, value in change.items():
            _check_value(f"rules: {id}.{name}", name, value, known[id])


def _check_value(where: str, name: str, value: object, thresholds: Mapping[str, Any]) -> None:
    match name:
        case "enabled":
            if not isinstance(value, bool):
                raise ConfigError(f"{where}: one of true, false")
        case "severity":
            if value not in list(Severity):
                raise ConfigError(f"{where}: one of {', '.join(Severity)}")
        case _ if name not in thresholds:
            hint = _mean(name, [*thresholds, "enabled", "severity"])
            raise ConfigError(f"{where}: no such threshold or value{hint}")
        case _:
            default = thresholds[name]
            fits = isinstance(value, str) if isinstance(default, str) else isinstance(value, (int, float))
            if not fits or isinstance(value, bool) != isinstance(default, bool) or value != value:  # noqa: PLR0124
                raise ConfigError(f"{where}: {value!r} is not like its default {default!r}")


def view_thresholds() -> dict[str, Any]:
    """The thresholds of the classic three lines with their defaults."""
    parameters = inspect.signature(step_views.step_views).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def _mean(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""
