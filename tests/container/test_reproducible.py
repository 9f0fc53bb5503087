"""Two builds of the same content are the same: the layer with the code bit for bit, the packages by their versions."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.container.engine import STACK, Project, base_image, command, docker, project

pytestmark = pytest.mark.container


def code_layer(clone: Project, tag: str) -> str:
    """Build with a `code` stage that comes from no cache; the digest of the image's last layer."""
    options = ("--build-arg", "UV_NO_CACHE=1", "--build-arg", f"STACK={STACK}", "--no-cache-filter", "code")
    secret = ("--secret", "id=ca,src=/dev/null")
    done = clone.call("docker", "build", "-q", "-t", tag, *options, *base_image(), *secret, ".")
    assert done.code == 0, done.err
    try:
        layers: list[str] = json.loads(docker("image", "inspect", "-f", "{{json .RootFS.Layers}}", tag))
        size = docker("history", "--format", "{{.Size}} {{.CreatedBy}}", tag).splitlines()
        assert any("COPY /tree/ /" in line and not line.startswith("0B") for line in size), size
        return layers[-1]
    finally:
        command("docker", "rmi", tag)


def touch_all(folder: Path, when: float) -> None:
    """Give everything another date, and the code other rights, as another checkout with another umask has it."""
    for path in folder.rglob("*"):
        os.utime(path, (when, when), follow_symlinks=False)
        if path.is_file() and folder / "diag" in path.parents:
            path.chmod(0o664)


@pytest.mark.usefixtures("image")
def test_two_checkouts_make_the_same_code_layer_and_another_code_another(tmp_path: Path) -> None:
    with project(tmp_path / "one") as one, project(tmp_path / "two") as two:
        first = code_layer(one, "yolo-diag:test-one")
        # A stray cache and other dates and rights are no other content.
        cache = two.folder / "diag/__pycache__"
        cache.mkdir()
        (cache / "cli.cpython-311.pyc").write_bytes(b"stray")
        touch_all(two.folder, 1e9)
        assert code_layer(two, "yolo-diag:test-two") == first
        (two.folder / "diag/__init__.py").write_text("# one byte more\n")
        assert code_layer(two, "yolo-diag:test-two") != first


def debian_packages(clone: Project, tag: str) -> list[str]:
    """Names and versions of Debian's packages in a `system` stage that comes from no cache."""
    listing = "dpkg-query -W -f '${Package} ${Version} ${Architecture}\\n'"
    stage = ("--target", "system", "--no-cache-filter", "system")
    done = clone.call("docker", "build", "-q", "-t", tag, *stage, *base_image(), ".")
    assert done.code == 0, done.err
    try:
        return docker("run", "--rm", "--network", "none", tag, "bash", "-c", listing).splitlines()
    finally:
        command("docker", "rmi", tag)


def test_two_builds_have_the_same_debian_packages(image: str, tmp_path: Path) -> None:
    """The Python packages are those of the hash lock (test_image.py); Debian's come from an archive that moves."""
    manifest = ("--entrypoint", "cat", image, "/opt/manifest/debian.txt")
    before = docker("run", "--rm", "--network", "none", *manifest).splitlines()
    with project(tmp_path / "one") as one:
        now = debian_packages(one, "yolo-diag:test-system")
        if now != before:  # the image was built before the archive moved: then two builds of today are the same
            assert [line.split()[0] for line in now] == [line.split()[0] for line in before]
            assert debian_packages(one, "yolo-diag:test-system") == now
    assert len(now) > 80


def test_structure(image: str) -> None:
    """container-structure-test itself, on files and metadata."""
    tool = str(Path(sys.executable).parent / "container-structure-test")
    done = command(tool, "test", "--image", image, "--config", "tests/container/structure.yaml", "--output", "json")
    told = json.loads(done.out)
    assert (done.code, told["Fail"]) == (0, 0), done.out + done.err
    assert told["Pass"] == 6
