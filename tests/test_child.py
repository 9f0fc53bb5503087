"""Children: their output is kept as a terminal would show it, a stop reaches them, a kill is told."""

import io
import os
import signal
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from diag.child import Stopper, clean_line, run_child


def script(folder: Path, code: str) -> dict[str, str]:
    """A module `told` in `folder`; returns the environment in which it can be imported."""
    (folder / "told.py").write_text(textwrap.dedent(code))
    return {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\r 1/3\r 2/3\r 3/3", " 3/3"),
        ("\x1b[K\x1b[1mbold\x1b[0m", "bold"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x07", "link"),
        ("plain\r", "plain"),
    ],
)
def test_a_line_is_kept_as_a_terminal_shows_it(raw: str, shown: str) -> None:
    assert clean_line(raw) == shown


def test_output_goes_to_the_file_and_the_screen(tmp_path: Path) -> None:
    env = script(
        tmp_path, "import sys; print('a'); print('\\rx\\ry'); print('err', file=sys.stderr); print('end', end='')"
    )
    screen = io.StringIO()
    ended = run_child("told", [], console=tmp_path / "c.log", env=env, stopper=Stopper(), screen=screen)
    assert ended.cause.kind == "finished"
    assert (tmp_path / "c.log").read_text() == "a\ny\nerr\nend\n"
    assert screen.getvalue() == "a\ny\nerr\nend\n"


def test_sigterm_is_passed_on_and_remembered(tmp_path: Path) -> None:
    env = script(
        tmp_path,
        """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        print("ready", flush=True)
        time.sleep(60)
        """,
    )
    console = tmp_path / "c.log"

    def stop_when_ready() -> None:
        deadline = time.monotonic() + 60
        while not (console.exists() and "ready" in console.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    with Stopper() as stopper:
        thread = threading.Thread(target=stop_when_ready)
        thread.start()
        ended = run_child("told", [], console=console, env=env, stopper=stopper)
        thread.join()
    assert (ended.cause.kind, ended.cause.signal, ended.cause.code) == ("stopped", "SIGTERM", 143)


def test_a_killed_child_is_told_from_one_killed_for_memory(tmp_path: Path) -> None:
    env = script(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    ended = run_child("told", [], console=tmp_path / "c.log", env=env, stopper=Stopper())
    assert (ended.cause.kind, ended.cause.signal) == ("killed", "SIGKILL")


def test_a_grandchild_that_holds_the_pipe_does_not_hang_us(tmp_path: Path) -> None:
    env = script(tmp_path, "import subprocess; print(subprocess.Popen(['sleep', '900']).pid)")
    started = time.monotonic()
    ended = run_child("told", [], console=tmp_path / "c.log", env=env, stopper=Stopper())
    took = time.monotonic() - started
    os.kill(int((tmp_path / "c.log").read_text()), signal.SIGKILL)  # it still ran: nobody else ends it
    assert ended.cause.kind == "finished"
    assert took < 300  # under a second; 900 if it had waited


def test_lines_that_a_full_disk_does_not_take_are_handed_back(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("not run: no /dev/full")
    env = script(tmp_path, "print('one'); raise OSError(28, 'No space left on device')")
    ended = run_child("told", [], console=Path("/dev/full"), env=env, stopper=Stopper())
    assert ended.cause.kind == "disk_full"
    assert "one" in ended.unwritten
    assert ended.unwritten[-1] == "OSError: [Errno 28] No space left on device"
