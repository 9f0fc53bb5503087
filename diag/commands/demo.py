"""`diag demo`: draw the demo data set."""

import argparse

EXAMPLES = """examples:
  diag demo                         WORKSPACE/datasets/demo-detect
  diag demo DIR --task segment      somewhere else, with polygons"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("folder", nargs="?", metavar="DIR", help="where to draw it; must be new, empty or a demo set")
    parser.add_argument("--task", choices=("detect", "segment"), default="detect")
    parser.add_argument("--workspace", metavar="DIR", help="default: $WORKSPACE, else ./workspace")


def run(args: argparse.Namespace) -> int:
    """Draw it and print the path of its data.yaml."""
    from pathlib import Path

    from diag import settings
    from diag.dataset.demo import make_demo
    from diag.errors import InputError

    folder = Path(args.folder) if args.folder else settings.workspace(args.workspace) / "datasets" / f"demo-{args.task}"
    is_demo = any(folder.glob("version-*"))
    if folder.exists() and not is_demo and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: not empty and not a demo data set; it will not be overwritten")
    print(make_demo(folder, args.task))
    return 0
