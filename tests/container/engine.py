"""The Docker command line for tests: containers that are always removed, and Compose projects of their own."""

import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.processes import run

ROOT = Path(__file__).resolve().parent.parent.parent
STACK = os.environ.get("STACK") or "cu13"
OWNER = 1000 if os.getuid() == 0 else os.getuid()
GROUP = 1000 if os.getuid() == 0 else os.getgid()


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


def command(
    *args: str, env: Mapping[str, str] | None = None, cwd: Path = ROOT, timeout: float = 300, check: bool = False
) -> Done:
    """Run a command to its end; `env` adds to ours."""
    done = run(args, cwd=cwd, env={**os.environ, **(env or {})}, timeout=timeout)
    assert not check or done.returncode == 0, f"{' '.join(args)}: {done.returncode}\n{done.stdout}{done.stderr}"
    return Done(done.returncode, done.stdout, done.stderr)


def docker(*args: str, timeout: float = 120) -> str:
    """Run a docker command that has to succeed; its output without the last line break."""
    return command("docker", *args, timeout=timeout, check=True).out.strip()


def base_image() -> tuple[str, ...]:
    """The base image that this machine has, if it is not the Dockerfile's."""
    base = os.environ.get("BASE_IMAGE")
    return ("--build-arg", f"BASE_IMAGE={base}") if base else ()


@dataclass
class Container:
    """A started container; `engine` removes it in the end."""

    name: str

    def inspect(self, template: str) -> str:
        """One fact of `docker inspect`, as a Go template."""
        return docker("inspect", "-f", template, self.name)

    def wait(self, timeout: float = 240) -> Done:
        """Wait for its end; exit code and output."""
        code = int(docker("wait", self.name, timeout=timeout))
        return Done(code, *self.logs())

    def logs(self) -> tuple[str, str]:
        """Standard output and standard error so far."""
        done = command("docker", "logs", self.name, check=True)
        return done.out, done.err

    def wait_for(self, text: str, timeout: float = 180) -> None:
        """Wait until its output holds `text`."""
        until = time.monotonic() + timeout
        while text not in "".join(self.logs()):
            assert time.monotonic() < until, f"no {text!r} within {timeout:.0f} s:\n{self.logs()}"
            assert self.inspect("{{.State.Running}}") == "true", f"ended without {text!r}:\n{self.logs()}"
            time.sleep(0.5)

    def exec(self, *args: str) -> Done:
        """Run a command in it."""
        return command("docker", "exec", self.name, *args, timeout=60)

    def stop(self, seconds: int) -> float:
        """Stop it as `docker stop` does; how long that took."""
        begun = time.monotonic()
        docker("stop", "-t", str(seconds), self.name, timeout=seconds + 30)
        return time.monotonic() - begun


@dataclass
class Engine:
    """Starts containers of one image and removes them."""

    image: str
    started: list[Container] = field(default_factory=list)

    def start(self, *options_and_args: str, args: tuple[str, ...] = ()) -> Container:
        """`docker run` in the background: options before the image, `args` after it."""
        container = Container(f"diag-test-{secrets.token_hex(4)}")
        self.started.append(container)
        docker("run", "-d", "--name", container.name, *options_and_args, self.image, *args)
        return container

    def run(self, *options: str, args: tuple[str, ...] = (), timeout: float = 240) -> Done:
        """`docker run` to the end."""
        return self.start(*options, args=args).wait(timeout)

    def remove_all(self) -> None:
        """Remove every container that this one started."""
        for container in self.started:
            command("docker", "rm", "-f", "-v", container.name)


@dataclass(frozen=True)
class Project:
    """A copy of the checkout as a user would have cloned it, with a Compose project of its own."""

    folder: Path
    env: Mapping[str, str]

    def call(self, *args: str, env: Mapping[str, str] | None = None, timeout: float = 300) -> Done:
        """Run a command in the copy's folder."""
        return command(*args, cwd=self.folder, env={**self.env, **(env or {})}, timeout=timeout)

    def compose(self, *args: str, env: Mapping[str, str] | None = None, timeout: float = 300) -> Done:
        """Run `docker compose` in it."""
        return self.call("docker", "compose", "--progress", "quiet", *args, env=env, timeout=timeout)

    def service(self, name: str) -> Container:
        """The container of a service that is up."""
        return Container(self.compose("ps", "-aq", name).out.strip())


@contextmanager
def project(folder: Path, **env: str) -> Iterator[Project]:
    """Copy the checkout's files into `folder`; `down` and remove the volumes at the end."""
    listed = command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", check=True)
    for name in filter(None, listed.out.split("\0")):
        source, target = ROOT / name, folder / name
        if source.is_file() and not name.startswith("tests/"):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode)
    name = f"diag-test-{secrets.token_hex(4)}"
    made = Project(folder, {"COMPOSE_PROJECT_NAME": name, **env})
    try:
        yield made
    finally:
        made.compose("--profile", "*", "down", "-v", "-t", "5")
