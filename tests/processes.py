"""Processes of tests: none outlives its test, and none keeps it waiting, whatever else fails."""

import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import AnyStr

import psutil


@contextmanager
def ended(process: subprocess.Popen[AnyStr], limit: float = 120) -> Iterator[subprocess.Popen[AnyStr]]:
    """A started process; with the block, or after `limit` seconds, it is killed with all its descendants.

    `Popen` as a context manager would wait for it instead: a failed assertion in the block then never ends.
    """
    timer = threading.Timer(limit, kill_tree, (process,))
    timer.daemon = True
    timer.start()
    try:
        yield process
    finally:
        timer.cancel()
        kill_tree(process)
        process.wait(30)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()


def kill_tree(process: subprocess.Popen[AnyStr]) -> None:
    """Kill a process that still runs, and its descendants in whatever session they are."""
    if process.poll() is not None:
        return  # its number may be another's by now
    try:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for member in family:
        try:
            member.kill()
        except psutil.NoSuchProcess:
            continue


def run(
    args: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run a command without standard input to its end, as `subprocess.run` would.

    Its output goes to files: with pipes, `subprocess.run` would wait for every descendant once its timeout is over.
    Raises AssertionError with the output so far when it takes longer than `timeout` seconds.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:

        def said() -> tuple[str, str]:
            out.seek(0)
            err.seek(0)
            return out.read().decode(errors="replace"), err.read().decode(errors="replace")

        process = subprocess.Popen(args, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            kill_tree(process)
            process.wait(30)
            words = " ".join(map(str, args))
            raise AssertionError(f"{words}: not ended after {timeout:.0f} s\n{''.join(said())[-4000:]}") from None
        return subprocess.CompletedProcess(args, code, *said())
