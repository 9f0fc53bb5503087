"""scripts/up without a Docker engine or with one that refuses: one clear line each, exit 2. Needs no Docker."""

import os
from pathlib import Path

import pytest

from tests.processes import run

ROOT = Path(__file__).resolve().parent.parent.parent
NO_DRIVER = 'Error response from daemon: could not select device driver "nvidia" with capabilities: [[gpu]]'
NO_MODULE = (
    "Error response from daemon: failed to create task for container: ... error running hook #0: "
    "stderr: nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown"
)
IN_USE = (
    "Error response from daemon: driver failed programming external connectivity: "
    "Bind for 127.0.0.1:6006 failed: port is already allocated"
)


def checkout(tmp_path: Path, docker: str) -> dict[str, str]:
    """A copy of the scripts with a stand-in for the docker command; the environment to run them in."""
    for folder in ("scripts", "configs/stacks"):
        (tmp_path / folder).mkdir(parents=True)
        for source in (ROOT / folder).iterdir():
            if source.is_file():
                (tmp_path / folder / source.name).write_bytes(source.read_bytes())
                (tmp_path / folder / source.name).chmod(source.stat().st_mode)
    (tmp_path / "bin").mkdir()
    if docker:
        (tmp_path / "bin/docker").write_text(f"#!/usr/bin/env bash\n{docker}\n")
        (tmp_path / "bin/docker").chmod(0o755)
    system = "/usr/bin:/bin" if docker else str(tmp_path / "tools")
    if not docker:
        (tmp_path / "tools").mkdir()
        for tool in ("bash", "dirname", "env"):
            (tmp_path / "tools" / tool).symlink_to(f"/usr/bin/{tool}")
    keep = {name: value for name, value in os.environ.items() if name not in {"DOCKER_HOST", "ACCEL", "STACK"}}
    return {**keep, "PATH": f"{tmp_path / 'bin'}:{system}"}


def last_line(tmp_path: Path, docker: str, *args: str) -> tuple[int, str]:
    env = checkout(tmp_path, docker)
    done = run([str(tmp_path / "scripts/up"), *args], env=env)
    return done.returncode, (done.stderr.splitlines() or [""])[-1]


def refusing(answer: str) -> str:
    """A docker that can do everything but start the container."""
    return f"case \"$*\" in *'quiet up'* | *'quiet run'*) echo '{answer}' >&2; exit 1 ;; esac"


def test_no_docker(tmp_path: Path) -> None:
    code, line = last_line(tmp_path, "", "train")
    assert (code, line.partition(" (")[0]) == (2, "error: Docker is not installed")


@pytest.mark.parametrize(
    ("docker", "expected"),
    [
        ("[ $1 != compose ]", "error: Docker has no Compose plugin"),
        (
            "[ $1 = compose ] || { echo 'Cannot connect to the Docker daemon'; exit 1; }",
            "error: the Docker engine does not run: ",
        ),
        (
            "[ $1 = compose ] || { echo 'permission denied while trying'; exit 1; }",
            "error: you may not talk to Docker: ",
        ),
        ('case "$*" in "compose build"*) exit 17 ;; esac', "error: the image could not be built"),
        (refusing(NO_DRIVER), "error: Docker cannot hand out GPUs: install nvidia-container-toolkit"),
        (
            refusing(NO_MODULE),
            "error: the NVIDIA driver of this host does not work (initialization error: nvml error: ",
        ),
        (
            refusing(IN_USE),
            "error: port 6006 is in use on this machine; take another: TENSORBOARD_PORT=6007 scripts/up ",
        ),
    ],
)
def test_docker_refuses(tmp_path: Path, docker: str, expected: str) -> None:
    code, line = last_line(tmp_path, docker, "tensorboard")
    assert (code, line[: len(expected)]) == (2, expected)


def test_an_unknown_service(tmp_path: Path) -> None:
    code, line = last_line(tmp_path, ":", "nix")
    assert (code, line) == (2, "error: no service 'nix'; see scripts/up --help")


def test_waiting_is_told_after_two_seconds_and_every_five_whatever_seconds_a_look_leaves_out() -> None:
    script = """
        source scripts/lib.sh
        docker() { :; }
        seconds=(1 2 3 4 6 7 8 9 11 12 14 16)
        sleep() { [ "${#seconds[@]}" -gt 0 ] || exit 0; SECONDS=${seconds[0]} seconds=("${seconds[@]:1}"); }
        unset SECONDS  # a plain variable from now on: no second passes but these
        SECONDS=0
        announce ssh
    """
    done = run(["bash", "-euc", script], cwd=ROOT)
    assert [line.split()[-3] for line in done.stderr.splitlines()] == ["2", "7", "12"], done
