"""Limits of containers, CPUs, memory and shared memory, from file trees of both cgroup versions."""

from dataclasses import replace
from pathlib import Path

import pytest

from diag.model.check import Status
from diag.model.hardware import Host
from diag.probe import check_host
from diag.probe.cgroup import Limits, read_limits
from diag.probe.host import HostState, read_host
from diag.probe.plan import make_plan

GIB = 1024**3
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw"
BIG = HostState(
    Host(
        cpus_visible=8, cpus_effective=8.0, memory_total_bytes=32 * GIB, shm_total_bytes=8 * GIB, shm_free_bytes=8 * GIB
    ),
    Limits(version=2),
    memory_available_bytes=30 * GIB,
    nofile=65536,
)


def tree(root: Path, mountinfo: str, own: str, **files: str) -> Path:
    """A /proc and /sys below `root`; file names use `__` for `/` and are relative to sys/fs/cgroup."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(mountinfo + "\n")
    (root / "proc/self/cgroup").write_text(own + "\n")
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def test_version_2_takes_the_tightest_of_all_ancestors(tmp_path: Path) -> None:
    files = {
        "cgroup_DOT_controllers": "cpu memory pids",
        "a__cpu_DOT_max": "150000 100000",
        "a__b__cpu_DOT_max": "max 100000",
        "a__memory_DOT_max": str(2 * GIB),
        "a__memory_DOT_current": str(GIB),
        "a__memory_DOT_stat": f"anon 5\ninactive_file {GIB // 2}",
        "a__b__memory_DOT_max": "max",
        "a__b__pids_DOT_max": "100",
        "a__b__pids_DOT_current": "40",
        "a__b__memory_DOT_events": "low 0\noom_kill 3",
        "a__b__cpu_DOT_stat": "nr_throttled 5\nthrottled_usec 2500000",
    }
    root = tree(tmp_path, V2, "0::/a/b", **files)
    assert read_limits(root) == Limits(
        version=2,
        cpus=1.5,
        memory_bytes=2 * GIB,
        memory_free_bytes=GIB + GIB // 2,
        pids_max=100,
        pids_current=40,
        oom_kills=3,
        throttled_s=2.5,
    )


def test_version_1_is_read_through_a_docker_mount_whose_root_is_the_group_itself(tmp_path: Path) -> None:
    mounts = (
        "31 30 0:27 /docker/abc /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 30 0:28 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "33 30 0:29 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids"
    )
    own = "3:cpu,cpuacct:/docker/abc\n2:memory:/docker/abc\n1:pids:/docker/abc"
    files = {
        "cpu,cpuacct__cpu_DOT_cfs_quota_us": "50000",
        "cpu,cpuacct__cpu_DOT_cfs_period_us": "100000",
        "memory__memory_DOT_limit_in_bytes": str(3 * GIB),
        "memory__memory_DOT_usage_in_bytes": str(GIB),
        "pids__pids_DOT_max": "max",
    }
    limits = read_limits(tree(tmp_path, mounts, own, **files))
    assert (limits.version, limits.cpus, limits.memory_bytes) == (1, 0.5, 3 * GIB)
    assert (limits.memory_free_bytes, limits.pids_max) == (2 * GIB, None)


def test_version_1_without_limits_has_none(tmp_path: Path) -> None:
    mounts = "32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" + V2.replace(
        "cgroup rw", "cgroup/unified rw"
    )
    files = {"memory__memory_DOT_limit_in_bytes": "9223372036854771712", "memory__memory_DOT_usage_in_bytes": "1"}
    limits = read_limits(tree(tmp_path, mounts, "2:memory:/\n0::/", **files))
    assert limits == Limits(version=1)


def test_a_group_outside_of_the_mount_means_the_top_of_the_mount(tmp_path: Path) -> None:
    files = {"cgroup_DOT_controllers": "cpu", "cpu_DOT_max": "200000 100000"}
    assert read_limits(tree(tmp_path, V2, "0::/../../other", **files)).cpus == 2.0


def test_an_empty_machine_has_no_limits_and_no_facts(tmp_path: Path) -> None:
    state = read_host(tmp_path)
    assert state.limits == Limits()
    assert (state.memory_available_bytes, state.cpu_pressure, state.host.shm_free_bytes) == (None, None, None)


def test_a_limit_counts_for_cpus_and_memory(tmp_path: Path) -> None:
    files = {"cgroup_DOT_controllers": "cpu memory", "cpu_DOT_max": "50000 100000", "memory_DOT_max": str(GIB)}
    root = tree(tmp_path, V2, "0::/", memory_DOT_current="0", **files)
    (root / "proc/meminfo").write_text(f"MemTotal: {16 * GIB // 1024} kB\nMemAvailable: {8 * GIB // 1024} kB\n")
    (root / "proc/pressure").mkdir()
    (root / "proc/pressure/cpu").write_text("some avg10=27.50 avg60=1 avg300=1 total=5\nfull avg10=0 total=0\n")
    state = read_host(root)
    assert (state.host.cpus_effective, state.memory_available_bytes, state.cpu_pressure) == (0.5, GIB, 0.275)


def test_more_workers_than_usable_cpus_warn_and_name_a_number_that_fits() -> None:
    state = replace(BIG, host=replace(BIG.host, cpus_effective=2.0))
    check = check_host.cpu_effective(state, make_plan({"workers": 8}), gpu=True)
    assert (check.status, check.finding) == (Status.WARN, "hw.cpu_quota")
    assert check.remedy.startswith("pass workers=1")


def test_on_the_cpu_no_workers_run_and_nothing_is_warned_of() -> None:
    state = replace(BIG, host=replace(BIG.host, cpus_effective=0.5, shm_free_bytes=1))
    plan = make_plan({})
    assert check_host.cpu_effective(state, plan, gpu=False).status is Status.PASS
    assert check_host.shm_size(state, plan, gpu=False).status is Status.PASS


def test_workers_count_for_each_rank() -> None:
    check = check_host.cpu_effective(BIG, make_plan({"device": "0,1", "workers": 8}), gpu=True)
    assert check.facts["workers"] == 8  # Ultralytics gives each rank its share of the visible CPUs


@pytest.mark.parametrize(
    ("free", "status"), [(64 << 20, Status.FAIL), (200 << 20, Status.WARN), (400 << 20, Status.PASS)]
)
def test_shared_memory_follows_the_formula(free: int, status: Status) -> None:
    state = replace(BIG, host=replace(BIG.host, shm_free_bytes=free))
    check = check_host.shm_size(state, make_plan({"workers": 2, "batch": 16, "imgsz": 640}), gpu=True)
    assert check.facts["need_bytes"] == 9 * 16 * 3 * 640**2  # 177 MB, as measured with Ultralytics' loader
    assert (check.status, bool(check.remedy)) == (status, status is not Status.PASS)


@pytest.mark.parametrize(
    ("available", "cache", "status"),
    [
        (30 * GIB, None, Status.PASS),
        (GIB // 2, None, Status.FAIL),
        (3 * GIB // 2, None, Status.WARN),
        (30 * GIB, 10 * GIB, Status.PASS),
        (30 * GIB, 20 * GIB, Status.WARN),
        (30 * GIB, 28 * GIB, Status.FAIL),
    ],
)
def test_memory_must_hold_training_and_cache(available: int, cache: int | None, status: Status) -> None:
    state = replace(BIG, memory_available_bytes=available)
    check = check_host.memory_limit(state, make_plan({"cache": "ram"}), cache)
    assert check.status is status
    assert ("cache=disk" in check.remedy) is (cache is not None and status is not Status.PASS)


@pytest.mark.parametrize(
    ("most", "used", "status"),
    [(None, None, Status.PASS), (1024, 10, Status.PASS), (120, 10, Status.WARN), (60, 30, Status.FAIL)],
)
def test_a_small_process_limit_is_seen(most: int | None, used: int | None, status: Status) -> None:
    state = replace(BIG, limits=Limits(version=2, pids_max=most, pids_current=used))
    assert check_host.limits_pids(state, make_plan({}), gpu=True).status is status


def test_few_open_files_warn() -> None:
    assert check_host.limits_nofile(replace(BIG, nofile=1024)).status is Status.WARN
    assert check_host.limits_nofile(BIG).status is Status.PASS


@pytest.mark.parametrize(("share", "status"), [(None, Status.SKIP), (0.05, Status.PASS), (0.5, Status.WARN)])
def test_a_busy_machine_is_told(share: float | None, status: Status) -> None:
    assert check_host.cpu_pressure(replace(BIG, cpu_pressure=share)).status is status
