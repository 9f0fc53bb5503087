"""Public training runs with an expert's labels: how many are understood, and is a healthy one left in peace?

The runs are not part of this repository. Reached: 58 of 58, 14 of 14 quiet (scripts/bench-diagnosis).
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from diag.engine import evaluate
from diag.load import load_run
from diag.model.finding import Report

BENCH = Path(os.environ.get("DIAG_BENCH") or Path(__file__).resolve().parents[3] / "shared" / "bench")
RUNS = BENCH / "runs"
pytestmark = pytest.mark.skipif(not (RUNS / "labels.json").is_file(), reason="not run: no ../shared")


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    return {name: evaluate(load_run(RUNS / name)) for name in _labels()}


def test_most_primaries_are_found(reports: dict[str, Report], capsys: pytest.CaptureFixture[str]) -> None:
    labels = {name: label for name, label in _labels().items() if not label["ambiguous"]}
    missed = {n: v["primary"] for n, v in labels.items() if v["primary"] not in {f.id for f in reports[n].findings}}
    with capsys.disabled():
        print(f"\nfound {len(labels) - len(missed)} of {len(labels)}; missed {sorted(set(missed.values()))}")
    assert len(labels) - len(missed) >= 55, missed


def test_healthy_runs_are_left_in_peace(reports: dict[str, Report], capsys: pytest.CaptureFixture[str]) -> None:
    loud = {}
    healthy = [n for n, v in _labels().items() if not v["ambiguous"] and v["primary"] == "train.converged_ok"]
    for name in healthy:
        known = {f["id"] for f in _labels()[name]["findings"]}
        said = {f.id for f in reports[name].findings if f.severity.rank >= 2 and f.id.startswith(("train.", "num."))}
        if said - known:
            loud[name] = sorted(said - known)
    with capsys.disabled():
        print(f"\nquiet {len(healthy) - len(loud)} of {len(healthy)} healthy runs")
    assert len(loud) <= 1, loud


def test_no_rule_crashes_on_real_files(reports: dict[str, Report]) -> None:
    assert [name for name, report in reports.items() if report.crashed] == []


def test_logs_without_a_csv_are_read() -> None:
    logs = {path.name.split("__")[0]: load_run(path).log for path in sorted((RUNS / "_console_only").glob("*.log"))}
    ended = {name: (len(log.epochs), log.ended) for name, log in logs.items() if log}
    assert ended == {
        "interrupted": (15, "cut"),
        "ok_yolo26n": (50, "completed"),
        "ok_yolov3": (50, "completed"),
        "oom_cuda": (0, "error"),
        "partial": (1, "cut"),
        "short3epochs": (3, "completed"),
        "two_runs_in_one_log": (6, "completed"),
    }


def _labels() -> dict[str, Any]:
    labels: dict[str, Any] = json.loads((RUNS / "labels.json").read_text(encoding="utf-8"))
    return labels
