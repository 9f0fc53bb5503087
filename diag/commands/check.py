"""`diag check`: can this machine train, and how fast?"""

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from pathlib import Path

    from diag.model.check import Check
    from diag.model.hardware import Baseline

EXAMPLES = """examples:
  diag check                                        the machine, for a default training
  diag check data=my/data.yaml batch=32 workers=8   for this training: shm, memory, disk, decode rate of its images
  diag check device=0                               fail unless GPU 0 really computes
  diag check device=cpu                             the CPU on purpose
  diag check --format json | jq .verdict            one JSON object

exit codes: 0 can train (warnings included), 1 a check failed, 2 input error, 3 internal error
every check, its threshold and its source: docs/checks.md"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("args", nargs="*", metavar="key=value", help="Ultralytics arguments that the training will use")
    parser.add_argument("--workspace", metavar="DIR", help="default: $WORKSPACE, else ./workspace of the checkout")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def run(args: argparse.Namespace) -> int:
    """Check and print as it goes. Returns 1 if a check failed."""
    from diag import settings
    from diag.codec import to_json
    from diag.errors import EXIT_FAILED, EXIT_OK
    from diag.model.check import Status, worst
    from diag.probe import CheckRequest, run_checks
    from diag.train_args import parse_overrides

    overrides = parse_overrides(args.args)
    workspace = settings.workspace(args.workspace)
    images, folder = _dataset(overrides, workspace)
    request = CheckRequest(workspace=workspace, args=overrides, images=images, dataset_dir=folder)
    as_json = args.format == "json"
    started = time.monotonic()
    with Progress(sys.stderr) as progress:
        show = _silent if as_json else printer(sys.stdout)

        def on_check(check: "Check") -> None:
            progress.answered(lambda: show(check))

        checks, baseline = run_checks(request, on_check=on_check)
    verdict = worst([check.status for check in checks])
    if as_json:
        print(to_json({"verdict": verdict, "checks": checks, "baseline": baseline}))
    else:
        print(summary(checks, baseline, time.monotonic() - started))
    return EXIT_FAILED if verdict is Status.FAIL else EXIT_OK


def printer(out: TextIO) -> "Callable[[Check], None]":
    """A function that writes one check to `out`, in colour on a terminal unless NO_COLOR is set."""
    import shutil

    from diag.render.checks import lines

    terminal = out.isatty()
    colour = terminal and not os.environ.get("NO_COLOR")
    width = max(60, min(160, shutil.get_terminal_size((120, 24)).columns)) if terminal else 0

    def show(check: "Check") -> None:
        print("\n".join(lines(check, colour=colour, width=width)), file=out, flush=True)

    return show


def summary(checks: "tuple[Check, ...]", baseline: "Baseline", seconds: float) -> str:
    """The last lines: how many answers of each kind, and what decides the exit code."""
    from diag.model.check import Status

    counts = [(s, sum(c.status is s for c in checks)) for s in Status]
    told = ", ".join(f"{n} {s.value}" for s, n in counts if n)
    failed = [c.id for c in checks if c.status is Status.FAIL]
    device = "the GPU" if baseline.cuda_usable else "the CPU"
    end = f"can't train as asked: {', '.join(failed)}" if failed else f"ready to train on {device}"
    return f"\n{told} in {seconds:.0f} s: {end}"


def _dataset(overrides: dict[str, Any], workspace: "Path") -> "tuple[tuple[Path, ...], Path | None]":
    """The images of `data=` and the folder that holds them; nothing without `data=`."""
    from pathlib import Path

    if not overrides.get("data"):
        return (), None
    from diag.dataset.resolve import resolve
    from diag.train_args import task_of

    spec = resolve(str(overrides["data"]), task_of(overrides), cwd=Path.cwd(), datasets_dir=workspace / "datasets")
    images = tuple(spec.real(path) for path in spec.images)
    folder = Path(os.path.commonpath([p.parent for p in images])) if images else spec.source.parent
    return images, folder


def _silent(_: "Check") -> None:
    return None


class Progress:
    """Tells on a stream that a check takes longer than 2 s: one moving line on a terminal, else one line at all."""

    def __init__(self, out: TextIO, *, patience_s: float = 2.0) -> None:
        self._out = out
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._since = time.monotonic()
        self._shown = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="progress", daemon=True)

    def answered(self, show: Callable[[], None]) -> None:
        """Run `show` with the progress line out of the way, and wait for the next answer."""
        with self._lock:
            self._clear()
            show()
            self._since = time.monotonic()

    def _tick(self) -> None:
        while not self._stop.wait(0.5):
            with self._lock:
                waited = time.monotonic() - self._since
                if waited < self._patience_s:
                    continue
                if self._out.isatty():
                    print(f"\r... measuring with torch, {waited:.0f} s\033[K", end="", file=self._out, flush=True)
                elif not self._shown:
                    print("check: measuring with torch, about 10 s ...", file=self._out, flush=True)
                self._shown = True

    def _clear(self) -> None:
        if self._shown and self._out.isatty():
            print("\r\033[K", end="", file=self._out, flush=True)

    def __enter__(self) -> "Progress":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        with self._lock:
            self._clear()
