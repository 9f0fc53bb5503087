"""All questions over one faked machine, without torch: a GPU that works, and one whose driver never answers."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from diag import settings
from diag.model.check import Check, Status
from diag.model.hardware import Baseline
from diag.probe import ask
from diag.probe.child import Section
from diag.probe.gpu import GpuSigns
from diag.probe.host import read_host
from diag.probe.machine import Machine, questions
from diag.probe.nvml import NvmlState, read_nvml
from diag.probe.once import Once, UnreadableError
from diag.probe.plan import CheckRequest
from tests.fakes.nvml import FakeNvml
from tests.fakes.scenarios import A100, T4, Scenario

Use = Callable[[Scenario], FakeNvml]
SIGNS = GpuSigns(
    pci_gpus=1,
    pci_drivers=("nvidia",),
    kernel_driver="580.65.06",
    device_nodes=("/dev/nvidia0",),
    nvml_loads=True,
    cuda_loads=True,
)


class Measured:
    """The torch child of a working A100; `without` names sections that never came."""

    def __init__(self, *without: str, **changes: Mapping[str, Any]) -> None:
        step = {"device": "cuda:0", "images_per_s": 900.0, "finite": True, "model": "yolo11n.yaml", "imgsz": 640}
        self.values: dict[str, dict[str, Any]] = {
            "torch": {
                "torch": "2.14.1+cu130",
                "torch_cuda": "13.0",
                "cudnn": 92400,
                "arch_list": ["sm_75", "sm_80"],
                "cuda_available": True,
            },
            "torchvision": {"torchvision": "0.29.1", "nms_ok": True, "cuda": "13.0"},
            "cuda": {"matmul_ok": True, "name": "NVIDIA A100", "init_s": 1.0, "capability": "8.0"},
            "copy": {"h2d_gb_s": 25.0, "link_gen": 4, "link_width": 16},
            "numerics": {"device": "cuda:0", "size": 2048, "wrong": {"fp32": 0, "bf16": 0, "fp16": 0}},
            "step": {**step, "batch": 16, "clocks_event_reasons": 0x4},
        }
        for name, change in changes.items():
            self.values[name].update(change)
        for name in without:
            del self.values[name]

    def section(self, name: str) -> Section:
        if name not in self.values:
            raise UnreadableError("the measuring process died of SIGSEGV in `cuda`")
        return Section(name, 1.0, "", self.values[name])


def run(
    tmp_path: Path,
    measured: Measured,
    nvml: Callable[[], NvmlState] = lambda: read_nvml(pause_s=0),
    signs: GpuSigns = SIGNS,
    **args: object,
) -> tuple[dict[str, Check], Baseline]:
    request = CheckRequest(tmp_path, args)
    facts = Once("NVML", nvml, timeout_s=2), Once("host", read_host, timeout_s=5)
    machine = Machine(request, measured, *facts, see=lambda: signs)
    checks = ask(questions(machine), lambda check: None)
    return {check.id: check for check in checks}, machine.baseline()


def test_a_working_gpu_passes_every_question_about_it(fake_nvml: Use, tmp_path: Path) -> None:
    fake_nvml(A100)
    checks, baseline = run(tmp_path, Measured(), device=0, workers=0)
    assert {i: c.status for i, c in checks.items() if i.startswith(("gpu.", "torch."))} == {
        i: Status.PASS for i in checks if i.startswith(("gpu.", "torch."))
    }
    assert (baseline.gpu_triage, baseline.cuda_usable, baseline.images_per_s) == ("usable", True, 900.0)
    assert (baseline.software.driver, baseline.gpus[0].name) == ("580.65.06", "NVIDIA A100-SXM4-80GB")


def test_a_crashed_measurement_leaves_what_was_known_before(fake_nvml: Use, tmp_path: Path) -> None:
    fake_nvml(A100)
    checks, baseline = run(tmp_path, Measured("cuda", "copy", "numerics", "step"))
    unknown = {i for i, c in checks.items() if c.status is Status.UNKNOWN}
    assert unknown == {"gpu.compute", "gpu.pcie", "torch.numerics", "torch.step", "predict.bottleneck"}
    assert "SIGSEGV" in checks["gpu.compute"].reason
    assert checks["gpu.driver"].status is Status.PASS
    assert baseline.cuda_usable is False


def test_a_driver_that_never_answers_fails_alone(tmp_path: Path) -> None:
    def hang() -> NvmlState:
        raise UnreadableError("NVML: no answer within 15 s")

    checks, baseline = run(tmp_path, Measured(), hang)
    assert checks["gpu.driver"].status is Status.FAIL
    assert "no answer within 15 s" in checks["gpu.driver"].value
    assert {checks[i].status for i in ("cpu.effective", "shm.size", "memory.limit", "torch.import")} <= {
        Status.PASS,
        Status.WARN,
    }
    assert (baseline.gpus, baseline.gpu_triage) == ((), "usable")


def test_throttling_under_load_fails_though_the_idle_gpu_was_cool(fake_nvml: Use, tmp_path: Path) -> None:
    fake_nvml(A100)
    checks, _ = run(tmp_path, Measured(step={"clocks_event_reasons": 0x40}))
    assert (checks["gpu.clocks"].status, checks["gpu.clocks"].finding) == (Status.FAIL, "hw.thermal_throttle")


def test_a_cpu_build_of_torch_on_a_gpu_machine_stops_the_run(fake_nvml: Use, tmp_path: Path) -> None:
    fake_nvml(T4)
    measured = Measured(
        "cuda", "copy", torch={"torch_cuda": None, "arch_list": [], "cuda_available": False}, step={"device": "cpu"}
    )
    checks, _ = run(tmp_path, measured)
    assert (checks["gpu.compute"].status, checks["gpu.compute"].finding) == (Status.FAIL, "env.torch_cpu")


def test_utility_without_compute_stops_the_run_with_the_exact_fix(fake_nvml: Use, tmp_path: Path) -> None:
    fake_nvml(T4)
    signs = replace(SIGNS, cuda_loads=False, container=True, capabilities="utility")
    measured = Measured("cuda", "copy", torch={"cuda_available": False}, step={"device": "cpu"})
    checks, _ = run(tmp_path, measured, signs=signs)
    assert (checks["gpu.visible"].status, checks["gpu.visible"].finding) == (Status.FAIL, "env.docker_no_gpu")
    assert "compute,utility" in checks["gpu.visible"].remedy
    assert checks["gpu.compute"].status is Status.FAIL


def test_leftover_driver_libraries_on_a_cpu_machine_raise_no_alarm(fake_nvml: Use, tmp_path: Path) -> None:
    fake_nvml(Scenario())
    measured = Measured("cuda", "copy", torch={"cuda_available": False}, step={"device": "cpu"})
    checks, baseline = run(tmp_path, measured, signs=GpuSigns(nvml_loads=True, cuda_loads=True))
    assert checks["gpu.visible"].status is Status.INFO
    assert {c.status for i, c in checks.items() if i.startswith("gpu.") and i != "gpu.visible"} == {Status.SKIP}
    assert baseline.gpu_triage == "none"


@pytest.fixture(scope="module")
def ids(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    facts = Once("NVML", NvmlState, timeout_s=1), Once("host", read_host, timeout_s=5)
    return [q.id for q in questions(Machine(CheckRequest(tmp_path_factory.mktemp("w")), Measured(), *facts))]


def test_every_check_is_documented_in_the_order_in_which_it_is_shown(ids: list[str]) -> None:
    text = (settings.ROOT / "docs/checks.md").read_text()
    assert re.findall(r"^\| `([a-z]+\.[a-z_]+)` \|", text, re.MULTILINE) == ids


def test_each_question_answers_under_its_own_id(fake_nvml: Use, tmp_path: Path, ids: list[str]) -> None:
    fake_nvml(A100)
    checks, _ = run(tmp_path, Measured())
    assert list(checks) == ids
