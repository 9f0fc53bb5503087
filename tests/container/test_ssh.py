"""The SSH service by itself: no key, a wrong kind of key, a host key that stays."""

from pathlib import Path

import pytest

from tests.container.engine import Engine

pytestmark = pytest.mark.container
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHGAllyU8bDdCpAFaJM2iFRIyK7WMeUsBoOPK19sdTdx me@laptop"


def test_without_a_usable_key_it_says_so(engine: Engine, workspace: Path, hardened: tuple[str, ...]) -> None:
    mount = ("-v", f"{workspace}:/workspace", *hardened)
    for key, said in {
        "": "no public key for SSH: set SSH_AUTHORIZED_KEYS=",
        "-----BEGIN OPENSSH PRIVATE KEY-----": "that is a private key",
        "hello": "no line of SSH_AUTHORIZED_KEYS or .ssh/authorized_keys is a public key",
    }.items():
        done = engine.run(*mount, "-e", f"SSH_AUTHORIZED_KEYS={key}", args=("ssh",))
        assert (done.code, len(done.err.splitlines())) == (2, 1), done
        assert done.err.startswith(f"error: {said}"), done.err


def test_the_host_key_is_made_once_and_kept(engine: Engine, workspace: Path, hardened: tuple[str, ...]) -> None:
    said = []
    for _ in range(2):
        container = engine.start(
            "-v", f"{workspace}:/workspace", *hardened, "-e", f"SSH_AUTHORIZED_KEYS={KEY}", args=("ssh",)
        )
        container.wait_for("Server listening on 0.0.0.0 port 2222")
        assert container.exec("/app/entrypoint/healthcheck.sh").code == 0
        said.append(next(line for line in container.logs()[1].splitlines() if "SHA256:" in line))
        assert container.stop(10) < 8
    assert said[0] == said[1]
    key = workspace / ".ssh/host_ed25519"
    assert (key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_any_uid_may_log_in_but_not_root(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("anybody")
    folder.chmod(0o777)
    mount = ("-v", f"{folder}:/workspace", "-e", f"SSH_AUTHORIZED_KEYS={KEY}")
    other = engine.start("--user", "4711:4712", *mount, args=("ssh",))
    other.wait_for("ssh -p 2222 yolo4711@127.0.0.1")
    other.wait_for("Server listening on 0.0.0.0 port 2222")
    done = engine.run("--user", "0:0", *mount, args=("ssh",))
    assert (done.code, done.err[:36]) == (2, "error: SSH does not run as root here"), done
