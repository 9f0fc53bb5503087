"""A hang while a child trains: told once, on screen and in the summary, with its reason where the console has it."""

import contextlib
import os
from pathlib import Path

from diag.exit_cause import known_reason
from diag.load.stall import Stalls
from diag.model.run import ExitCause
from diag.stages.context import Context

TAIL_BYTES = 16384
"""So much of the console's end is searched for a reason: traceback and progress lines since."""


class Hang:
    """Tells a stall of the stage `train`, or of the mini-run, while it lasts."""

    def __init__(self, context: Context, stage: str, run_dir: Path) -> None:
        self._context, self._stage, self._run_dir = context, stage, run_dir
        self._told = ""

    def tell(self) -> None:
        """Look for the watchdog's flag."""
        try:
            flag = (self._run_dir / "trace" / "stalled").read_text(encoding="utf-8").strip()
        except OSError:
            flag = ""
        if flag == self._told:
            return
        self._told = flag
        reason = known_reason(_tail(self._run_dir / "console.log")) if flag else None
        said = f"{flag}: {reason[1]}" if reason else flag
        self._context.health.update(self._stage, stall=said or None)
        self._context.screen.line(f"      HANGS: {said}; stacks in stall.txt" if said else "      training goes on")


def stall_cause(cause: ExitCause, stall: Stalls | None, tail: tuple[str, ...]) -> ExitCause:
    """The end of a training that the watchdog ended is a stall, whatever signal did it."""
    if stall is None or not stall.aborted or cause.kind in {"finished", "stopped"}:
        return cause
    reason = known_reason(tail)
    detail = f"hung for {stall.longest_s:.0f} s after step {stall.step} and was ended by the watchdog"
    detail += f": {reason[1]}" if reason else ""
    return ExitCause("stalled", cause.code, cause.signal, detail, reason[2] if reason else "stall.txt")


def drop_empty(path: Path) -> None:
    """Remove a stall.txt into which nobody wrote."""
    with contextlib.suppress(OSError):
        if not path.stat().st_size:
            path.unlink()


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return file.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []
