"""What the machine can say beside a run's own files: GPUs, disks, limits, the kernel's last words, packages."""

import importlib.metadata
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from diag.collect.files import Absent, Taken

_TIMEOUT_S = 20
_CGROUP = (
    "memory.max", "memory.high", "memory.current", "memory.peak", "memory.swap.max", "memory.swap.current",
    "memory.events",
    "cpu.max", "cpu.stat", "cpu.pressure", "memory.pressure", "io.pressure", "cpuset.cpus.effective", "pids.max",
    "pids.current", "memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.failcnt",
    "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us", "cpu/cpu.stat",
)  # fmt: skip
_ENV = re.compile(
    r"(?:CUDA|NVIDIA|NCCL|TORCH|PYTORCH|CUBLAS|CUDNN|OMP|MKL|OPENBLAS|YOLO|ULTRALYTICS|DIAG|PYTHON|OPENCV|GLOO|SHM|TF_"
    r"|KMP|MALLOC|LD_|HF_HUB_OFFLINE|WANDB_MODE|WORKSPACE$|OFFLINE$|DATA_DIR$|PATH$|LANG$|LC_|TZ$|HOSTTYPE$"
    r"|(?:https?|no|all)_proxy$)",
    re.I,
)
_STAMP = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[,.]\d+)?([+-]\d\d:?\d\d|Z)")
_LAST_LINES = 400


def captures(
    *, root: Path = Path("/"), env: Mapping[str, str] = os.environ, since: datetime | None = None
) -> Iterator[Taken | Absent]:
    """All captures, each under `machine/`. `since`: the kernel's messages before it are of no concern."""
    yield _command("nvidia-smi.txt", ["nvidia-smi"])
    yield _command("nvidia-smi-q.txt", ["nvidia-smi", "-q"])
    # images that are mounted (snaps, firmware) are always full and nobody's fault
    yield _command("df.txt", ["df", "-h", "-x", "squashfs", "-x", "devtmpfs", "-x", "efivarfs"])
    yield _read("mounts.txt", root / "proc/mounts")
    yield _cgroup(root / "sys/fs/cgroup")
    yield _read("meminfo.txt", root / "proc/meminfo")
    yield _command("cpu.txt", ["lscpu"])
    yield _command("kernel.txt", ["uname", "-a"])
    yield _read("os-release.txt", root / "etc/os-release")
    yield _dmesg(since)
    yield _env(env)
    yield _packages()


def _command(name: str, command: list[str], keep: Callable[[str], str] = str) -> Taken | Absent:
    if shutil.which(command[0]) is None:
        return Absent(f"machine/{name}", f"{command[0]} is not installed")
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False,
            env={**os.environ, "LC_ALL": "C"}, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return Absent(f"machine/{name}", str(error))
    if done.returncode and not done.stdout.strip():
        words = " ".join(done.stderr.split())[:200]
        return Absent(f"machine/{name}", words or f"{command[0]} ended with {done.returncode}")
    return Taken(f"machine/{name}", keep(done.stdout))


def _read(name: str, path: Path) -> Taken | Absent:
    try:
        return Taken(f"machine/{name}", path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        return Absent(f"machine/{name}", f"{path}: {error.strerror}")


def _cgroup(base: Path) -> Taken | Absent:
    lines = []
    for name in _CGROUP:
        try:
            text = (base / name).read_text(encoding="ascii", errors="replace")
        except OSError:
            continue
        lines += [f"{name} {line}" for line in text.splitlines()]
    if not lines:
        return Absent("machine/cgroup.txt", f"no limits or statistics in {base}")
    return Taken("machine/cgroup.txt", "\n".join(lines) + "\n")


def _dmesg(since: datetime | None) -> Taken | Absent:
    """The kernel's messages since the run began: an older out-of-memory kill is not this run's."""

    def recent(text: str) -> str:
        kept = [line for line in text.splitlines() if since is None or (_time(line) or since) >= since]
        return "\n".join(kept[-_LAST_LINES:]) + "\n"

    return _command("dmesg.txt", ["dmesg", "--time-format", "iso"], recent)


def _time(line: str) -> datetime | None:
    found = _STAMP.match(line)
    try:
        return datetime.fromisoformat(found[1] + found[2]) if found else None
    except ValueError:
        return None


def _env(env: Mapping[str, str]) -> Taken:
    """Only variables that training can depend on; of the others only how many there are."""
    kept = {name: value for name, value in sorted(env.items()) if _ENV.match(name)}
    lines = [f"{name}={' '.join(value.split())}" for name, value in kept.items()]
    return Taken("machine/env.txt", "\n".join([*lines, f"# {len(env) - len(kept)} other variables left out", ""]))


def _packages() -> Taken:
    """`name==version` of this environment; no addresses, which may hold credentials."""
    found = {(d.metadata["Name"] or "?", d.version) for d in importlib.metadata.distributions()}
    return Taken("machine/packages.txt", "".join(f"{n}=={v}\n" for n, v in sorted(found, key=lambda p: p[0].lower())))
