"""What is in the image, what is not, and who may run it."""

import hashlib
import json
import re
import time
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.container.engine import ROOT, STACK, Engine, base_image, command, docker, project
from tests.container.layers import files

pytestmark = pytest.mark.container
PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{40}")
TEST_KEYS = ("/tornado/test/test.key",)
"""Keys that packages publish with their tests."""


def config_of(image: str) -> dict[str, object]:
    loaded: dict[str, object] = json.loads(docker("image", "inspect", "-f", "{{json .Config}}", image))
    return loaded


def test_labels_and_manifest_name_the_lock(engine: Engine) -> None:
    lock = (ROOT / "configs/stacks" / f"{STACK}.lock").read_bytes()
    labels = config_of(engine.image)["Labels"]
    assert isinstance(labels, dict)
    assert (labels["diag.stack"], labels["diag.lock.sha256"]) == (STACK, hashlib.sha256(lock).hexdigest())
    done = engine.run(
        args=("bash", "-c", "cat /opt/venv/diag-stack; cat /opt/manifest/python.txt /opt/manifest/debian.txt")
    )
    stamp, *packages = done.out.splitlines()
    assert stamp == f"{STACK} {labels['diag.lock.sha256']}"
    locked = set(re.findall(r"^([\w.-]+==[\w.+-]+)", lock.decode(), re.MULTILINE))
    assert locked == {line for line in packages if "==" in line}
    assert any(line.startswith("tini ") for line in packages)


def test_runs_as_nobody_special_with_tini_and_no_ports(engine: Engine) -> None:
    config = config_of(engine.image)
    assert config["User"] == "1000:1000"
    assert config["Entrypoint"] == ["tini", "--", "/app/entrypoint/entrypoint.sh"]
    assert "ExposedPorts" not in config
    assert engine.run(args=("cat", "/proc/1/comm")).out == "tini\n"


def test_nothing_of_the_ca_secret_and_no_keys_stay(engine: Engine) -> None:
    history = docker("history", "--no-trunc", "--format", "{{.CreatedBy}}", engine.image)
    assert "BEGIN CERTIFICATE" not in history
    names = " -o ".join(f"-name {name}" for name in ("ca.pem", "ssh_host_*", "id_rsa*", "id_ed25519*", ".netrc"))
    assert engine.run("--user", "0:0", args=("find", "/", "-xdev", *names.split())).out == ""
    assert engine.run(args=("bash", "-c", "env | grep -iE 'cert|token|secret|index' || true")).out == ""


def test_no_layer_holds_a_secret(engine: Engine) -> None:
    """Also files that a later layer removed: host keys that a package made, tokens, the CA of the build."""
    names = (
        "ssh_host_*",
        "id_rsa*",
        "id_dsa*",
        "id_ecdsa*",
        "id_ed25519*",
        ".netrc",
        ".token",
        "ca.pem",
        ".env",
        "*.kdbx",
    )
    seen, bad = 0, []
    for path, content in files(engine.image):
        seen += 1
        if any(fnmatch(path.rpartition("/")[2], name) for name in names) or (
            PRIVATE_KEY.search(content) and not path.endswith(TEST_KEYS)
        ):
            bad.append(path)
    assert seen > 20_000
    assert bad == []


BUDGET_BYTES = 5.5e9
"""Upper limit of the image, uncompressed; `scripts/image_table` shows what is in it."""


def test_the_image_keeps_to_its_budget(engine: Engine) -> None:
    assert int(docker("image", "inspect", "-f", "{{.Size}}", engine.image)) <= BUDGET_BYTES
    table = command("scripts/image_table", engine.image)
    assert table.code == 0, table.err
    sizes = dict(re.findall(r"^\| ([\w ]+?) (?:\| [\w.]+ )?\| ([\d.]+) \|$", table.out, re.MULTILINE))
    assert float(sizes["torch"]) > 500 and float(sizes["code"]) < 10, table.out
    # What was left out stays out: only torch.compile uses it.
    assert engine.run(args=("python", "-c", "import triton")).code == 1


def test_nothing_is_compiled_at_each_start(engine: Engine) -> None:
    """A read-only root keeps no bytecode, so every process would compile what it imports, torch for seconds."""
    script = (
        "import sys, importlib.util as u, os\n"
        "import torch.utils.tensorboard, torchvision, ultralytics.models.yolo, jupyterlab.labapp, tensorboard.main\n"
        "import diag.engine, diag.rules, diag.load, diag.render\n"
        "files = [m.__file__ for m in sys.modules.values() if os.path.isfile(getattr(m, '__file__', None) or '')]\n"
        "print(len(files), *[f for f in files if f.endswith('.py') and not os.path.exists(u.cache_from_source(f))])"
    )
    count, *lacking = engine.run(args=("python", "-c", script)).out.split()
    assert int(count) > 1000
    assert lacking == []


FOREIGN = r"lib(cuda|mlx5|rdmacm|ibverbs|ucs|ucp|pmix|fabric|oshmem|mpi)\.so\.\d+"
"""Libraries that only the host's driver or a cluster's fabric brings; what wants them is loaded only there."""


def test_no_library_lacks_another_one(engine: Engine) -> None:
    """A lib that was deleted too much would show up on a GPU only, where no test runs: so ask the linker for all."""
    script = (
        "cd /opt/venv/lib/python3.11/site-packages; find . -name '*.so*' -type f | tee /dev/stderr | xargs -d '\\n' "
        "ldd 2>/dev/null | sed -n 's/^\\t\\(\\S*\\) => not found$/\\1/p' | sort -u"
    )
    done = engine.run(args=("bash", "-c", script))
    present = {Path(line).name for line in done.err.splitlines()}
    assert {"libtorch_cuda.so", "libcudnn_graph.so.9"} <= present
    lack = [name for name in done.out.split() if name not in present and not re.fullmatch(FOREIGN, name)]
    assert lack == []
    assert "libcuda.so.1" in done.out  # the question was one that can be answered with "not found"


def test_no_tools_that_a_running_container_should_not_have(engine: Engine) -> None:
    assert engine.run(args=("bash", "-c", "command -v sudo gcc git pip || true")).out == ""


def test_any_uid_has_a_name_a_home_and_may_not_become_root(engine: Engine) -> None:
    script = (
        "whoami; touch ~/mine && echo home; python -c 'import getpass; print(getpass.getuser())';"
        "echo 'evil:x:0:0::/:/bin/sh' >>/var/lib/extrausers/passwd; getent passwd evil || echo no evil;"
        "touch /app/x /opt/venv/x 2>&1 | grep -c denied"
    )
    done = engine.run("--user", "4711:4712", "--cap-drop", "ALL", args=("bash", "-c", script))
    assert done.out.splitlines() == ["yolo4711", "home", "yolo4711", "no evil", "2"]


def test_ultralytics_is_seeded_and_silent(engine: Engine) -> None:
    script = (
        "from ultralytics import SETTINGS as s; from ultralytics.utils import USER_CONFIG_DIR as d, AUTOINSTALL as a\n"
        "print(s['sync'], s['tensorboard'], a, sorted(p.name for p in d.glob('*.ttf')))"
    )
    done = engine.run("--network", "none", "--user", "4711:4712", args=("python", "-c", script))
    assert done.out == "False True False ['Arial.Unicode.ttf', 'Arial.ttf']\n"


def test_a_change_of_code_rebuilds_in_seconds(engine: Engine, tmp_path: Path) -> None:
    with project(tmp_path, UV_NO_CACHE="1", STACK=STACK) as clone:
        (tmp_path / "diag/added.py").write_text("ANSWER = 42\n")
        begun = time.monotonic()
        tag = "yolo-diag:test-rebuild"
        options = ("--build-arg", "UV_NO_CACHE=1", "--build-arg", f"STACK={STACK}", *base_image())
        done = clone.call("docker", "build", "-t", tag, *options, "--secret", "id=ca,src=/dev/null", ".")
        seconds = time.monotonic() - begun
    try:
        assert done.code == 0, done.err
        assert re.search(r"uv pip sync[^\n]*\n#\d+ CACHED", done.err), done.err
        assert command("docker", "run", "--rm", tag, "python", "-c", "import diag.added").code == 0
        # 2 s on two cores; a busy machine gets more, yet less than anything but the code would take
        assert seconds < 15
    finally:
        command("docker", "rmi", tag)
