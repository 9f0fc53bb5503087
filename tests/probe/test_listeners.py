"""Listening sockets, from the kernel's tables to the answer."""

import socket
from pathlib import Path

import pytest

from diag.errors import InputError
from diag.model.check import Status, worst
from diag.probe.listeners import Listener, declared_ports, net_listeners, parse, read

TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1776 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0 0 10 0
   1: 00000000:22B8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0 100 0 0 10 0
   2: 0100007F:22B8 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 4713 1 0 100 0 0 10 0
"""
TCP6 = """  sl  local_address                         remote_address                        st tx_queue rx_queue ...
   0: 00000000000000000000000000000000:08AE 00000000000000000000000000000000:0000 0A 0:0 00:0 0 1000 0 99 1 0
   1: 0000000000000000FFFF00000100007F:1388 00000000000000000000000000000000:0000 0A 0:0 00:0 0 1000 0 98 1 0
"""


def test_the_kernels_tables() -> None:
    assert parse(TCP) == (("127.0.0.1", 6006, 4711), ("0.0.0.0", 8888, 4712))
    everywhere, mapped = parse(TCP6)
    assert everywhere == ("::", 2222, 99)
    assert (Listener(*mapped[:2]).loopback, mapped[1:]) == (True, (5000, 98))
    assert not Listener("::", 2222).loopback


def test_this_machine_shows_our_own_socket_with_its_command() -> None:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        own.listen()
        found = {one.port: one for one in read()}[own.getsockname()[1]]
    assert found.loopback
    assert "pytest" in found.command


@pytest.mark.parametrize(
    ("listener", "declared", "status"),
    [
        (Listener("0.0.0.0", 8888, "python /opt/venv/bin/jupyter-lab --ip=0.0.0.0"), (), Status.PASS),
        (Listener("::", 2222, "sshd: /usr/sbin/sshd -D [listener]"), (), Status.PASS),
        (Listener("0.0.0.0", 6006, "python below_token.py /workspace/runs"), (), Status.PASS),
        (Listener("0.0.0.0", 6006, "python /opt/venv/bin/tensorboard --logdir runs"), (), Status.FAIL),
        (Listener("0.0.0.0", 8888, "python -m http.server 8888"), (), Status.FAIL),
        (Listener("::", 5000, "python -m http.server 5000"), (), Status.FAIL),
        (Listener("::", 5000, "python -m http.server 5000"), (5000,), Status.PASS),
        (Listener("127.0.0.1", 5000, "python -m http.server 5000"), (), Status.PASS),
        (Listener("0.0.0.0", 5000), (), Status.WARN),
        (Listener("0.0.0.0", 8265), (), Status.WARN),
        (Listener("0.0.0.0", 7860, "python app.py"), (), Status.WARN),
        (Listener("0.0.0.0", 7860, "python app.py"), (7860,), Status.PASS),
        (Listener("0.0.0.0", 5001, "/opt/venv/bin/mlflow ui --host 0.0.0.0 -p 5001"), (), Status.FAIL),
        (
            Listener("0.0.0.0", 9999, "jupyter-lab --ip=0.0.0.0 --port 9999 --ServerApp.token= --no-browser"),
            (),
            Status.FAIL,
        ),
        (Listener("0.0.0.0", 9999, "jupyter-lab --ip=0.0.0.0 --port 9999"), (), Status.INFO),
        (Listener("0.0.0.0", 2024), (), Status.INFO),
        (Listener("0.0.0.0", 22, "sshd: /usr/sbin/sshd -D [listener]"), (), Status.INFO),
        (Listener("::", 29500, "python -m torch.distributed.run --nproc_per_node 2 train.py"), (), Status.INFO),
    ],
)
def test_only_what_is_declared_may_listen(listener: Listener, declared: tuple[int, ...], status: Status) -> None:
    check = net_listeners([listener], declared, container=True)
    assert check.status is status, check
    if status is Status.FAIL:
        assert str(listener.port) in check.value and f"DECLARED_PORTS={listener.port}" in check.remedy
    assert net_listeners([listener], declared, container=False).status is Status.SKIP


def test_a_port_of_someone_else_is_told_and_changes_no_verdict() -> None:
    """A provider's agent and the rendezvous of a training are no reason to warn a new user; an open service is."""
    ours = Listener("0.0.0.0", 8888, "python /opt/venv/bin/jupyter-lab --ip=0.0.0.0")
    agent, mlflow = Listener("0.0.0.0", 2024), Listener("0.0.0.0", 5000)
    told = net_listeners([ours, agent], (), container=True)
    assert (told.status, told.remedy) == (Status.INFO, "")
    assert told.value == "8888 Jupyter (token); 0.0.0.0:2024 (a process that is not visible here)"
    assert worst([Status.PASS, told.status]) is Status.PASS
    both = net_listeners([ours, agent, mlflow], (), container=True)
    assert (both.status, "2024" in both.value) == (Status.WARN, False)
    assert both.reason.startswith("5000 is usually MLflow") and both.remedy.endswith("DECLARED_PORTS=5000")


def test_ports_are_declared_by_number() -> None:
    assert declared_ports({"DECLARED_PORTS": "9000, 9001"}) == {9000, 9001}
    assert declared_ports({}) == frozenset()
    with pytest.raises(InputError, match="expected port numbers"):
        declared_ports({"DECLARED_PORTS": "http"})


def test_reading_needs_no_rights(tmp_path: Path) -> None:
    """A process of another user hides its sockets; then the command stays empty."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text(TCP)
    assert [(one.port, one.command) for one in read(tmp_path)] == [(6006, ""), (8888, "")]
