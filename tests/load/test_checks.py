"""check.json of a run directory and of a bundle: read, dated, never a reason to fail."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diag import codec
from diag.commands.analyze import run as analyze  # noqa: F401 # the command must import without torch
from diag.engine import evaluate
from diag.load import load_run
from diag.model.finding import Severity

Make = Callable[..., Path]
SHM: dict[str, Any] = {
    "id": "shm.size", "status": "fail", "value": "64 MiB free", "expected": ">= 1 GiB", "reason": "workers hang",
    "remedy": "docker: --shm-size=2g", "finding": "mem.shm_small", "seconds": 0.1, "facts": {"free_bytes": 67108864},
}  # fmt: skip


def _found(folder: Path) -> dict[str, Severity]:
    report = evaluate(load_run(folder))
    assert not report.crashed
    return {f.id: f.severity for f in report.findings}


def _ended(folder: Path, kind: str, **more: Any) -> None:
    record = json.loads((folder / "run.json").read_text())
    record |= {"exit_cause": {"kind": kind, "code": 1}, "ended": "2026-01-02T03:05:00+00:00", **more}
    (folder / "run.json").write_text(json.dumps(record))


@pytest.mark.parametrize("whole", [True, False], ids=["with a date", "bare list of older runs"])
def test_a_failed_check_is_the_cause(run_dir: Make, whole: bool) -> None:
    folder = run_dir(trace_rank0_jsonl=None)
    _ended(folder, "check_failed")
    answer: Any = {"created": "2026-01-02T03:04:06+00:00", "machine": "x", "checks": [SHM]} if whole else [SHM]
    (folder / "check.json").write_text(json.dumps(answer))
    report = evaluate(load_run(folder))
    assert (report.findings[0].id, report.findings[0].severity) == ("mem.shm_small", Severity.CRITICAL)
    assert report.findings[0].evidence[0].file == "check.json"
    assert report.verdict == "fail"


def test_a_failed_check_explains_why_the_run_is_incomplete(run_dir: Make) -> None:
    folder = run_dir()
    _ended(folder, "check_failed", args={"epochs": 50})
    disk = SHM | {"id": "disk.free", "finding": "hw.disk_low"}
    (folder / "check.json").write_text(json.dumps([disk]))
    report = evaluate(load_run(folder))
    first = report.findings[0]
    assert first.id == "hw.disk_low"
    told = {f.id for f in report.findings}
    assert "train.incomplete" not in told or "train.incomplete" in first.explains


def test_a_run_that_trained_well_is_left_in_peace(run_dir: Make) -> None:
    folder = run_dir()
    before = _found(folder)
    (folder / "check.json").write_text(json.dumps([SHM | {"status": "warn"}]))
    assert _found(folder) == before


def test_nothing_is_told_twice(run_dir: Make) -> None:
    folder = run_dir(console_log="RuntimeError: unable to allocate shared memory(shm) for file </torch_1>\n")
    _ended(folder, "shm_small")
    (folder / "check.json").write_text(json.dumps([SHM]))
    report = evaluate(load_run(folder))
    assert [f.message for f in report.findings if f.id == "mem.shm_small"] == ["mem.shm_small"]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[1, 2]", '[{"id": 3}]', '{"checks": [{"id": "a"}]}', '"text"', '{"checks": 3}', "[" * 9999, "null"],
)
def test_a_broken_check_is_named_or_ignored(run_dir: Make, content: str) -> None:
    folder = run_dir()
    before = _found(folder)
    (folder / "check.json").write_text(content)
    assert load_run(folder).checks is None
    assert _found(folder) == before


def test_words_of_a_check_never_reach_the_terminal_raw(run_dir: Make) -> None:
    from diag.render import console, markdown

    folder = run_dir(trace_rank0_jsonl=None)
    _ended(folder, "check_failed")
    evil = SHM | {"value": "\x1b[31mred <script>alert(1)</script> {0.__class__}", "remedy": "\x1b]0;title\x07 x"}
    (folder / "check.json").write_text(json.dumps([evil]))
    evidence = load_run(folder)
    report = evaluate(evidence)
    text = console.report(report, evidence) + markdown.report(report, evidence)
    assert "\x1b[31m" not in text and "\x1b]0" not in text and "<script>" not in markdown.report(report, evidence)
    assert "{0.__class__}" in text.replace("\\", "")


def test_the_stage_writes_when_and_where_it_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from types import SimpleNamespace

    from diag.model.check import Check, Status
    from diag.model.hardware import Baseline
    from diag.stages import check

    answers = (Check("disk.free", Status.PASS, "100 GiB"),)
    monkeypatch.setattr(check, "run_checks", lambda request, on_check: (answers, Baseline()))
    monkeypatch.setattr(check, "resolve_data", lambda context: SimpleNamespace(real=Path, images=()))
    context: Any = SimpleNamespace(
        run_dir=tmp_path, workspace=tmp_path, args={"device": "cpu"}, overrides={},
        health=SimpleNamespace(document={}), screen=SimpleNamespace(colour=False),
    )  # fmt: skip
    check.run(context)
    written = codec.read_json(tmp_path / "check.json", dict)
    assert written["created"] and written["machine"]
    assert [c["id"] for c in written["checks"]] == ["disk.free"]
    made = load_run(tmp_path).checks
    assert made is not None and made.created == written["created"] and made.checks == answers
