"""Which torch runs on which GPU and driver."""

import pytest

from diag.probe.compat import Fit, arch_fit, stack_for

CU130 = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")


@pytest.mark.parametrize(
    ("capability", "archs", "fit"),
    [
        ("8.9", CU130, Fit.BINARY),  # L4 runs sm_86 code
        ("10.3", CU130, Fit.BINARY),  # B300
        ("12.1", CU130, Fit.BINARY),  # GB10
        ("7.0", CU130, Fit.NONE),  # V100
        ("6.1", CU130, Fit.NONE),  # GTX 10xx
        ("11.0", CU130, Fit.NONE),  # Thor
        ("8.0", ("sm_86",), Fit.NONE),  # a higher minor does not run on a lower one
        ("12.0", ("sm_90", "compute_90"), Fit.PTX),
        ("7.0", ("compute_90",), Fit.NONE),
        ("9.0", ("sm_90a",), Fit.BINARY),
        ("9.1", ("sm_90a",), Fit.NONE),  # `a` code runs on that device only
        ("9.0", (), Fit.NONE),
        ("9.0", ("gfx90a",), Fit.NONE),
    ],
)
def test_code_runs_on_its_own_major_and_ptx_on_anything_newer(
    capability: str, archs: tuple[str, ...], fit: Fit
) -> None:
    assert arch_fit(capability, archs) is fit


@pytest.mark.parametrize(
    ("driver", "capability", "stack"),
    [
        ("580.65.06", "8.0", "cu13"),
        ("580.65.06", "7.0", "cu12"),
        ("550.54.14", "8.0", "cu12"),
        ("570.124.06", "12.0", ""),  # RTX 50: too new for cu12's torch, and the driver too old for CUDA 13
        ("470.256.02", "8.0", ""),
        ("580.65.06", "3.7", ""),
    ],
)
def test_the_stack_follows_driver_and_gpu(driver: str, capability: str, stack: str) -> None:
    assert stack_for(driver, capability) == stack
