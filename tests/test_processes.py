"""A test that fails, or waits for something that does not come, ends all the same, and so does what it started."""

import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.processes import ended, run

SLOW = ["sh", "-c", "setsid sleep 600 & echo $!; sleep 600"]


def gone(pid: int) -> bool:
    """Whether the process has ended, within ten seconds."""
    for _ in range(200):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_a_failure_in_the_block_ends_the_process_and_its_descendants() -> None:
    begun = time.monotonic()
    pids = []
    with (
        pytest.raises(ZeroDivisionError),
        ended(subprocess.Popen(SLOW, stdout=subprocess.PIPE, text=True)) as process,
    ):
        assert process.stdout
        pids += [process.pid, int(process.stdout.readline())]
        raise ZeroDivisionError
    assert all(gone(pid) for pid in pids)
    assert time.monotonic() - begun < 300


def test_a_line_that_never_comes_is_waited_for_up_to_the_limit() -> None:
    started = subprocess.Popen(SLOW, stdout=subprocess.PIPE, text=True)
    with ended(started, limit=3) as process:
        assert process.stdout
        assert len(list(process.stdout)) == 1  # then the output ends; nobody waits ten minutes


def test_a_command_over_its_time_is_an_error_with_what_it_said() -> None:
    with pytest.raises(AssertionError, match=r"not ended after 3 s\n\d+") as error:
        run(SLOW, timeout=3)
    assert gone(int(str(error.value).split()[-1]))


def test_a_command_that_ends_gives_its_code_and_both_outputs(tmp_path: Path) -> None:
    done = run(["sh", "-c", "pwd; echo no >&2; exit 3"], cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, f"{tmp_path}\n", "no\n")


def test_no_test_waits_for_a_process_in_a_with_block_of_its_own() -> None:
    others = set(Path(__file__).parent.rglob("*.py")) - {Path(__file__)}
    assert [path.name for path in others if "with subprocess.Popen(" in path.read_text()] == []
