"""Checks of the GPU that need no torch: is it given to us, is it healthy, is it free. Pure: facts in, one answer out.

No threshold here was calibrated on real cards; each names its source.
"""

from collections.abc import Sequence

from diag.model.check import Check, Status, worst
from diag.model.hardware import Gpu
from diag.probe.gpu import TRAINABLE, Diagnosis, GpuSigns, Triage
from diag.probe.nvml import NvmlState
from diag.probe.plan import Kind, Plan
from diag.probe.units import bytes_text

MIB = 1024**2

# Clocks event reasons, nvml.h. DCGM counts these four as failures, and the power cap (0x4) as none.
HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, POWER_BRAKE = 0x8, 0x20, 0x40, 0x80
RECOVERY = {1: "reset the GPU", 2: "reboot", 3: "drain peer-to-peer work", 4: "drain and reset the GPU"}


def gpu_visible(signs: GpuSigns, found: Diagnosis, plan: Plan, gpus: Sequence[Gpu]) -> Check:
    """Does the GPU reach this process, and is it the one that training asks for?

    Fails when the host has a GPU that can't be used and the CPU was not asked for: training would silently
    run on the CPU, 10 to 100 times slower.
    """
    facts = {"state": found.state.value, "pci_gpus": signs.pci_gpus, "nvml_gpus": len(gpus), "device": plan.device}
    names = ", ".join(gpu.name or f"GPU {gpu.index}" for gpu in gpus)
    value = f"{len(gpus)} GPU: {names}" if names else found.says
    if plan.kind in {Kind.CPU, Kind.OTHER}:
        note = f"device={plan.device}, as asked for" + (f"; also here: {names}" if names else "")
        return Check("gpu.visible", Status.INFO, note, facts=facts)
    expected = f"device={plan.device}" if plan.device else "a GPU, or none on the host"
    if found.state is Triage.NONE:
        if plan.kind is Kind.AUTO:
            return Check("gpu.visible", Status.INFO, f"{value}; training uses the CPU", facts=facts)
        remedy = "pass device=cpu, or run on a machine with an NVIDIA GPU"
        reason = f"device={plan.device} asks for a GPU"
        return Check("gpu.visible", Status.FAIL, value, expected, reason, remedy, "env.torch_cpu", facts=facts)
    if found.state not in TRAINABLE:
        what = "training can't start" if plan.kind is Kind.CUDA else "training would silently run on the CPU"
        reason = f"{what}: {found.says}" if names else what
        remedy = f"{found.remedy}. To train on the CPU on purpose: device=cpu"
        passed = found.state in {Triage.NOT_PASSED, Triage.UTILITY_ONLY, Triage.NO_LIBRARIES, Triage.NO_PERMISSION}
        finding = "env.docker_no_gpu" if passed and signs.container else "env.torch_cpu"
        return Check("gpu.visible", Status.FAIL, value, expected, reason, remedy, finding, facts=facts)
    count = len(visible_order(gpus, signs.cuda_visible_devices))
    if plan.gpus and gpus and max(plan.gpus) >= count:
        reason = f"there is no GPU {max(plan.gpus)}: {count} visible, counted from 0"
        remedy = "pass device=0" if count == 1 else f"pass a device from 0 to {count - 1}"
        return Check("gpu.visible", Status.FAIL, value, expected, reason, remedy, "mem.wrong_device", facts=facts)
    if found.state is Triage.NO_TELEMETRY:
        return Check("gpu.visible", Status.WARN, found.says, "NVML as well", remedy=found.remedy, facts=facts)
    return Check("gpu.visible", Status.PASS, value, expected, facts=facts)


def visible_order(gpus: Sequence[Gpu], visible: str | None) -> list[Gpu]:
    """The GPUs in the order of CUDA's indices under CUDA_VISIBLE_DEVICES (PCI order is assumed)."""
    if visible is None:
        return list(gpus)
    chosen: list[Gpu] = []
    for part in visible.split(","):
        match = [g for g in gpus if part.strip() == str(g.index) or (g.uuid or "-").startswith(part.strip() or "?")]
        if not match:
            break  # CUDA ignores everything after the first entry that it can't find
        chosen.append(match[0])
    return chosen


def used_gpus(gpus: Sequence[Gpu], plan: Plan, visible: str | None) -> list[Gpu]:
    """The GPUs that this training would use: those asked for, else the first."""
    order = visible_order(gpus, visible)
    return [order[i] for i in plan.gpus if i < len(order)] if plan.gpus else order[:1]


def gpu_memory(gpu: Gpu, *, told: float = 0.03, busy_bytes: int = 500 * MIB, least_bytes: int = 1024 * MIB) -> Check:
    """Is the GPU's memory free before we start?

    Warns above 500 MiB in use, tells above 3 % (proposals; Meta GCM allows 15 MiB on idle cluster nodes).
    Fails below 1 GiB free: CUDA's context alone takes up to half of that.
    """
    total, used = gpu.memory_total_bytes, gpu.memory_used_bytes
    if total is None or used is None:
        return Check("gpu.memory", Status.UNKNOWN, reason=why(gpu, "memory"))
    facts = {"total_bytes": total, "used_bytes": used, "processes": list(gpu.processes or ())}
    value = f"{bytes_text(total - used)} free of {bytes_text(total)}"
    expected = f"at most {bytes_text(busy_bytes)} in use"
    others = ", ".join(f"{pid} ({bytes_text(size or 0)})" for pid, size in gpu.processes or ())
    listed = f" (host process ids: {others})" if others else " (NVML lists no process from inside this container)"
    remedy = "find it with nvidia-smi on the host and end it, or choose another GPU with device=N"
    if total - used < least_bytes or used > busy_bytes:
        status = Status.FAIL if total - used < least_bytes else Status.WARN
        reason = f"something else uses {bytes_text(used)} of this GPU{listed}"
        return Check("gpu.memory", status, value, expected, reason, remedy, "hw.gpu_busy", facts=facts)
    status = Status.INFO if used > told * total else Status.PASS
    return Check("gpu.memory", status, value, expected, facts=facts)


def gpu_health(gpu: Gpu) -> Check:
    """Does the driver report damage: uncorrected ECC errors, row remapping, a wish for a reset, a lost GPU?

    Limits are DCGM's (failed remap or 512 remapped rows fail, pending warns) and nvml.h's recovery action.
    Life-time uncorrected errors only warn.
    """
    facts = {
        "ecc_uncorrected": gpu.ecc_uncorrected,
        "ecc_uncorrected_total": gpu.ecc_uncorrected_total,
        "remapped_uncorrectable": gpu.remapped_uncorrectable,
        "recovery_action": gpu.recovery_action,
    }
    reset = "stop using this GPU; reset it (nvidia-smi --gpu-reset) or reboot, and replace it if this comes back"
    found: tuple[Status, str, str] | None = None
    if gpu.lost:
        found = Status.FAIL, f"lost: {gpu.lost}", "reboot the host; if it comes back, reseat or replace the GPU"
    elif gpu.recovery_action:
        action = RECOVERY.get(gpu.recovery_action, f"recovery action {gpu.recovery_action}")
        found = Status.FAIL, f"the driver asks to {action}", reset
    elif gpu.remap_failed or (gpu.remapped_uncorrectable or 0) >= 512:
        found = Status.FAIL, f"memory rows could not be remapped ({gpu.remapped_uncorrectable} remapped)", reset
    elif gpu.ecc_uncorrected:
        found = Status.FAIL, f"{gpu.ecc_uncorrected} uncorrected ECC errors since the driver was loaded", reset
    elif gpu.remap_pending or gpu.retired_pending:
        found = (
            Status.WARN,
            "a memory repair waits for a reset",
            "reset the GPU when it is free: nvidia-smi --gpu-reset",
        )
    elif (gpu.ecc_uncorrected_total or 0) > 4:  # stas00/ml-engineering: more than 4 in SRAM is a case for return
        value = f"{gpu.ecc_uncorrected_total} uncorrected ECC errors in its life"
        found = Status.WARN, value, "watch it; ask the vendor for a replacement if the number grows"
    if found:
        return Check(
            "gpu.health",
            found[0],
            found[1],
            "no errors",
            "",
            found[2],
            "hw.ecc_errors" if not gpu.lost else "hw.xid",
            facts=facts,
        )
    reported = [n for n in ("ecc", "remapped_rows", "retired_pages", "recovery_action") if n not in gpu.not_supported]
    if gpu.unknown:
        return Check("gpu.health", Status.UNKNOWN, reason="; ".join(gpu.unknown), facts=facts)
    if not reported:
        return Check(
            "gpu.health", Status.SKIP, reason="this GPU reports no error counters (normal for GeForce)", facts=facts
        )
    return Check("gpu.health", Status.PASS, "no errors", f"none of: {', '.join(reported)}", facts=facts)


def gpu_power(gpu: Gpu, *, least: float = 0.95) -> Check:
    """Has someone lowered the power limit? Warns below 95 % of the card's default (a proposal)."""
    limit, default = gpu.power_limit_w, gpu.power_default_w
    if limit is None or not default:
        return Check("gpu.power", *gap(gpu, "power_limit_w" if limit is None else "power_default_w"))
    value, facts = f"{limit:.0f} W of {default:.0f} W", {"limit_w": limit, "default_w": default, "power_w": gpu.power_w}
    if limit >= least * default:
        return Check("gpu.power", Status.PASS, value, f">= {least:.0%} of the default", facts=facts)
    reason = "the power limit was lowered; the clocks stay below what this card can do"
    remedy = f"on the host: nvidia-smi -i {gpu.index} --power-limit={default:.0f}"
    return Check(
        "gpu.power",
        Status.WARN,
        value,
        f">= {least:.0%} of the default",
        reason,
        remedy,
        "hw.power_throttle",
        facts=facts,
    )


def gpu_mode(gpu: Gpu) -> Check:
    """May this process compute on the GPU? Compute mode, MIG, virtualization and persistence."""
    names = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
    mode = gpu.compute_mode
    parts = [] if mode is None else [f"compute mode {names.get(mode, mode)}"]
    parts += ["MIG on"] if gpu.mig else []
    parts += ["vGPU"] if gpu.virtualization == 2 else []
    parts += ["persistence off (first use is slow)"] if gpu.persistence is False else []
    facts = {"compute_mode": mode, "mig": gpu.mig, "virtualization": gpu.virtualization, "persistence": gpu.persistence}
    value = ", ".join(parts)
    if mode is None:
        return Check("gpu.mode", *gap(gpu, "compute_mode"), facts=facts)
    fix = f"on the host: nvidia-smi -i {gpu.index} --compute-mode=DEFAULT"
    if mode == 2:
        return Check("gpu.mode", Status.FAIL, value, "default", "no process may compute on this GPU", fix, facts=facts)
    if mode in {1, 3}:
        reason = "only one process at a time may use this GPU: nothing else may run beside the training"
        return Check("gpu.mode", Status.WARN, value, "default", reason, fix, facts=facts)
    told = gpu.mig or gpu.virtualization == 2 or gpu.persistence is False
    return Check("gpu.mode", Status.INFO if told else Status.PASS, value, facts=facts)


def gap(gpu: Gpu, name: str) -> tuple[Status, str, str, str]:
    """Status, value, expected and reason of a check whose fact this GPU does not give."""
    status = Status.SKIP if name in gpu.not_supported else Status.UNKNOWN
    return status, "", "", why(gpu, name)


def why(gpu: Gpu, name: str) -> str:
    """Why a fact is not there."""
    if name in gpu.not_supported:
        return f"this GPU or driver does not report {name}"
    return next((text for text in gpu.unknown if text.startswith(f"{name}:")), f"{name} is not known")


def of_each(checks: Sequence[Check], gpus: Sequence[Gpu]) -> Check:
    """One answer for several GPUs: the worst one's, with every GPU's value."""
    status = worst([c.status for c in checks])
    first = next(c for c in checks if c.status is status)
    if len(checks) == 1:
        return first
    value = "; ".join(f"GPU {g.index}: {c.value or c.reason}" for g, c in zip(gpus, checks, strict=True))
    facts = {f"gpu{g.index}": c.facts for g, c in zip(gpus, checks, strict=True)}
    return Check(first.id, status, value, first.expected, first.reason, first.remedy, first.finding, facts=facts)


def nvml_problem(state: NvmlState) -> tuple[str, str]:
    """(what is wrong, remedy) when NVML could not be started; ("", "") when it could."""
    fixes = {
        "version_mismatch": (
            "driver and library versions differ: the host's driver was updated under the running system",
            "reboot the host (or reload the nvidia modules), then recreate the container",
        ),
        "no_driver": ("NVML finds no loaded driver", "load NVIDIA's driver on the host"),
        "no_permission": ("NVML may not open the GPU", "give the user access to /dev/nvidia*"),
        "unknown": (
            f"NVML does not start: {state.detail}",
            "recreate the container: its device permission is lost after `systemctl daemon-reload` on the host",
        ),
    }
    return fixes.get(state.error, ("", ""))
