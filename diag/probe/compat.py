"""Do driver, CUDA, torch and GPU fit together? Pure functions over version texts."""

import re
from collections.abc import Sequence
from enum import StrEnum

# Minimum driver by CUDA major: NVIDIA, CUDA Compatibility, "minor version compatibility" (docs.nvidia.com/deploy/).
MIN_DRIVER = {11: 450, 12: 525, 13: 580}


class Fit(StrEnum):
    """How a GPU's capability fits torch's arch list."""

    BINARY = "binary"
    PTX = "ptx"
    NONE = "none"


def arch_fit(capability: str, arch_list: Sequence[str]) -> Fit:
    """Machine code runs on the same major with a compiled minor <= the device's; `sm_90a` on that device only;
    PTX (`compute_XX`) on anything newer, compiled at first use. (CUDA C Programming Guide, binary and PTX
    compatibility.)
    """
    device = _pair(capability)
    ptx = False
    for arch in arch_list:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", arch)
        if not match:
            continue
        kind, suffix = match.group(1), match.group(4)
        compiled = (int(match.group(2)), int(match.group(3)))
        if suffix == "a":
            if compiled == device and kind == "sm":
                return Fit.BINARY
            continue
        if kind == "sm" and compiled[0] == device[0] and compiled[1] <= device[1]:
            return Fit.BINARY
        ptx = ptx or (kind == "compute" and compiled <= device)
    return Fit.PTX if ptx else Fit.NONE


def driver_major(driver: str) -> int | None:
    """`580.65.06` -> 580."""
    head = driver.partition(".")[0]
    return int(head) if head.isdigit() else None


def needed_driver(torch_cuda: str) -> int | None:
    """The oldest driver branch that runs this CUDA version's libraries; None for a CUDA not in the table."""
    return MIN_DRIVER.get(_pair(torch_cuda)[0])


def stack_for(driver: str, capability: str | None) -> str:
    """The stack of `scripts/setup` that this driver and GPU can run; "" if none can.

    CUDA 13 dropped GPUs below capability 7.5 (V100, GTX 10xx) and drivers below 580; the cu12 stack's torch has
    no code for GPUs newer than Hopper (capability 10 and above).
    """
    major = driver_major(driver)
    device = _pair(capability) if capability else None
    if device is not None and device < (5, 0):
        return ""
    if major is None or major >= MIN_DRIVER[13]:
        return "cu12" if device is not None and device < (7, 5) else "cu13"
    too_new = device is not None and device >= (10, 0)
    return "cu12" if major >= MIN_DRIVER[12] and not too_new else ""


def way_out(driver: str, capability: str | None) -> str:
    """What to do so that some stack runs: use another one, or update the driver first; "" for a GPU that none runs."""
    stack = stack_for(driver, capability)
    if stack:
        return f"scripts/setup {stack} (docker: build with STACK={stack})"
    stack = stack_for(f"{MIN_DRIVER[13]}", capability)
    need = MIN_DRIVER[13] if stack == "cu13" else MIN_DRIVER[12]
    return f"update the host's driver to {need} or newer, then scripts/setup {stack}" if stack else ""


def _pair(version: str) -> tuple[int, int]:
    major, _, minor = version.partition(".")
    return int(re.sub(r"\D", "", major) or 0), int(re.match(r"\d*", minor).group() or 0)  # type: ignore[union-attr]
