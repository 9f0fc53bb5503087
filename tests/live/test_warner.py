"""`train` tells a finding once while training runs: the real watching process beside a run that grows."""

import io
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from diag.health import Health
from diag.model.check import StageResult, Status
from diag.model.run import ExitCause
from diag.screen import Screen
from diag.stages.warn import Warner
from tests.live.conftest import Growing, row, step


def test_a_finding_is_told_once_and_stays_in_the_summary(
    growing: Callable[..., Growing], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIAG_WATCH_S", "0.5")
    run = growing(epochs=30)
    health, out = Health(tmp_path / "ws", run.path, {}), io.StringIO()
    (tmp_path / "ws").mkdir()
    screen = Screen(out)
    run.add("trace/rank0.jsonl", *(step(n, wait_ms=80) for n in range(60)))
    run.rows(row(1))
    warner = Warner(run.path, os.environ)
    warner.start()
    until = time.monotonic() + 240  # the watching process has the lowest priority
    while "speed.loader_bound" not in warner.first_seen:
        assert time.monotonic() < until, out.getvalue()
        time.sleep(0.2)
        warner.tell(health, screen)
    run.add("trace/rank0.jsonl", *(step(n, wait_ms=80, epoch=1) for n in range(60, 120)))
    time.sleep(2)
    warner.stop(health, screen)
    assert out.getvalue().count("NEW high: Loader-bound") == 1
    assert "\n          -> " in out.getvalue()
    (found,) = (f for f in health.document["findings"] if f["id"] == "speed.loader_bound")
    assert found["first_seen"]["epoch"] in {None, 1}
    assert warner.cost["looks"] >= 1
    assert 0 < warner.cost["cpu_s"] < 20
    health.end(StageResult("train", Status.PASS, "30 epochs", 1.0, {}))
    assert health.finish(ExitCause("finished", 0)) == "fail"  # `diag train` alone: no stage judges afterwards


def test_it_can_be_switched_off(growing: Callable[..., Growing], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIAG_WATCH_S", "0")
    run = growing(epochs=3)
    warner = Warner(run.path, os.environ)
    warner.start()
    assert not (run.path / "live.jsonl").exists()
    warner.stop(Health(run.path, None, {}), Screen(io.StringIO()))
    assert warner.first_seen == {}
