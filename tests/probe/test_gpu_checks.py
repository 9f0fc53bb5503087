"""GPU checks over faked machines: the right status, the exact remedy, no false alarm."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from diag.model.check import Check, Status
from diag.model.hardware import Gpu
from diag.probe import check_cuda, check_gpu
from diag.probe.child import Section
from diag.probe.gpu import GpuSigns, Triage, see_gpu, triage
from diag.probe.nvml import NvmlState, read_nvml
from diag.probe.plan import Plan, make_plan
from tests.fakes.nvml import FakeNvml
from tests.fakes.scenarios import A100, GIB, SCENARIOS, T4, V100, Scenario

Use = Callable[[Scenario], FakeNvml]
CU13: Mapping[str, Any] = {
    "torch": "2.14.1+cu130",
    "torch_cuda": "13.0",
    "arch_list": ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"],
}
HERE = GpuSigns(
    pci_gpus=1,
    pci_drivers=("nvidia",),
    kernel_driver="580.65.06",
    device_nodes=("/dev/nvidia0",),
    nvml_loads=True,
    cuda_loads=True,
    nvml_gpus=1,
    container=True,
)


def gpu_of(use: Use, name: str) -> Gpu:
    use(SCENARIOS[name])
    return read_nvml(pause_s=0).gpus[0]


def visible(signs: GpuSigns, plan: Plan, *gpus: Gpu) -> Check:
    return check_gpu.gpu_visible(signs, triage(signs), plan, gpus)


@pytest.mark.parametrize(
    ("signs", "state"),
    [
        (GpuSigns(), Triage.NONE),
        (GpuSigns(nvml_loads=True, cuda_loads=True), Triage.NONE),
        (GpuSigns(wsl=True), Triage.NONE),
        (GpuSigns(pci_gpus=1, pci_drivers=("nouveau",)), Triage.NO_DRIVER),
        (GpuSigns(pci_gpus=1, pci_drivers=("vfio-pci",)), Triage.NO_DRIVER),
        (GpuSigns(pci_gpus=1, kernel_driver="580.1", container=True), Triage.NOT_PASSED),
        (HERE, Triage.USABLE),
        (replace(HERE, cuda_loads=False), Triage.UTILITY_ONLY),
        (replace(HERE, nvml_loads=False, nvml_gpus=0), Triage.NO_TELEMETRY),
        (replace(HERE, nvml_loads=False, cuda_loads=False, nvml_gpus=0), Triage.NO_LIBRARIES),
        (replace(HERE, unopenable=("/dev/nvidia0: Operation not permitted",)), Triage.NO_PERMISSION),
        (replace(HERE, cuda_visible_devices=""), Triage.HIDDEN),
        (replace(HERE, cuda_visible_devices="1"), Triage.USABLE),
        (GpuSigns(wsl=True, nvml_loads=True, cuda_loads=True, nvml_gpus=1), Triage.USABLE),
        (GpuSigns(tegra=True, cuda_loads=True), Triage.JETSON),
    ],
)
def test_triage_finds_the_first_thing_that_is_missing(signs: GpuSigns, state: Triage) -> None:
    assert triage(signs).state is state


def test_signs_are_read_from_files(tmp_path: Path) -> None:
    for bus, vendor, kind in (("65", "0x10de", "0x030200"), ("66", "0x10de", "0x040300"), ("67", "0x1002", "0x030000")):
        device = tmp_path / f"sys/bus/pci/devices/0000:{bus}:00.0"
        device.mkdir(parents=True)
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{kind}\n")
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27\nGCC version: gcc 13\n"
    (tmp_path / "proc/driver/nvidia/version").write_text(version)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    (tmp_path / "dev/nvidiactl").touch()
    env = {"NVIDIA_DRIVER_CAPABILITIES": "utility"}
    signs = see_gpu(tmp_path, env, lambda name: "nvidia-ml" in name)
    assert (signs.pci_gpus, signs.kernel_driver) == (1, "580.65.06")
    assert signs.device_nodes == (str(tmp_path / "dev/nvidia0"),)
    found = triage(replace(signs, container=True))
    assert found.state is Triage.UTILITY_ONLY
    assert "NVIDIA_DRIVER_CAPABILITIES=utility" in found.says
    assert "compute,utility" in found.remedy


def test_a_gpu_that_was_not_passed_stops_a_run_that_would_silently_use_the_cpu() -> None:
    signs = GpuSigns(pci_gpus=1, kernel_driver="580.65.06", container=True)
    check = visible(signs, make_plan({}))
    assert (check.status, check.finding) == (Status.FAIL, "env.docker_no_gpu")
    assert "ACCEL=cuda" in check.remedy
    assert "--gpus all" in check.remedy
    assert "device=cpu" in check.remedy


def test_the_cpu_on_purpose_is_fine_beside_an_unusable_gpu() -> None:
    signs = GpuSigns(pci_gpus=1, kernel_driver="580.65.06", container=True)
    assert visible(signs, make_plan({"device": "cpu"})).status is Status.INFO


def test_no_gpu_at_all_is_told_unless_one_was_asked_for() -> None:
    assert visible(GpuSigns(), make_plan({})).status is Status.INFO
    asked = visible(GpuSigns(), make_plan({"device": 0}))
    assert (asked.status, asked.value) == (Status.FAIL, "no NVIDIA GPU on this machine")
    assert "device=cpu" in asked.remedy


def test_an_index_beyond_the_last_gpu_fails() -> None:
    check = visible(HERE, make_plan({"device": "0,1"}), Gpu(0, name="NVIDIA L4"))
    assert (check.status, check.reason) == (Status.FAIL, "there is no GPU 1: 1 visible, counted from 0")


def test_cuda_visible_devices_decides_which_gpu_is_judged() -> None:
    gpus = (Gpu(0, uuid="GPU-a"), Gpu(1, uuid="GPU-b"), Gpu(2, uuid="GPU-c"))
    plan = make_plan({"device": "1"})
    assert check_gpu.used_gpus(gpus, plan, None) == [gpus[1]]
    assert check_gpu.used_gpus(gpus, plan, "2,0") == [gpus[0]]
    assert check_gpu.used_gpus(gpus, plan, "GPU-c,GPU-b") == [gpus[1]]
    assert check_gpu.used_gpus(gpus, plan, "0") == []


@pytest.mark.parametrize(
    ("name", "judge", "status", "finding"),
    [
        ("healthy A100", check_gpu.gpu_health, Status.PASS, ""),
        ("healthy T4", check_gpu.gpu_health, Status.PASS, ""),
        ("GeForce without error counters", check_gpu.gpu_health, Status.SKIP, ""),
        ("hardly anything supported", check_gpu.gpu_health, Status.SKIP, ""),
        ("MIG", check_gpu.gpu_health, Status.PASS, ""),
        ("uncorrected ECC errors", check_gpu.gpu_health, Status.FAIL, "hw.ecc_errors"),
        ("remap pending", check_gpu.gpu_health, Status.WARN, "hw.ecc_errors"),
        ("remap failed", check_gpu.gpu_health, Status.FAIL, "hw.ecc_errors"),
        ("reset asked for", check_gpu.gpu_health, Status.FAIL, "hw.ecc_errors"),
        ("lost GPU", check_gpu.gpu_health, Status.FAIL, "hw.xid"),
        ("no permission for one value", check_gpu.gpu_health, Status.UNKNOWN, ""),
        ("healthy A100", check_gpu.gpu_memory, Status.PASS, ""),
        ("foreign memory", check_gpu.gpu_memory, Status.WARN, "hw.gpu_busy"),
        ("full memory", check_gpu.gpu_memory, Status.FAIL, "hw.gpu_busy"),
        ("hardly anything supported", check_gpu.gpu_memory, Status.UNKNOWN, ""),
        ("healthy A100", check_gpu.gpu_power, Status.PASS, ""),
        ("software power cap", check_gpu.gpu_power, Status.PASS, ""),
        ("power limit lowered", check_gpu.gpu_power, Status.WARN, "hw.power_throttle"),
        ("hardly anything supported", check_gpu.gpu_power, Status.SKIP, ""),
        ("healthy A100", check_gpu.gpu_mode, Status.PASS, ""),
        ("MIG", check_gpu.gpu_mode, Status.INFO, ""),
        ("exclusive mode", check_gpu.gpu_mode, Status.WARN, ""),
        ("prohibited mode", check_gpu.gpu_mode, Status.FAIL, ""),
    ],
)
def test_each_scenario_has_its_answer(
    fake_nvml: Use, name: str, judge: Callable[[Gpu], Check], status: Status, finding: str
) -> None:
    check = judge(gpu_of(fake_nvml, name))
    assert (check.status, check.finding) == (status, finding)
    assert bool(check.remedy) is (status in {Status.FAIL, Status.WARN})


def test_foreign_memory_names_the_process(fake_nvml: Use) -> None:
    check = check_gpu.gpu_memory(gpu_of(fake_nvml, "foreign memory"))
    assert "30.0 GiB" in check.reason
    assert "4242" in check.reason


def test_of_several_gpus_the_worst_one_decides() -> None:
    gpus = [
        Gpu(0, memory_total_bytes=8 * GIB, memory_used_bytes=0),
        Gpu(1, memory_total_bytes=8 * GIB, memory_used_bytes=GIB),
    ]
    check = check_gpu.of_each([check_gpu.gpu_memory(g) for g in gpus], gpus)
    assert check.status is Status.WARN
    assert check.value == "GPU 0: 8.0 GiB free of 8.0 GiB; GPU 1: 7.0 GiB free of 8.0 GiB"


@pytest.mark.parametrize(
    ("idle", "loaded", "status", "finding"),
    [
        (0x1, 0x4, Status.PASS, ""),  # idle, then the normal power cap
        (None, None, Status.SKIP, ""),
        (0x40 | 0x8, None, Status.WARN, "hw.thermal_throttle"),
        (0x1, 0x40, Status.FAIL, "hw.thermal_throttle"),
        (0x1, 0x20, Status.WARN, "hw.thermal_throttle"),
        (0x80 | 0x8, None, Status.WARN, "hw.power_throttle"),
        (0x1, 0x80 | 0x8, Status.FAIL, "hw.power_throttle"),
    ],
)
def test_clocks_are_judged_by_bits_and_load(idle: int | None, loaded: int | None, status: Status, finding: str) -> None:
    check = check_cuda.gpu_clocks(idle, loaded, 91)
    assert (check.status, check.finding) == (status, finding)


def copied(rate: float, gen: int | None, width: int | None) -> Section:
    return Section("copy", values={"h2d_gb_s": rate, "link_gen": gen, "link_width": width})


@pytest.mark.parametrize(
    ("part", "status"),
    [
        (copied(12.0, 3, 16), Status.PASS),
        (copied(6.0, 3, 8), Status.WARN),  # half of the lanes that card and slot have
        (copied(8.0, 3, 16), Status.WARN),
        (copied(3.0, 3, 16), Status.FAIL),
        (copied(12.0, None, None), Status.INFO),
        (Section("copy", error="RuntimeError: no pinned memory"), Status.UNKNOWN),
    ],
)
def test_the_link_is_judged_while_data_moves(part: Section, status: Status) -> None:
    assert check_cuda.gpu_pcie(part, Gpu(0, pcie_gen_max=3, pcie_width_max=16)).status is status


def test_a_low_link_at_idle_is_never_a_fault(fake_nvml: Use) -> None:
    gpu = gpu_of(fake_nvml, "idle link at gen 1")
    assert (gpu.pcie_gen, gpu.pcie_width) == (1, 8)
    assert check_cuda.gpu_pcie(copied(12.0, 3, 16), gpu).status is Status.PASS


def driver(state: NvmlState, torch: Mapping[str, Any] = CU13, capability: str | None = "7.5") -> Check:
    return check_cuda.gpu_driver(torch, state, "", capability)


def test_a_driver_below_the_minimum_fails_and_names_the_stack_that_runs() -> None:
    check = driver(NvmlState(driver="550.54.14", driver_cuda="12.4"))
    assert (check.status, check.finding) == (Status.FAIL, "env.driver_old")
    assert "580" in check.expected
    assert "scripts/setup cu12" in check.remedy


@pytest.mark.parametrize(
    ("version", "cuda", "torch_cuda", "status"),
    [
        ("580.65.06", "13.0", "13.0", Status.PASS),
        ("580.65.06", "13.0", "13.2", Status.INFO),  # minor version compatibility
        ("550.54.14", "12.4", "12.6", Status.INFO),
        ("525.60.13", "12.0", "12.1", Status.INFO),
        ("520.61.05", "11.8", "12.1", Status.FAIL),
        ("470.256.02", "11.4", "13.0", Status.FAIL),
        ("580.65.06", "13.0", None, Status.SKIP),
    ],
)
def test_driver_and_cuda_follow_nvidias_table(version: str, cuda: str, torch_cuda: str | None, status: Status) -> None:
    check = driver(NvmlState(driver=version, driver_cuda=cuda), {"torch": "x", "torch_cuda": torch_cuda})
    assert check.status is status


def test_a_driver_that_no_stack_fits_must_be_updated() -> None:
    old = NvmlState(driver="470.256.02", driver_cuda="11.4")
    assert driver(old).remedy == "update the host's driver to 580 or newer, then scripts/setup cu13"
    v100 = "update the host's driver to 525 or newer, then scripts/setup cu12"
    assert driver(old, capability="7.0").remedy == v100
    assert check_cuda.gpu_arch(CU13, "7.0", "V100", "470.256.02").remedy == v100
    assert "device=cpu" in check_cuda.gpu_arch(CU13, "3.7", "Tesla K80", "470.256.02").remedy


def test_a_library_mismatch_asks_for_a_reboot(fake_nvml: Use) -> None:
    fake_nvml(SCENARIOS["library and driver differ"])
    check = driver(read_nvml())
    assert check.status is Status.FAIL
    assert "updated under the running system" in check.value
    assert "reboot" in check.remedy


@pytest.mark.parametrize(
    ("scenario", "status", "remedy"),
    [(T4, Status.PASS, ""), (A100, Status.PASS, ""), (V100, Status.FAIL, "scripts/setup cu12")],
)
def test_code_for_the_gpu_must_be_in_torch(fake_nvml: Use, scenario: Scenario, status: Status, remedy: str) -> None:
    fake_nvml(scenario)
    gpu = read_nvml(pause_s=0).gpus[0]
    check = check_cuda.gpu_arch(CU13, gpu.compute_capability, gpu.name or "", "580.65.06")
    assert check.status is status
    assert check.remedy.startswith(remedy)


def test_nvml_that_sees_a_gpu_while_cuda_fails_is_said_exactly() -> None:
    part = Section("cuda", error="RuntimeError: Found no NVIDIA driver on your system.")
    check = check_cuda.gpu_compute(CU13, part, 1)
    assert (check.status, check.finding) == (Status.FAIL, "env.torch_cpu")
    assert (
        check.reason == "NVML sees 1 GPU, but CUDA does not work: RuntimeError: Found no NVIDIA driver on your system."
    )


def test_a_cpu_build_of_torch_beside_a_gpu_fails() -> None:
    check = check_cuda.gpu_compute({"torch": "2.14.1+cpu", "torch_cuda": None}, None, 1)
    assert (check.status, check.finding) == (Status.FAIL, "env.torch_cpu")
    assert "scripts/setup cu13" in check.remedy


def test_a_wrong_product_on_the_gpu_fails() -> None:
    part = Section("cuda", values={"matmul_ok": False, "name": "NVIDIA L4", "init_s": 1.0})
    assert check_cuda.gpu_compute(CU13, part, 1).finding == "hw.gpu_wrong_result"
