"""Which run a start goes on with; no training."""

import dataclasses
import fcntl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diag import codec
from diag.errors import InputError
from diag.health import LOCK, mark_run
from diag.model.check import Status
from diag.model.run import Attempt, ExitCause, Resumed, RunRecord
from diag.stages import data, resume, smoke

ARGS = {"model": "yolo11n.yaml", "epochs": 3, "data": "a.yaml"}


def run(workspace: Path, name: str, kind: str, *, started: str = "2026-01-01T10:00:00+00:00", **more: Any) -> Path:
    """A run directory with its record; `saved=True` puts a last.pt there."""
    run_dir = workspace / "runs" / name
    weights = run_dir / "ultralytics" / "weights"
    weights.mkdir(parents=True)
    (run_dir / LOCK).touch()
    if more.pop("saved", False):
        (weights / "last.pt").touch()
    args = {**ARGS, **more.pop("args", {})}
    record = RunRecord(name, 1, started, {}, args, "detect", exit_cause=ExitCause(kind), key=more.pop("key", "k"))
    codec.write_json(run_dir / "run.json", dataclasses.replace(record, attempts=(Attempt(started),)))
    return run_dir


@pytest.mark.parametrize(
    "kind", ["stopped", "killed", "ram_oom", "gpu_oom", "disk_full", "shm_small", "stalled", "running"]
)
def test_an_unfinished_run_goes_on(tmp_path: Path, kind: str) -> None:
    run_dir = run(tmp_path, "a", kind)
    assert resume.find(tmp_path, "k", ARGS).run_dir == run_dir


@pytest.mark.parametrize("kind", ["finished", "check_failed", "input_error", "failed", "internal_error"])
def test_others_do_not(tmp_path: Path, kind: str) -> None:
    run(tmp_path, "a", kind)
    assert resume.find(tmp_path, "k", ARGS) == resume.Found()


def test_a_failure_goes_on_when_an_epoch_was_saved(tmp_path: Path) -> None:
    run_dir = run(tmp_path, "a", "failed", saved=True)
    assert resume.find(tmp_path, "k", ARGS).run_dir == run_dir


def test_only_the_newest_of_the_same_arguments_counts(tmp_path: Path) -> None:
    run(tmp_path, "old", "stopped")
    run(tmp_path, "new", "finished", started="2026-01-02T10:00:00+00:00")
    assert resume.find(tmp_path, "k", ARGS) == resume.Found()


def test_other_arguments_begin_a_new_run_with_a_word(tmp_path: Path) -> None:
    run(tmp_path, "a", "stopped", key="other", args={"epochs": 9})
    found = resume.find(tmp_path, "k", ARGS)
    assert found.run_dir is None
    assert "epochs 9 -> 3" in found.note


def test_a_living_run_is_left_alone(tmp_path: Path) -> None:
    run_dir = run(tmp_path, "a", "running")
    with (run_dir / LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = resume.find(tmp_path, "k", ARGS)
        assert found.run_dir is None
        assert "still training" in found.note
        with pytest.raises(InputError, match="no unfinished run"):
            resume.named(tmp_path, True, None)


def test_resume_true_takes_the_newest_and_a_path_takes_that_run(tmp_path: Path) -> None:
    first = run(tmp_path, "a", "stopped", saved=True)
    second = run(tmp_path, "b", "killed", key="other", started="2026-01-02T10:00:00+00:00")
    assert resume.named(tmp_path, True, None).run_dir == second
    last = resume.last_pt(first)
    assert resume.named(tmp_path, str(last), None).run_dir == first
    assert resume.named(tmp_path, True, str(last)).run_dir == first


@pytest.mark.parametrize("path", ["missing/last.pt", "/etc/hostname"])
def test_a_path_outside_the_workspace_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(InputError, match="to train on from other weights"):
        resume.named(tmp_path, path, None)


def test_a_finished_run_has_nothing_to_resume(tmp_path: Path) -> None:
    run_dir = run(tmp_path, "a", "finished", saved=True)
    with pytest.raises(InputError, match="nothing to resume"):
        resume.named(tmp_path, str(resume.last_pt(run_dir)), None)


def test_what_may_change_on_a_resume(tmp_path: Path) -> None:
    record = codec.read_json(run(tmp_path, "a", "stopped") / "run.json", RunRecord)
    assert resume.changes(record, {"batch": 4, "epochs": 3}) == {"batch": 4}
    with pytest.raises(InputError, match=r"epochs=9: a resumed run keeps its own epochs \(3\)"):
        resume.changes(record, {"epochs": 9})


def test_the_key_is_of_arguments_data_task_and_name(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").touch()
    key = resume.key_of(ARGS, "detect", "", tmp_path)
    assert key == resume.key_of({**ARGS, "data": str(tmp_path / "a.yaml")}, "detect", "", Path("/"))
    others = [
        resume.key_of({**ARGS, "epochs": 4}, "detect", "", tmp_path),
        resume.key_of(ARGS, "segment", "", tmp_path),
        resume.key_of(ARGS, "detect", "exp1", tmp_path),
        resume.key_of(ARGS, "detect", "", Path("/")),
    ]
    assert len({key, *others}) == 5


def test_attempts_tell_the_history(tmp_path: Path) -> None:
    run_dir = run(tmp_path, "a", "running")
    codec.write_json(run_dir / "resume.json", Resumed("exact", 2, True))
    record = resume.next_attempt(run_dir, codec.read_json(run_dir / "run.json", RunRecord), {})
    first, second = record.attempts
    assert (first.exit_cause.kind, first.resumed) == ("killed", Resumed("exact", 2, True))
    assert (second.exit_cause.kind, second.resumed, record.exit_cause.kind) == ("running", None, "running")
    codec.write_json(run_dir / "run.json", record)
    mark_run(run_dir, ExitCause("finished", 0))
    first, second = codec.read_json(run_dir / "run.json", RunRecord).attempts
    assert (first.exit_cause.kind, second.exit_cause.kind, second.resumed) == ("killed", "finished", None)


def going_on(run_dir: Path, *machines: str) -> Any:
    """What the stages see of a run with one start on each of these machines."""
    attempts = tuple(Attempt("2026-01-01T10:00:00+00:00", machine=name) for name in machines)
    return SimpleNamespace(run_dir=run_dir, attempts=attempts)


@pytest.mark.parametrize(
    ("machines", "statuses", "skipped"),
    [
        (("m", "m"), ("pass", "warn"), True),
        (("m", "other"), ("pass",), False),
        (("m", "m"), ("pass", "fail"), False),
        ((), ("pass",), False),
    ],
)
def test_a_mini_run_that_passed_on_this_machine_is_not_repeated(
    tmp_path: Path, machines: tuple[str, ...], statuses: tuple[str, ...], skipped: bool
) -> None:
    codec.write_json(tmp_path / "smoke.json", [{"id": f"smoke.{n}", "status": s} for n, s in enumerate(statuses)])
    result = smoke._passed_before(going_on(tmp_path, *machines))
    assert (result is not None) == skipped
    if result:
        assert (result.status, len(result.details["verdicts"])) == (Status.WARN, 2)
        assert "not repeated" in result.reason


def test_a_changed_data_set_is_told(tmp_path: Path) -> None:
    before: dict[str, Any] = {"splits": {"train": {"images": 8}}}
    codec.write_json(tmp_path / "data.json", before)
    context = going_on(tmp_path, "m", "m")
    assert data._changed(context, before) == ""
    assert "has changed" in data._changed(context, {"splits": {"train": {"images": 9}}})
    assert data._changed(going_on(tmp_path), {"splits": {}}) == ""
