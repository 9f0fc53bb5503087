"""`diag watch RUN`: judge a run while it trains."""

import argparse

EXAMPLES = """examples:
  diag watch workspace/runs/exp1                  a run of `diag train` or `diag pipeline`, in a second terminal
  diag watch runs/detect/train                    any Ultralytics folder that is being trained
  diag watch console.log                          a console log that grows
  diag watch RUN --once                           one look, then exit
  diag watch RUN --format json | tee watch.jsonl  one JSON object for each change
  diag watch RUN --lang zh --interval 60          in Chinese, a look a minute (and at each end of an epoch)

It ends by itself when the run does. Ctrl-C ends the watching, never the training.

exit codes: 0 nothing bad, 1 verdict fail or the run failed, 2 input error, 3 internal error, 130 Ctrl-C, 143 SIGTERM"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("path", metavar="RUN", help="run folder or console log")
    parser.add_argument("--once", action="store_true", help="look once and exit")
    parser.add_argument(
        "--interval", metavar="S", type=_seconds, default=10.0, help="seconds between looks (default: 10)"
    )
    parser.add_argument(
        "--patience",
        metavar="S",
        type=_seconds,
        help="a folder of others that is not written to for so long is over (default: 300, or ten epochs)",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json: one object for each change")
    parser.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the text")
    parser.add_argument("--rules", metavar="FILE", help="thresholds: a profile of configs/rules or a YAML file")
    parser.add_argument("--background", action="store_true", help="lowest priority, as `diag train` watches itself")


def _seconds(word: str) -> float:
    value = float(word)
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError("seconds between 0 and 1000000")
    return value


def run(args: argparse.Namespace) -> int:
    """Watch until the run ends; 1 for a verdict of fail."""
    import sys
    from pathlib import Path

    from diag import settings
    from diag.live.loop import Options, background, watch
    from diag.load.profile import load_profile

    if args.background:
        background()
    overrides = load_profile(args.rules, settings.CONFIGS / "rules") if args.rules else None
    options = Options(args.format, args.lang, args.once, args.interval, args.patience, overrides)
    return watch(Path(args.path), options, out=sys.stdout)
