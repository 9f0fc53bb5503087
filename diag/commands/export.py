"""`diag export --tensorboard RUN`: a finished run for other viewers."""

import argparse
from pathlib import Path

EXAMPLES = """examples:
  diag export --tensorboard workspace/runs/20260102-030405    writes RUN/tensorboard/
  diag export --tensorboard runs/detect/train --lang zh       any Ultralytics run folder; findings in Chinese
  tensorboard --logdir workspace/runs                         then look at it

exit codes: 0 written, 1 tensorboard is not installed, 2 input error, 3 internal error"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("--tensorboard", metavar="RUN", required=True, help="the run folder")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the findings")


def run(args: argparse.Namespace) -> int:
    """Load, evaluate, write."""
    from diag.engine import evaluate
    from diag.errors import DiagError, InputError
    from diag.load import load_run
    from diag.render.tensorboard import export

    folder = Path(args.tensorboard)
    if not folder.is_dir():
        raise InputError(f"{folder}: not a run folder")
    evidence = load_run(folder)
    try:
        print(export(folder, evidence, evaluate(evidence), lang=args.lang))
    except ImportError as error:
        raise DiagError(f"tensorboard is not installed here ({error}); use the environment of scripts/setup") from error
    except OSError as error:
        raise InputError(f"{folder}: can't write events: {error.strerror}") from error
    return 0
