"""Ultralytics in this process, quiet and offline, with settings of its own."""

import importlib
import os
from typing import Any

import pytest


@pytest.fixture(scope="session")
def ultralytics(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The imported package; the environment is as before afterwards, since other tests hand it to children."""
    quiet = {
        "YOLO_CONFIG_DIR": str(tmp_path_factory.mktemp("yolo")),
        "YOLO_OFFLINE": "true",
        "YOLO_AUTOINSTALL": "false",
        "YOLO_VERBOSE": "false",
    }
    before = {name: os.environ.get(name) for name in quiet}
    os.environ.update(quiet)
    try:
        return importlib.import_module("ultralytics")
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
