"""The engine: four ends of a rule, causes over symptoms, order, overrides."""

from dataclasses import replace
from typing import Any

import pytest

from diag.engine import evaluate
from diag.errors import ConfigError
from diag.model.evidence import Evidence, StepStats
from diag.model.finding import Confidence, Hit, Severity, Skip, Source, Verdict
from diag.model.run import ExitCause, RunRecord, TrainArgs
from diag.model.trace import Stage
from diag.render.words import disagreements
from diag.rules.base import Rule, rule
from tests.rules.building import evidence

ARGS = Evidence(args=TrainArgs({}))


def make(
    id: str,
    verdict: Any,
    *,
    severity: Severity = Severity.MEDIUM,
    explained_by: tuple[str, ...] = (),
    unless: tuple[str, ...] = (),
) -> Rule:
    @rule(id, severity, explained_by=explained_by, unless=unless)
    def judge(args: TrainArgs, *, limit: float = 1.0, name: str = "a") -> Verdict:
        """Says what it is told to."""
        if isinstance(verdict, Exception):
            raise verdict
        result: Verdict = verdict(limit) if callable(verdict) else verdict
        return result

    return judge


def test_the_four_ends_of_a_rule() -> None:
    rules = [make("a", Hit()), make("b", None), make("c", Skip("no_score")), make("d", KeyError("x")), make("e", 7)]
    report = evaluate(ARGS, rules=rules)
    assert [f.id for f in report.findings] == ["a"]
    assert report.passed == ("b",)
    assert [(s.id, s.reason) for s in report.skipped] == [("c", "no_score")]
    assert [c.id for c in report.crashed] == ["d", "e"]
    assert report.crashed[0].error == "KeyError: 'x'"


def test_missing_evidence_skips_with_its_name() -> None:
    report = evaluate(Evidence(), rules=[make("a", Hit())])
    assert [(s.reason, s.values) for s in report.skipped] == [("no_evidence", {"missing": "args"})]
    assert report.verdict == "unknown"


def test_a_symptom_goes_under_its_cause_however_loud_it_is() -> None:
    rules = [
        make("symptom", Hit(), severity=Severity.CRITICAL, explained_by=("cause", "other")),
        make("cause", Hit(), severity=Severity.LOW),
        make("other", None),
    ]
    report = evaluate(ARGS, rules=rules)
    assert [(f.id, f.explains) for f in report.findings] == [("cause", ("symptom",)), ("symptom", ())]


def test_a_quiet_cause_of_a_loud_symptom_stands_above_a_louder_remark() -> None:
    rules = [
        make("a.remark", Hit(), severity=Severity.HIGH),
        make("cause", Hit(), severity=Severity.LOW),
        make("middle", Hit(), severity=Severity.LOW, explained_by=("cause",)),
        make("killed", Hit(), severity=Severity.CRITICAL, explained_by=("middle",)),
        make("fine", Hit(), severity=Severity.INFO),
        make("flat", Hit(), severity=Severity.CRITICAL, explained_by=("fine",)),
    ]
    roots = [f.id for f in evaluate(ARGS, rules=rules).findings if f.id in {"a.remark", "cause", "fine"}]
    assert roots == ["cause", "a.remark", "fine"]


def test_what_another_finding_contradicts_is_not_said() -> None:
    rules = [make("fine", Hit(), severity=Severity.INFO, unless=("broken",)), make("broken", Hit())]
    report = evaluate(ARGS, rules=rules)
    assert ([f.id for f in report.findings], report.passed) == (["broken"], ("fine",))
    assert [f.id for f in evaluate(ARGS, rules=rules[:1]).findings] == ["fine"]


def test_the_same_evidence_is_said_once() -> None:
    where = Source("dmesg.txt", 1, "Killed process")
    report = evaluate(ARGS, rules=[make("a", Hit(evidence=(where, where)))])
    assert report.findings[0].evidence == (where,)


def test_order_is_severity_then_headroom_then_confidence() -> None:
    rules = [
        make("low", Hit(headroom=0.9), severity=Severity.LOW),
        make("unsure", Hit(headroom=0.5, confidence=Confidence.LOW)),
        make("sure", Hit(headroom=0.5)),
        make("much", Hit(headroom=0.6)),
        make("raised", Hit(severity=Severity.HIGH)),
    ]
    assert [f.id for f in evaluate(ARGS, rules=rules).findings] == ["raised", "much", "sure", "unsure", "low"]


def test_how_far_a_run_got_stands_behind_what_its_epochs_say() -> None:
    rules = [make("train.incomplete", Hit(headroom=0.9)), make("cause", Hit(confidence=Confidence.LOW))]
    assert [f.id for f in evaluate(ARGS, rules=rules).findings] == ["cause", "train.incomplete"]
    rules[1] = make("cause", Hit(), severity=Severity.LOW)
    assert [f.id for f in evaluate(ARGS, rules=rules).findings] == ["train.incomplete", "cause"]


def test_overrides_change_thresholds_severity_and_switch_off() -> None:
    rules = [make("a", lambda limit: Hit({"limit": limit})), make("b", Hit())]
    report = evaluate(ARGS, rules=rules, overrides={"a": {"limit": 3, "severity": "low"}, "b": {"enabled": False}})
    assert [(f.id, f.severity, f.values) for f in report.findings] == [("a", Severity.LOW, {"limit": 3})]
    assert [(s.id, s.reason) for s in report.skipped] == [("b", "switched_off")]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"rule.on": {}}, "rules: rule.on: no such rule; did you mean rule.one?"),
        ({"rule.one": {"limt": 1}}, "rules: rule.one.limt: no such threshold or value; did you mean limit?"),
        ({"rule.one": {"limit": "much"}}, "rules: rule.one.limit: 'much' is not like its default 1.0"),
        ({"rule.one": {"limit": True}}, "rules: rule.one.limit: True is not like its default 1.0"),
        ({"rule.one": {"limit": float("nan")}}, "rules: rule.one.limit: nan is not like its default 1.0"),
        ({"rule.one": {"name": 1}}, "rules: rule.one.name: 1 is not like its default 'a'"),
        ({"rule.one": {"severity": "bad"}}, "rules: rule.one.severity: one of info, low, medium, high, critical"),
        ({"rule.one": {"enabled": 1}}, "rules: rule.one.enabled: one of true, false"),
        (
            {"steps": {"data_bound": 1}},
            "rules: steps.data_bound: no such threshold or value; did you mean data_bound_s?",
        ),
    ],
)
def test_a_wrong_override_is_named(overrides: dict[str, dict[str, Any]], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        evaluate(ARGS, rules=[make("rule.one", Hit())], overrides=overrides)
    assert str(error.value) == message


@pytest.mark.parametrize(("kind", "verdict"), [("finished", "pass"), ("stopped", "pass"), ("failed", "unknown")])
def test_silence_about_a_failed_run_is_no_pass(kind: str, verdict: str) -> None:
    run = RunRecord("r", 1, "", {}, {}, exit_cause=ExitCause(kind))
    evidence = replace(_steps(0.1, 0.8, 0.01), run=run)
    assert evaluate(evidence).verdict == verdict
    assert evaluate(replace(evidence, steps=None)).verdict == "unknown"


def _steps(wait: float, model: float, optimizer: float) -> Evidence:
    mean = {Stage.DATA_WAIT: wait, Stage.FORWARD: model, Stage.OPTIMIZER: optimizer}
    return Evidence(steps=StepStats(100, 90, mean, mean, mean, wait + model + optimizer, "train.log"))


@pytest.mark.parametrize(
    ("seconds", "threshold", "share"),
    [
        ((0.16, 1.8, 0.04), ["speed.loader_bound", "speed.optimizer_bound"], ["speed.gpu_bound"]),
        ((0.05, 0.02, 0.01), [], ["speed.loader_bound"]),
        ((0.50, 0.30, 0.01), ["speed.loader_bound"], ["speed.loader_bound"]),
        ((0.01, 0.30, 0.01), ["speed.gpu_bound"], ["speed.gpu_bound"]),
        ((0.13, 0.26, 0.01), [], ["speed.loader_bound"]),
        ((0.001, 0.015, 0.01), [], ["speed.optimizer_bound"]),
    ],
)
def test_fixed_limits_and_shares_side_by_side(
    seconds: tuple[float, float, float], threshold: list[str], share: list[str]
) -> None:
    report = evaluate(_steps(*seconds))
    assert report.steps is not None
    assert list(report.steps.by_threshold) == threshold
    assert list(report.steps.by_share) == share
    assert report.steps.agree == (threshold == share)
    assert {f.id for f in report.findings} == set(share)


def test_a_share_that_could_not_be_judged_contradicts_nothing() -> None:
    evidence = _steps(0.5, 0.3, 0.01)
    assert evidence.steps
    report = evaluate(replace(evidence, steps=replace(evidence.steps, steps=1, steady_steps=1)))
    assert report.steps is not None
    assert report.steps.by_threshold == ("speed.loader_bound",)
    assert set(report.steps.unjudged) == {"speed.loader_bound", "speed.gpu_bound", "speed.optimizer_bound"}
    assert report.steps.agree
    assert len(disagreements(report.steps, "en")) == 1


def test_the_fixed_limits_are_configurable() -> None:
    report = evaluate(_steps(0.05, 0.02, 0.01), overrides={"steps": {"data_bound_s": 0.04}})
    assert report.steps is not None
    assert report.steps.by_threshold == ("speed.loader_bound",)


def test_a_slow_loader_has_one_root_on_top() -> None:
    made = evidence(
        {
            "steps": {"count": 100, "data_wait": 0.05, "forward": 0.02},
            "loader": {"workers": 2, "read": 1, "decode": 60, "augment": 8},
            "args": {"workers": 2, "device": 0},
            "baseline": {"host": {"cpus_effective": 8.0}, "cuda_usable": True},
        }
    )
    report = evaluate(made)
    explained = {id for f in report.findings for id in f.explains}
    assert [f.id for f in report.findings if f.id not in explained] == ["speed.decode_bound"]
    assert report.findings[0].explains == ("speed.loader_bound", "speed.raise_workers")


def test_a_short_run_without_any_score_is_not_called_good() -> None:
    rules = [make("a", None)]
    args = {"args": {"epochs": 3}}
    nothing = evidence({"curves": {"metrics/mAP50-95(B)": "0 x3"}} | args)
    assert evaluate(nothing, rules=rules).verdict == "unknown"
    assert evaluate(evidence({"curves": {"metrics/mAP50-95(B)": "0.3 x3"}} | args), rules=rules).verdict == "pass"
