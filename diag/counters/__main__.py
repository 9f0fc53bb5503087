"""The counters process: `python -m diag.counters RUN_DIR --pid TRAINER_PID`.

Appends one JSON object a line to RUN_DIR/trace/counters.jsonl, each written at once. It ends when the trainer has
ended or its own stdin closes (its parent is gone), whichever comes first.
"""

import json
import os
import select
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from diag.counters.gpus import GpuThread
from diag.counters.host import Host
from diag.counters.proc import Process, Tree
from diag.counters.stacks import FILE, write_stacks
from diag.counters.stall import LIMIT_S, Watchdog

VERSION = 1
EVERY_S, COSTLY_EVERY_S = 1.0, 10.0
COSTLY_SHARE = 300
"""The costly set waits at least this many times its own length, so that it stays below 0.33 % of a core."""
KILL_AFTER_S = 10.0
"""A hung trainer that was asked to end (DIAG_STALL_ABORT=1) is killed after so many seconds, or a stall limit's."""
STALLED = "stalled"
"""trace/stalled exists while training hangs; the container's health check looks for it."""


class Session:
    """One training, watched from its start to its end."""

    def __init__(self, run_dir: Path, pid: int, environment: Mapping[str, str]) -> None:
        self._run_dir = run_dir
        self._tree = Tree(pid)
        self._host = Host()
        self._gpus = GpuThread().start()
        limit_s = _seconds(environment.get("DIAG_STALL_S"))
        self._watchdog = Watchdog(run_dir, time.monotonic_ns(), limit_s=limit_s)
        self._kill_after_ns = int(min(KILL_AFTER_S, limit_s) * 1e9)
        self._abort = environment.get("DIAG_STALL_ABORT") == "1"
        self._abort_ns = 0
        self._costly_ns = 0
        self._kills = self._host.oom_kills()
        self._flag = run_dir / "trace" / STALLED
        self._flag.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] = (run_dir / "trace" / "counters.jsonl").open("a", encoding="utf-8", buffering=1)

    def run(self) -> None:
        """Sample until the end."""
        wall = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self._write("start", wall=wall, pid=os.getpid(), trainer=self._tree.pid, version=VERSION, every_s=EVERY_S)
        with _Ends(self._tree.pid) as ends:
            due = time.monotonic()
            while self._tree.alive():
                self.tick()
                due = max(due + EVERY_S, time.monotonic())
                if ends.wait(due - time.monotonic()) == "parent":
                    break
        # What the kernel killed and why is known only now, and only from outside.
        how = "parent_closed" if self._tree.alive() else "gone"
        kills = self._host.oom_kills() - self._kills
        self._flag.unlink(missing_ok=True)
        self._mark("end", {"how": how, "oom_kills": kills, "stalled": self._watchdog.stalled})
        self._file.close()

    def tick(self) -> None:
        """One look at everything."""
        now = time.monotonic_ns()
        if facts := self._gpus.take_facts():
            self._write("gpus", gpus=facts)
        for lost in self._gpus.take_lost():
            self._mark("gpu_lost", lost)
        values = self._tree.look() | self._host.look() | self._gpus.take()
        if now >= self._costly_ns:
            values |= self._tree.costly() | self._host.costly()
            cost = time.monotonic_ns() - now
            self._costly_ns = now + max(int(COSTLY_EVERY_S * 1e9), COSTLY_SHARE * cost)
        self._write("c", v=values, t=now)
        self._watch(now)

    def _watch(self, now: int) -> None:
        match self._watchdog.look(now, self._tree.cpu_s):
            case "stall":
                self._stalled(now)
            case "resumed":
                self._flag.unlink(missing_ok=True)
                self._abort_ns = 0
                self._mark("resumed", {"step": self._watchdog.last_step})
        if self._abort_ns and now - self._abort_ns > self._kill_after_ns:
            self._kill(self._tree.processes())
            self._abort_ns = 0

    def _stalled(self, now: int) -> None:
        dog = self._watchdog
        idle = dog.idle_s(now)
        where = "in a batch" if dog.in_batch else "between batches"
        said = f"{time.strftime('%Y-%m-%d %H:%M:%S')} no step for {idle:.0f} s {where}, last step {dog.last_step}"
        self._flag.write_text(said + "\n", encoding="utf-8")
        self._mark("stall", {"idle_s": round(idle, 1), "step": dog.last_step, "in_batch": dog.in_batch, "stacks": FILE})
        processes = self._tree.processes()
        write_stacks(self._run_dir, processes, said)
        if self._abort and processes:
            self._mark("stall_abort", {"idle_s": round(idle, 1), "step": dog.last_step})
            self._abort_ns = now
            os.kill(processes[0].pid, signal.SIGTERM)

    def _kill(self, processes: list[Process]) -> None:
        for process in processes:
            try:
                os.kill(process.pid, signal.SIGKILL)
            except OSError:
                continue

    def _mark(self, name: str, values: Mapping[str, Any]) -> None:
        self._write("mark", m=name, v=dict(values))

    def _write(self, kind: str, **fields: Any) -> None:
        record = {"k": kind, "t": fields.pop("t", None) or time.monotonic_ns(), **fields}
        try:
            self._file.write(json.dumps(record, separators=(",", ":")) + "\n")
        except OSError:
            return  # the disk is full: the watchdog goes on without a record


class _Ends:
    """Waits for the next sample, and wakes up early when the trainer or the parent ends."""

    def __init__(self, pid: int) -> None:
        self._poll = select.poll()
        self._poll.register(0, select.POLLIN | select.POLLHUP)
        self._handle = -1
        try:
            self._handle = os.pidfd_open(pid)
            self._poll.register(self._handle, select.POLLIN)
        except OSError:
            pass  # gone already, or a kernel before 5.3: the next look tells

    def wait(self, seconds: float) -> str:
        """`parent` when stdin has closed, `trainer` when the trainer has ended, else empty after `seconds`."""
        ready = {handle for handle, _ in self._poll.poll(max(0.0, seconds) * 1000)}
        if 0 in ready and not os.read(0, 4096):
            return "parent"
        return "trainer" if self._handle in ready else ""

    def __enter__(self) -> "_Ends":
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle >= 0:
            os.close(self._handle)


def _seconds(text: str | None) -> float:
    """A positive number of seconds, or the default."""
    try:
        value = float(text or "")
    except ValueError:
        return LIMIT_S
    return value if value > 0 else LIMIT_S


def main(argv: list[str]) -> int:
    """Watch one training. Returns 2 for wrong arguments."""
    if len(argv) != 3 or argv[1] != "--pid" or not argv[2].isdigit():
        print("usage: python -m diag.counters RUN_DIR --pid TRAINER_PID", file=sys.stderr)
        return 2
    Session(Path(argv[0]), int(argv[2]), os.environ).run()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
