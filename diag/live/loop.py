"""Look again and again until the run ends; show what changed."""

import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, Any

from diag.codec import to_json
from diag.engine import Overrides
from diag.errors import EXIT_FAILED, EXIT_OK
from diag.live.look import Look, how_far, take_look
from diag.live.seen import Event, Watcher, progress_of
from diag.live.view import View
from diag.load.follow import Follower
from diag.render import jsonfile

MAX_SHARE = 0.02
"""Looking takes at most this share of one core: the next look waits so much longer where one is dear."""
MIN_GAP_S = 3.0
"""Two looks are at least so far apart, even if epochs end more often."""
_POLL_S = 1.0
_REDRAW_S = 2.0
_UNHARMED = {"finished", "running", "stopped"}
_EPOCH_FILES = ("ultralytics/results.csv", "results.csv", "results.txt", "run.json")


@dataclass(frozen=True)
class Options:
    """How to watch. `form` is `text` or `json`; `patience_s` None lets the run's own pace decide."""

    form: str = "text"
    lang: str = "en"
    once: bool = False
    interval_s: float = 10.0
    patience_s: float | None = None
    overrides: Overrides | None = None


def watch(path: Path, options: Options, *, out: IO[str]) -> int:
    """Watch until the run ends (or look once). Returns 1 for a verdict of fail or a run that failed, else 0.

    Raises InputError when there is no run; SIGTERM ends it with 143, after the `end` line.
    """
    before = signal.signal(signal.SIGTERM, _terminate)
    shown = _shown(options, out)
    watcher, files = Watcher(lang=options.lang), Follower()
    look: Look | None = None
    code = 143
    try:
        while True:
            start = time.process_time()
            look = take_look(path, files, overrides=options.overrides, patience_s=options.patience_s)
            events = list(watcher.news(look))
            gap = max(MIN_GAP_S, (time.process_time() - start) / MAX_SHARE)
            shown.look(look, watcher, events, max(gap, options.interval_s))
            if options.once or not look.state.living:
                code = exit_code(look)
                return code
            _wait(path, gap, options.interval_s, partial(shown.meanwhile, path, look, watcher))
    except KeyboardInterrupt:
        code = 130
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        shown.end(look, watcher, code)


def exit_code(look: Look) -> int:
    """1 for a verdict of fail, or a run that ended in another way than finished or stopped on purpose."""
    cause = look.state.cause
    failed = look.report.verdict == "fail" or (cause is not None and cause.kind not in _UNHARMED)
    return EXIT_FAILED if failed else EXIT_OK


def background() -> None:
    """Lowest priority, and the first to go when memory runs out: watching must never cost the training anything."""
    with suppress(OSError):
        os.nice(19)
    # Each session is scheduled as a group on desktop kernels; nice counts only within it.
    for file, value in (("/proc/self/autogroup", "19"), ("/proc/self/oom_score_adj", "1000")):
        with suppress(OSError):
            Path(file).write_text(value, encoding="ascii")


def _terminate(_: int, __: FrameType | None) -> None:
    raise SystemExit(143)


def _wait(path: Path, gap_s: float, interval_s: float, meanwhile: Callable[[], None]) -> None:
    """Until the interval is over or an epoch has ended, but at least `gap_s`."""
    start, stamp = time.monotonic(), _stamp(path)
    drawn = start
    while (passed := time.monotonic() - start) < max(gap_s, interval_s):
        if passed >= gap_s and _stamp(path) != stamp:
            return
        time.sleep(min(_POLL_S, max(gap_s, interval_s)))
        if time.monotonic() - drawn >= _REDRAW_S:
            drawn = time.monotonic()
            meanwhile()


def _stamp(path: Path) -> tuple[int, ...]:
    """Changes when an epoch ends or the run does."""
    stamps = []
    for name in _EPOCH_FILES:
        with suppress(OSError):
            stamps.append((path / name).stat().st_mtime_ns)
    return tuple(stamps)


def _shown(options: Options, out: IO[str]) -> "_Lines":
    if options.form == "json":
        return _Json(options, out)
    if out.isatty() and not options.once:
        return _Terminal(options, out)
    return _Lines(options, out)


class _Lines:
    """Plain lines, one for each change."""

    def __init__(self, options: Options, out: IO[str]) -> None:
        self.options, self.out = options, out

    def view(self) -> View:
        color = self.out.isatty() and "NO_COLOR" not in os.environ
        width = shutil.get_terminal_size((120, 40)).columns if self.out.isatty() else 200
        return View(lang=self.options.lang, color=color, width=width)

    def look(self, look: Look, watcher: Watcher, events: Sequence[Event], next_s: float) -> None:
        if self.options.once:
            lines = self.view().block(look, watcher.seen, looks=watcher.looks, next_s=next_s)
            self.write(lines[: -2 if look.state.living else None])
            return
        view = self.view()
        self.write([line for event in events for line in view.event(event)])
        if not look.state.living:
            self.write(["", *view.block(look, watcher.seen, looks=watcher.looks, next_s=next_s)])

    def meanwhile(self, path: Path, look: Look, watcher: Watcher) -> None:
        """Nothing is drawn between looks."""

    def end(self, look: Look | None, watcher: Watcher, code: int) -> None:
        """Nothing more to say."""

    def write(self, lines: Sequence[str]) -> None:
        if lines:
            self.out.write("\n".join(lines) + "\n")
            self.out.flush()


class _Json(_Lines):
    """JSON lines, one object for each change; with `--once` a single object."""

    def look(self, look: Look, watcher: Watcher, events: Sequence[Event], next_s: float) -> None:
        if self.options.once:
            self.write([to_json(_state(look, watcher), indent=0)])
        else:
            self.write([to_json(event, indent=0) for event in events])

    def end(self, look: Look | None, watcher: Watcher, code: int) -> None:
        if look is None or self.options.once:
            return
        ended = {"event": "end", "time": look.time, **_outcome(look), "exit_code": code, **watcher.cost()}
        self.write([to_json(ended, indent=0)])


class _Terminal(_Lines):
    """A block that is drawn again in its place."""

    def __init__(self, options: Options, out: IO[str]) -> None:
        super().__init__(options, out)
        self._drawn = 0
        self._next = 0.0
        out.write("\x1b[?25l")

    def look(self, look: Look, watcher: Watcher, events: Sequence[Event], next_s: float) -> None:
        self._next = time.monotonic() + next_s
        self.draw(look, watcher)

    def meanwhile(self, path: Path, look: Look, watcher: Watcher) -> None:
        self.draw(replace(look, progress=how_far(path, look.evidence)), watcher)

    def draw(self, look: Look, watcher: Watcher) -> None:
        size = shutil.get_terminal_size((100, 40))
        left = max(0.0, self._next - time.monotonic())
        lines = self.view().block(look, watcher.seen, looks=watcher.looks, next_s=left)[: max(3, size.lines - 1)]
        up = f"\x1b[{self._drawn}A" if self._drawn else ""
        self.out.write(f"\r{up}" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        self.out.flush()
        self._drawn = len(lines)

    def end(self, look: Look | None, watcher: Watcher, code: int) -> None:
        self.out.write("\x1b[?25h")
        self.out.flush()


def _outcome(look: Look) -> dict[str, Any]:
    return {
        "living": look.state.living,
        "why": look.state.why,
        "verdict": look.report.verdict,
        "exit_cause": look.state.cause,
    }


def _state(look: Look, watcher: Watcher) -> dict[str, Any]:
    """Everything of one look."""
    findings = [{**jsonfile.finding_dict(f), "first_seen": watcher.seen[f.id].first()} for f in look.report.findings]
    return {
        "event": "look",
        "time": look.time,
        **_outcome(look),
        **progress_of(look),
        "findings": findings,
        "skipped": look.report.skipped,
        "crashed": look.report.crashed,
    }
