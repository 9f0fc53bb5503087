"""`diag check --format json` as a user runs it, on this CPU and over the C fake of NVML."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.scenarios import SCENARIOS
from tests.probe.conftest import to_text

QUICK = ("imgsz=64", "batch=1")


def check(*args: str, env: dict[str, str] | None = None) -> tuple[int, dict[str, Any], str]:
    """Exit code, the JSON on stdout, stderr."""
    command = [sys.executable, "-m", "diag", "check", "--format", "json", *QUICK, *args]
    clean = {k: v for k, v in os.environ.items() if k not in {"CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"}}
    done = subprocess.run(command, capture_output=True, text=True, env={**clean, **(env or {})}, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def by_id(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in answer["checks"]}


def over_fake(
    library: Path, tmp_path: Path, name: str, *args: str
) -> tuple[int, dict[str, dict[str, Any]], dict[str, Any]]:
    scenario = tmp_path / "scenario.txt"
    scenario.write_text(to_text(SCENARIOS[name]))
    code, answer, _ = check(*args, env={"LD_LIBRARY_PATH": str(library), "FAKE_NVML": str(scenario)})
    return code, by_id(answer), answer["baseline"]


def test_the_cpu_on_purpose_passes_with_at_least_fifteen_real_answers(tmp_path: Path) -> None:
    code, answer, errors = check("device=cpu", f"--workspace={tmp_path}")
    checks = by_id(answer)
    assert (code, answer["verdict"] in {"pass", "warn"}) == (0, True)
    answered = [c for c in answer["checks"] if c["status"] not in {"skip", "unknown"}]
    assert len(answered) >= 15
    assert set(answer["checks"][0]) == {
        "id", "status", "value", "expected", "reason", "remedy", "finding", "seconds", "facts",
    }  # fmt: skip
    assert checks["torch.step"]["facts"]["device"] == "cpu"
    assert answer["baseline"]["images_per_s"] > 0
    assert "Ultralytics" not in errors
    assert list(tmp_path.iterdir()) == []


def test_an_argument_that_is_none_ends_with_2_and_no_output() -> None:
    code, answer, errors = check("device=banana")
    assert (code, answer) == (2, {})
    assert "device=banana" in errors


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lost GPU", {"gpu.health": "fail"}),
        (
            "all at once",
            {
                "gpu.memory": "warn",
                "gpu.clocks": "warn",
                "gpu.arch": "fail",
                "gpu.driver": "fail",
                "gpu.health": "pass",
                "gpu.pcie": "skip",  # the link reads low, and no copy proves it
            },
        ),
        ("hardly anything supported", {"gpu.health": "skip", "gpu.mode": "skip", "gpu.memory": "unknown"}),
    ],
)
def test_a_gpu_that_nvml_sees_and_cuda_cannot_use_fails(
    fake_library: Path, tmp_path: Path, name: str, expected: dict[str, str]
) -> None:
    code, checks, baseline = over_fake(fake_library, tmp_path, name)
    assert code == 1
    assert checks["gpu.compute"]["status"] == "fail"
    assert checks["gpu.compute"]["reason"].startswith("NVML sees 1 GPU, but CUDA does not work")
    assert {key: checks[key]["status"] for key in expected} == expected
    assert (baseline["cuda_usable"], len(baseline["gpus"])) == (False, 1)


def test_an_unusable_gpu_does_not_stop_the_cpu_on_purpose(fake_library: Path, tmp_path: Path) -> None:
    code, checks, _ = over_fake(fake_library, tmp_path, "healthy A100", "device=cpu")
    assert (code, checks["gpu.visible"]["status"], checks["gpu.compute"]["status"]) == (0, "info", "skip")
