"""Checks of driver, CUDA and the GPU under load. Pure: facts and the torch child's sections in, one answer out."""

from collections.abc import Mapping, Sequence
from typing import Any

from diag.model.check import Check, Status
from diag.model.hardware import Gpu
from diag.probe.check_gpu import HW_SLOWDOWN, HW_THERMAL, POWER_BRAKE, SW_THERMAL, nvml_problem
from diag.probe.child import Section
from diag.probe.compat import Fit, arch_fit, driver_major, needed_driver, way_out
from diag.probe.nvml import NvmlState

LANE_GB_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.97, 5: 3.94, 6: 7.56}
"""PCIe payload per lane and generation, GB/s."""


def gpu_driver(torch: Mapping[str, Any], state: NvmlState, kernel_driver: str, capability: str | None) -> Check:
    """Is the driver new enough for torch's CUDA? CUDA 13 needs driver 580, CUDA 12 needs 525 (NVIDIA's table).

    A lower minor is told, not warned of: NVIDIA guarantees minor version compatibility.
    """
    problem, remedy = nvml_problem(state)
    if problem:
        return Check("gpu.driver", Status.FAIL, problem, "NVML starts", remedy=remedy, facts={"nvml": state.error})
    driver, cuda = state.driver or kernel_driver, torch.get("torch_cuda")
    if not driver:
        return Check("gpu.driver", Status.UNKNOWN, reason="neither NVML nor /proc names the driver")
    facts = {"driver": driver, "driver_cuda": state.driver_cuda, "torch_cuda": cuda}
    if not cuda:
        return Check("gpu.driver", Status.SKIP, f"driver {driver}", reason="torch is a CPU build", facts=facts)
    need, have = needed_driver(cuda), driver_major(driver)
    value = f"driver {driver}" + (f" (CUDA {state.driver_cuda})" if state.driver_cuda else "")
    if need is None or have is None:
        return Check("gpu.driver", Status.UNKNOWN, value, reason=f"no known minimum for CUDA {cuda}", facts=facts)
    expected = f">= {need} for torch's CUDA {cuda}"
    if have < need:
        other = way_out(driver, capability)
        newer = f"update the host's driver to {need} or newer"
        remedy = f"{newer}, or use the stack that fits it: {other}" if other.startswith("scripts") else other or newer
        reason = "torch can't start CUDA with this driver"
        return Check("gpu.driver", Status.FAIL, value, expected, reason, remedy, "env.driver_old", facts=facts)
    if state.driver_cuda and _numbers(state.driver_cuda) < _numbers(cuda):
        reason = "works by minor version compatibility; newer kernels that need compiling may not"
        return Check("gpu.driver", Status.INFO, value, expected, reason, facts=facts)
    return Check("gpu.driver", Status.PASS, value, expected, facts=facts)


def gpu_arch(torch: Mapping[str, Any], capability: str | None, name: str, driver: str) -> Check:
    """Does this torch hold code for this GPU? (V100 and GTX 10xx: not in CUDA 13 builds.)"""
    archs: Sequence[str] = torch.get("arch_list") or ()
    if not archs:
        return Check("gpu.arch", Status.SKIP, reason="torch is a CPU build")
    if not capability:
        return Check("gpu.arch", Status.UNKNOWN, reason="the GPU's compute capability is not known")
    fit, value = arch_fit(capability, archs), f"{name}: compute capability {capability}"
    facts = {"capability": capability, "arch_list": list(archs), "fit": fit.value}
    expected = f"torch has code for {', '.join(archs)}"
    if fit is Fit.BINARY:
        return Check("gpu.arch", Status.PASS, value, expected, facts=facts)
    if fit is Fit.PTX:
        reason = "no machine code for this GPU: kernels are compiled at first use, which takes minutes"
        return Check("gpu.arch", Status.WARN, value, expected, reason, "use a newer stack: scripts/setup", facts=facts)
    remedy = way_out(driver, capability) or "no stack here runs this GPU: pass device=cpu, or use another GPU"
    reason = "training ends with `no kernel image is available for execution on the device`"
    return Check("gpu.arch", Status.FAIL, value, expected, reason, remedy, "env.no_kernel", facts=facts)


def gpu_compute(torch: Mapping[str, Any], part: Section | None, nvml_gpus: int, *, slow_s: float = 10.0) -> Check:
    """Does the GPU compute? Allocation, matmul and synchronize in a process of its own; nothing less proves it.

    Fails on any error; warns when CUDA takes more than 10 s to start (a proposal).
    """
    seen = f"NVML sees {nvml_gpus} GPU" if nvml_gpus else "a GPU is here"
    if not torch.get("torch_cuda") and not torch.get("hip"):
        remedy = "install a stack with CUDA: scripts/setup cu13 (or cu12 for drivers below 580)"
        reason = f"{seen}, and torch {torch.get('torch')} is a CPU build: training would run on the CPU"
        return Check(
            "gpu.compute", Status.FAIL, "torch has no CUDA", "a matmul on the GPU", reason, remedy, "env.torch_cpu"
        )
    if part is None or part.error:
        why = part.error if part else "torch.cuda.is_available() is False"
        reason = f"{seen}, but CUDA does not work: {why}"
        remedy = "fix what gpu.visible, gpu.driver or gpu.arch say first; then, on the host: dmesg | grep -i nvrm"
        return Check(
            "gpu.compute", Status.FAIL, "no matmul on the GPU", "a matmul on the GPU", reason, remedy, "env.torch_cpu"
        )
    values, facts = part.values, dict(part.values)
    if not values["matmul_ok"]:
        remedy = "stop using this GPU; test it with `dcgmi diag -r 3` on the host"
        return Check(
            "gpu.compute",
            Status.FAIL,
            "wrong product",
            "256^3",
            "the GPU computes wrongly",
            remedy,
            "hw.gpu_wrong_result",
            facts=facts,
        )
    value = f"{values['name']}: matmul correct, CUDA started in {values['init_s']:.1f} s"
    if values["init_s"] > slow_s:
        remedy = "turn on persistence on the host: nvidia-smi -pm 1"
        return Check("gpu.compute", Status.WARN, value, f"start < {slow_s:.0f} s", remedy=remedy, facts=facts)
    return Check("gpu.compute", Status.PASS, value, "a matmul on the GPU", facts=facts)


def gpu_pcie(part: Section, gpu: Gpu, *, warn: float = 0.60, fail: float = 0.30) -> Check:
    """Is the PCIe link at full width and speed *while data moves*? An idle GPU lowers it, which is no fault.

    Warns when the link is below the maximum of card and slot, or the copy below 60 % of the link; fails below
    30 % (proposals; Azure's floors are 63 to 87 %). Unknown link: only told.
    """
    if part.error:
        return Check("gpu.pcie", Status.UNKNOWN, reason=part.error)
    rate, link_gen, width = part.values["h2d_gb_s"], part.values.get("link_gen"), part.values.get("link_width")
    facts = dict(part.values)
    value = f"{rate:.1f} GB/s to the GPU"
    if not link_gen or not width or link_gen not in LANE_GB_S:
        return Check("gpu.pcie", Status.INFO, value, reason="the link is not reported", facts=facts)
    peak = LANE_GB_S[link_gen] * width
    value += f", gen {link_gen} x{width} under load"
    most_gen, most_width = gpu.pcie_gen_max or link_gen, gpu.pcie_width_max or width
    expected = f"gen {most_gen} x{most_width}, >= {warn * peak:.1f} GB/s"
    slow, narrow = rate < warn * peak, link_gen < most_gen or width < most_width
    if not slow and not narrow:
        return Check("gpu.pcie", Status.PASS, value, expected, facts=facts)
    reason = "the link is below what card and slot allow" if narrow else "copies are far below the link's speed"
    remedy = "reseat the card, check riser and BIOS slot settings; in a virtual machine ask the provider"
    status = Status.FAIL if rate < fail * peak else Status.WARN
    return Check("gpu.pcie", status, value, expected, reason, remedy, "hw.pcie_degraded", facts=facts)


def gpu_clocks(idle: int | None, loaded: int | None, temperature_c: int | None) -> Check:
    """Does heat or a power brake hold the clocks down? The power cap is normal and not a fault (DCGM).

    `idle` and `loaded` are bits that two looks in a row showed, before and during the synthetic steps.
    Under load, hardware slowdown fails; before load it warns; software thermal slowdown warns.
    """
    if idle is None and loaded is None:
        return Check("gpu.clocks", Status.SKIP, reason="this GPU or driver does not report what holds its clocks")
    facts = {"idle": idle, "loaded": loaded, "temperature_c": temperature_c}
    heat = f" at {temperature_c} C" if temperature_c is not None else ""
    names = {
        HW_THERMAL: "hardware thermal slowdown",
        POWER_BRAKE: "power brake",
        HW_SLOWDOWN: "hardware slowdown",
        SW_THERMAL: "software thermal slowdown",
    }
    now = loaded if loaded is not None else idle or 0
    both = now | (idle or 0)
    cause = next((text for bit, text in names.items() if both & bit), "")
    if not cause:
        return Check(
            "gpu.clocks", Status.PASS, f"not held down{heat}", "no thermal slowdown, no power brake", facts=facts
        )
    hard = loaded is not None and loaded & (HW_THERMAL | POWER_BRAKE | HW_SLOWDOWN)
    brake = both & POWER_BRAKE and not both & (HW_THERMAL | SW_THERMAL)
    remedy = (
        "check the power supply and its cables"
        if brake
        else "check fans, airflow and dust; lower the power limit until it is fixed"
    )
    finding = "hw.power_throttle" if brake else "hw.thermal_throttle"
    return Check(
        "gpu.clocks",
        Status.FAIL if hard else Status.WARN,
        f"{cause}{heat}",
        "none",
        "the GPU runs below its speed",
        remedy,
        finding,
        facts=facts,
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(p) for p in version.split(".") if p.isdigit())
