"""What compose makes of the services: hardening, GPU reservation, workspace, exit codes."""

import json
import os
import subprocess
from typing import Any

import pytest

from tests.container.engine import GROUP, OWNER, Engine, Project, docker
from tests.container.faults import Faults
from tests.processes import ended

pytestmark = pytest.mark.container
NO_SUMMARY = "none can be written"
COMPUTE = ("train", "smoke", "check", "shell", "jupyter", "ssh", "lab")


def services(clone: Project, accel: str = "cpu", **env: str) -> dict[str, Any]:
    done = clone.compose("--profile", "*", "config", "--format", "json", env={"ACCEL": accel, **env})
    assert done.code == 0, done.err
    loaded: dict[str, Any] = json.loads(done.out)["services"]
    return loaded


def test_every_service_is_fenced_in(clone: Project) -> None:
    for name, service in services(clone).items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert {port["host_ip"] for port in service.get("ports", [])} <= {"127.0.0.1"}, name
        assert name == "workspace" or service["user"] == "1000:1000", name
        assert service["read_only"] is True, name
        assert "privileged" not in service and service.get("network_mode") in {None, "none"}, name


def test_ports_leave_127_0_0_1_only_by_name(clone: Project) -> None:
    opened = services(clone, BIND_ADDR="0.0.0.0")
    for name in ("jupyter", "tensorboard", "ssh", "lab"):
        assert {port["host_ip"] for port in opened[name]["ports"]} == {"0.0.0.0"}, name
        assert opened[name]["environment"]["BIND_ADDR"] == "0.0.0.0"
    assert {str(port["target"]) for port in opened["lab"]["ports"]} == {"8888", "2222"}


def test_the_gpu_reservation_follows_accel(clone: Project) -> None:
    assert all("deploy" not in service for service in services(clone).values())
    reserved = services(clone, "cuda")
    for name in COMPUTE:
        (device,) = reserved[name]["deploy"]["resources"]["reservations"]["devices"]
        assert (device["driver"], device["capabilities"], device["count"]) == ("nvidia", ["gpu"], -1), name
    assert all("gpus" not in service for service in reserved.values())


def test_a_fresh_clone_has_a_writable_workspace_and_keeps_a_used_one(clone: Project) -> None:
    done = clone.compose(
        "run", "--rm", "shell", "-c", "id -u; touch /workspace/mine; touch /data/x 2>&1 | grep -c Read-only"
    )
    assert (done.code, done.out.split()) == (0, ["1000", "1"]), done.err
    assert (clone.folder / "workspace/mine").stat().st_uid == 1000
    if os.getuid() == 0:
        os.chown(clone.folder / "workspace", 0, 0)
        done = clone.compose("run", "--rm", "train")
        assert done.code == 2
        assert (clone.folder / "workspace").stat().st_uid == 0


def test_init_fits_env_to_the_machine_and_keeps_edits(clone: Project) -> None:
    first = clone.call("scripts/init")
    assert first.code == 0, first.err
    env = clone.folder / ".env"
    assert f"UID={OWNER}\nGID={GROUP}\n" in env.read_text()
    token = clone.folder / "workspace/.token"
    assert (token.stat().st_uid, token.stat().st_mode & 0o777) == (OWNER, 0o600)
    env.write_text(env.read_text().replace("ACCEL=", "ACCEL=mine-").replace("SHM_SIZE=", "SHM_SIZE=3"))
    edited, secret = env.read_text(), token.read_text()
    again = clone.call("scripts/init")
    assert (again.code, env.read_text(), token.read_text()) == (0, edited, secret)
    assert "(kept; this machine would get" in again.err


def test_data_dir_is_seen_read_only_at_data(clone: Project) -> None:
    (clone.folder / "elsewhere").mkdir()
    (clone.folder / "elsewhere/data.yaml").write_text("names: [a]\n")
    script = "cat /data/data.yaml; touch /data/x 2>/dev/null || echo read-only"
    done = clone.compose("run", "--rm", "shell", "-c", script, env={"DATA_DIR": str(clone.folder / "elsewhere")})
    assert done.out == "names: [a]\nread-only\n"


@pytest.mark.parametrize("code", [0, 3, 143])
def test_exit_codes_pass_through_scripts_up(clone: Project, code: int) -> None:
    done = clone.call("scripts/up", "shell", "-c", f"exit {code}")
    assert done.code == code, done.err


def test_a_signal_to_scripts_up_stops_the_container(clone: Project) -> None:
    script = ["scripts/up", "shell", "-c", "echo started; exec sleep 100"]
    env = {**os.environ, **clone.env}
    started = subprocess.Popen(script, cwd=clone.folder, env=env, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    with ended(started) as process:
        assert process.stdout
        assert process.stdout.readline() == b"started\n"
        process.terminate()
        assert process.wait(30) == 143
    assert docker("ps", "-q", "--filter", f"name=yolo-diag-shell-{process.pid}") == ""


def test_exit_code_of_up_without_arguments_passes_through(clone: Project) -> None:
    """An unknown argument ends the pipeline with 2 before any work."""
    done = clone.call("scripts/up", "train", env={"TRAIN_ARGS": "no-such-argument='with blank'"})
    assert done.code == 2, done.err
    assert "no-such-argument" in done.err + done.out


def test_a_workspace_of_somebody_else_is_one_clear_line(
    engine: Engine, tmp_path_factory: pytest.TempPathFactory, faults: Faults
) -> None:
    folder = tmp_path_factory.mktemp("foreign")
    folder.chmod(0o755)
    done = engine.run("--user", "4711:4712", "-v", f"{folder}:/workspace", args=("train",))
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"error: the workspace belongs to UID {os.getuid()} and this container runs as UID 4711; "
        "fix it on the host: scripts/init, or sudo chown -R 4711:4712 ./workspace\n"
    )
    faults.add("workspace of another user", "--user", 2, NO_SUMMARY, done.err.partition("; ")[0], ["nothing was begun"])


def test_a_read_only_workspace_is_one_clear_line(
    engine: Engine, tmp_path_factory: pytest.TempPathFactory, faults: Faults
) -> None:
    folder = tmp_path_factory.mktemp("readonly")
    folder.chmod(0o777)
    for name in ("train", "smoke", "jupyter", "tensorboard", "ssh", "lab"):
        done = engine.run("-v", f"{folder}:/workspace:ro", args=(name,))
        assert (done.code, done.err) == (2, "error: the workspace is mounted read-only; mount it without :ro\n")
    faults.add("workspace read-only", ":ro", 2, NO_SUMMARY, done.err.strip(), ["nothing was begun"])


def test_a_full_workspace_is_one_clear_line(engine: Engine) -> None:
    done = engine.run("--tmpfs", "/workspace:size=1m,nr_inodes=1,mode=1777", args=("train",))
    assert (done.code, done.err) == (2, "error: the workspace can't be written: No space left on device\n")
