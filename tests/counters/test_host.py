"""Both cgroup versions, the process tree and NVML, from made-up files and libraries."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from diag.counters.gpus import Gpus
from diag.counters.host import Host
from diag.counters.proc import CHILDREN_EVERY, Tree, read_process
from tests.fakes.nvml import FakeNvml
from tests.fakes.scenarios import A100, GIB, LOST, Fails, Scenario

V1 = "\n".join(
    f"3{n} 23 0:2{n} / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}"
    for n, name in enumerate(("cpu", "cpuacct", "memory"))
)
V2 = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"


def root_with(folder: Path, mounts: str, own: str, files: dict[str, str]) -> Path:
    files = {"proc/self/mountinfo": mounts, "proc/self/cgroup": own, **files}
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content + "\n")
    return folder


def test_version_2_counters_of_the_own_group(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/a"
    files = {
        "sys/fs/cgroup/cgroup.controllers": "cpu memory",
        f"{group}/cgroup.controllers": "cpu memory",
        f"{group}/cpu.stat": "usage_usec 2500000\nnr_periods 40\nnr_throttled 10\nthrottled_usec 1500000",
        f"{group}/cpu.pressure": "some avg10=1.00 avg60=0.00 avg300=0.00 total=700000\nfull avg10=0 total=9",
        f"{group}/memory.current": str(3 * GIB),
        f"{group}/memory.stat": f"anon 1\ninactive_file {GIB}",
        f"{group}/memory.events": "low 0\noom 1\noom_kill 2",
        "proc/pressure/io": "some avg10=0.00 total=500000\nfull avg10=0.00 total=250000",
        "proc/pressure/cpu": "some avg10=0.00 total=99000000",
    }
    host = Host(root_with(tmp_path, V2, "0::/a", files))
    values = host.look()
    assert values["cpu_cgroup_s_total"] == 2.5
    assert (values["periods_total"], values["throttled_periods_total"], values["throttled_s_total"]) == (40, 10, 1.5)
    assert values["psi_cpu_some_s_total"] == 0.7  # the group's own, not the machine's
    assert "psi_cpu_full_s_total" not in values
    assert (values["psi_io_some_s_total"], values["psi_io_full_s_total"]) == (0.5, 0.25)
    assert host.costly() == {"cgroup_memory_bytes": 2 * GIB}
    assert host.oom_kills() == 2


def test_version_1_counters_of_the_own_group(tmp_path: Path) -> None:
    cgroup = "sys/fs/cgroup"
    files = {
        f"{cgroup}/cpu/cpu.stat": "nr_periods 8\nnr_throttled 4\nthrottled_time 500000000",
        f"{cgroup}/cpuacct/cpuacct.usage": "7000000000",
        f"{cgroup}/memory/memory.usage_in_bytes": str(GIB),
        f"{cgroup}/memory/memory.stat": "total_inactive_file 1000",
        f"{cgroup}/memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 5",
        "proc/net/dev": "a\nb\n lo: 5 0 0 0 0 0 0 0 6 0\n eth0: 100 0 0 0 0 0 0 0 200 0",
        "proc/vmstat": "pswpin 2\npswpout 3",
        "proc/stat": "cpu  100 0 100 1000 50 0 0 0 0 0\ncpu0 1",
    }
    host = Host(root_with(tmp_path, V1, "1:cpu:/\n2:cpuacct:/\n3:memory:/", files))
    values = host.look()
    assert values["cpu_cgroup_s_total"] == 7.0
    assert values["throttled_s_total"] == 0.5
    assert (values["net_received_bytes_total"], values["net_sent_bytes_total"]) == (100, 200)
    costly = host.costly()
    assert costly["cgroup_memory_bytes"] == GIB - 1000
    assert costly["host_swap_out_bytes_total"] == 3 * os.sysconf("SC_PAGE_SIZE")
    assert (costly["host_cpu_s_total"], costly["host_iowait_s_total"]) == (2.0, 0.5)
    assert host.oom_kills() == 5


def test_of_a_hybrid_the_version_that_has_the_controller_counts(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/unified/cgroup.controllers": "hugetlb misc",
        "sys/fs/cgroup/unified/cpu.stat": "usage_usec 99000000",
        "sys/fs/cgroup/unified/memory.events": "oom_kill 77",
        "sys/fs/cgroup/cpu/a/cpu.stat": "nr_periods 8\nnr_throttled 4\nthrottled_time 500000000",
        "sys/fs/cgroup/cpuacct/cpuacct.usage": "7000000000",
        "sys/fs/cgroup/memory/memory.oom_control": "oom_kill 5",
    }
    mounts = f"{V1}\n40 23 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
    host = Host(root_with(tmp_path, mounts, "1:cpu:/a\n2:cpuacct:/\n3:memory:/\n0::/", files))
    values = host.look()
    assert (values["cpu_cgroup_s_total"], values["periods_total"], values["throttled_s_total"]) == (7.0, 8, 0.5)
    assert host.oom_kills() == 5


def test_a_machine_without_any_of_these_files_has_no_such_values(tmp_path: Path) -> None:
    host = Host(root_with(tmp_path, "", "", {}))
    assert host.look() == {"net_received_bytes_total": 0, "net_sent_bytes_total": 0}
    assert (host.costly(), host.oom_kills()) == ({}, 0)


def test_a_name_with_brackets_and_spaces_does_not_shift_the_fields(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    fields = " ".join(str(n) for n in range(5, 60))  # proc(5) counts from 1; the parent is number 4
    (tmp_path / "7/stat").write_text(f"7 (a b) R 9) S 3 {fields}")
    process = read_process(7, str(tmp_path))
    assert process is not None
    assert (process.state, process.parent, process.threads, process.started) == ("S", 3, 20, 22)


def test_bytes_that_a_descendant_moves_are_a_sign_of_work() -> None:
    code = "import sys; open('/dev/null', 'wb').write(b'x' * 3_000_000); print('wrote', flush=True); sys.stdin.read()"
    tree = Tree(os.getpid())
    tree.look()
    before = tree.moved_bytes
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout and child.stdout.readline() == b"wrote\n"
        tree.look()
        assert tree.moved_bytes - before >= 3_000_000
    finally:
        child.kill()
        child.wait()


def test_a_grandchild_is_found_when_its_parent_forks_late(tmp_path: Path) -> None:
    """A process that had no children in its first looks is asked again after so many looks."""
    code = "import os, sys, time; sys.stdin.readline(); os.fork() and print('forked', flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        tree = Tree(os.getpid())

        def seen() -> int:
            return sum(child.pid in {p.pid, p.parent} for p in tree.processes())

        assert [seen() for _ in range(5)] == [1] * 5
        assert child.stdin and child.stdout
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"forked\n"
        assert max(seen() for _ in range(CHILDREN_EVERY)) == 2
    finally:
        for line in Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split():
            os.kill(int(line), 9)
        child.kill()
        child.wait()


def test_what_an_ended_worker_used_stays_counted() -> None:
    code = "import os, sys; [sum(range(10**6)) for _ in range(20)]; print('used', flush=True); sys.stdin.read()"
    worker = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert worker.stdout and worker.stdout.readline() == b"used\n"
        tree = Tree(os.getpid())
        with_worker = tree.look()["cpu_tree_s_total"]
        assert tree.look()["workers"] >= 1
    finally:
        worker.kill()
        worker.wait()
    assert tree.look()["cpu_tree_s_total"] >= with_worker


def test_gpu_values_and_what_a_gpu_does_not_support(fake_nvml: Callable[[Scenario], FakeNvml]) -> None:
    import pynvml

    throttle = {74: 2 * 10**9, 269: 0, 270: 5 * 10**8, 271: 0}
    card = A100.gpu(
        nvmlDeviceGetUtilizationRates={"gpu": 80, "memory": 30},
        nvmlDeviceGetClockInfo=1410,
        nvmlDeviceGetTotalEnergyConsumption=5_000,
        nvmlDeviceGetFieldValues=throttle,
        nvmlDeviceGetPowerUsage=None,
        nvmlDeviceGetTemperature=Fails(999),
    )
    fake = fake_nvml(card)
    pynvml.nvmlInit()
    gpus = Gpus(pynvml)
    values = gpus.look()
    assert values["gpu0_util"] == 0.8
    assert values["gpu0_memory_used_bytes"] == GIB // 64
    assert (values["gpu0_power_cap_s_total"], values["gpu0_hw_thermal_s_total"]) == (2.0, 0.5)
    assert "gpu0_thermal_s_total" not in values  # field 75 is not supported by this card
    assert values["gpu0_energy_j_total"] == 5.0
    assert not {"gpu0_power_w", "gpu0_temperature_c"} & set(values)
    fake.asked.clear()
    gpus.look()
    assert "nvmlDeviceGetPowerUsage" not in fake.asked  # not supported: not asked again
    assert "nvmlDeviceGetTemperature" in fake.asked  # an error may pass
    assert "nvmlDeviceGetPcieThroughput" not in fake.asked
    assert gpus.facts()[0]["memory_total_bytes"] == 80 * GIB


def test_a_gpu_that_is_lost_is_told_once_and_not_asked_again(fake_nvml: Callable[[Scenario], FakeNvml]) -> None:
    import pynvml

    fake = fake_nvml(A100)
    pynvml.nvmlInit()
    gpus = Gpus(pynvml)
    assert "gpu0_temperature_c" in gpus.look()
    assert gpus.lost == []
    fake.scenario = A100.gpu(**{"*": Fails(LOST)})
    assert gpus.look() == {}
    assert [(lost["gpu"], lost["said"]) for lost in gpus.lost] == [(0, "NVMLError_GpuIsLost: GPU is lost")]
    fake.asked.clear()
    assert gpus.look() == {}
    assert (fake.asked, len(gpus.lost)) == ([], 1)
