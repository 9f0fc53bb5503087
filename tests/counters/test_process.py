"""The counters process: what it writes, how it ends, and that it stays small."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from diag.child import Stopper, run_child
from diag.counters.process import CountersProcess
from diag.load.counters import read_counters
from tests.counters.conftest import Watched

Watch = Callable[..., Watched]
EATS = "import os, time\nkept = b'x' * 64_000_000\npid = os.fork()\nwhile time.sleep(0.01) is None: sum(range(20000))"


def test_it_counts_the_trainer_and_its_workers_on_one_clock(watch: Watch) -> None:
    before = time.monotonic_ns()
    watched = watch(EATS)
    watched.until(lambda: len([r for r in watched.records("c") if r["v"]["workers"] == 1]) >= 3)
    samples = watched.records("c")
    assert [a["t"] < b["t"] for a, b in pairwise(samples)] == [True] * (len(samples) - 1)
    assert before < samples[0]["t"] < time.monotonic_ns()
    first, last = samples[0]["v"], samples[-1]["v"]
    assert last["rss_main_bytes"] > 64_000_000
    assert last["cpu_tree_s_total"] > first["cpu_tree_s_total"]
    assert last["cpu_cgroup_s_total"] > first["cpu_cgroup_s_total"]
    assert first["pss_main_bytes"] > 0
    os.kill(watched.child.pid, signal.SIGKILL)
    assert watched.mark("end") == {"how": "gone", "oom_kills": 0, "stalled": False}
    assert watched.counters.wait(20) == 0


def test_a_killed_trainer_that_nobody_reaps_is_gone_all_the_same(watch: Watch) -> None:
    watched = watch("import time; time.sleep(600)")
    watched.until(lambda: bool(watched.records("c")))
    os.kill(watched.child.pid, signal.SIGKILL)  # a zombie until the fixture waits for it
    assert watched.counters.wait(20) == 0
    assert watched.mark("end")["how"] == "gone"


def test_it_ends_when_its_parent_does(watch: Watch) -> None:
    watched = watch("import time; time.sleep(600)")
    watched.until(lambda: bool(watched.records("c")))
    assert watched.counters.stdin
    watched.counters.stdin.close()
    assert watched.counters.wait(20) == 0
    assert watched.mark("end")["how"] == "parent_closed"
    assert watched.child.poll() is None


def test_a_trainer_that_never_was_gives_a_start_and_an_end(tmp_path: Path) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    command = [sys.executable, "-m", "diag.counters", str(tmp_path), "--pid", str(child.pid)]
    assert subprocess.run(command, stdin=subprocess.PIPE, check=False, timeout=60).returncode == 0
    lines = (tmp_path / "trace/counters.jsonl").read_text().splitlines()
    assert [line[:12] for line in lines] == ['{"k":"start"', '{"k":"mark",']


def test_wrong_arguments_are_one_line() -> None:
    done = subprocess.run([sys.executable, "-m", "diag.counters"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_it_loads_neither_torch_nor_anything_large() -> None:
    code = (
        "import sys, diag.counters.__main__;"
        "found = {'torch', 'numpy', 'psutil', 'msgspec', 'yaml', 'pynvml', 'asyncio', 'subprocess'} & set(sys.modules);"
        "print(found); raise SystemExit(bool(found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("code", ["import time; time.sleep(2.5)", "import os; os.kill(os.getpid(), 9)"])
def test_beside_a_child_it_is_started_and_ended(tmp_path: Path, code: str) -> None:
    (tmp_path / "told.py").write_text(code)
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    counters = CountersProcess(tmp_path, env)
    run_child("told", [], console=tmp_path / "c.log", env=env, stopper=Stopper(), on_start=counters.start)
    counters.stop(patience_s=30)
    assert not (tmp_path / "trace/counters.err").exists()
    assert '"how":"gone"' in (tmp_path / "trace/counters.jsonl").read_text()
    if "sleep" in code:
        assert read_counters(tmp_path / "trace/counters.jsonl").series["rss_main_bytes"].max > 1e6
