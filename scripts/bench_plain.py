"""Ultralytics without diag: `bench_plain.py FOLDER new|resume key=value ...`; its files go to FOLDER."""

import os
import sys
from pathlib import Path

folder, how, *words = sys.argv[1:]
os.environ["YOLO_CONFIG_DIR"] = os.environ.get("YOLO_CONFIG_DIR") or str(Path(folder).parent)
from ultralytics import YOLO  # noqa: E402 # after the variable that it reads at import

from diag.train_args import parse_overrides  # noqa: E402

args = parse_overrides(words)
if how == "resume":
    YOLO(str(Path(folder) / "weights" / "last.pt")).train(resume=True)
else:
    YOLO(str(args.pop("model"))).train(**args, project=str(Path(folder).parent), name=Path(folder).name, exist_ok=True)
