"""Fill a configuration folder for Ultralytics: `python -m diag.record.seed_settings DIR [--root WORKSPACE]`.

Telemetry off, TensorBoard on, data sets and weights in the workspace, and the two fonts of the plots in place, so
that nothing is asked of the network. It runs with YOLO_OFFLINE set: the very first import must not phone home.
"""

import argparse
import importlib.util
import os
import shutil
from pathlib import Path

INTEGRATIONS = ("clearml", "comet", "dvc", "mlflow", "raytune", "wandb")
"""Loggers that send data elsewhere; a user turns one on with `yolo settings NAME=True`."""


def seed(folder: Path, root: Path) -> None:
    """Write settings.json (through Ultralytics itself, so that it fits the release) and the fonts."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["YOLO_CONFIG_DIR"] = str(folder)
    os.environ["YOLO_OFFLINE"] = "true"
    from ultralytics.utils import SETTINGS, USER_CONFIG_DIR

    wanted = {
        "sync": False,
        "tensorboard": True,
        "datasets_dir": str(root / "datasets"),
        "weights_dir": str(root / "weights"),
        "runs_dir": str(root / "runs"),
        **dict.fromkeys(INTEGRATIONS, False),
    }
    SETTINGS.update({key: value for key, value in wanted.items() if key in SETTINGS})
    spec = importlib.util.find_spec("matplotlib")  # found, not imported: that would take a second
    if spec and spec.origin:
        font = Path(spec.origin).parent / "mpl-data/fonts/ttf/DejaVuSans.ttf"
        for name in ("Arial.ttf", "Arial.Unicode.ttf"):
            shutil.copyfile(font, USER_CONFIG_DIR / name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--root", type=Path, default=Path("/workspace"))
    options = parser.parse_args()
    seed(options.folder.resolve(), options.root.resolve())
