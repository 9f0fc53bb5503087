"""Real runs of the real command, small enough to be run by everybody."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from diag import settings
from tests.processes import run

SHARED = settings.ROOT.parent / "shared"
DIAG = settings.ROOT / ".venv" / "bin" / "diag"
TINY = ("epochs=2", "imgsz=64", "batch=16", "device=cpu", "plots=False")

Diag = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One workspace for all runs, so that the demo set and the settings are made once."""
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture
def diag(workspace: Path) -> Diag:
    """diag("train", "epochs=1") runs the installed command in the shared workspace."""

    def call(*args: str, workspace: Path = workspace, **env: str) -> subprocess.CompletedProcess[str]:
        return run([DIAG, *args], env=environment(workspace, **env), timeout=600, cwd=workspace)

    return call


def environment(workspace: Path, **more: str) -> dict[str, str]:
    """A user's environment: Ultralytics turns TensorBoard off when it sees pytest's variable."""
    hidden = {"PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTHONPATH"}
    kept = {k: v for k, v in os.environ.items() if k not in hidden}
    return {**kept, "WORKSPACE": str(workspace), "OFFLINE": "1", **more}


def summary(workspace: Path) -> dict[str, Any]:
    """latest.json, valid by its schema."""
    document: dict[str, Any] = json.loads((workspace / "health" / "latest.json").read_text())
    jsonschema.validate(document, json.loads((settings.CONFIGS / "health.schema.json").read_text()))
    return document
