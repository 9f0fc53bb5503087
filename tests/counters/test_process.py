"""The counters process: what it writes, how it ends, and that it stays small."""

import json
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
from diag.counters.files import Kept, line
from diag.counters.process import CountersProcess
from diag.load.counters import read_counters
from diag.settings import ROOT
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
    assert watched.counters.wait(60) == 0


def test_a_killed_trainer_that_nobody_reaps_is_gone_all_the_same(watch: Watch) -> None:
    watched = watch("import time; time.sleep(600)")
    watched.until(lambda: bool(watched.records("c")))
    os.kill(watched.child.pid, signal.SIGKILL)  # a zombie until the fixture waits for it
    assert watched.counters.wait(60) == 0
    assert watched.mark("end")["how"] == "gone"


def test_it_ends_when_its_parent_does(watch: Watch) -> None:
    watched = watch("import time; time.sleep(600)")
    watched.until(lambda: bool(watched.records("c")))
    assert watched.counters.stdin
    watched.counters.stdin.close()
    assert watched.counters.wait(60) == 0
    assert watched.mark("end")["how"] == "parent_closed"
    assert watched.child.poll() is None


def test_a_trainer_that_never_was_gives_a_start_and_an_end(tmp_path: Path) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    command = [sys.executable, "-m", "diag.counters", str(tmp_path), "--pid", str(child.pid)]
    assert subprocess.run(command, stdin=subprocess.PIPE, check=False, timeout=60).returncode == 0
    lines = (tmp_path / "trace/counters.jsonl").read_text().splitlines()
    assert [line[:12] for line in lines] == ['{"k":"start"', '{"k":"mark",', '{"k":"mark",']
    cost, end = (json.loads(line) for line in lines[1:])
    assert (cost["m"], end["m"]) == ("cost", "end")
    assert 0 < cost["v"]["start_cpu_s"] <= cost["v"]["cpu_s"] < 5
    assert cost["v"]["looks"] == 0


def test_wrong_arguments_are_one_line() -> None:
    done = subprocess.run([sys.executable, "-m", "diag.counters"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_it_loads_neither_torch_nor_anything_large() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import diag.counters.__main__;"
        "large = 'torch numpy psutil msgspec yaml pynvml asyncio subprocess re json enum typing dataclasses pathlib';"
        "found = {*large.split(), 'threading', 'collections', 'statistics', 'signal'} & set(sys.modules);"
        "print(found); raise SystemExit(bool(found))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


COUNTED = """
import time
from pathlib import Path
path, until = Path({path!r}), time.monotonic() + 60
while time.monotonic() < until and not (path.exists() and path.read_bytes().count(b'"k":"c"') > 1):
    time.sleep(0.05)
"""


@pytest.mark.parametrize("code", [COUNTED, "import os; os.kill(os.getpid(), 9)"], ids=["counted", "killed"])
def test_beside_a_child_it_is_started_and_ended(tmp_path: Path, code: str) -> None:
    (tmp_path / "told.py").write_text(code.format(path=str(tmp_path / "trace/counters.jsonl")))
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    counters = CountersProcess(tmp_path, env)
    run_child("told", [], console=tmp_path / "c.log", env=env, stopper=Stopper(), on_start=counters.start)
    counters.stop(patience_s=30)
    assert not (tmp_path / "trace/counters.err").exists()
    assert '"how":"gone"' in (tmp_path / "trace/counters.jsonl").read_text()
    if code == COUNTED:
        assert read_counters(tmp_path / "trace/counters.jsonl").series["rss_main_bytes"].max > 1e6


@pytest.mark.parametrize(
    "record",
    [
        {"k": "c", "t": 2**62, "v": {"a_s_total": 0.1, "b": 1e-9, "c": -3, "big": 1.5e300}},
        {
            "said": 'a "quoted" \\ path\n/tmp/ä\x01 图 \ud800',
            "none": None,
            "yes": True,
            "no": False,
            "list": [1, [], {}],
        },
    ],
)
def test_a_line_is_the_json_that_the_library_would_write(record: dict[str, object]) -> None:
    assert line(record) == (json.dumps(record, separators=(",", ":")) + "\n").encode()


def test_a_file_that_stays_open_is_read_anew_and_survives_its_end(tmp_path: Path) -> None:
    kept, path = Kept(), tmp_path / "f"
    assert kept.read(str(path)) == b""
    path.write_text("1")
    assert kept.read(str(path)) == b"1"
    path.write_text("22")
    assert kept.read(str(path)) == b"22"
    child = subprocess.Popen(["sleep", "60"])
    stat = f"/proc/{child.pid}/stat"
    assert kept.read(stat).startswith(f"{child.pid} ".encode())
    child.kill()
    child.wait()
    assert kept.read(stat) == b""
    kept.close()
    assert kept.read(str(path)) == b"22"


def test_so_many_files_stay_open_and_the_rest_are_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diag.counters.files.MAX_KEPT", 2)
    kept, before = Kept(), len(list(Path("/proc/self/fd").iterdir()))
    for name in "abcd":
        (tmp_path / name).write_text(name)
        assert kept.read(str(tmp_path / name)) == name.encode()
    assert len(list(Path("/proc/self/fd").iterdir())) - before == 2
    kept.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_nvidias_library_is_looked_for_before_anything_costly_is_imported(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").write_bytes(b"no library")  # it is there, and does not load
    code = (
        f"import os, sys; sys.path.insert(0, {str(ROOT)!r}); from diag.counters.__main__ import _gpus;"
        "print(type(_gpus(os.environ)).__name__, 'ctypes' in sys.modules)"
    )
    start = [sys.executable, "-S", "-c", code]
    for folder, told in ((str(tmp_path), "GpuThread True"), ("", "NoneType False")):
        env = {**os.environ, "LD_LIBRARY_PATH": folder}
        done = subprocess.run(start, env=env, capture_output=True, text=True, check=True)
        if folder or not has_nvml():
            assert done.stdout.strip() == told


def has_nvml() -> bool:
    import ctypes

    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True
