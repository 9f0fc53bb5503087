"""scripts/pin_base against a registry on the loopback interface. Needs docker buildx, and no image."""

import hashlib
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.container.test_scripts import checkout

ROOT = Path(__file__).resolve().parent.parent.parent
TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


CONFIG = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}).encode()
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
MANIFEST = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": TYPE,
        "config": {"mediaType": CONFIG_TYPE, "digest": digest_of(CONFIG), "size": len(CONFIG)},
        "layers": [],
    }
).encode()


def index(created: str) -> bytes:
    """An index with one platform; `created` makes another digest of it."""
    entry = {
        "mediaType": TYPE,
        "size": len(MANIFEST),
        "digest": digest_of(MANIFEST),
        "platform": {"architecture": "amd64", "os": "linux"},
    }
    told = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry], "annotations": {"created": created}}
    return json.dumps(told).encode()


class Registry(ThreadingHTTPServer):
    """Knows `debian:bookworm-slim`, whose index a test may replace."""

    index = index("first")

    @property
    def digest(self) -> str:
        return digest_of(self.index)


class Answers(BaseHTTPRequestHandler):
    """The two manifests and nothing else."""

    server: Registry

    def do_GET(self) -> None:
        body, kind = b"", ""
        if self.path.endswith(("/manifests/bookworm-slim", f"/manifests/{self.server.digest}")):
            body, kind = self.server.index, INDEX_TYPE
        elif self.path.endswith(f"/manifests/{digest_of(MANIFEST)}"):
            body, kind = MANIFEST, TYPE
        elif self.path.endswith(f"/blobs/{digest_of(CONFIG)}"):
            body, kind = CONFIG, CONFIG_TYPE
        self.send_response(200 if body or self.path == "/v2/" else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Content-Digest", digest_of(body))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 # the name that the base class looks for

    def log_message(self, format: str, *args: object) -> None:
        """Nothing on the screen."""


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def pin(folder: Path, *args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    script = str(folder / "scripts/pin_base")
    return subprocess.run([script, *args], env=env, capture_output=True, text=True, check=False, timeout=60)


def base_line(folder: Path) -> str:
    return next(line for line in (folder / "Dockerfile").read_text().splitlines() if line.startswith("ARG BASE_IMAGE="))


def test_pins_checks_renews_and_unpins(registry: Registry, tmp_path: Path) -> None:
    asked = ["docker", "buildx", "version"]
    if not shutil.which("docker") or subprocess.run(asked, capture_output=True, check=False).returncode:
        if os.environ.get("DIAG_REQUIRE_DOCKER"):
            pytest.fail("DIAG_REQUIRE_DOCKER is set, but there is no docker buildx")
        pytest.skip("not run: no docker buildx")
    checkout(tmp_path, "")
    shutil.copy(ROOT / "Dockerfile", tmp_path)
    name = f"127.0.0.1:{registry.server_port}/debian:bookworm-slim"
    done = pin(tmp_path, name)
    assert (done.returncode, base_line(tmp_path)) == (0, f"ARG BASE_IMAGE={name}@{registry.digest}"), done.stderr
    assert pin(tmp_path, "--check").returncode == 0
    assert "already" in pin(tmp_path).stderr
    old, registry.index = registry.digest, index("second")
    stale = pin(tmp_path, "--check")
    assert (stale.returncode, base_line(tmp_path)) == (1, f"ARG BASE_IMAGE={name}@{old}"), stale.stderr
    assert pin(tmp_path).returncode == 0
    assert base_line(tmp_path) == f"ARG BASE_IMAGE={name}@{registry.digest}"
    assert pin(tmp_path, "--unpin").returncode == 0
    assert base_line(tmp_path) == f"ARG BASE_IMAGE={name}"
    # Only that line changed.
    was, now = (folder.joinpath("Dockerfile").read_text().splitlines() for folder in (ROOT, tmp_path))
    assert [line for line in was if line not in now] == [base_line(ROOT)]
    gone = pin(tmp_path, name.replace("bookworm-slim", "no-such-tag"))
    assert gone.returncode == 2 and gone.stderr.startswith("error: the registry did not tell the digest"), gone.stderr
    assert base_line(tmp_path) == f"ARG BASE_IMAGE={name}"


@pytest.mark.parametrize(
    ("docker", "args", "expected"),
    [
        (
            "echo 'dial tcp: lookup registry: no such host' >&2; exit 1",
            (),
            "error: the registry did not tell the digest",
        ),
        ("echo not-a-digest", (), "error: the registry answered no digest"),
        ("", ("--no-such",), "error: unknown option --no-such"),
        ("", ("a b",), "error: 'a b' is no image name"),
    ],
)
def test_what_goes_wrong_is_one_line_and_changes_nothing(
    tmp_path: Path, docker: str, args: tuple[str, ...], expected: str
) -> None:
    env = checkout(tmp_path, docker or ":")
    shutil.copy(ROOT / "Dockerfile", tmp_path)
    done = pin(tmp_path, *args, env=env)
    assert (done.returncode, done.stderr[: len(expected)]) == (2, expected)
    assert (tmp_path / "Dockerfile").read_text() == (ROOT / "Dockerfile").read_text()
