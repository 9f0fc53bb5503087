"""`diag train`: training alone, without check, mini-run and analysis."""

import argparse

from diag.commands.pipeline import add_fresh, add_run_arguments, run_stages

EXAMPLES = """examples:
  diag train data=my/data.yaml model=yolo11n.pt epochs=50
  diag train data=my/data.yaml model=rtdetr-l.yaml epochs=1 imgsz=320
  diag train data=my/data.yaml model=yolo11n.pt epochs=50   again after a stop or a crash: goes on where it was
  diag train data=my/data.yaml model=yolo11n.pt epochs=50 --fresh   a new run instead
  diag train resume=workspace/runs/ID/ultralytics/weights/last.pt   go on with that run, whatever its arguments
  diag analyze WORKSPACE/runs/ID                  afterwards: what limited it

exit codes: 0 trained, 1 failed, 2 wrong input, 3 internal error, 143 stopped by SIGTERM, 130 by Ctrl-C"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    add_run_arguments(parser)
    add_fresh(parser)


def run(args: argparse.Namespace) -> int:
    """Resolve the data and train."""
    return run_stages(args, ("data", "train"))
