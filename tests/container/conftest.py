"""Fixtures. Without a Docker engine the container tests are not run; DIAG_REQUIRE_DOCKER=1 makes that a failure."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.container.engine import GROUP, OWNER, STACK, Engine, Project, command, project
from tests.container.faults import ORDER, Faults, find_row, table

FAULTS = pytest.StashKey[Faults]()


@pytest.fixture(scope="session")
def faults(request: pytest.FixtureRequest) -> Faults:
    """Collects the rows of the table of faults; the end of the session prints them."""
    return request.config.stash.setdefault(FAULTS, Faults())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table, and write it where DIAG_FAULTS_FILE says (scripts/faults)."""
    told = config.stash.get(FAULTS, None)
    if told is None or not told.rows:
        return
    terminalreporter.section("faults")
    terminalreporter.write(table(told))
    target = os.environ.get("DIAG_FAULTS_FILE")
    if target:
        page = Path(target).read_text(encoding="utf-8")
        head, mark, old = page.partition("<!-- table -->\n")
        before = {fault: row for fault in ORDER if (row := find_row(old, fault))}
        Path(target).write_text(head + mark + table(Faults({**before, **told.rows})), encoding="utf-8")


@pytest.fixture(scope="session")
def image() -> str:
    """The image of the code as it is now, built if needed."""
    try:
        missing = command("docker", "version").code != 0
    except FileNotFoundError:
        missing = True
    if missing:
        if os.environ.get("DIAG_REQUIRE_DOCKER"):
            pytest.fail("DIAG_REQUIRE_DOCKER is set, but no Docker engine answers")
        pytest.skip("not run: no Docker engine")
    build = f"source scripts/lib.sh && STACK={STACK} build_image train"
    command("bash", "-euo", "pipefail", "-c", build, env={"UV_NO_CACHE": "1"}, timeout=1200, check=True)
    return f"yolo-diag:{STACK}"


@pytest.fixture
def engine(image: str) -> Iterator[Engine]:
    """Starts containers of the image; removes them after the test."""
    made = Engine(image)
    yield made
    made.remove_all()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder that belongs to the user that containers run as."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    os.chown(folder, OWNER, GROUP)
    return folder


@pytest.fixture
def clone(image: str, tmp_path: Path) -> Iterator[Project]:
    """A fresh clone: no .env, no workspace. `image` first, so that its build is already cached."""
    with project(tmp_path / "clone", UV_NO_CACHE="1", STACK=STACK) as made:
        yield made


@pytest.fixture
def gpu_stub(image: str) -> None:
    """Docker offers a GPU: a stub of NVIDIA's hook is on dockerd's PATH (.ci/run puts it there)."""
    if not os.environ.get("DIAG_STUB_GPU"):
        pytest.skip("not run: this Docker engine has no stub of NVIDIA's hook; .ci/run starts one")


@pytest.fixture
def free_port() -> int:
    """A port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def as_owner() -> tuple[str, ...]:
    """Options of `docker run` that run as the workspace's owner, with what compose takes away."""
    return (
        "--user",
        f"{OWNER}:{GROUP}",
        "--cap-drop",
        "ALL",
        "--security-opt",
        "no-new-privileges",
        "--network",
        "none",
    )


@pytest.fixture
def hardened(as_owner: tuple[str, ...]) -> tuple[str, ...]:
    """`as_owner` with the read-only root that compose gives every service."""
    tmpfs = ("--tmpfs", "/tmp:mode=1777,exec", "--tmpfs", "/home/yolo:mode=1777,exec")
    return ("--read-only", *tmpfs, *as_owner)
