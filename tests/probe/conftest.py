"""Fakes as fixtures."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.scenarios import Fails, Scenario

FAKES = Path(__file__).parent.parent / "fakes"


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for LD_LIBRARY_PATH with the C fake in it."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not installed: the C fake of NVML can't be built")
    folder = tmp_path_factory.mktemp("fakenvml")
    command = [compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run([*command, "-o", folder / "libnvidia-ml.so.1", FAKES / "fakenvml.c"], check=True)
    return folder


def to_text(scenario: Scenario) -> str:
    """A scenario as the C fake reads it."""
    rows = [
        f"system init !{scenario.init}" if scenario.init else "system init 0",
        f"system nvmlSystemGetDriverVersion {scenario.driver}",
        f"system nvmlSystemGetCudaDriverVersion_v2 {scenario.cuda}",
        f"system nvmlDeviceGetCount_v2 {len(scenario.gpus)}",
    ]
    for index, gpu in enumerate(scenario.gpus):
        rows += [f"{index} {name} {_value(value)}" for name, value in gpu.items()]
    return "\n".join(rows) + "\n"


def _value(value: Any) -> str:
    match value:
        case Fails(code):
            return f"!{code}"
        case {"total": total, "used": used}:
            return f"{total} {used}"
        case {"busId": text}:
            return str(text)
        case dict():
            return " ".join(f"{k} {v}" for k, v in value.items())
        case tuple():
            return " ".join(_value(v) for v in value)
    return str(value)
