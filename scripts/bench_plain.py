"""Ultralytics without diag: `bench_plain.py FOLDER new|resume key=value ...`; its files go to FOLDER."""

import sys
from pathlib import Path

from ultralytics import YOLO

from diag.train_args import parse_overrides

folder, how, *words = sys.argv[1:]

args = parse_overrides(words)
if how == "resume":
    YOLO(str(Path(folder) / "weights" / "last.pt")).train(resume=True)
else:
    YOLO(str(args.pop("model"))).train(**args, project=str(Path(folder).parent), name=Path(folder).name, exist_ok=True)
