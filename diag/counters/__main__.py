"""The counters process: `python -m diag.counters RUN_DIR --pid TRAINER_PID`.

Appends one JSON object a line to RUN_DIR/trace/counters.jsonl, each written at once. It ends when the trainer has
ended or its own stdin closes (its parent is gone), whichever comes first.
"""

from __future__ import annotations

import os
import select
import sys
import time

if __name__ == "__main__" and not __package__:  # started by its file (see process.py): quicker than by -m
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from diag.counters.files import line
from diag.counters.host import Host
from diag.counters.proc import Tree
from diag.counters.stall import LIMIT_S, Watchdog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from diag.counters.gpus import GpuThread
    from diag.counters.proc import Process

VERSION = 1
EVERY_S, COSTLY_EVERY_S = 1.0, 10.0
COSTLY_SHARE = 1000
"""The costly set waits at least this many times its own length, so that it stays below 0.1 % of a core."""
KILL_AFTER_S = 10.0
"""A hung trainer that was asked to end (DIAG_STALL_ABORT=1) is killed after so many seconds, or a stall limit's."""
LIBRARY = "libnvidia-ml.so.1"
LIBRARY_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib/wsl/lib",
    "/usr/lib",
)
STALLED = "stalled"
"""trace/stalled exists while training hangs; the container's health check looks for it."""


class Session:
    """One training, watched from its start to its end."""

    def __init__(
        self,
        run_dir: str | os.PathLike[str],
        pid: int,
        environment: Mapping[str, str],
        groups: Mapping[str, str] | None = None,
    ) -> None:
        self._run_dir = os.fspath(run_dir)
        self._tree = Tree(pid)
        self._host = Host(groups=groups)
        self._gpus = _gpus(environment)
        limit_s = _seconds(environment.get("DIAG_STALL_S"))
        self._watchdog = Watchdog(run_dir, time.monotonic_ns(), limit_s=limit_s)
        self._kill_after_ns = int(min(KILL_AFTER_S, limit_s) * 1e9)
        self._abort = environment.get("DIAG_STALL_ABORT") == "1"
        self._abort_ns = 0
        self._costly_ns = 0
        self._looks = 0
        self._kills = self._host.oom_kills()
        trace = os.path.join(self._run_dir, "trace")
        self._flag = os.path.join(trace, STALLED)
        os.makedirs(trace, exist_ok=True)
        path = os.path.join(trace, "counters.jsonl")
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def run(self) -> None:
        """Sample until the end."""
        wall = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self._write("start", wall=wall, pid=os.getpid(), trainer=self._tree.pid, version=VERSION, every_s=EVERY_S)
        start_s = time.process_time()
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
        self._unflag()
        cost_s = time.process_time()
        self._mark("cost", {"start_cpu_s": round(start_s, 4), "cpu_s": round(cost_s, 4), "looks": self._looks})
        self._mark("end", {"how": how, "oom_kills": kills, "stalled": self._watchdog.stalled})
        os.close(self._file)

    def tick(self) -> None:
        """One look at everything."""
        now = time.monotonic_ns()
        self._looks += 1
        values = self._tree.look() | self._host.look()
        if self._gpus is not None:
            if facts := self._gpus.take_facts():
                self._write("gpus", gpus=facts)
            for lost in self._gpus.take_lost():
                self._mark("gpu_lost", lost)
            values |= self._gpus.take()
        if now >= self._costly_ns:
            values |= self._tree.costly() | self._host.costly()
            cost = time.monotonic_ns() - now
            self._costly_ns = now + max(int(COSTLY_EVERY_S * 1e9), COSTLY_SHARE * cost)
        self._write("c", v=values, t=now)
        self._watch(now)

    def _watch(self, now: int) -> None:
        match self._watchdog.look(now, self._tree.cpu_s, self._tree.moved_bytes):
            case "stall":
                self._stalled(now)
            case "resumed":
                self._unflag()
                self._abort_ns = 0
                self._mark("resumed", {"step": self._watchdog.last_step})
        if self._abort_ns and now - self._abort_ns > self._kill_after_ns:
            self._kill(self._tree.processes())
            self._abort_ns = 0

    def _stalled(self, now: int) -> None:
        import signal  # only a stall needs them

        from diag.counters.stacks import FILE, write_stacks

        dog = self._watchdog
        idle = dog.idle_s(now)
        where = "in a batch" if dog.in_batch else "between batches"
        said = f"{time.strftime('%Y-%m-%d %H:%M:%S')} no step for {idle:.0f} s {where}, last step {dog.last_step}"
        _write_text(self._flag, said + "\n")
        self._mark("stall", {"idle_s": round(idle, 1), "step": dog.last_step, "in_batch": dog.in_batch, "stacks": FILE})
        processes = self._tree.processes()
        write_stacks(self._run_dir, processes, said)
        if self._abort and processes:
            self._mark("stall_abort", {"idle_s": round(idle, 1), "step": dog.last_step})
            self._abort_ns = now
            os.kill(processes[0].pid, signal.SIGTERM)

    def _kill(self, processes: list[Process]) -> None:
        import signal

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
            os.write(self._file, line(record))
        except OSError:
            return  # the disk is full: the watchdog goes on without a record

    def _unflag(self) -> None:
        try:
            os.unlink(self._flag)
        except OSError:
            return


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

    def __enter__(self) -> _Ends:
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


def _gpus(environment: Mapping[str, str]) -> GpuThread | None:
    """Started where libnvidia-ml may be; looking for the file is a hundred times cheaper than importing ctypes."""
    folders = [*environment.get("LD_LIBRARY_PATH", "").split(":"), *LIBRARY_FOLDERS]
    if not any(os.path.exists(f"{folder}/{LIBRARY}") for folder in folders) and not _in_loader_cache():
        return None
    from diag.counters.gpus import GpuThread

    return GpuThread().start()


def _in_loader_cache(path: str = "/etc/ld.so.cache") -> bool:
    try:
        with open(path, "rb") as file:
            return LIBRARY.encode() in file.read()
    except OSError:
        return False


def _write_text(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        return  # the disk is full; the mark and the stacks are tried all the same


def main(argv: list[str]) -> int:
    """Watch one training. Returns 2 for wrong arguments."""
    groups: dict[str, str] = {}
    words = []
    for word in argv:
        if word.startswith("--group="):
            controller, _, folder = word.removeprefix("--group=").partition("=")
            groups[controller] = folder
        else:
            words.append(word)
    if len(words) != 3 or words[1] != "--pid" or not words[2].isdigit():
        print("usage: python -m diag.counters RUN_DIR --pid TRAINER_PID", file=sys.stderr)
        return 2
    Session(words[0], int(words[2]), os.environ, groups or None).run()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
