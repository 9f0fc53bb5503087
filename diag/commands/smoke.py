"""`diag smoke`: the mini-run alone."""

import argparse

from diag.commands.pipeline import add_run_arguments, run_stages

EXAMPLES = """examples:
  diag smoke                                      on the demo data set, about half a minute on two CPU cores
  diag smoke data=my/data.yaml                    3 epochs, imgsz 320, batch 4, at most 32 + 16 of your images
  diag smoke data=my/data.yaml model=yolo11n-seg.yaml --format json

arguments of the mini-run: configs/train/smoke.yaml; model, device, amp and seed are taken from yours
exit codes: 0 every verdict passed or warned, 1 one failed, 2 wrong input, 3 internal error"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    add_run_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Resolve the data and make the mini-run."""
    return run_stages(args, ("data", "smoke"))
