"""Everything in one container: what a stranger sees, who gets in by SSH, what happens when a service crashes."""

import json
import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.container.engine import GROUP, OWNER, STACK, Container, Engine, Project, project
from tests.container.peers import Peer, join, peer, shown_without_token
from tests.container.test_services import status, top

pytestmark = pytest.mark.container
USER = "yolo" if OWNER == 1000 else f"yolo{OWNER}"


@dataclass(frozen=True)
class Lab:
    """A running lab with a stranger in its network."""

    clone: Project
    container: Container
    peer: Peer
    address: str
    port: str
    token: str


@pytest.fixture(scope="module")
def lab(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """`docker compose up lab` on a workspace that holds a report; both ports are Docker's choice."""
    folder = tmp_path_factory.mktemp("lab")
    with (
        project(folder / "clone", UV_NO_CACHE="1", STACK=STACK, JUPYTER_PORT="0", SSH_PORT="0") as clone,
        peer(image) as one,
    ):
        report = clone.folder / "workspace/health/latest.md"
        report.parent.mkdir(parents=True)
        report.write_text("# Health\n")
        for path in (clone.folder / "workspace", report.parent, report):
            os.chown(path, OWNER, GROUP)
        (clone.folder / ".env").write_text(f"UID={OWNER}\nGID={GROUP}\n")
        up = clone.compose("up", "-d", "--wait", "lab", env={"SSH_AUTHORIZED_KEYS": one.make_key("right")})
        container = clone.service("lab")
        assert up.code == 0, (up.err, container.logs())
        port = clone.compose("port", "lab", "8888").out.strip().rpartition(":")[2]
        token = (clone.folder / "workspace/.token").read_text()
        yield Lab(clone, container, one, join(one, container), port, token)


def test_a_port_scan_finds_nothing_that_answers_without_a_token(lab: Lab) -> None:
    found = lab.peer.scan(lab.address)
    assert sorted(found) == ["2222", "8888"]
    assert found["2222"].startswith("SSH-2.0-")
    assert shown_without_token(found["8888"]) == {}


def test_tensorboard_lies_behind_jupyters_token(lab: Lab) -> None:
    page = f"http://127.0.0.1:{lab.port}/tensorboard/data/environment"
    with urllib.request.urlopen(f"{page}?token={lab.token}", timeout=60) as answer:
        assert json.loads(answer.read())["data_location"] == "/workspace/runs"
    with urllib.request.urlopen(f"{page}?token=wrong", timeout=60) as answer:
        assert "/login" in answer.url


def test_jupyter_opens_on_the_report_and_its_examples_run(lab: Lab) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{lab.port}/?token={lab.token}", timeout=60) as answer:
        assert answer.url.partition("?")[0].endswith("/lab/tree/health/latest.md")
    notebook = "/workspace/examples/first_look.ipynb"
    done = lab.container.exec("jupyter", "execute", "--inplace", notebook)
    assert done.code == 0, done.err
    cells = json.loads((lab.clone.folder / "workspace/examples/first_look.ipynb").read_text())["cells"]
    outputs = json.dumps([cell.get("outputs") for cell in cells])
    assert "# Health" in outputs and "No run yet." in outputs


def test_a_terminal_has_the_tools(lab: Lab) -> None:
    done = lab.container.exec("bash", "-lc", "command -v diag htop iotop nvitop")
    assert len(done.out.split()) == 4, done.out


def test_the_token_is_nowhere_to_be_read(lab: Lab) -> None:
    token_file = lab.clone.folder / "workspace/.token"
    assert (token_file.stat().st_mode & 0o777, token_file.stat().st_uid, len(lab.token)) == (0o600, OWNER, 48)
    assert lab.token not in "".join(lab.container.logs())
    assert lab.token not in lab.container.inspect("{{json .}}")
    assert lab.token not in subprocess.run(["ps", "axwwe"], capture_output=True, text=True, check=True).stdout


def test_the_right_key_gets_a_session_that_can_work(lab: Lab) -> None:
    script = "command -v diag; echo $WORKSPACE $YOLO_CONFIG_DIR; env | grep -ciE 'token|secret'; id -un"
    done = lab.peer.ssh(script, user=USER, host=lab.address)
    assert done.out.split() == ["/opt/venv/bin/diag", "/workspace", "/opt/ultralytics", "0", USER], done.err
    login = lab.peer.ssh("bash -lc 'command -v diag'", user=USER, host=lab.address)
    assert login.out == "/opt/venv/bin/diag\n"
    check = lab.peer.ssh("diag check --format json imgsz=96 batch=2", user=USER, host=lab.address)
    answers = {one["id"]: one for one in json.loads(check.out)["checks"]}
    assert check.code == 0, check.err
    heard = answers["net.listeners"]
    assert (heard["status"], heard["value"]) == ("pass", "2222 SSH (public key), 8888 Jupyter (token)")


def test_password_root_and_a_wrong_key_are_refused(lab: Lab) -> None:
    lab.peer.make_key("wrong")
    tries = [
        lab.peer.ssh("id", user=USER, key="wrong", host=lab.address),
        lab.peer.ssh("id", user="root", host=lab.address),
        lab.peer.ssh("id", user="daemon", host=lab.address),
        lab.peer.ssh(
            "id", user=USER, key="none", host=lab.address, options="-o PubkeyAuthentication=no -o BatchMode=no"
        ),
    ]
    assert [(done.code, done.out) for done in tries] == [(255, "")] * 4
    assert all("Permission denied (publickey)" in done.err for done in tries), [done.err for done in tries]


def test_only_local_forwarding(lab: Lab) -> None:
    remote = lab.peer.ssh("id", user=USER, host=lab.address, options="-o ExitOnForwardFailure=yes -R 7000:127.0.0.1:22")
    assert remote.code == 255, remote.out
    agent = lab.peer.ssh("echo $SSH_AUTH_SOCK $DISPLAY", user=USER, host=lab.address, options="-A -X")
    assert agent.out == "\n"
    local = (
        f"ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/tmp/known -i /tmp/right -p 2222 -fN "
        f"-L 7001:127.0.0.1:8888 {USER}@{lab.address} && exec 3<>/dev/tcp/127.0.0.1/7001 && "
        r"printf 'GET /api HTTP/1.0\r\n\r\n' >&3 && head -n 1 <&3"
    )
    assert "200 OK" in lab.peer.container.exec("bash", "-c", local).out


def test_an_undeclared_listener_fails_the_check(lab: Lab) -> None:
    lab.container.exec("bash", "-c", "python -m http.server 5000 >/dev/null 2>&1 & sleep 2")
    script = (
        "from diag.probe.listeners import net_listeners, read\n"
        "check = net_listeners(read(), (), container=True); print(check.status, check.value)"
    )
    try:
        assert (
            lab.container.exec("python", "-c", script).out.strip() == "fail 0.0.0.0:5000 (python -m http.server 5000)"
        )
    finally:
        kill(lab.container, "http.server")


@pytest.mark.parametrize(("name", "process"), [("tensorboard", "below_token"), ("jupyter", "jupyter-lab")])
def test_a_crash_is_named_and_the_service_comes_back(lab: Lab, name: str, process: str) -> None:
    kill(lab.container, process)
    until = time.monotonic() + 150
    while not re.search(rf"exited: {name} .*not expected(.|\n)*spawned: '{name}'", lab.container.logs()[0]):
        assert time.monotonic() < until, lab.container.logs()
        time.sleep(0.5)
    while (health := lab.container.exec("/app/entrypoint/healthcheck.sh")).code != 0:
        assert name in health.out.lower(), health
        assert time.monotonic() < until, (health, lab.container.logs())
        time.sleep(1)
    assert status(f"http://127.0.0.1:{lab.port}/api/status?token={lab.token}") == 200


def kill(container: Container, process: str) -> None:
    """kill -9 from the host: the pid is the host's."""
    lines = [line.split()[0] for line in top(container.name) if process in line and "tini" not in line]
    assert lines, top(container.name)
    subprocess.run(["kill", "-9", *lines], check=True)


def test_the_lab_stays_after_a_training_when_asked_and_keeps_its_exit_code(
    engine: Engine, workspace: Path, hardened: tuple[str, ...]
) -> None:
    """TensorBoard's own port only by name, and below the token even then."""
    asked = ("-e", "KEEP_LAB=1", "-e", "EXPOSE_TENSORBOARD=1")
    container = engine.start("-v", f"{workspace}:/workspace", *hardened, *asked, args=("lab", "train", "no_such=1"))
    container.wait_for("lab: Jupyter stays until this container is stopped")
    listening = "from diag.probe.listeners import read; print(*(one.port for one in read() if not one.loopback))"
    until = time.monotonic() + 150
    while (heard := container.exec("python", "-c", listening).out.split()) != ["6006", "8888"]:
        assert time.monotonic() < until, (heard, container.logs())
        time.sleep(1)
    ask = "exec 3<>/dev/tcp/127.0.0.1/6006; printf 'GET /data/runs HTTP/1.0\\r\\n\\r\\n' >&3; head -n 1 <&3"
    assert " 404 " in container.exec("bash", "-c", ask).out
    container.stop(30)
    assert container.wait().code == 2


@pytest.mark.slow
def test_a_training_in_the_lab_decides_the_exit_code(
    engine: Engine, workspace: Path, hardened: tuple[str, ...]
) -> None:
    """Healthy while it gets on and is watched; a stop reaches the training, then the services; its code counts."""
    args = (
        "lab",
        "train",
        "--no-check",
        "--no-smoke",
        "imgsz=64",
        "batch=8",
        "device=cpu",
        "plots=False",
        "epochs=100",
    )
    container = engine.start("-v", f"{workspace}:/workspace", *hardened, args=args)
    container.wait_for("Starting training", timeout=120)
    health = ("env", "COUNTERS_SECONDS=5", "/app/entrypoint/healthcheck.sh")
    while "epoch 1/100 batch" not in (told := container.exec(*health)).out:
        assert told.code == 0, told
        time.sleep(1)
    kill(container, "counters/__main__")
    until = time.monotonic() + 30
    while (told := container.exec(*health)).code == 0:
        assert time.monotonic() < until, told
        time.sleep(1)
    assert told.out.startswith("the counters process is gone"), told
    assert container.stop(120) < 100
    ended = container.wait()
    assert ended.code == 143, ended
    assert json.loads((workspace / "health/latest.json").read_text())["exit_cause"]["signal"] == "SIGTERM"
    assert "stopped: jupyter" in ended.out
