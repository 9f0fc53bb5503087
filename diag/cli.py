"""The `diag` command: a table of commands, of which only the chosen one is imported."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from diag import __version__
from diag.errors import EXIT_INTERNAL, EXIT_USAGE, DiagError

COMMANDS = {
    "pipeline": "check -> data -> smoke -> train -> analyze -> report, and the health summary",
    "check": "can this machine train? GPU, driver, CPUs, memory, shm, disk, numerics, speed",
    "data": "audit a data set: labels, images, copies, distribution; write a page or a corrected copy",
    "smoke": "mini-run on your own data that proves the whole path",
    "train": "train with Ultralytics in a child process and record where the time goes",
    "analyze": "say what limited a finished run, and what to change",
    "collect": "pack a run and its machine into a bundle for people who help; secrets taken out",
    "watch": "judge a run again and again while it trains: progress, findings and when each appeared",
    "profile": "which operators and layers take the time of a step, by torch.profiler",
    "export": "write a finished run as TensorBoard events: times, machine, curves, findings",
    "demo": "make the demo data set",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Returns 0 ok, 1 failed, 2 usage or input error, 3 internal error."""
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="diag",
        description="Train Ultralytics models and say what is slow, what is broken, why, and what to change.",
        epilog="\n".join(["commands:", *(f"  {n:9} {h}" for n, h in COMMANDS.items())])
        + "\n\nexamples:\n  diag check\n  diag pipeline data=my/data.yaml model=yolo11n.pt epochs=50\n"
        "  diag analyze workspace/runs/20260102-030405\n\n`diag COMMAND --help` shows options and examples.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"diag {__version__}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of the commands below")
    chosen = parser.parse_args(argv[:1] or ["--help"]).command
    command = importlib.import_module(f"diag.commands.{chosen}")
    sub = argparse.ArgumentParser(
        prog=f"diag {chosen}",
        description=COMMANDS[chosen][0].upper() + COMMANDS[chosen][1:] + ".",
        epilog=command.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(sub)
    args = sub.parse_intermixed_args(argv[1:])
    try:
        return int(command.run(args))
    except DiagError as error:
        print(f"diag {chosen}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"diag {chosen}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_USAGE
    except Exception as error:
        if os.environ.get("DIAG_DEBUG"):
            raise
        print(
            f"diag {chosen}: internal error: {type(error).__name__}: {error}\n"
            "This is a fault of diag itself; DIAG_DEBUG=1 shows where. Please report it.",
            file=sys.stderr,
        )
        return EXIT_INTERNAL
