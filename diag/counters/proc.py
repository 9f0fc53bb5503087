"""The training process and its descendants, read from /proc: CPU time, memory, faults, input and output."""

from __future__ import annotations

import os

from diag.counters.files import Kept, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
GONE = "ZX"
"""States of a process that has ended: zombie, dead."""


CHILDREN_EVERY = 10
"""A process that had no children in its first looks is asked again every so many looks."""


class Process:
    """One look at /proc/PID/stat."""

    __slots__ = ("cpu_s", "faults", "major_faults", "parent", "pid", "rss_bytes", "started", "state", "threads")

    def __init__(self, pid: int, fields: list[bytes]) -> None:
        """`fields` are those after the name: the state is the first."""
        self.pid = pid
        self.state = fields[0].decode()
        self.parent = int(fields[1])
        self.cpu_s = (int(fields[11]) + int(fields[12])) * _TICK_S
        self.faults = int(fields[7])
        self.major_faults = int(fields[9])
        self.threads = int(fields[17])
        self.started = int(fields[19])
        """Clock ticks after boot; with the pid it names a process for good."""
        self.rss_bytes = int(fields[21]) * _PAGE


def read_process(pid: int, proc: str = "/proc", reader: Callable[[str], bytes] = read) -> Process | None:
    """The process, or None when it is gone."""
    raw = reader(f"{proc}/{pid}/stat")
    fields = raw[raw.rfind(b")") + 2 :].split()  # the name before it may hold spaces and brackets
    return Process(pid, fields) if len(fields) >= 22 else None


class Tree:
    """One process and all that descend from it. Totals keep what ended descendants had used when last seen."""

    def __init__(self, pid: int, proc: str = "/proc") -> None:
        self.pid = pid
        self._proc = proc
        self._kept = Kept()
        first = self._read(pid)
        self._started = first.started if first else None
        self._elsewhere: set[int] = set()
        self._looks: dict[int, int] = {}
        self._parents: set[int] = {pid}
        self._last: dict[int, tuple[float, ...]] = {}
        self._ended = [0.0] * 6
        self.cpu_s = 0.0
        """CPU seconds of all processes so far, by the last `look`."""
        self.moved_bytes = 0
        """Bytes that all of them have moved so far in any way, by calls, mapped files and pipes: a sign of work."""

    def alive(self) -> bool:
        """False when the process has ended, be it unreaped, or its pid belongs to another one by now."""
        now = self._read(self.pid)
        return now is not None and now.state not in GONE and now.started == self._started

    def processes(self) -> list[Process]:
        """The main process first, then all descendants that still run."""
        found: dict[int, Process] = {}
        queue = [self.pid, *self._elsewhere]
        while queue:
            pid = queue.pop(0)
            process = None if pid in found else self._read(pid)
            if process is not None and process.state not in GONE:
                found[pid] = process
                looks = self._looks[pid] = self._looks.get(pid, -1) + 1
                if looks < 3 or pid in self._parents or not looks % CHILDREN_EVERY:
                    # Loader workers are forked by the main thread; others are found by `search`.
                    children = self._kept.read(f"{self._proc}/{pid}/task/{pid}/children").split()
                    if children:
                        self._parents.add(pid)
                        queue += map(int, children)
        for pid in self._looks.keys() - found.keys():
            del self._looks[pid]
            for name in ("stat", "io", f"task/{pid}/children"):
                self._kept.drop(f"{self._proc}/{pid}/{name}")
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
        self.cpu_s, self.moved_bytes = total[0], int(total[5])
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
            try:
                allowed.setdefault(f"cpus_{name}", set()).update(os.sched_getaffinity(process.pid))
            except OSError:
                pass  # it has ended meanwhile
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
        for name in os.listdir(self._proc):  # pathlib would double the cost
            if name.isdigit() and (process := read_process(int(name), self._proc)):
                parents[process.pid] = process.parent
        mine, more = {self.pid}, True
        while more:
            new = {pid for pid, parent in parents.items() if parent in mine} - mine
            mine |= new
            more = bool(new)
        self._elsewhere = mine - {self.pid}

    def _read(self, pid: int) -> Process | None:
        return read_process(pid, self._proc, self._kept.read)

    def _io(self, pid: int) -> tuple[int, int, int]:
        """Bytes that really came from and went to storage (no page cache hits), and those moved in any way."""
        amounts = {}
        for line in self._kept.read(f"{self._proc}/{pid}/io").splitlines():
            name, _, value = line.partition(b": ")
            amounts[name] = int(value)
        get = amounts.get
        fetched, stored = get(b"read_bytes", 0), get(b"write_bytes", 0)  # mapped files show up here only
        return fetched, stored, fetched + stored + get(b"rchar", 0) + get(b"wchar", 0)
