"""A second container in a service's network: the stranger that scans it, and the SSH client."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.container.engine import ROOT, Container, Done, Engine, docker


@dataclass(frozen=True)
class Peer:
    """A container beside a service, in its network but with a network namespace of its own."""

    container: Container

    def scan(self, host: str) -> dict[str, Any]:
        """Every TCP port of `host` that answers; see scan.py."""
        done = self.container.exec("python", "/scan.py", host)
        assert done.code == 0, done.err
        found: dict[str, Any] = json.loads(done.out)
        return found

    def ssh(self, *command: str, user: str = "yolo", key: str = "right", host: str = "", options: str = "") -> Done:
        """Log in and run a command; `key` is one of those that `keys` made."""
        fixed = "-o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/tmp/known -o IdentitiesOnly=yes"
        args = ["ssh", *fixed.split(), *options.split(), "-i", f"/tmp/{key}", "-p", "2222", f"{user}@{host}", *command]
        return self.container.exec(*args)

    def make_key(self, name: str) -> str:
        """Make a key pair and return its public key."""
        self.container.exec("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"/tmp/{name}")
        return self.container.exec("cat", f"/tmp/{name}.pub").out.strip()


@contextmanager
def peer(image: str) -> Iterator[Peer]:
    """Start one; `join` connects it to networks."""
    engine = Engine(image)
    script = Path(ROOT, "tests/container/scan.py")
    try:
        yield Peer(engine.start("-v", f"{script}:/scan.py:ro", args=("sleep", "600")))
    finally:
        engine.remove_all()


def join(one: Peer, service: Container) -> str:
    """Connect the peer to all networks of `service`; its address there."""
    template = "{{range $name, $net := .NetworkSettings.Networks}}{{$name}} {{$net.IPAddress}} {{end}}"
    name, address, *others = service.inspect(template).split()
    assert not others, "a service has one network of its own"
    docker("network", "connect", name, one.container.name)
    return address


def shown_without_token(pages: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The pages that are more than a refusal (403, 404) or the way to the login form."""
    return {
        page: [status, location]
        for page, (status, location) in pages.items()
        if status not in {403, 404} and not (status == 302 and location.startswith(("/login", "/lab/tree/")))
    }
