"""`diag analyze PATH`: judge a finished run from its files."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diag.model.evidence import Evidence
    from diag.model.finding import Report

EXAMPLES = """examples:
  diag analyze workspace/runs/20260102-030405      a run of `diag train` or `diag pipeline`
  diag analyze runs/detect/train                   any Ultralytics run folder
  diag analyze results.csv                         curves alone
  diag analyze A B                                 two runs: what differs, and what that explains
  diag analyze run.zip                             a zip or tar of a run folder
  diag analyze train.ipynb                         a notebook with the outputs of a training
  diag analyze issue.md                            what somebody pasted into an issue
  some-training 2>&1 | diag analyze -              a console log on standard input
  diag analyze train.log --lang zh                 step times alone, in Chinese
  diag analyze RUN --format json | jq .verdict     one JSON object
  diag analyze RUN --fail-on high                  exit 1 when something high or critical is found
  diag analyze RUN --rules strict                  thresholds of configs/rules/strict.yaml (or a file)

exit codes: 0 analysed, 1 --fail-on reached, 2 input error, 3 internal error"""

MAX_PATHS = 50
_LEVELS = ("info", "low", "medium", "high", "critical")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument(
        "path", metavar="PATH", nargs="*", help="run folder, results.csv, log, archive or -; several are compared"
    )
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="default: text")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of text and Markdown")
    parser.add_argument("--rules", metavar="FILE", help="thresholds: a profile of configs/rules or a YAML file")
    parser.add_argument(
        "--fail-on", metavar="LEVEL", choices=_LEVELS, help=f"exit 1 from this severity on: {', '.join(_LEVELS)}"
    )
    parser.add_argument(
        "--report", action="store_true", help="also write report.json and report.md into the run folder"
    )


def run(args: argparse.Namespace) -> int:
    """Load, evaluate, render. Returns 1 only if `--fail-on` is reached."""
    import os
    import shutil

    from diag import settings
    from diag.codec import to_json
    from diag.engine import evaluate
    from diag.errors import EXIT_FAILED, EXIT_OK, InputError
    from diag.live.state import run_state
    from diag.load import load_runs
    from diag.load.profile import load_profile
    from diag.load.quote import quoted
    from diag.load.run import ACCEPTED
    from diag.model.finding import Severity
    from diag.render import console, jsonfile, markdown

    if not args.path:
        raise InputError(f"no PATH given; give {ACCEPTED}")
    overrides = load_profile(args.rules, settings.CONFIGS / "rules") if args.rules else None
    if len(args.path) > MAX_PATHS:
        raise InputError(f"{len(args.path)} paths are too many to compare; give at most {MAX_PATHS}")
    evidence = load_runs([Path(path) for path in args.path])
    state = run_state(Path(args.path[0])) if len(args.path) == 1 else None
    living = state is not None and state.why == "lock"
    if living:
        print("note: this run still trains; what only its end can show is left out (diag watch)", file=sys.stderr)
    report = evaluate(evidence, overrides=overrides, living=living)
    if len(args.path) == 1 and args.path[0] != "-":
        report = quoted(report, Path(args.path[0]))
    if args.report:
        write_reports(Path(args.path[0]), report, evidence, lang=args.lang)
    if args.format == "json":
        print(to_json(jsonfile.report_dict(report, evidence)))
    elif args.format == "markdown":
        print(markdown.report(report, evidence, lang=args.lang), end="")
    else:
        color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        width = shutil.get_terminal_size((100, 24)).columns
        print(console.report(report, evidence, lang=args.lang, color=color, width=width), end="")
    reached = args.fail_on and any(f.severity.rank >= Severity(args.fail_on).rank for f in report.findings)
    return EXIT_FAILED if reached else EXIT_OK


def write_reports(path: Path, report: "Report", evidence: "Evidence", *, lang: str) -> None:
    """report.json and report.md into the run folder (beside a single file)."""
    from diag.codec import write_json, write_text
    from diag.errors import InputError
    from diag.render import jsonfile, markdown

    folder = path if path.is_dir() else Path.cwd() if str(path) == "-" else path.parent
    try:
        write_json(folder / "report.json", jsonfile.report_dict(report, evidence))
        write_text(folder / "report.md", markdown.report(report, evidence, lang=lang))
    except OSError as error:
        raise InputError(f"{folder}: can't write the report: {error.strerror}") from error
