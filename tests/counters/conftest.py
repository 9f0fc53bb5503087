"""A counters process beside a small child of our own."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from diag.counters.process import command


class Watched:
    """A child that runs `code`, and the counters process that watches it."""

    def __init__(self, run_dir: Path, code: str, env: dict[str, str]) -> None:
        self.run_dir = run_dir
        start = [sys.executable, "-c", textwrap.dedent(code)]
        self.child = subprocess.Popen(start, cwd=run_dir, start_new_session=True)
        self.counters = subprocess.Popen(
            command(run_dir, self.child.pid),
            stdin=subprocess.PIPE,
            env={**os.environ, **env},
        )

    def records(self, kind: str) -> list[dict[str, Any]]:
        """What was written until now; an unfinished line is left out."""
        path = self.run_dir / "trace" / "counters.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [record for line in lines if (record := json.loads(line))["k"] == kind]

    def mark(self, name: str) -> dict[str, Any]:
        """The values of a mark, waited for."""
        self.until(lambda: name in {record["m"] for record in self.records("mark")})
        values: dict[str, Any] = next(r["v"] for r in self.records("mark") if r["m"] == name)
        return values

    def until(self, holds: Callable[[], bool], *, seconds: float = 60) -> None:
        """Wait for something that must happen."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, (self.run_dir / "trace/counters.jsonl").read_text()
            time.sleep(0.05)


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    """watch("code") starts both; whatever still runs at the end of the test is killed."""
    started: list[Watched] = []

    def begin(code: str, **env: str) -> Watched:
        started.append(Watched(tmp_path, code, env))
        return started[-1]

    yield begin
    for watched in started:
        with suppress(ProcessLookupError):
            os.killpg(watched.child.pid, signal.SIGKILL)  # what it has forked, too
        for process in (watched.child, watched.counters):
            process.kill()
            process.wait()
