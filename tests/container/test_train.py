"""Training in the real image: a good run, a stop, a kill for memory, a full disk; each ends in a true summary."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.container.engine import OWNER, Container, Engine, Project, docker
from tests.container.faults import Faults, kept, only_run

pytestmark = [pytest.mark.container, pytest.mark.slow]
TINY = ("imgsz=96", "batch=8", "device=cpu", "plots=False")
TRAIN_ONLY = ("train", "--no-check", "--no-smoke", *TINY)


def summary(workspace: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((workspace / "health/latest.json").read_text())
    return loaded


def wait_for_file(workspace: Path, pattern: str, container: Container, timeout: float = 180) -> Path:
    until = time.monotonic() + timeout
    while not (found := list(workspace.glob(pattern))):
        assert time.monotonic() < until, container.logs()
        assert container.inspect("{{.State.Running}}") == "true", container.logs()
        time.sleep(0.3)
    return found[0]


def test_up_train_on_a_fresh_clone(clone: Project) -> None:
    args = " ".join(["epochs=1", "name='my run'", *TRAIN_ONLY[1:]])
    done = clone.call("scripts/up", "train", env={"TRAIN_ARGS": args, "OFFLINE": "1"})
    assert done.code == 0, done.err
    told = summary(clone.folder / "workspace")
    assert (told["exit_cause"]["kind"], told["run"]["id"]) == ("finished", "my run")
    assert (clone.folder / "workspace/health/latest.json").stat().st_uid == OWNER


@pytest.mark.usefixtures("gpu_stub")
def test_up_train_says_that_nvml_sees_a_gpu_and_cuda_does_not_work(clone: Project) -> None:
    env = {"ACCEL": "cuda", "TRAIN_ARGS": "epochs=1 imgsz=96 batch=2", "OFFLINE": "1"}
    up = clone.compose("up", "--exit-code-from", "train", "train", env=env)
    assert up.code == 1, up.err
    told = summary(clone.folder / "workspace")
    assert (told["verdict"], told["check"]["status"], told["exit_cause"]["kind"]) == ("fail", "fail", "check_failed")
    reasons = {check["id"]: check["reason"] for check in told["check"]["checks"]}
    assert reasons["gpu.compute"].startswith("NVML sees 1 GPU, but CUDA does not work")
    assert "gpu.visible" in (clone.folder / "workspace/health/latest.md").read_text()


def test_sigterm_ends_with_143_and_a_checkpoint(
    engine: Engine, workspace: Path, as_owner: tuple[str, ...], faults: Faults
) -> None:
    container = engine.start("-v", f"{workspace}:/workspace", *as_owner, args=(*TRAIN_ONLY, "epochs=100"))
    wait_for_file(workspace, "runs/*/ultralytics/weights/last.pt", container)
    health = "/app/entrypoint/healthcheck.sh"
    assert container.exec(health).code == 0
    stalled = container.exec("env", "STALL_MINUTES=0", health)
    assert (stalled.code, stalled.out.partition(":")[0]) == (1, "no batch for 0 minutes")
    assert container.stop(120) < 60
    assert container.wait().code == 143
    told = summary(workspace)
    assert (told["exit_cause"]["kind"], told["exit_cause"]["signal"]) == ("stopped", "SIGTERM")
    left = kept(only_run(workspace))
    assert {"finished epochs", "last.pt", "summary", "report"} <= set(left)
    faults.add("stop (SIGTERM)", "docker stop", 143, "stopped", told["exit_cause"]["detail"], left)


def test_a_kill_for_memory_is_told_as_one(
    engine: Engine, workspace: Path, as_owner: tuple[str, ...], faults: Faults
) -> None:
    limits = ("--memory", "500m", "--memory-swap", "500m")
    done = engine.run("-v", f"{workspace}:/workspace", *limits, *as_owner, args=(*TRAIN_ONLY, "epochs=2", "imgsz=640"))
    assert done.code == 1, done.out + done.err
    cause = summary(workspace)["exit_cause"]
    assert cause["kind"] == "ram_oom", cause
    faults.add("memory limit", "--memory", done.code, cause["kind"], cause["detail"], kept(only_run(workspace)))


def test_a_full_disk_is_told_as_one(engine: Engine, workspace: Path, as_owner: tuple[str, ...], faults: Faults) -> None:
    full = ("--mount", "type=tmpfs,destination=/workspace/runs,tmpfs-size=20m,tmpfs-mode=1777")
    done = engine.run("-v", f"{workspace}:/workspace", *full, *as_owner, args=(*TRAIN_ONLY, "epochs=2"))
    cause = summary(workspace)["exit_cause"]
    assert (done.code, cause["kind"]) == (1, "disk_full"), (cause, done.out + done.err)
    # The runs' disk went with its container; the summary lies beside it.
    faults.add("disk full", "a tmpfs of 20 MB at runs/", done.code, cause["kind"], cause["detail"], ["summary"])


def test_a_killed_container_is_found_out_by_the_next_one(
    engine: Engine, workspace: Path, as_owner: tuple[str, ...], faults: Faults
) -> None:
    container = engine.start("-v", f"{workspace}:/workspace", *as_owner, args=(*TRAIN_ONLY, "epochs=100", "name=lost"))
    wait_for_file(workspace, "runs/lost/ultralytics/weights/best.pt", container)
    docker("kill", container.name)
    code = container.wait().code
    assert summary(workspace)["exit_cause"]["kind"] == "running"
    engine.run("-v", f"{workspace}:/workspace", *as_owner, args=("train", "no_such_argument=1"))
    lost = json.loads((workspace / "runs/lost/health.json").read_text())
    assert (code, lost["verdict"], lost["exit_cause"]["kind"]) == (137, "fail", "killed")
    left = kept(workspace / "runs/lost")
    assert {"finished epochs", "last.pt", "summary"} <= set(left)
    faults.add("container killed", "docker kill", code, "killed", lost["exit_cause"]["detail"], left)


def test_a_killed_container_goes_on_with_its_run(engine: Engine, workspace: Path, as_owner: tuple[str, ...]) -> None:
    args = (*TRAIN_ONLY, "epochs=4")
    container = engine.start("-v", f"{workspace}:/workspace", *as_owner, args=args)
    last = wait_for_file(workspace, "runs/*/ultralytics/weights/last.pt", container)
    docker("kill", container.name)
    done = engine.run("-v", f"{workspace}:/workspace", *as_owner, args=args)
    assert done.code == 0, done.out + done.err
    assert [path.parent.name for path in workspace.glob("runs/*/run.json")] == [last.parents[2].name]
    told = summary(workspace)
    assert (told["run"]["id"], told["exit_cause"]["kind"]) == (last.parents[2].name, "finished")
    assert [attempt["exit_cause"]["kind"] for attempt in told["run"]["attempts"]] == ["killed"]
    assert (told["train"]["resumed"]["how"], told["train"]["epochs_done"]) in {("exact", 4), ("final", 4)}
    assert told["train"]["resumed"]["exact"] is True
