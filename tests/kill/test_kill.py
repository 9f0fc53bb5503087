"""A power cut at three of the points of scripts/bench-kill; the others are run by hand (docs/benchmarks.md)."""

from pathlib import Path

import pytest

from tests.kill.points import expected_epochs, kill_and_resume, make_data, rows, train

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[dict[str, str]]]:
    """Workspace, data, and the rows of a training that nothing interrupted."""
    root = tmp_path_factory.mktemp("whole")
    data = make_data(root / "set")
    done = train(root, data, "whole")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return root, data, rows(root / "runs" / "whole")


@pytest.mark.parametrize("point", ["batch:16", "before_last.pt:3", "half_strip_last.pt"])
def test_a_killed_training_goes_on_as_if_nothing_had_been(
    whole: tuple[Path, Path, list[dict[str, str]]], point: str
) -> None:
    workspace, data, expected = whole
    outcome = kill_and_resume(workspace, data, point, expected)
    assert outcome.faults == ()
    assert outcome.saved == expected_epochs(point)
