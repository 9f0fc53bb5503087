"""What the control group and the machine say: CPU use, throttling, pressure, memory, network, /dev/shm."""

from __future__ import annotations

import os

from diag.counters.files import Kept, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_PRESSURES = ("cpu", "memory", "io")


class Host:
    """Reads the counters below `root`. A file that is missing leaves its values out."""

    def __init__(self, root: str | os.PathLike[str] = "/", groups: Mapping[str, str] | None = None) -> None:
        """`groups`: controller -> folder, as `own_groups` gives it; without it this process asks for itself."""
        root = os.fspath(root).rstrip("/")
        if groups is None:
            from pathlib import Path

            from diag.probe.cgroup import own_groups

            groups = {controller: str(path) for controller, path in own_groups(Path(root or "/")).items()}
        self._kept = Kept()
        unified = groups.get("")
        # A controller that version 1 has is not version 2's, whatever else is mounted there (hybrids).
        self._cpu_stat = f"{groups.get('cpu') or unified or ''}/cpu.stat"
        self._cpuacct = f"{groups['cpuacct']}/cpuacct.usage" if "cpuacct" in groups else ""
        first = groups.get("memory")
        memory = first or unified or ""
        self._memory = f"{memory}/memory.usage_in_bytes" if first else f"{memory}/memory.current"
        self._memory_stat = f"{memory}/memory.stat"
        self._cache_key = "total_inactive_file" if first else "inactive_file"
        self._events = f"{memory}/memory.oom_control" if first else f"{memory}/memory.events"
        self._pressure = {}
        for what in _PRESSURES:  # the group's own pressure where the kernel has it, else the machine's
            own = f"{unified}/{what}.pressure"
            self._pressure[what] = own if unified and read(own) else f"{root}/proc/pressure/{what}"
        self._net = f"{root}/proc/net/dev"
        self._stat = f"{root}/proc/stat"
        self._vmstat = f"{root}/proc/vmstat"
        self._shm = f"{root}/dev/shm"
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")

    def look(self) -> dict[str, float]:
        """The values of each second."""
        values = self._cpu()
        for what in _PRESSURES:
            for line in self._kept.read(self._pressure[what]).splitlines():
                kind, _, rest = line.partition(b" ")
                _, found, total = rest.rpartition(b"total=")
                if found and (kind == b"some" or what != "cpu"):  # "full" of the CPU has no meaning for a machine
                    values[f"psi_{what}_{kind.decode()}_s_total"] = int(total) / 1e6
        values |= self._network()
        try:
            shm = os.statvfs(self._shm)
            values["shm_used_bytes"] = (shm.f_blocks - shm.f_bfree) * shm.f_frsize
        except OSError:
            pass  # no /dev/shm here
        return values

    def costly(self) -> dict[str, float]:
        """The values of every ten seconds: larger files."""
        values: dict[str, float] = {}
        used = read(self._memory).strip()
        if used.isdigit():
            values["cgroup_memory_bytes"] = max(0, int(used) - _pairs(read(self._memory_stat)).get(self._cache_key, 0))
        vmstat = _pairs(read(self._vmstat))
        for name, key in (("host_swap_in", "pswpin"), ("host_swap_out", "pswpout")):
            if key in vmstat:
                values[f"{name}_bytes_total"] = vmstat[key] * self._page
        ticks = [int(n) for n in read(self._stat).partition(b"\n")[0].split()[1:9]]
        if len(ticks) == 8:
            idle, iowait = ticks[3], ticks[4]
            values["host_cpu_s_total"] = round((sum(ticks) - idle - iowait) * self._tick_s, 2)
            values["host_iowait_s_total"] = round(iowait * self._tick_s, 2)
        return values

    def oom_kills(self) -> int:
        """How often the kernel has killed for memory in this control group."""
        return _pairs(read(self._events)).get("oom_kill", 0)

    def _cpu(self) -> dict[str, float]:
        values: dict[str, float] = {}
        stat = _pairs(self._kept.read(self._cpu_stat))
        used = self._kept.read(self._cpuacct).strip() if self._cpuacct else b""
        if used.isdigit():
            values["cpu_cgroup_s_total"] = int(used) / 1e9
        elif "usage_usec" in stat:
            values["cpu_cgroup_s_total"] = stat["usage_usec"] / 1e6
        if "nr_periods" in stat:
            values["periods_total"] = stat["nr_periods"]
            values["throttled_periods_total"] = stat.get("nr_throttled", 0)
            values["throttled_s_total"] = stat.get("throttled_usec", 0) / 1e6 + stat.get("throttled_time", 0) / 1e9
        return values

    def _network(self) -> dict[str, float]:
        received = sent = 0
        for line in self._kept.read(self._net).splitlines()[2:]:
            name, _, rest = line.partition(b":")
            fields = rest.split()
            if name.strip() != b"lo" and len(fields) >= 9:
                received, sent = received + int(fields[0]), sent + int(fields[8])
        return {"net_received_bytes_total": received, "net_sent_bytes_total": sent}


def _pairs(raw: bytes) -> dict[str, int]:
    """Lines of `name number`."""
    pairs = (line.split() for line in raw.splitlines())
    return {p[0].decode(): int(p[1]) for p in pairs if len(p) == 2 and p[1].isdigit()}
