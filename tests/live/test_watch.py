"""`diag watch`: what changed and when, until the run ends; exit codes; a terminal; Ctrl-C."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diag.cli import main
from tests.live.conftest import Growing, Looks, row, step
from tests.processes import ended

QUICK = ["--interval", "0.2"]


pytestmark = pytest.mark.usefixtures("looks")


def _watch(path: Path, capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, list[dict[str, Any]]]:
    code = main(["watch", str(path), "--format", "json", *QUICK, *args])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_each_change_is_told_once_and_the_end_ends_it(
    growing: Callable[..., Growing], looks: Looks, capsys: pytest.CaptureFixture[str]
) -> None:
    run = growing(epochs=3)

    def train() -> None:
        run.add("trace/rank0.jsonl", *(step(n) for n in range(40)))
        looks.told()
        run.rows(row(1))
        run.add("trace/rank0.jsonl", *(step(n, wait_ms=80, epoch=1) for n in range(40, 200)))
        looks.told()
        run.rows(row(2, loss=1.8, score=0.2), row(3, loss=1.6, score=0.3))
        run.end()

    thread, began = threading.Thread(target=train), time.monotonic()
    thread.start()
    code, events = _watch(run.path, capsys)
    thread.join()
    assert code == 1  # loader-bound is high: the verdict is fail
    kinds = [e["event"] for e in events]
    assert kinds[0] == "start"
    assert kinds[-1] == "end"
    found = [e for e in events if e["event"] == "finding" and e["finding"]["id"] == "speed.loader_bound"]
    assert len(found) == 1
    assert found[0]["finding"]["severity"] == "high"
    assert found[0]["finding"]["title"].startswith("Loader-bound")
    assert found[0]["first_seen"]["epoch"] in {1, None, 2}
    assert 0 < found[0]["first_seen"]["elapsed_s"] <= time.monotonic() - began
    assert events[-1]["exit_cause"]["kind"] == "finished"
    assert events[-1]["verdict"] == "fail"
    assert events[-1]["looks"] >= 3
    assert events[-1]["cpu_s"] > 0


def test_a_finding_that_goes_is_said_to_be_gone(
    growing: Callable[..., Growing], looks: Looks, capsys: pytest.CaptureFixture[str]
) -> None:
    run = growing(epochs=3)
    run.add("trace/rank0.jsonl", *(step(n, wait_ms=80) for n in range(40)))

    def train() -> None:
        looks.told()
        run.add("trace/rank0.jsonl", *(step(n, wait_ms=1) for n in range(40, 2000)))
        looks.told()
        run.end()

    thread = threading.Thread(target=train)
    thread.start()
    code, events = _watch(run.path, capsys)
    thread.join()
    assert code == 0
    gone = [e for e in events if e["event"] == "gone"]
    assert "speed.loader_bound" in {e["id"] for e in gone}


@pytest.mark.parametrize(("kind", "code"), [("finished", 0), ("stopped", 0), ("ram_oom", 1), ("failed", 1)])
def test_the_exit_code_tells_the_end(
    growing: Callable[..., Growing], kind: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run = growing(epochs=3)
    run.rows(row(1), row(2, loss=1.9), row(3, loss=1.8))
    run.end(kind)
    got, events = _watch(run.path, capsys)
    assert got == code
    assert events[-1]["exit_cause"]["kind"] == kind


def test_once_is_one_object_or_one_page(growing: Callable[..., Growing], capsys: pytest.CaptureFixture[str]) -> None:
    run = growing(epochs=3)
    run.add("trace/rank0.jsonl", *(step(n, wait_ms=80) for n in range(40)))
    run.rows(row(1))
    code, objects = _watch(run.path, capsys, "--once")
    assert code == 1
    assert len(objects) == 1
    assert objects[0]["living"] is True
    assert objects[0]["findings"][0]["id"] == "speed.loader_bound"
    assert objects[0]["findings"][0]["first_seen"]["epoch"] == 1
    assert objects[0]["share"]["data_wait"] == pytest.approx(0.8)
    for lang, word in (("en", "wait for data"), ("zh", "等待数据")):
        assert main(["watch", str(run.path), "--once", "--lang", lang]) == 1
        out = capsys.readouterr().out
        assert "\x1b" not in out
        assert "speed.loader_bound" in out
        assert word in out


def test_bad_input_is_a_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(tmp_path / "nowhere"), "--once"]) == 2
    assert "no such file or folder" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["watch", str(tmp_path / "empty"), "--once"]) == 2
    assert "no file of a training run" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["watch", str(tmp_path), "--interval", "-1"])


def _process(path: Path, *args: str, **kwargs: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "diag", "watch", str(path), "--interval", "1", *args]
    # a test that runs in the background of a shell has SIGINT ignored, and so would its children
    return subprocess.Popen(command, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **kwargs)  # noqa: PLW1509


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_watching_without_a_traceback(
    growing: Callable[..., Growing], number: int, code: int
) -> None:
    run = growing(epochs=3)
    run.add("trace/rank0.jsonl", *(step(n) for n in range(40)))
    with ended(_process(run.path, "--format", "json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        out, err = process.communicate(timeout=90)
    assert process.returncode == code, err
    assert b"Traceback" not in err
    last = json.loads(out.splitlines()[-1])
    assert (last["event"], last["exit_code"], last["living"]) == ("end", code, True)


def test_a_terminal_gets_one_block_that_is_drawn_again(growing: Callable[..., Growing]) -> None:
    run = growing(epochs=4)
    run.add("trace/rank0.jsonl", *(step(n, wait_ms=80) for n in range(40)))
    run.rows(row(1))
    master, slave = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "30"}
    with ended(_process(run.path, stdout=slave, stderr=slave, stdin=slave, env=env, close_fds=True)) as process:
        os.close(slave)
        said, over, until = b"", False, time.monotonic() + 90
        while time.monotonic() < until:
            if select.select([master], [], [], 0.5)[0]:
                try:
                    said += os.read(master, 65536)
                except OSError:
                    break
            if not over and b"loader_bound" in said and said.count(b"looks again") >= 2:
                run.end()
                over = True
            if process.poll() is not None and not select.select([master], [], [], 0.2)[0]:
                break
        process.wait(20)
    os.close(master)
    text = said.decode()
    assert process.returncode == 1, text[-2000:]
    assert text.startswith("\x1b[?25l")  # no cursor dances in the block
    assert text.rstrip().endswith("\x1b[?25h")
    assert re.search(r"\x1b\[\d+A", text)  # drawn again in its place
    assert "Loader-bound" in text
    assert "ended: finished" in text
    plain = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", line) for line in text.split("\r\n")]
    assert max(map(len, plain)) <= 80
