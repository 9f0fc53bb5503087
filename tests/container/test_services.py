"""Jupyter, TensorBoard and SSH: only on 127.0.0.1, only with the token or a key, healthy when they answer."""

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.container.engine import OWNER, Engine, Project
from tests.container.peers import join, peer, shown_without_token
from tests.processes import ended

pytestmark = pytest.mark.container
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHGAllyU8bDdCpAFaJM2iFRIyK7WMeUsBoOPK19sdTdx me@laptop"
USER = "yolo" if OWNER == 1000 else f"yolo{OWNER}"


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_services_want_the_token_or_a_key(clone: Project) -> None:
    ports = {}
    for name in ("JUPYTER_PORT", "TENSORBOARD_PORT", "SSH_PORT"):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            ports[name] = str(probe.getsockname()[1])
    env = {**ports, "SSH_AUTHORIZED_KEYS": KEY}
    up = clone.compose("up", "-d", "--wait", "jupyter", "tensorboard", "ssh", env=env)
    assert up.code == 0, up.err
    token_file = clone.folder / "workspace/.token"
    token = token_file.read_text()
    assert (token_file.stat().st_mode & 0o777, token_file.stat().st_uid, len(token)) == (0o600, OWNER, 48)

    api = f"http://127.0.0.1:{ports['JUPYTER_PORT']}/api/contents"
    assert [status(api), status(f"{api}?token=wrong"), status(f"{api}?token={token}")] == [403, 403, 200]
    behind = f"http://127.0.0.1:{ports['JUPYTER_PORT']}/tensorboard/data/environment"  # started at the first visit
    assert status(f"{behind}?token={token}") == 200
    board = f"http://127.0.0.1:{ports['TENSORBOARD_PORT']}"
    pages = ("/", "/data/environment", f"/{'0' * 48}/data/environment", f"/{token}/", f"/{token}/data/environment")
    assert [status(board + page) for page in pages] == [404, 404, 404, 200, 200]

    for name in ("jupyter", "tensorboard", "ssh"):
        service = clone.service(name)
        assert service.inspect("{{.State.Health.Status}}") == "healthy"
        published = service.inspect("{{range .NetworkSettings.Ports}}{{range .}}{{.HostIp}} {{end}}{{end}}")
        assert published.split() == ["127.0.0.1"]
        assert ports[f"{name.upper()}_PORT"] in "".join(service.logs())
        assert token not in "".join(service.logs())
    # A stranger in the network of each service: only the service's port, and nothing without the token.
    with peer(clone.service("ssh").inspect("{{.Config.Image}}")) as stranger:
        seen = {name: stranger.scan(join(stranger, clone.service(name))) for name in ("jupyter", "tensorboard", "ssh")}
    assert {name: list(found) for name, found in seen.items()} == {
        "jupyter": ["8888"],
        "tensorboard": ["6006"],
        "ssh": ["2222"],
    }
    assert shown_without_token(seen["jupyter"]["8888"]) == {}
    assert shown_without_token(seen["tensorboard"]["6006"]) == {}
    assert seen["ssh"]["2222"].startswith("SSH-2.0-")
    assert token not in subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("service", ["jupyter", "tensorboard", "lab"])
def test_a_weak_token_starts_nothing(engine: Engine, workspace: Path, hardened: tuple[str, ...], service: str) -> None:
    mount = ("-v", f"{workspace}:/workspace", *hardened)
    done = engine.run(*mount, "-e", "JUPYTER_TOKEN=letmein", args=(service,))
    assert (done.code, done.err.partition(":")[0], "is weak" in done.err) == (2, "error", True), done
    (workspace / ".token").write_text("0123456789abcdef\n")
    (workspace / ".token").chmod(0o644)
    done = engine.run(*mount, args=(service,))
    assert (done.code, "is weak" in done.err) == (2, True), done


def test_a_token_from_the_environment_stays_out_of_sight(
    engine: Engine, workspace: Path, hardened: tuple[str, ...]
) -> None:
    token = "0123456789abcdef" * 2
    service = engine.start(
        "-v", f"{workspace}:/workspace", *hardened, "-e", f"JUPYTER_TOKEN={token}", args=("tensorboard",)
    )
    until = time.monotonic() + 60
    while service.exec("/app/entrypoint/healthcheck.sh").code != 0:
        assert time.monotonic() < until, service.logs()
        time.sleep(1)
    assert not (workspace / ".token").exists()
    assert token not in "".join(service.logs())


def test_a_port_in_use_is_one_clear_line(clone: Project) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = clone.call("scripts/up", "jupyter", env={"JUPYTER_PORT": str(port)})
    assert done.code == 2
    assert done.err.splitlines()[-1] == (
        f"error: port {port} is in use on this machine; take another: JUPYTER_PORT={port + 1} scripts/up jupyter"
    )


def test_an_unanswered_service_turns_unhealthy(clone: Project, free_port: int) -> None:
    up = clone.compose("up", "-d", "--wait", "tensorboard", env={"TENSORBOARD_PORT": str(free_port)})
    assert up.code == 0, up.err
    service = clone.service("tensorboard")
    # The health check itself: the server stands still, so nobody answers.
    board = next(line.split()[0] for line in top(service.name) if "below_token" in line and "tini" not in line)
    subprocess.run(["kill", "-STOP", board], check=True)
    try:
        asked = service.exec("timeout", "3", "/app/entrypoint/healthcheck.sh")
        assert asked.code != 0
    finally:
        subprocess.run(["kill", "-CONT", board], check=True)


def top(name: str) -> list[str]:
    done = subprocess.run(["docker", "top", name, "-eo", "pid,args"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[1:]


def test_scripts_up_waits_tells_the_address_and_passes_the_exit_code_on(clone: Project, free_port: int) -> None:
    """Without a key: the service's line and exit code. With one: progress, the address, and a stop by signal."""
    env = {**os.environ, **clone.env, "SSH_PORT": str(free_port)}
    refused = clone.call("scripts/up", "ssh", env={"SSH_PORT": str(free_port), "SSH_AUTHORIZED_KEYS": ""})
    assert (refused.code, "no public key for SSH" in refused.err + refused.out) == (2, True), refused
    started = subprocess.Popen(
        ["scripts/up", "ssh"],
        cwd=clone.folder,
        env={**env, "SSH_AUTHORIZED_KEYS": KEY},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with ended(started) as process:
        assert process.stderr
        said = []
        for line in process.stderr:
            said.append(line.strip())
            if line.startswith("up: SSH answers"):
                break
        assert said[-1] == f"up: SSH answers: ssh -p {free_port} {USER}@127.0.0.1", said
        assert any(line.startswith("up: ssh is starting") for line in said)
        with socket.create_connection(("127.0.0.1", free_port), timeout=5) as sock:
            assert sock.recv(8) == b"SSH-2.0-"
        process.terminate()
        process.stderr.read()
        assert process.wait(30) == 0


def test_scripts_up_shows_the_token_on_a_terminal_only(clone: Project) -> None:
    assert clone.call("scripts/init").code == 0
    token = (clone.folder / "workspace/.token").read_text()
    show = "source scripts/lib.sh; show_address lab; show_address tensorboard"
    piped = clone.call("bash", "-euc", show)
    assert token not in piped.err + piped.out
    assert "http://127.0.0.1:8888/?token=TOKEN" in piped.err
    on_terminal = clone.call("script", "-qec", f"bash -euc '{show}'", "/dev/null").out
    assert f"http://127.0.0.1:8888/?token={token}" in on_terminal
    assert f"http://127.0.0.1:6006/{token}/" in on_terminal
