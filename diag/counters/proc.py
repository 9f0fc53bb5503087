"""The training process and its descendants, read from /proc: CPU time, memory, faults, input and output."""

import contextlib
import os
from dataclasses import dataclass

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
GONE = "ZX"
"""States of a process that has ended: zombie, dead."""


@dataclass(frozen=True)
class Process:
    """One look at /proc/PID/stat."""

    pid: int
    state: str
    parent: int
    cpu_s: float
    faults: int
    major_faults: int
    threads: int
    started: int
    """Clock ticks after boot; with the pid it names a process for good."""
    rss_bytes: int


def read(path: str) -> bytes:
    """The start of a small file; empty where it can't be read."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(handle, 65536)
    except OSError:  # the process ended between open and read
        return b""
    finally:
        os.close(handle)


def read_process(pid: int, proc: str = "/proc") -> Process | None:
    """The process, or None when it is gone."""
    raw = read(f"{proc}/{pid}/stat")
    fields = raw[raw.rfind(b")") + 2 :].split()  # the name before it may hold spaces and brackets
    if len(fields) < 22:
        return None
    cpu_s = (int(fields[11]) + int(fields[12])) * _TICK_S
    faults, major, threads = int(fields[7]), int(fields[9]), int(fields[17])
    state, parent, rss_pages = fields[0].decode(), int(fields[1]), int(fields[21])
    return Process(pid, state, parent, cpu_s, faults, major, threads, int(fields[19]), rss_pages * _PAGE)


class Tree:
    """One process and all that descend from it. Totals keep what ended descendants had used when last seen."""

    def __init__(self, pid: int, proc: str = "/proc") -> None:
        self.pid = pid
        self._proc = proc
        first = read_process(pid, proc)
        self._started = first.started if first else None
        self._elsewhere: set[int] = set()
        self._last: dict[int, tuple[float, ...]] = {}
        self._ended = [0.0] * 5
        self.cpu_s = 0.0
        """CPU seconds of all processes so far, by the last `look`."""

    def alive(self) -> bool:
        """False when the process has ended, be it unreaped, or its pid belongs to another one by now."""
        now = read_process(self.pid, self._proc)
        return now is not None and now.state not in GONE and now.started == self._started

    def processes(self) -> list[Process]:
        """The main process first, then all descendants that still run."""
        found: dict[int, Process] = {}
        queue = [self.pid, *self._elsewhere]
        while queue:
            pid = queue.pop(0)
            process = None if pid in found else read_process(pid, self._proc)
            if process is not None and process.state not in GONE:
                found[pid] = process
                # Loader workers are forked by the main thread; others are found by `search`.
                queue += map(int, read(f"{self._proc}/{pid}/task/{pid}/children").split())
        return list(found.values())

    def look(self) -> dict[str, float]:
        """The values of each second."""
        processes = self.processes()
        used: dict[int, tuple[float, ...]] = {
            p.pid: (p.cpu_s, p.faults, p.major_faults, *self._io(p.pid)) for p in processes
        }
        for pid in self._last.keys() - used.keys():
            self._ended = [a + b for a, b in zip(self._ended, self._last[pid], strict=True)]
        self._last = used
        total = [sum(column) for column in zip(self._ended, *used.values(), strict=True)]
        self.cpu_s = total[0]
        workers = [p for p in processes if p.pid != self.pid]
        values = {
            "cpu_tree_s_total": round(total[0], 2),
            "faults_total": int(total[1]),
            "major_faults_total": int(total[2]),
            "read_bytes_total": int(total[3]),
            "written_bytes_total": int(total[4]),
            "workers": len(workers),
            "threads": sum(p.threads for p in processes),
        }
        if len(workers) < len(processes):
            values["rss_main_bytes"] = processes[0].rss_bytes
        if workers:
            values["rss_workers_bytes"] = sum(p.rss_bytes for p in workers)
        return values

    def costly(self) -> dict[str, float]:
        """Proportional memory and swap (the kernel walks all page tables for these), and how many CPUs each may run on:
        `cpus_given` this process, which nothing in the training can have bound, `cpus_workers` all workers together.
        """
        self.search()
        values: dict[str, float] = {"cpus_given": len(os.sched_getaffinity(0))}
        allowed: dict[str, set[int]] = {}
        for process in self.processes():
            name = "main" if process.pid == self.pid else "workers"
            with contextlib.suppress(OSError):  # it has ended meanwhile
                allowed.setdefault(f"cpus_{name}", set()).update(os.sched_getaffinity(process.pid))
            for line in read(f"{self._proc}/{process.pid}/smaps_rollup").splitlines():
                key, _, rest = line.partition(b":")
                if key == b"Pss":
                    values[f"pss_{name}_bytes"] = values.get(f"pss_{name}_bytes", 0) + int(rest.split()[0]) * 1024
                elif key == b"Swap":
                    values["swap_bytes"] = values.get("swap_bytes", 0) + int(rest.split()[0]) * 1024
        return values | {name: len(cpus) for name, cpus in allowed.items()}

    def search(self) -> None:
        """Find descendants that another thread than the main one has started."""
        parents = {}
        for name in os.listdir(self._proc):  # noqa: PTH208  # pathlib would double the cost
            if name.isdigit() and (process := read_process(int(name), self._proc)):
                parents[process.pid] = process.parent
        mine, more = {self.pid}, True
        while more:
            new = {pid for pid, parent in parents.items() if parent in mine} - mine
            mine |= new
            more = bool(new)
        self._elsewhere = mine - {self.pid}

    def _io(self, pid: int) -> tuple[int, int]:
        """Bytes that really went to and came from storage; page cache hits are not in it."""
        amounts = {}
        for line in read(f"{self._proc}/{pid}/io").splitlines():
            name, _, value = line.partition(b": ")
            amounts[name] = int(value)
        return amounts.get(b"read_bytes", 0), amounts.get(b"write_bytes", 0)
