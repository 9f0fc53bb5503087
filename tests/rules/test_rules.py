"""Every case of every rule, and the contract that all rules keep."""

import ast
import csv
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import settings as settings_
from hypothesis import strategies as st

from diag import messages, settings
from diag.engine import evaluate
from diag.model.finding import Finding, Report
from diag.render import console, jsonfile, markdown, words
from diag.rules import broken_plugins, load_rules
from tests.rules.building import evidence

HOLE = re.compile("(^|[\\s(\uff08])\\?")
CASES = Path(__file__).parent / "cases"
RULES = {rule.id: rule for rule in load_rules()}


def _cases() -> list[Any]:
    found = []
    for path in sorted(CASES.glob("*.yaml")):
        for case in yaml.safe_load(path.read_text(encoding="utf-8")):
            found.append(pytest.param(path.stem, case, id=f"{path.stem}: {case['name']}"))
    return found


def _judge(id: str, case: dict[str, Any]) -> Report:
    return evaluate(evidence(case["evidence"]), rules=[RULES[id]], overrides=case.get("rules"))


@pytest.mark.parametrize(("id", "case"), _cases())
def test_case(id: str, case: dict[str, Any]) -> None:
    report = _judge(id, case)
    assert not report.crashed
    match case["expect"]:
        case "pass":
            assert report.passed == (RULES[id].finding,), report
        case {"skip": reason}:
            assert [s.reason for s in report.skipped] == [reason]
        case {"hit": expected}:
            assert len(report.findings) == 1, report
            _compare(report.findings[0], expected)
            _tell(report, case)
        case other:
            raise AssertionError(f"unknown expectation {other}")


def _compare(finding: Finding, expected: dict[str, Any]) -> None:
    for name, wanted in expected.items():
        match name:
            case "fixes":
                assert {fix.key: dict(fix.change) for fix in finding.fixes} == {k: v or {} for k, v in wanted.items()}
            case "fix_order":
                assert [fix.key for fix in finding.fixes] == wanted.split()
            case "severity" | "confidence":
                assert getattr(finding, name) == wanted
            case _:
                number = isinstance(wanted, (int, float))
                assert finding.values[name] == (pytest.approx(wanted, rel=0.02) if number else wanted)


def _tell(report: Report, case: dict[str, Any]) -> None:
    """A hit formats in both languages and all formats, without a hole."""
    finding = report.findings[0]
    for lang in messages.LANGUAGES:
        told = words.story(finding, lang)
        for sentence in (told.title, told.cause, *(a.sentence for a in told.advice)):
            assert sentence
            assert "{" not in sentence
            assert not HOLE.search(sentence), f"a number is missing: {sentence}"
            assert finding.id not in sentence  # the fallback for a missing sentence
        assert told.title in markdown.report(report, evidence(case["evidence"]), lang=lang).replace("\\", "")
        assert finding.id in console.report(report, evidence(case["evidence"]), lang=lang)
    assert jsonfile.report_dict(report, evidence(case["evidence"]))["findings"][0]["id"] == finding.id


def test_every_rule_has_a_hit_and_a_pass_case() -> None:
    kinds: dict[str, set[str]] = {id: set() for id in RULES}
    for param in _cases():
        id, case = param.values
        kinds[id] |= {case["expect"]} if isinstance(case["expect"], str) else set(case["expect"])
    assert {id: sorted({"hit", "pass"} - found) for id, found in kinds.items() if {"hit", "pass"} - found} == {}


def test_every_id_is_in_the_catalog_with_the_same_severity() -> None:
    with (settings.CONFIGS / "findings.tsv").open(encoding="utf-8") as file:
        catalog = {row["id"]: row["severity"] for row in csv.DictReader(file, delimiter="\t")}
    assert {id: rule.severity.value for id, rule in RULES.items()} == {
        id: catalog[rule.finding] for id, rule in RULES.items()
    }
    assert {id for rule in RULES.values() for id in (*rule.explained_by, *rule.unless)} <= set(catalog)


def test_each_finding_has_a_rule_or_a_reason_why_not() -> None:
    named = []
    for name in ("findings.tsv", "no_rule.tsv"):
        with (settings.CONFIGS / name).open(encoding="utf-8") as file:
            named.append({row["id"] for row in csv.DictReader(file, delimiter="\t")})
    findings, without = named
    assert without == findings - {rule.finding for rule in RULES.values()}


def test_causes_do_not_go_in_a_circle() -> None:
    def up(id: str, seen: tuple[str, ...]) -> None:
        assert id not in seen
        for rule in RULES.values():
            for cause in rule.explained_by if rule.finding == id else ():
                up(cause, (*seen, id))

    for rule in RULES.values():
        up(rule.finding, ())


def test_rules_are_documented_and_import_only_the_model() -> None:
    for rule in RULES.values():
        doc = inspect.getdoc(rule.function) or ""
        missing = [name for name in rule.thresholds if name not in doc and name not in _SHARED]
        assert not missing, f"{rule.id}: say in the docstring why {missing} are what they are"
    allowed = ("diag.model.", "diag.rules.", "diag.rules", "diag.stats")
    for path in Path(inspect.getfile(evaluate)).parent.glob("rules/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("diag"):
                assert str(node.module).startswith(allowed), f"{path.name} imports {node.module}"


_SHARED = {"min_steps", "min_epochs", "min_points", "min_batches", "min_rows", "width"}
"""Thresholds whose name says it all: below so many there is nothing to judge."""


def test_missing_evidence_never_crashes_a_rule() -> None:
    report = evaluate(evidence({}))
    assert report.crashed == broken_plugins()
    assert report.findings == ()
    assert report.verdict == "unknown"
    assert len(report.skipped) == len({rule.finding for rule in RULES.values()})


def test_the_docs_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, settings.ROOT / "scripts/sync_docs.py", "--check"], check=False)
    assert done.returncode == 0, "run scripts/sync_docs"


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
NAMES = ["device", "workers", "batch", "imgsz", "epochs", "patience", "lr0", "optimizer", "cache", "amp", "model"]
NAMES += ["close_mosaic", "mosaic", "nbs", "time", "plots", "pretrained"]
EVERYTHING = {
    "curves": {
        "train/box_loss": "3>1 x50",
        "val/box_loss": "3>1 x20, 1>2 x30",
        "metrics/mAP50-95(B)": "0.1>0.6 x20, 0.6>0.4 x30",
        "lr/pg0": "0.01>0.001 x50",
    },
    "steps": {"count": 50, "data_wait": 0.05, "forward": 0.05, "optimizer": 0.05},
    "ledger": {"forward": 50, "validate": 100},
    "console": "CUDA out of memory\nNo space left on device\nkilled by signal: Killed",
    "dataset": {"splits": {"train": {"images": 10, "labelled": 3}, "val": {"images": 4, "instances": 3}}},
    "baseline": {"host": {"cpus_effective": 2.0, "shm_total_bytes": 1}},
    "run": {"exit_cause": {"kind": "shm_small"}},
    "counters": {
        "seconds": 1000,
        "series": {
            "rss_workers_bytes": "1e9>9e9 x100",
            "workers": "4 x100",
            "periods_total": "0>100 x100",
            "throttled_periods_total": "0>90 x100",
            "throttled_s_total": "0>900 x100",
            "gpu0_memory_used_bytes": "0>1e9 x100",
            "gpu1_memory_used_bytes": "0>9e9 x100",
        },
        "gpus": [{"index": 0, "memory_total_bytes": 10**10}, {"index": 1, "memory_total_bytes": 9 * 10**9}],
    },
}


@settings_(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), ODD))
def test_no_argument_value_crashes_a_rule(raw: dict[str, Any]) -> None:
    made = evidence({**EVERYTHING, "args": raw})
    report = evaluate(made)
    assert report.crashed == broken_plugins()
    assert report.findings
    console.report(report, made)
    jsonfile.report_dict(report, made)
