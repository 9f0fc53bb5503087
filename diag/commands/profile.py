"""`diag profile`: which operators and layers take the time of a training step."""

import argparse
import sys
from pathlib import Path

EXAMPLES = """examples:
  diag profile workspace/runs/20260102-030405          the training of a run, 5 batches after 5 warm-up batches
  diag profile data=my/data.yaml model=yolo11n.pt imgsz=640 batch=16 device=0
  diag profile RUN --steps 3 --format json

writes RUN/profile/profile.json and trace.json (open it at ui.perfetto.dev or chrome://tracing)
exit codes: 0 profiled, 1 failed, 2 wrong input, 3 internal error"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("what", nargs="*", metavar="RUN|key=value", help="a run folder, or any Ultralytics arguments")
    parser.add_argument("--steps", type=int, default=5, metavar="N", help="batches to profile (default: 5)")
    parser.add_argument("--warmup", type=int, default=5, metavar="N", help="batches before them (default: 5)")
    parser.add_argument("--workspace", metavar="DIR", help="default: $WORKSPACE, else ./workspace")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--lang", choices=("en", "zh"), default="en")


def run(args: argparse.Namespace) -> int:
    """Profile, print, and renew the run's report."""
    from diag import settings
    from diag.child import Stopper
    from diag.codec import to_json
    from diag.errors import InputError
    from diag.render import profile as render
    from diag.screen import Screen
    from diag.stages.profile import prepare, run_profile

    if not 1 <= args.steps <= 100 or not 1 <= args.warmup <= 1000:
        raise InputError("--steps: 1 to 100, --warmup: 1 to 1000")
    workspace = settings.workspace(args.workspace)
    screen = Screen(sys.stderr)
    existing = Path(args.what[0]) if len(args.what) == 1 and "=" not in args.what[0] else None
    with Stopper() as stopper:
        if existing is None:
            run_dir = prepare(args.what, workspace, screen, stopper, cwd=Path.cwd()).run_dir
        else:
            run_dir = existing.resolve()
        profile = run_profile(
            run_dir, workspace, screen, stopper, steps=args.steps, warmup=args.warmup, new=existing is None
        )
    _renew_report(run_dir, args.lang)
    if args.format == "json":
        print(to_json(profile))
        return 0
    print(render.profile_note(profile, args.lang) + "\n")
    print(render.table(render.columns(render.OPERATOR_COLUMNS, args.lang), render.operator_rows(profile)))
    print(render.table(render.columns(render.LAYER_COLUMNS, args.lang), render.layer_rows(profile)))
    print(run_dir / "profile")
    return 0


def _renew_report(run_dir: Path, lang: str) -> None:
    """report.md gets its section where there is a report."""
    from diag.commands.analyze import write_reports
    from diag.engine import evaluate
    from diag.load import load_run

    if (run_dir / "report.md").exists():
        evidence = load_run(run_dir)
        write_reports(run_dir, evaluate(evidence), evidence, lang=lang)
