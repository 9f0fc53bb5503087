"""A GPU that Docker hands in but CUDA can't use, a driver that is not loaded, and a Docker without NVIDIA's toolkit."""

import json
from pathlib import Path

import pytest

from tests.container.engine import Engine, Project

pytestmark = [pytest.mark.container, pytest.mark.usefixtures("gpu_stub")]


def cuda_service(clone: Project, replace: str, by: str) -> None:
    """Change the GPU reservation in the clone's compose.accel.yaml."""
    file = clone.folder / "compose.accel.yaml"
    assert file.read_text().count(replace) == 1
    file.write_text(file.read_text().replace(replace, by))


def test_check_says_that_nvml_sees_a_gpu_and_cuda_does_not_work(
    engine: Engine, workspace: Path, as_owner: tuple[str, ...]
) -> None:
    args = ("check", "--format", "json", "imgsz=96", "batch=2")
    done = engine.run("--gpus", "all", "-v", f"{workspace}:/workspace", *as_owner, args=args)
    answer = json.loads(done.out)
    checks = {check["id"]: check for check in answer["checks"]}
    assert (done.code, answer["verdict"], answer["baseline"]["cuda_usable"]) == (1, "fail", False)
    assert checks["gpu.visible"]["value"] == "1 GPU: NVIDIA Stub 4090"
    assert checks["gpu.compute"]["reason"].startswith("NVML sees 1 GPU, but CUDA does not work")


def test_compose_hands_the_gpu_in_only_when_asked(clone: Project) -> None:
    look = "ls /dev/nvidia0 /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 2>/dev/null | wc -l"
    seen = [clone.compose("run", "--rm", "shell", "-c", look, env={"ACCEL": accel}).out for accel in ("cuda", "cpu")]
    assert seen == ["2\n", "0\n"]


def test_a_driver_that_is_not_loaded_is_one_clear_line(clone: Project) -> None:
    cuda_service(clone, "  cuda:\n", "  cuda:\n    environment: {STUB_NVIDIA: fail}\n")
    done = clone.call("scripts/up", "check", env={"ACCEL": "cuda"})
    assert (done.code, done.err.splitlines()[-1]) == (
        2,
        "error: the NVIDIA driver of this host does not work (initialization error: nvml error: driver not loaded: "
        "unknown): look at nvidia-smi, or train on the CPU: ACCEL=cpu scripts/up check",
    )


def test_docker_without_nvidias_toolkit_is_one_clear_line(clone: Project) -> None:
    cuda_service(clone, "driver: nvidia", "driver: absent")
    done = clone.call("scripts/up", "check", env={"ACCEL": "cuda"})
    last = done.err.splitlines()[-1]
    assert done.code == 2
    assert last.startswith(
        "error: Docker cannot hand out GPUs: install nvidia-container-toolkit, then: sudo nvidia-ctk"
    )
    assert last.endswith("or train on the CPU: ACCEL=cpu scripts/up check")
