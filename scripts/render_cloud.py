"""Render deploy/* and .devcontainer/devcontainer.json from configs/cloud.yaml; `--check` only compares.

Each function renders one file from the settings. What a platform needs is said beside the line that does it.
"""

import json
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
NOTE = "Rendered by scripts/render_cloud from configs/cloud.yaml; edit that. How to use it: docs/cloud.md"
Settings = Mapping[str, Any]


def train_args(s: Settings) -> list[str]:
    """The arguments after the image: the command and those of the pipeline."""
    return ["train", *s["args"], f"name={s['name']}"]


def docker_run(s: Settings, workspace: str) -> str:
    """`docker run` as compose does it, for a machine of one's own; lines end in a backslash."""
    lines = [
        f"docker run --rm --name {s['name']} --gpus all",
        f"--user {s['uid']}:{s['uid']} --cap-drop ALL --security-opt no-new-privileges",
        f"--shm-size {s['shm_gb']}g --stop-timeout {s['grace_seconds']}",
        f"-v {workspace}:/workspace",
        f'"$IMAGE" {shlex.join(train_args(s))}',
    ]
    return " \\\n  ".join(lines)


def skypilot(s: Settings) -> str:
    """A task on a virtual machine: SkyPilot's own container mode needs root and sudo in the image, ours has neither."""
    run = (
        "# What is written goes to the bucket; a job that was preempted finds it there and goes on.\n"
        f"sudo chown {s['uid']}:{s['uid']} /checkpoints || true\n"
        # The machine's end is a SIGTERM to this script: the container ends at a batch boundary.
        f"trap 'docker stop -t {s['grace_seconds']} {s['name']}' TERM INT\n"
        + docker_run(s, "/checkpoints")
        + " &\nwait $!\n"
    )
    task = {
        "name": s["name"],
        "resources": {
            "accelerators": dict.fromkeys(s["gpu_types"], s["gpus"]),
            "cpus": f"{s['cpus']}+",
            "memory": f"{s['memory_gb']}+",
            "disk_size": s["disk_gb"],
            "use_spot": True,
        },
        "envs": {"IMAGE": s["image"]},
        "file_mounts": {"/checkpoints": {"name": f"{s['name']}-workspace", "mode": "MOUNT_CACHED"}},
        "setup": 'docker pull -q "$IMAGE"\n',
        "run": run,
    }
    return f"# {NOTE}\n#   sky jobs launch deploy/skypilot.yaml\n" + dump(task)


def kubernetes(s: Settings) -> str:
    """A volume that outlives pods, and a Job whose pod may be replaced: the new one finds the run there and goes on."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"{s['name']}-workspace"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": f"{s['workspace_gb']}Gi"}},
        },
    }
    size = {"cpu": str(s["cpus"]), "memory": f"{s['memory_gb']}Gi"}
    container = {
        "name": "train",
        "image": s["image"],
        # `args` and no `command`: the image's entrypoint with its init stays.
        "args": train_args(s),
        "resources": {"requests": size, "limits": {**size, "nvidia.com/gpu": s["gpus"]}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": False,
        },
        "volumeMounts": [
            {"name": "workspace", "mountPath": "/workspace"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
        # A training that hangs makes the check fail; three minutes of it, and the pod is replaced.
        "livenessProbe": {
            "exec": {"command": ["/app/entrypoint/healthcheck.sh"]},
            "initialDelaySeconds": 60,
            "periodSeconds": 60,
            "timeoutSeconds": 10,
            "failureThreshold": 3,
        },
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": s["grace_seconds"],
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": s["uid"],
            "runAsGroup": s["uid"],
            "fsGroup": s["uid"],
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [container],
        "volumes": [
            {"name": "workspace", "persistentVolumeClaim": {"claimName": f"{s['name']}-workspace"}},
            # Kubernetes' own /dev/shm has 64 MB; this one counts as memory of the pod.
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{s['shm_gb']}Gi"}},
        ],
    }
    # 2 is wrong input: another pod would say the same. An eviction costs none of the tries.
    rules = [
        {"action": "FailJob", "onExitCodes": {"containerName": "train", "operator": "In", "values": [2]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": s["name"]},
        "spec": {
            "backoffLimit": 3,
            "activeDeadlineSeconds": s["hours"] * 3600,
            "podFailurePolicy": {"rules": rules},
            "template": {"metadata": {"labels": {"app": s["name"]}}, "spec": pod},
        },
    }
    return f"# {NOTE}\n#   kubectl apply -f deploy/kubernetes.yaml\n{dump(claim)}---\n{dump(job)}"


def slurm(s: Settings) -> str:
    """A batch job with Apptainer. Slurm sends SIGTERM before the limit, and --requeue starts the job again."""
    return f"""#!/usr/bin/env bash
# {NOTE}
#   sbatch deploy/slurm.sbatch
#SBATCH --job-name={s["name"]}
#SBATCH --gpus={s["gpus"]}
#SBATCH --cpus-per-task={s["cpus"]}
#SBATCH --mem={s["memory_gb"]}G
#SBATCH --time={s["hours"]}:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={s["name"]}-%j.log
#SBATCH --signal=B:TERM@{s["grace_seconds"]}
set -euo pipefail

sif=${{SIF:-$SLURM_SUBMIT_DIR/yolo-diag.sif}}
workspace=${{WORKSPACE_DIR:-$SLURM_SUBMIT_DIR/workspace}}
mkdir -p "$workspace"
if [ ! -f "$sif" ]; then
    echo "no $sif; make it once, on a machine with a connection: deploy/apptainer.sh build" >&2
    exit 2
fi

# The signal comes to this shell alone: pass it on, wait for the checkpoint, and let Slurm start the job again.
stop() {{
    kill -TERM "$child" 2>/dev/null || true
    wait "$child" || true
    scontrol requeue "$SLURM_JOB_ID"
    exit 143
}}
trap stop TERM
# Not `apptainer run`: the image's tini wants to be process 1 or a subreaper, and Apptainer has an init of its own.
apptainer exec --nv --containall --no-home --writable-tmpfs --bind "$workspace:/workspace" --pwd /workspace "$sif" \\
    /app/entrypoint/entrypoint.sh {shlex.join(train_args(s))} &
child=$!
wait "$child"
"""


def apptainer(s: Settings) -> str:
    """Build the file that Slurm and a single machine run, and run it."""
    return f"""#!/usr/bin/env bash
# {NOTE}
#   deploy/apptainer.sh build    yolo-diag.sif from the image that Docker has here, else from where you pushed it
#   deploy/apptainer.sh run      train on this machine
set -euo pipefail

IMAGE=${{IMAGE:-{s["image"]}}}
sif=${{SIF:-yolo-diag.sif}}
workspace=${{WORKSPACE_DIR:-$PWD/workspace}}

case ${{1:-}} in
    build)
        if docker image inspect yolo-diag:cu13 >/dev/null 2>&1; then
            apptainer build "$sif" docker-daemon://yolo-diag:cu13
        else
            apptainer build "$sif" "docker://$IMAGE"
        fi
        ;;
    run)
        mkdir -p "$workspace"
        exec apptainer exec --nv --containall --no-home --writable-tmpfs \\
            --bind "$workspace:/workspace" --pwd /workspace "$sif" \\
            /app/entrypoint/entrypoint.sh {shlex.join(train_args(s))}
        ;;
    *)
        sed -n '3,4s/^# \\{{0,1\\}}//p' "$0"
        exit 2
        ;;
esac
"""


def runpod(s: Settings) -> str:
    """One pod with a volume. RunPod starts the image's entrypoint with these arguments."""
    return f"""#!/usr/bin/env bash
# {NOTE}
#   deploy/runpod.sh             runpodctl must know your API key (runpodctl config)
set -euo pipefail

IMAGE=${{IMAGE:-{s["image"]}}}
runpodctl create pod \\
    --name {s["name"]} \\
    --imageName "$IMAGE" \\
    --gpuType {shlex.quote(s["runpod_gpu"])} \\
    --gpuCount {s["gpus"]} \\
    --vcpu {s["cpus"]} \\
    --mem {s["memory_gb"]} \\
    --containerDiskSize 20 \\
    --volumeSize {s["workspace_gb"]} \\
    --volumePath /workspace \\
    --args {shlex.quote(shlex.join(train_args(s)))}
"""


def vast(s: Settings) -> str:
    """The cheapest offer that fits. `--args` keeps the image's entrypoint; Vast's ssh and jupyter modes replace it."""
    return f"""#!/usr/bin/env bash
# {NOTE}
#   deploy/vast.sh               vastai must know your API key (vastai set api-key)
#   deploy/vast.sh OFFER         on an offer that you chose
set -euo pipefail

IMAGE=${{IMAGE:-{s["image"]}}}
offer=${{1:-}}
if [ -z "$offer" ]; then
    offer=$(vastai search offers {shlex.quote(s["vast_query"])} --order dph_total --limit 1 --raw |
        python3 -c 'import json, sys; found = json.load(sys.stdin); print(found[0]["id"] if found else "")')
    [ -n "$offer" ] || {{ echo "no offer fits: {s["vast_query"]}" >&2; exit 1; }}
fi
vastai create instance "$offer" \\
    --image "$IMAGE" \\
    --disk {s["disk_gb"]} \\
    --label {s["name"]} \\
    --env='--shm-size={s["shm_gb"]}g' \\
    --args {shlex.join(train_args(s))}
"""


def devcontainer(s: Settings) -> str:
    """The service `shell` of compose.yaml as a development container: same image, user, limits and workspace."""
    told = {
        "name": "yolo-diag",
        "dockerComposeFile": ["../compose.yaml"],
        "service": "shell",
        "runServices": ["shell"],
        "workspaceFolder": "/workspace",
        "shutdownAction": "stopCompose",
        "initializeCommand": "scripts/init",
        "overrideCommand": True,
        "hostRequirements": {"cpus": 2, "memory": "8gb", "storage": "32gb", "gpu": "optional"},
        "customizations": {"vscode": {"extensions": ["ms-python.python", "ms-toolsai.jupyter"]}},
    }
    return f"// {NOTE}\n" + json.dumps(told, indent=2) + "\n"


FILES: dict[str, Callable[[Settings], str]] = {
    "deploy/skypilot.yaml": skypilot,
    "deploy/kubernetes.yaml": kubernetes,
    "deploy/slurm.sbatch": slurm,
    "deploy/apptainer.sh": apptainer,
    "deploy/runpod.sh": runpod,
    "deploy/vast.sh": vast,
    ".devcontainer/devcontainer.json": devcontainer,
}


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, lists indented as people write them."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def dump(value: Any) -> str:
    """YAML in the order given."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=120))


def main() -> int:
    """Write the files, or with `--check` say which ones differ."""
    settings = yaml.safe_load((ROOT / "configs/cloud.yaml").read_text(encoding="utf-8"))
    stale = []
    for name, render in FILES.items():
        text, file = render(settings), ROOT / name
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            file.chmod(0o755 if text.startswith("#!") else 0o644)
    if stale:
        print("not up to date, run scripts/render_cloud:" if "--check" in sys.argv else "written:", *stale)
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
