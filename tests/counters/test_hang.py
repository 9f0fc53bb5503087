"""A training that hangs: noted, with stacks of all; ended if that is wished; healthy again if it resumes."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from diag import settings
from diag.load.stall import read_stalls
from tests.counters.conftest import Watched

Watch = Callable[..., Watched]

TRAINER = """
    import os, signal, sys, time
    from pathlib import Path
    from diag.record.alive import stacks_on_signal
    from diag.record.recorder import Recorder

    class SlowData:
        def __getitem__(self, index):
            while not Path("go").exists():  # the hang: a data set whose image never comes
                time.sleep(0.05)

    stacks_on_signal(Path("."))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it never reaches the batch boundary where it would stop
    recorder = Recorder(".", 0)
    def step():
        recorder.batch_start()
        time.sleep(0.02)
        recorder.batch_end(1, 100)
    recorder.epoch_start(0, 8)
    for _ in range(20):
        step()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        def worker_loop():
            SlowData()[0]
        worker_loop()
        os._exit(0)
    os.wait()
    while True:
        step()
"""


def test_a_data_set_that_never_answers_is_seen_with_the_stacks_of_both(watch: Watch, tmp_path: Path) -> None:
    watched = watch(TRAINER, DIAG_STALL_S="3")
    stall = watched.mark("stall")
    assert (stall["in_batch"], stall["step"], stall["stacks"]) == (True, 19, "stall.txt")
    flag = tmp_path / "trace/stalled"
    watched.until(flag.exists)
    stacks = tmp_path / "stall.txt"
    watched.until(lambda: "worker_loop" in stacks.read_text())
    told = stacks.read_text()
    assert f"== trainer {watched.child.pid}" in told
    assert "__getitem__" in told[told.index("== worker") :]
    assert "no Python stacks" not in told
    assert watched.child.poll() is None  # nobody asked for its end
    (tmp_path / "go").touch()
    watched.mark("resumed")
    watched.until(lambda: not flag.exists())
    stalls = read_stalls(tmp_path / "trace/counters.jsonl")
    assert stalls is not None
    assert (stalls.count, stalls.step, stalls.aborted, stalls.longest_s >= 3) == (1, 19, False, True)


def test_a_hang_in_the_first_fetch_of_an_epoch_is_seen_soon(watch: Watch, tmp_path: Path) -> None:
    step = "for _ in range(20):\n        step()\n"
    assert step in TRAINER
    watched = watch(TRAINER.replace(step, step + "    recorder.epoch_start(1, 8)\n"), DIAG_STALL_S="2")
    stall = watched.mark("stall")
    assert stall["idle_s"] < 20  # 4 to 6 s; ten times the limit, so 20, it was once
    assert stall["in_batch"] is False
    watched.until(lambda: "worker_loop" in (tmp_path / "stall.txt").read_text())


def test_a_hung_trainer_is_ended_if_that_is_wished(watch: Watch, tmp_path: Path) -> None:
    watched = watch(TRAINER, DIAG_STALL_S="3", DIAG_STALL_ABORT="1")
    assert watched.child.wait(120) == -signal.SIGKILL
    assert watched.mark("end") == {"how": "gone", "oom_kills": 0, "stalled": True}
    assert not (tmp_path / "trace/stalled").exists()
    stalls = read_stalls(tmp_path / "trace/counters.jsonl")
    assert stalls is not None and stalls.aborted


def test_a_stopped_trainer_is_told_by_its_state(watch: Watch, tmp_path: Path) -> None:
    watched = watch(TRAINER.replace("if os.fork() == 0:", "while True:\n        step()\n    if 0:"), DIAG_STALL_S="3")
    watched.until(lambda: len(watched.records("c")) > 2)
    os.kill(watched.child.pid, signal.SIGSTOP)
    watched.mark("stall")
    watched.until(lambda: "does not run" in (tmp_path / "stall.txt").read_text())
    assert "state T" in (tmp_path / "stall.txt").read_text()


def test_a_process_without_a_handler_is_not_killed_by_the_question(watch: Watch, tmp_path: Path) -> None:
    watched = watch(
        "import time; time.sleep(600)", DIAG_STALL_S="0.05"
    )  # idle between batches: up to three times as long
    watched.mark("stall")
    watched.until(lambda: "no handler" in (tmp_path / "stall.txt").read_text())
    assert watched.child.poll() is None


def test_no_stall_no_summary(tmp_path: Path) -> None:
    assert read_stalls(tmp_path / "missing") is None
    (tmp_path / "c").write_text('{"k":"mark","m":"end","t":1,"v":{}}\n{"k":"mark","m')
    assert read_stalls(tmp_path / "c") is None


def test_the_containers_health_check_tells_a_hang(tmp_path: Path) -> None:
    """The script's own decision, without the container around it."""
    source = settings.ROOT / "entrypoint"
    shutil.copy(source / "lib.sh", tmp_path)
    script, started = tmp_path / "healthcheck.sh", tmp_path / "started"
    text = (source / "healthcheck.sh").read_text().replace("/tmp/started", str(started))
    script.write_text(text[: text.index("# PID 1 is tini")] + "gets_on\n")
    trace = tmp_path / "runs/r1/trace"
    trace.mkdir(parents=True)
    started.touch()
    os.utime(started, (time.time() - 60,) * 2)

    def ask() -> tuple[int, str]:
        env = {**os.environ, "WORKSPACE": str(tmp_path)}
        done = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=False, env=env)
        return done.returncode, done.stdout

    assert ask() == (0, "")
    (trace / "stalled").write_text("no step for 61 s\n")
    assert ask() == (1, "hangs: no step for 61 s\n")
    os.utime(trace / "stalled", (1, 1))  # left by a container before this one
    assert ask() == (0, "")


@pytest.mark.parametrize("text", ["", "abc", "-3", "0"])
def test_an_odd_limit_is_the_default(text: str) -> None:
    from diag.counters.__main__ import _seconds

    assert _seconds(text) == 60.0


def test_stacks_are_asked_of_the_trainer_only_where_it_can_answer() -> None:
    code = "import signal, os; signal.signal(signal.SIGUSR1, lambda *_: 0); from diag.counters.stacks import handles; "
    code += "raise SystemExit(not (handles(os.getpid(), 10) and not handles(os.getpid(), 12)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
