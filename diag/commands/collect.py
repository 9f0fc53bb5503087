"""`diag collect [RUN]`: a support bundle for people who help."""

import argparse
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diag.collect.files import Absent, Taken

EXAMPLES = """examples:
  diag collect                                    the newest run of the workspace, and this machine
  diag collect workspace/runs/exp1                a run of `diag train` or `diag pipeline`
  diag collect runs/detect/train --out help.tar.gz
  diag collect runs/detect/train --no-check       without the check of the machine (about a minute)
  diag collect RUN --hide-user                    also replace the user's name in paths like /home/NAME
  diag analyze diag-exp1.tar.gz                   what a helper does with it

Run it on the machine that trained. Secrets are taken out (configs/redact.yaml); no weights, no images. MANIFEST.json in
it lists every file, what was taken out, and what is missing and why. Look through it before you send it.

exit codes: 0 written, 2 input error, 3 internal error"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("path", metavar="RUN", nargs="?", help="run folder or log (default: the newest run)")
    parser.add_argument("--out", metavar="FILE", help="default: diag-RUN.tar.gz in the current folder")
    parser.add_argument("--no-check", action="store_true", help="do not run `diag check`")
    parser.add_argument("--hide-user", action="store_true", help="replace the user's name in home directories")
    parser.add_argument(
        "--max-file", metavar="MB", type=float, default=16.0, help="of larger files head and tail (default: 16)"
    )
    parser.add_argument("--workspace", metavar="DIR", help="where the newest run is looked for")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="json: the manifest on stdout")


def run(args: argparse.Namespace) -> int:
    """Collect, redact, pack; returns 0."""
    import sys

    from diag import settings
    from diag.codec import to_json
    from diag.collect.bundle import write_bundle
    from diag.collect.files import Absent, run_files, take
    from diag.collect.machine import captures
    from diag.collect.redact import Redactor, known_secrets, load_patterns, shown
    from diag.errors import EXIT_OK, InputError

    base = _base(args)
    if not 0.001 <= args.max_file <= 1024:
        raise InputError(f"--max-file {args.max_file}: give megabytes from 0.001 to 1024")
    limit = int(args.max_file * 1e6)
    name = (base.name.partition(".")[0] if base.is_file() else base.resolve().name) if base else "machine"
    out = Path(args.out or f"diag-{name}.tar.gz").expanduser()
    if out.is_dir():
        out = out / f"diag-{name}.tar.gz"
    redactor = Redactor(
        load_patterns(settings.CONFIGS / "redact.yaml"),
        known_secrets(more_files=[settings.workspace(args.workspace) / ".token"]),
        hide_user=args.hide_user,
    )

    def items() -> "Iterator[Taken | Absent]":
        for found in run_files(base) if base else ():
            yield found if isinstance(found, Absent) else take(*found, limit=limit)
        yield from captures(since=_since(base))
        yield _check(say, skip=args.no_check)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    say(f"collecting {base or 'this machine'} ...")
    made = write_bundle(out, f"diag-{name}", items(), redactor, source=str(base or ""))
    size = out.stat().st_size
    if args.format == "json":
        document = {"path": out, "bytes": size, "files": made.files, "absent": made.absent, "redacted": redactor.counts}
        print(to_json(document))
        return EXIT_OK
    print(f"{out}: {len(made.files)} files, {size / 1e6:.2f} MB")
    cut = [f"{file['name']} (-{file['left_out']} bytes)" for file in made.files if file["left_out"]]
    if cut:
        print(f"shortened: {', '.join(cut)}")
    print(f"taken out: {shown(redactor.counts)}")
    for entry in made.absent:
        print(f"missing: {entry['name']}: {entry['reason']}")
    print("Look through it before you send it; `diag analyze` reads it.")
    return EXIT_OK


def _base(args: argparse.Namespace) -> Path | None:
    """What to collect: the given path, else the newest run; None for the machine alone."""
    from diag import settings
    from diag.codec import read_json
    from diag.errors import InputError

    if args.path:
        path = Path(args.path)
        if not path.exists():
            raise InputError(f"{path}: no such file or folder; give a run folder or a log")
        return path
    try:
        latest = read_json(settings.workspace(args.workspace) / "health" / "latest.json", dict)
        path = Path(str(latest["run"]["dir"]))
    except (OSError, InputError, KeyError, TypeError):
        return None
    return path if path.is_dir() else None


def _since(base: Path | None) -> datetime | None:
    """When the run began: its run.json, else the oldest of the files that Ultralytics writes first."""
    from diag.codec import read_json
    from diag.errors import InputError
    from diag.model.run import RunRecord

    if base is None:
        return None
    try:
        return datetime.fromisoformat(read_json(base / "run.json", RunRecord).started)
    except (OSError, InputError, ValueError):
        pass
    times = [p.stat().st_mtime for n in ("args.yaml", "opt.yaml", "results.csv") if (p := base / n).is_file()]
    return datetime.fromtimestamp(min(times)).astimezone() if times else None


def _check(say: object, *, skip: bool) -> "Taken | Absent":
    """`diag check --format json` in a process of its own."""
    import subprocess
    import sys

    from diag.collect.files import Absent, Taken

    name = "machine/check.json"
    if skip:
        return Absent(name, "--no-check")
    assert callable(say)
    say("checking the machine (about a minute) ...")
    command = [sys.executable, "-m", "diag", "check", "--format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Absent(name, str(error))
    if not done.stdout.lstrip().startswith("{"):
        return Absent(name, " ".join(done.stderr.split())[:200] or f"ended with {done.returncode}")
    return Taken(name, done.stdout)
