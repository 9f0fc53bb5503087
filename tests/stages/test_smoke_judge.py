"""Verdicts of a mini-run from what it proved until it ended."""

from typing import Any

import pytest

from diag.model.check import Status, worst
from diag.model.run import ExitCause
from diag.stages.smoke import judge

GOOD: dict[str, Any] = {
    "losses": {"per_batch": [13.0, 12.8, 12.5, 12.0, 11.6, 11.1]},
    "saved": {"file": "last.pt", "bytes": 5_000_000},
    "predicted": {"image": "a.jpg", "found": 0, "seconds": 0.1},
    "resumed": {"epoch": 3, "batches": 8, "mean_loss": 10.7, "optimizer_state": True, "seconds": 7.0},
}
FINISHED = ExitCause("finished", 0)


def statuses(proof: dict[str, Any], cause: ExitCause = FINISHED, *, batches: bool = True) -> dict[str, str]:
    return {check.id.removeprefix("smoke."): check.status.value for check in judge(proof, cause, batches)}


def test_a_good_run_passes_every_verdict() -> None:
    assert set(statuses(GOOD).values()) == {"pass"}


@pytest.mark.parametrize(
    ("losses", "finite", "fall"),
    [
        ([13.0] * 6, "pass", "warn"),
        ([10.0, 10, 10, 12, 13, 14], "pass", "fail"),
        ([10.0, 9, "nan", 8, 7, 6], "fail", "unknown"),
        ([10.0, 9], "pass", "unknown"),
        ([], "unknown", "unknown"),
    ],
)
def test_losses_are_judged_by_thirds(losses: list[Any], finite: str, fall: str) -> None:
    found = statuses({**GOOD, "losses": {"per_batch": losses}})
    assert (found["losses_finite"], found["losses_fall"]) == (finite, fall)


def test_a_run_that_died_fails_and_says_why() -> None:
    cause = ExitCause("failed", 1, detail="RuntimeError: Dataset error")
    checks = judge({}, cause, False)
    assert worst([c.status for c in checks]) is Status.FAIL
    assert "RuntimeError: Dataset error" in checks[0].reason


@pytest.mark.parametrize(
    ("key", "value", "verdict"),
    [
        ("saved", {"file": "last.pt", "bytes": 0}, "model_saved"),
        ("predicted", {"error": "no validation image"}, "model_predicts"),
        ("resumed", {"error": "no epoch1.pt was saved"}, "resumable"),
        ("resumed", {"epoch": 3, "batches": 0, "mean_loss": "nan", "optimizer_state": True}, "resumable"),
        ("resumed", {"epoch": 3, "batches": 8, "mean_loss": 9.0, "optimizer_state": False}, "resumable"),
    ],
)
def test_each_broken_part_fails_its_own_verdict(key: str, value: dict[str, Any], verdict: str) -> None:
    found = statuses({**GOOD, key: value})
    assert [name for name, status in found.items() if status == "fail"] == [verdict]


def test_what_was_not_reached_is_unknown_never_a_pass() -> None:
    found = statuses({"losses": GOOD["losses"]})
    assert found["model_saved"] == found["model_predicts"] == found["resumable"] == "unknown"
