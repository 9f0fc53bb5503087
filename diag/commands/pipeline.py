"""`diag pipeline`: the main job. `diag smoke` and `diag train` are parts of it."""

import argparse
import sys
from collections.abc import Sequence

EXAMPLES = """examples:
  diag pipeline                                            the demo data set, about three minutes on two CPU cores
  diag pipeline data=my/data.yaml model=yolo11n.pt epochs=50
  diag pipeline data=my/data.yaml model=yolo11n-seg.yaml imgsz=320 batch=8 device=cpu
  diag pipeline --no-smoke name=exp1 epochs=3              the run directory is WORKSPACE/runs/exp1
  diag pipeline data=my/data.yaml model=yolo11n.pt epochs=50 --fresh   leave an unfinished run of the same alone
  diag pipeline resume=True                                go on with the newest unfinished run, whatever its arguments
  OFFLINE=1 diag pipeline                                  not one connection is tried

exit codes: 0 trained, 1 a stage failed, 2 wrong input, 3 internal error, 143 stopped by SIGTERM, 130 by Ctrl-C"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    add_run_arguments(parser)
    add_fresh(parser)
    parser.add_argument("--no-check", action="store_true", help="leave out the check of the machine")
    parser.add_argument("--no-smoke", action="store_true", help="leave out the mini-run")


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of every command that makes a run."""
    parser.add_argument("args", nargs="*", metavar="key=value", help="any Ultralytics argument")
    parser.add_argument(
        "--workspace", metavar="DIR", help="for runs and summary (default: $WORKSPACE, else ./workspace)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json: the health summary on stdout")


def add_fresh(parser: argparse.ArgumentParser) -> None:
    """The argument of commands that train."""
    parser.add_argument(
        "--fresh", action="store_true", help="a new run, even if the last one with these arguments is unfinished"
    )


def run(args: argparse.Namespace) -> int:
    """Run the pipeline; returns its exit code."""
    left_out = {name for name in ("check", "smoke") if getattr(args, f"no_{name}")}
    return run_stages(args, [n for n in ("check", "data", "smoke", "train", "analyze", "report") if n not in left_out])


def run_stages(args: argparse.Namespace, stages: Sequence[str]) -> int:
    """Run some stages of the pipeline as `args` say."""
    # Late, all of it: `diag --help` must not load what training needs.
    from pathlib import Path

    from diag import settings
    from diag.pipeline import run_pipeline
    from diag.screen import Screen

    workspace = settings.workspace(args.workspace)
    as_json = args.format == "json"
    fresh = bool(getattr(args, "fresh", False))
    try:
        screen = Screen(sys.stderr if as_json else sys.stdout)
        return run_pipeline(args.args, workspace, cwd=Path.cwd(), screen=screen, stages=stages, fresh=fresh)
    finally:
        summary = workspace / "health" / "latest.json"
        if as_json and summary.exists():
            sys.stdout.write(summary.read_text(encoding="utf-8"))
