"""A power cut at three of the points of scripts/bench-kill; the others are run by hand (docs/benchmarks.md)."""

from pathlib import Path

import pytest

from tests.kill.points import expected_epochs, kill_and_resume, make_data, rows, train

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, str]]]:
    """Data, and the rows of a training that nothing interrupted."""
    root = tmp_path_factory.mktemp("whole")
    data = make_data(root / "set")
    done = train(root, data)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return data, rows(root / "runs" / "run")


@pytest.mark.parametrize("point", ["batch:16", "before_last.pt:3", "half_strip_last.pt"])
def test_a_killed_training_goes_on_as_if_nothing_had_been(
    tmp_path: Path, whole: tuple[Path, list[dict[str, str]]], point: str
) -> None:
    data, expected = whole
    outcome = kill_and_resume(tmp_path, data, point, expected)
    assert outcome.faults == ()
    assert outcome.saved == expected_epochs(point)
