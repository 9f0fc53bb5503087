"""Jupyter and TensorBoard: only on 127.0.0.1, only with the token, healthy when they answer."""

import socket
import subprocess
import urllib.error
import urllib.request

import pytest

from tests.container.engine import OWNER, Project

pytestmark = pytest.mark.container


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_jupyter_and_tensorboard_want_the_token(clone: Project) -> None:
    ports = {}
    for name in ("JUPYTER_PORT", "TENSORBOARD_PORT"):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            ports[name] = str(probe.getsockname()[1])
    up = clone.compose("up", "-d", "--wait", "jupyter", "tensorboard", env=ports)
    assert up.code == 0, up.err
    token_file = clone.folder / "workspace/.token"
    token = token_file.read_text()
    assert (token_file.stat().st_mode & 0o777, token_file.stat().st_uid, len(token)) == (0o600, OWNER, 48)

    api = f"http://127.0.0.1:{ports['JUPYTER_PORT']}/api/contents"
    assert [status(api), status(f"{api}?token=wrong"), status(f"{api}?token={token}")] == [403, 403, 200]
    board = f"http://127.0.0.1:{ports['TENSORBOARD_PORT']}"
    pages = ("/", "/data/environment", f"/{'0' * 48}/data/environment", f"/{token}/", f"/{token}/data/environment")
    assert [status(board + page) for page in pages] == [404, 404, 404, 200, 200]

    for name in ("jupyter", "tensorboard"):
        service = clone.service(name)
        assert service.inspect("{{.State.Health.Status}}") == "healthy"
        published = service.inspect("{{range .NetworkSettings.Ports}}{{range .}}{{.HostIp}} {{end}}{{end}}")
        assert published.split() == ["127.0.0.1"]
        assert f"127.0.0.1:{ports[name.upper() + '_PORT']}/" in "".join(service.logs())
        assert token not in "".join(service.logs())
    # Nobody else on the network of a service, and the token in no process list.
    networks = {
        clone.service(n).inspect("{{range $k, $v := .NetworkSettings.Networks}}{{$k}}{{end}}")
        for n in ("jupyter", "tensorboard")
    }
    assert len(networks) == 2
    assert token not in subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout


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
