"""What Ultralytics ships: data set descriptions (coco8.yaml) and model descriptions (yolo11n.yaml), by name."""

import re
from pathlib import Path

from diag.train_args import ultralytics_dir

_SCALE = re.compile(r"(\d+)([nslmx])(.+)?$")
"""yolo11n.yaml is yolo11.yaml at scale n: the expression of Ultralytics' yaml_model_load."""


def shipped_dataset(name: str) -> Path | None:
    """The description of a data set that Ultralytics knows by name, e.g. coco8.yaml."""
    folder = ultralytics_dir()
    path = folder / "cfg" / "datasets" / name if folder and Path(name).name == name else None
    return path if path and path.is_file() else None


def is_shipped_model(name: str) -> bool:
    """True if `yolo11n-seg.yaml` and the like can be built. True as well when nothing is known to compare with."""
    folder = ultralytics_dir()
    known = {p.name for p in (folder / "cfg" / "models").rglob("*.yaml")} if folder else set()
    return not known or name in known or _SCALE.sub(r"\1\3", name) in known
