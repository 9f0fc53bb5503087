"""Limits of this process's control groups: version 1, version 2 and hybrids; every ancestor counts."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Limits:
    """The tightest limits that hold. `None` is no limit, or one that can't be read.

    `memory_free_bytes` is the smallest rest under any memory limit, page cache not counted as used.
    """

    version: int | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    pids_max: int | None = None
    pids_current: int | None = None
    oom_kills: int = 0
    throttled_s: float = 0.0
    """Seconds since the group exists that its CPU quota kept it waiting."""


def read_limits(root: Path = Path("/")) -> Limits:
    """Read `proc/self/cgroup`, `proc/self/mountinfo` and the cgroup files below `root`."""
    mounts = _mounts(root)
    own = _own(root, mounts)
    if not own:
        return Limits()
    v1 = any(own.keys())
    memory = list(_memory(own))
    pids = list(_pids(own))
    tightest = min(pids, default=None)
    return Limits(
        version=1 if v1 else 2,
        cpus=min(_cpus(own), default=None),
        memory_bytes=min((limit for limit, _ in memory), default=None),
        memory_free_bytes=min((free for _, free in memory if free is not None), default=None),
        pids_max=tightest[0] if tightest else None,
        pids_current=tightest[1] if tightest else None,
        oom_kills=_oom_kills(own),
        throttled_s=_throttled_s(own),
    )


def own_groups(root: Path = Path("/")) -> dict[str, Path]:
    """Controller -> folder of this process's control group; the unified hierarchy of version 2 is ""."""
    return {controller: group for controller, (group, _) in _own(root, _mounts(root)).items()}


def _mounts(root: Path) -> dict[str, tuple[Path, str]]:
    """Controller -> (mount point below `root`, path of the hierarchy that is mounted there); "" is version 2."""
    found: dict[str, tuple[Path, str]] = {}
    for line in _text(root / "proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if len(fields) < 5 or len(tail) < 1 or not tail[0].startswith("cgroup"):
            continue
        place = (root / fields[4].lstrip("/"), fields[3])
        options = tail[-1].split(",")
        for name in [""] if tail[0] == "cgroup2" else options:
            found.setdefault(name, place)
    return found


def _own(root: Path, mounts: dict[str, tuple[Path, str]]) -> dict[str, tuple[Path, Path]]:
    """Controller -> (this process's group, top of the mount). A path outside of the mount means its top."""
    own: dict[str, tuple[Path, Path]] = {}
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for name in controllers.split(","):
            if name not in mounts:
                continue
            top, mounted = mounts[name]
            inside = path[len(mounted) :] if mounted != "/" and path.startswith(mounted) else path
            group = top / inside.lstrip("/")
            own[name] = (group if ".." not in inside and group.is_dir() else top, top)
    if len(own) > 1 and not _text(own.get("", (root,))[0] / "cgroup.controllers"):
        own.pop("", None)  # a hybrid: version 2 is mounted beside version 1 and controls nothing
    return own


def _upward(own: dict[str, tuple[Path, Path]], controller: str) -> Iterator[Path]:
    """The group of a controller and each of its ancestors, up to the mount's top."""
    if controller not in own:
        return
    group, top = own[controller]
    while True:
        yield group
        if group == top or top not in group.parents:
            return
        group = group.parent


def _cpus(own: dict[str, tuple[Path, Path]]) -> Iterator[float]:
    for group in _upward(own, ""):
        quota, _, period = _text(group / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit() and int(period):
            yield int(quota) / int(period)
    for group in _upward(own, "cpu"):
        quota_us, period_us = _number(group / "cpu.cfs_quota_us"), _number(group / "cpu.cfs_period_us")
        if quota_us and quota_us > 0 and period_us:
            yield quota_us / period_us


def _memory(own: dict[str, tuple[Path, Path]]) -> Iterator[tuple[int, int | None]]:
    """(limit, rest under it) of each group that has a limit."""
    for controller, limit_name, used_name, cache_key in (
        ("", "memory.max", "memory.current", "inactive_file"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        for group in _upward(own, controller):
            limit, used = _number(group / limit_name), _number(group / used_name)
            if limit is None or limit >= 1 << 60:  # version 1 writes "no limit" as a number near 2**63
                continue
            cache = _stat(group / "memory.stat").get(cache_key, 0)
            yield limit, None if used is None else max(0, limit - max(0, used - cache))


def _pids(own: dict[str, tuple[Path, Path]]) -> Iterator[tuple[int, int | None]]:
    for controller in ("", "pids"):
        for group in _upward(own, controller):
            limit = _number(group / "pids.max")
            if limit is not None:
                yield limit, _number(group / "pids.current")


def _oom_kills(own: dict[str, tuple[Path, Path]]) -> int:
    files = [own[c][0] / f for c, f in (("", "memory.events"), ("memory", "memory.oom_control")) if c in own]
    return max((_stat(file).get("oom_kill", 0) for file in files), default=0)


def _throttled_s(own: dict[str, tuple[Path, Path]]) -> float:
    stats = [_stat(own[c][0] / "cpu.stat") for c in ("", "cpu") if c in own]
    return max((s.get("throttled_usec", 0) / 1e6 + s.get("throttled_time", 0) / 1e9 for s in stats), default=0.0)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.lstrip("-").isdigit() else None


def _stat(path: Path) -> dict[str, int]:
    pairs = (line.split() for line in _text(path).splitlines())
    return {p[0]: int(p[1]) for p in pairs if len(p) == 2 and p[1].isdigit()}
