"""What every process of a hung training is doing, written to stall.txt."""

import os
import signal
import time

from diag.counters.files import read
from diag.counters.proc import Process

FILE = "stall.txt"
_WAIT_S = 0.5
"""So long a process has to write its stacks before the next one is asked."""


def write_stacks(run_dir: str, processes: list[Process], headline: str) -> None:
    """State and kernel wait of each process, then its Python stacks by its own faulthandler (SIGUSR1).

    A stopped (T) or uninterruptible (D) process can't answer before it goes on; its state is the finding then.
    A process without a handler is left alone: the signal would kill it.
    """
    with open(os.path.join(run_dir, FILE), "ab", buffering=0) as file:
        file.write(f"==== {headline}\n".encode())
        for number, process in enumerate(processes):
            role = "trainer" if number == 0 else "worker"
            wait = read(f"/proc/{process.pid}/wchan").decode(errors="replace")
            name = read(f"/proc/{process.pid}/comm").decode(errors="replace").strip()
            state = f"state {process.state}, {process.threads} threads, waits in {wait or '?'}"
            file.write(f"\n== {role} {process.pid} ({name}): {state}\n".encode())
            if not handles(process.pid, signal.SIGUSR1):
                file.write(b"no Python stacks: this process has no handler for them\n")
            elif process.state not in "TtD":
                _ask(process.pid)
            else:
                file.write(b"no Python stacks: it does not run; they follow below if it goes on\n")
                _ask(process.pid)
            if spy := _spy(process.pid):
                file.write(spy)
        file.write(b"\n")


def handles(pid: int, number: int) -> bool:
    """True if the process catches this signal."""
    for line in read(f"/proc/{pid}/status").splitlines():
        name, _, mask = line.partition(b":")
        if name == b"SigCgt":
            return bool(int(mask, 16) >> (number - 1) & 1)
    return False


def _ask(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGUSR1)
    except OSError:
        return
    time.sleep(_WAIT_S)


def _spy(pid: int) -> bytes:
    """Stacks with native frames, where py-spy happens to be installed."""
    import shutil  # only a stall needs them
    import subprocess

    spy = shutil.which("py-spy")
    if spy is None:
        return b""
    try:
        done = subprocess.run(
            [spy, "dump", "--native", "--pid", str(pid)], capture_output=True, check=False, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return b"py-spy:\n" + done.stdout
