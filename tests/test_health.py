"""The health summary: true after every stage, valid by its schema, honest about a run that vanished."""

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from diag import codec, settings
from diag.errors import InputError
from diag.health import Health, close_vanished, hold
from diag.model.check import StageResult, Status
from diag.model.run import ExitCause, RunRecord

SCHEMA = json.loads((settings.CONFIGS / "health.schema.json").read_text())


def read(workspace: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((workspace / "health" / "latest.json").read_text())
    jsonschema.validate(document, SCHEMA)
    return document


def start(workspace: Path) -> Health:
    run_dir = workspace / "runs" / "r1"
    run_dir.mkdir(parents=True)
    return Health(workspace, run_dir, {"epochs": 3})


def test_a_stage_that_runs_is_unknown_and_one_not_reached_is_skipped(tmp_path: Path) -> None:
    health = start(tmp_path)
    health.begin("data")
    document = read(tmp_path)
    assert document["data"] == {"status": "unknown", "reason": "running"}
    assert document["train"] == {"status": "skip", "reason": "not reached"}
    assert (document["verdict"], document["exit_cause"]["kind"]) == ("running", "running")


@pytest.mark.parametrize(
    ("statuses", "kind", "findings", "verdict"),
    [
        ({"check": "pass", "train": "pass"}, "finished", "pass", "pass"),
        ({"check": "warn", "train": "pass"}, "finished", "pass", "warn"),
        ({"check": "pass", "train": "pass"}, "finished", "warn", "warn"),
        ({"check": "pass", "train": "pass"}, "finished", "fail", "fail"),
        ({"check": "pass", "train": "fail"}, "failed", "pass", "fail"),
        ({"check": "pass", "train": "pass"}, "stopped", "pass", "fail"),
        ({}, "finished", "", "unknown"),
    ],
)
def test_the_verdict_is_the_worst_of_stages_findings_and_end(
    tmp_path: Path, statuses: dict[str, str], kind: str, findings: str, verdict: str
) -> None:
    health = start(tmp_path)
    for name, status in statuses.items():
        health.end(StageResult(name, Status(status), "told"))
    assert health.finish(ExitCause(kind), findings) == verdict
    assert read(tmp_path)["verdict"] == verdict


def test_run_and_workspace_hold_the_same_summary_and_a_page(tmp_path: Path) -> None:
    health = start(tmp_path)
    health.end(StageResult("data", Status.WARN, "2 of <b>9</b> | rows"))
    health.finish(ExitCause("finished", 0))
    assert read(tmp_path) == json.loads((tmp_path / "runs" / "r1" / "health.json").read_text())
    page = (tmp_path / "health" / "latest.md").read_text()
    assert "| data | WARN |" in page
    assert "<b>" not in page


def test_a_warning_of_the_machine_alone_is_not_called_a_finding(tmp_path: Path) -> None:
    health = start(tmp_path)
    for stage in ("data", "smoke", "train", "analyze", "report"):
        health.end(StageResult(stage, Status.PASS, "x"))
    health.end(StageResult("check", Status.WARN, "busy"))
    health.finish(ExitCause("finished", 0))
    page = (tmp_path / "health" / "latest.md").read_text()
    assert "**WARN: trained, with no finding above low; check warned**" in page
    health.document["findings"] = [{"id": "train.overfit", "severity": "medium", "title": "t", "advice": []}]
    health.finish(ExitCause("finished", 0))
    assert "worth a look" in (tmp_path / "health" / "latest.md").read_text()


def test_a_run_whose_process_is_gone_is_closed_as_killed(tmp_path: Path) -> None:
    health = start(tmp_path)
    run_dir = tmp_path / "runs" / "r1"
    codec.write_json(run_dir / "run.json", RunRecord("r1", 1, "2026-01-01T00:00:00+00:00", {}, {}))
    lock = hold(run_dir)
    health.begin("train")
    assert close_vanished(tmp_path) is None  # it lives
    assert lock
    lock.close()  # what the kernel does when a process dies
    assert close_vanished(tmp_path) == "r1"
    document = read(tmp_path)
    assert (document["verdict"], document["exit_cause"]["kind"]) == ("fail", "killed")
    assert codec.read_json(run_dir / "run.json", RunRecord).exit_cause.kind == "killed"
    assert close_vanished(tmp_path) is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"exit_cause": 3}', "\x00\xff"])
def test_a_damaged_summary_is_not_an_obstacle(tmp_path: Path, content: str) -> None:
    (tmp_path / "health").mkdir()
    (tmp_path / "health" / "latest.json").write_text(content)
    assert close_vanished(tmp_path) is None


@pytest.mark.skipif(os.getuid() == 0, reason="not run: root may write everywhere")
def test_an_unwritable_workspace_is_one_clear_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(InputError, match="can't be written: Permission denied"):
        Health(tmp_path, None, {}).write()


def test_a_disk_that_fills_up_later_does_not_end_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    health = start(tmp_path)
    health.begin("data")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    health.begin("train")
    health.begin("analyze")
    assert capsys.readouterr().err.count("No space left on device") == 1
    assert read(tmp_path)["data"]["reason"] == "running"


def test_a_half_written_file_never_replaces_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "latest.json"
    codec.write_text(path, "old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        codec.write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
