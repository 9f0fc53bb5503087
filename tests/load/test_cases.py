"""Public cases with a known cause: each is understood, and nothing is claimed that its thread refutes."""

import json
from pathlib import Path

import pytest

from diag.model.finding import Report
from scripts.bench_diagnosis import judge

CASES = Path(__file__).resolve().parents[1] / "data" / "cases"
NAMES = sorted(p.parent.name for p in CASES.glob("*/expected.json"))


@pytest.fixture(scope="module")
def reports() -> dict[str, Report | None]:
    return {name: judge(CASES / name) for name in NAMES}


def test_nearly_all_causes_are_found(reports: dict[str, Report | None]) -> None:
    missed = {
        n: _expected(n)["findings"][0]["id"]
        for n in NAMES
        if _expected(n)["findings"][0]["id"] not in _said(reports[n])
    }
    assert len(NAMES) >= 39
    assert len(missed) <= 2, missed


def test_nothing_forbidden_is_claimed(reports: dict[str, Report | None]) -> None:
    wrong = {n: _said(reports[n]) & set(_expected(n)["must_not"]) for n in NAMES}
    assert {n: ids for n, ids in wrong.items() if ids} == {}


def test_no_rule_crashes(reports: dict[str, Report | None]) -> None:
    assert [name for name, report in reports.items() if report is None or report.crashed] == []


def _said(report: Report | None) -> set[str]:
    return {f.id for f in report.findings} if report else set()


def _expected(name: str) -> dict[str, list]:  # type: ignore[type-arg]
    return json.loads((CASES / name / "expected.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]
