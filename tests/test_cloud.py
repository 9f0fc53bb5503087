"""The files in deploy/ and the dev container: as configs/cloud.yaml says, valid, and with what a platform needs.

SkyPilot's and the dev container's own tools are too large for the test environment; docs/cloud.md says when they were
asked last.
"""

import importlib.util
import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.processes import ended

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = yaml.safe_load((ROOT / "configs/cloud.yaml").read_text())
WORDS = ["train", *SETTINGS["args"], f"name={SETTINGS['name']}"]


def test_rendered_files_are_up_to_date(tmp_path: Path) -> None:
    done = subprocess.run([ROOT / "scripts/render_cloud", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_change_of_the_source_reaches_every_file() -> None:
    spec = importlib.util.spec_from_file_location("render_cloud", ROOT / "scripts/render_cloud.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    changed = {**SETTINGS, "image": "me/other:cu12", "args": ["epochs=7"], "name": "other"}
    for name, render in module.FILES.items():
        text = render(changed)
        assert name.startswith(".devcontainer") or "me/other:cu12" in text or name.endswith(".sbatch"), name
        assert name.startswith(".devcontainer") or re.search(r"train.{0,9}\s.*epochs=7|epochs=7", text), name
        assert "YOUR-NAME" not in text


def kubernetes() -> tuple[dict[str, Any], dict[str, Any]]:
    claim, job = yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text())
    return claim, job


@pytest.mark.parametrize("version", ["1.31", "1.34"])
def test_kubernetes_accepts_the_job(version: str) -> None:
    for document in kubernetes():
        kubernetes_validate.validate(document, version, strict=True)
    broken = kubernetes()[1]
    broken["spec"]["template"]["spec"]["containers"][0]["resorces"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, version, strict=True)


def test_the_pod_is_fenced_in_and_has_shared_memory() -> None:
    claim, job = kubernetes()
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 1000)
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["resources"]["limits"]["nvidia.com/gpu"] == SETTINGS["gpus"]
    assert container["args"] == WORDS and "command" not in container
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    assert mounts["/dev/shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": f"{SETTINGS['shm_gb']}Gi"}
    assert mounts["/workspace"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert pod["terminationGracePeriodSeconds"] >= 120  # what a stop may take: KILL_AFTER_S in diag/child.py
    # podFailurePolicy is refused by the API server with any other restart policy.
    assert pod["restartPolicy"] == "Never"


def called(tmp_path: Path, script: str, *names: str, answer: str = "") -> list[list[str]]:
    """Run a script with stand-ins for the platform's tool; the arguments of each call."""
    log = tmp_path / "calls"
    for name in names:
        tool = tmp_path / name
        tool.write_text(f'#!/usr/bin/env bash\nprintf "%s\\0" "{name}" "$@" >>"{log}"; echo >>"{log}"\n{answer}\n')
        tool.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([ROOT / script], env=env, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return [line.split("\0")[:-1] for line in log.read_text().splitlines()]


def test_runpod_gets_the_arguments_as_they_are(tmp_path: Path) -> None:
    ((_, *words),) = called(tmp_path, "deploy/runpod.sh", "runpodctl")
    assert words[:2] == ["create", "pod"]
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert shlex.split(options["--args"]) == WORDS
    assert (options["--gpuType"], options["--volumePath"]) == (SETTINGS["runpod_gpu"], "/workspace")


def test_vast_takes_the_first_offer_and_keeps_the_entrypoint(tmp_path: Path) -> None:
    answer = '[ "$1" != search ] || echo \'[{"id": 4711}]\''
    search, create = called(tmp_path, "deploy/vast.sh", "vastai", answer=answer)
    assert search[1:4] == ["search", "offers", SETTINGS["vast_query"]]
    assert create[1:4] == ["create", "instance", "4711"]
    assert create[create.index("--args") + 1 :] == WORDS
    assert not {"--ssh", "--jupyter"} & set(create)


def test_slurm_passes_the_stop_on_and_comes_back(tmp_path: Path) -> None:
    """The stand-in for Apptainer ends as a training does that is asked to stop."""
    (tmp_path / "yolo-diag.sif").touch()
    tools = {
        "apptainer": 'printf "%s\\n" "$@" >args; trap "echo stopped >how; exit 143" TERM; echo up; sleep 30 & wait',
        "scontrol": 'echo "$@" >requeued',
    }
    for name, script in tools.items():
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{script}\n")
        (tmp_path / name).chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    env |= {"SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_JOB_ID": "7"}
    command = ["bash", str(ROOT / "deploy/slurm.sbatch")]
    with ended(subprocess.Popen(command, env=env, cwd=tmp_path, stdout=subprocess.PIPE, text=True)) as job:
        assert job.stdout and job.stdout.readline() == "up\n"
        job.terminate()
        assert job.wait(20) == 143
    assert (tmp_path / "how").read_text() == "stopped\n"
    assert (tmp_path / "requeued").read_text() == "requeue 7\n"
    words = (tmp_path / "args").read_text().split("\n")
    assert words[:2] == ["exec", "--nv"]
    assert words[words.index("/app/entrypoint/entrypoint.sh") + 1 :] == [*WORDS, ""]


def test_skypilot_runs_the_image_as_compose_does() -> None:
    task = yaml.safe_load((ROOT / "deploy/skypilot.yaml").read_text())
    assert task["envs"]["IMAGE"] == SETTINGS["image"]
    assert subprocess.run(["bash", "-n"], input=task["run"], text=True, check=False).returncode == 0
    words = shlex.split(task["run"].partition("docker run")[2].replace("\\\n", " "))
    assert words[words.index("$IMAGE") + 1 : words.index("&")] == WORDS
    assert {"ALL", "no-new-privileges", f"{SETTINGS['shm_gb']}g"} <= set(words)
    (mount,) = task["file_mounts"]
    assert f"{mount}:/workspace" in words


def test_the_dev_container_is_a_service_of_compose() -> None:
    text = (ROOT / ".devcontainer/devcontainer.json").read_text()
    told = json.loads("\n".join(line for line in text.splitlines() if not line.startswith("//")))
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    assert told["service"] in compose["services"]
    assert (ROOT / ".devcontainer" / told["dockerComposeFile"][0]).resolve() == ROOT / "compose.yaml"
    assert os.access(ROOT / told["initializeCommand"], os.X_OK)
