"""What this process may use of the machine: CPUs, memory, shared memory, processes, open files."""

import os
import platform
import resource
from dataclasses import dataclass
from pathlib import Path

from diag.model.hardware import Host
from diag.probe.cgroup import Limits, read_limits


@dataclass(frozen=True)
class HostState:
    """The lasting facts (`host`) and what holds right now. Pressure is a share 0..1 of the last ten seconds."""

    host: Host
    limits: Limits
    memory_available_bytes: int | None = None
    """What new processes may take: free and reclaimable memory, and never more than a limit leaves."""
    cpu_pressure: float | None = None
    io_pressure: float | None = None
    memory_pressure: float | None = None
    load_1min: float | None = None
    nofile: int | None = None
    memlock_bytes: int | None = None
    threads_max: int | None = None


def read_host(root: Path = Path("/")) -> HostState:
    """Read the host's state; `root` is where `proc`, `sys`, `etc` and `dev` are looked for."""
    limits = read_limits(root)
    meminfo = _meminfo(root)
    affinity = len(os.sched_getaffinity(0))
    shm_total, shm_free = _shm(root)
    available = [n for n in (meminfo.get("MemAvailable"), limits.memory_free_bytes) if n is not None]
    return HostState(
        host=Host(
            cpus_visible=os.cpu_count(),
            cpus_effective=float(affinity) if limits.cpus is None else min(float(affinity), limits.cpus),
            memory_total_bytes=meminfo.get("MemTotal"),
            memory_limit_bytes=limits.memory_bytes,
            shm_total_bytes=shm_total,
            shm_free_bytes=shm_free,
            cgroup_version=limits.version,
            container=in_container(root),
            os=_os_name(root),
            kernel=platform.release(),
            cpu_model=_cpu_model(root),
        ),
        limits=limits,
        memory_available_bytes=min(available, default=None),
        cpu_pressure=_pressure(root, "cpu"),
        io_pressure=_pressure(root, "io"),
        memory_pressure=_pressure(root, "memory"),
        load_1min=_load(root),
        nofile=_rlimit(resource.RLIMIT_NOFILE),
        memlock_bytes=_rlimit(resource.RLIMIT_MEMLOCK),
        threads_max=_rlimit(resource.RLIMIT_NPROC),
    )


def in_container(root: Path = Path("/")) -> bool:
    """True inside Docker, Podman or Kubernetes, by the marks that they leave."""
    if (root / ".dockerenv").exists() or (root / "run/.containerenv").exists():
        return True
    return any(os.environ.get(name) for name in ("container", "KUBERNETES_SERVICE_HOST"))


def _meminfo(root: Path) -> dict[str, int]:
    """Bytes by name."""
    rows = (line.replace(":", " ").split() for line in _text(root / "proc/meminfo").splitlines())
    return {row[0]: int(row[1]) * 1024 for row in rows if len(row) >= 2 and row[1].isdigit()}


def _shm(root: Path) -> tuple[int | None, int | None]:
    try:
        stat = os.statvfs(root / "dev/shm")
    except OSError:
        return None, None
    return stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize


def _pressure(root: Path, what: str) -> float | None:
    """`some avg10` of the pressure stall information; None where the kernel has none."""
    for line in _text(root / "proc/pressure" / what).splitlines():
        if line.startswith("some "):
            values = dict(part.split("=") for part in line.split()[1:])
            return float(values.get("avg10", "nan")) / 100
    return None


def _load(root: Path) -> float | None:
    first = _text(root / "proc/loadavg").partition(" ")[0]
    return float(first) if first else None


def _rlimit(which: int) -> int | None:
    soft, _ = resource.getrlimit(which)
    return None if soft == resource.RLIM_INFINITY else soft


def _os_name(root: Path) -> str:
    for line in _text(root / "etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return platform.system()


def _cpu_model(root: Path) -> str:
    for line in _text(root / "proc/cpuinfo").splitlines():
        if line.lower().startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
