"""Where things live: the project's files, the workspace, the stack that this environment was built from."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The checkout (or /app in the image): holds configs/, diag/ ..."""

CONFIGS = ROOT / "configs"
STACKS = CONFIGS / "stacks"


def workspace(flag: str | None = None) -> Path:
    """The workspace folder: flag, else $WORKSPACE, else ./workspace of the checkout."""
    return Path(flag or os.environ.get("WORKSPACE") or ROOT / "workspace").expanduser().resolve()


def offline() -> bool:
    """True if no connection may be tried: OFFLINE or YOLO_OFFLINE is set to 1/true."""
    return any(os.environ.get(name, "").lower() in {"1", "true", "yes"} for name in ("OFFLINE", "YOLO_OFFLINE"))


def trusts_checkpoints() -> bool:
    """True if model files may run code when they are loaded: TRUST_CHECKPOINT is set to 1/true."""
    return os.environ.get("TRUST_CHECKPOINT", "").lower() in {"1", "true", "yes"}


def stack() -> tuple[str, str]:
    """Name and lock SHA-256 of the stack that this environment was built from; ("", "") if unknown.

    `scripts/setup` and the Dockerfile write them into `<venv>/diag-stack` as `NAME SHA256`.
    """
    try:
        name, _, sha256 = (Path(sys.prefix) / "diag-stack").read_text().strip().partition(" ")
    except OSError:
        return "", ""
    return name, sha256
