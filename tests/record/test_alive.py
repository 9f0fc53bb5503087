"""Signs of life of a training child."""

import copy
import pickle
from pathlib import Path

import pytest

from diag.record.alive import Heartbeat, stacks_on_signal


def test_the_heartbeat_touches_at_most_once_a_second(tmp_path: Path) -> None:
    (tmp_path / "trace").mkdir()
    beat = Heartbeat(tmp_path)
    beat(None)
    file = tmp_path / "trace/beat"
    first = file.stat().st_mtime_ns
    beat(None)
    assert file.stat().st_mtime_ns == first
    beat._due = 0.0
    beat(None)
    assert file.stat().st_mtime_ns > first
    assert file.stat().st_size == 0


def test_it_survives_what_ultralytics_does_with_callbacks(tmp_path: Path) -> None:
    beat = pickle.loads(pickle.dumps(copy.deepcopy(Heartbeat(tmp_path))))
    beat(None)  # no trace folder: silent


def test_a_run_folder_that_can_not_be_written_costs_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stacks_on_signal(tmp_path / "missing")
    assert capsys.readouterr().err.count("\n") == 1
