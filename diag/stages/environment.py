"""The environment variables of a training child: nothing phones home, nothing is installed, files in the workspace."""

import importlib.metadata
import os
from pathlib import Path

from diag import settings
from diag.child import Stopper, run_child
from diag.errors import DiagError


def child_env(workspace: Path, stopper: Stopper) -> dict[str, str]:
    """Variables for Ultralytics and its libraries; a YOLO_CONFIG_DIR that is set already (the image) is kept.

    Seeds the Ultralytics settings of the workspace on the first use of a release (about four seconds).
    """
    env = {
        "YOLO_AUTOINSTALL": "false",
        "MPLCONFIGDIR": os.environ.get("MPLCONFIGDIR") or str(workspace / "cache" / "matplotlib"),
        "PYTHONUNBUFFERED": "1",
    }
    if not settings.trusts_checkpoints():
        # Ultralytics' own guard, the second one behind diag.probe.checkpoint: weights_only, and no eval of model yamls.
        env["ULTRALYTICS_SAFE_LOAD"] = "true"
    if settings.offline():
        env |= {"YOLO_OFFLINE": "true", "HF_HUB_OFFLINE": "1"}
    if os.environ.get("YOLO_CONFIG_DIR"):
        return env
    config = workspace / "cache" / f"ultralytics-{importlib.metadata.version('ultralytics')}"
    env["YOLO_CONFIG_DIR"] = str(config)
    if not (config / "seeded").exists():
        console = workspace / "cache" / "seed-settings.log"
        ended = run_child(
            "diag.record.seed_settings",
            [str(config), "--root", str(workspace)],
            console=console,
            env=env,
            stopper=stopper,
        )
        if ended.cause.kind != "finished":
            raise DiagError(f"Ultralytics could not be set up: {ended.cause.detail}; see {console}")
        (config / "seeded").touch()
    return env
