"""check -> data -> smoke -> train -> analyze -> report: runs the stages and keeps the health summary true."""

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from diag.child import Stopper
from diag.errors import EXIT_FAILED, EXIT_OK, DiagError, InputError
from diag.exit_cause import DETAILS
from diag.health import Health, close_vanished, mark_run
from diag.model.check import StageResult, Status
from diag.model.run import ExitCause
from diag.screen import Screen
from diag.stages import analyze, check, data, smoke, train
from diag.stages.context import Context, begin

EXIT_STOPPED = {"SIGTERM": 143, "SIGINT": 130}


@dataclass(frozen=True)
class Step:
    """One stage: its name, what it does, the function, and whether it runs although one before it failed."""

    name: str
    what: str
    run: Callable[[Context], StageResult]
    always: bool = False


STEPS = (
    Step("check", check.WHAT, check.run),
    Step("data", data.WHAT, data.run),
    Step("smoke", smoke.WHAT, smoke.run),
    Step("train", train.WHAT, train.run),
    Step("analyze", analyze.WHAT, analyze.run, always=True),
    Step("report", analyze.WHAT_REPORT, analyze.run_report, always=True),
)


ALL = tuple(step.name for step in STEPS)


def run_pipeline(
    words: Sequence[str],
    workspace: Path,
    *,
    cwd: Path,
    screen: Screen,
    stages: Sequence[str] = ALL,
    fresh: bool = False,
) -> int:
    """Run the named stages in their order and return the exit code; the others are `skip`.

    0 trained (warnings included), 1 a stage failed, 2 wrong input, 3 our own fault, 128+n stopped by a signal.
    The summary is written after every stage, and also when the input is wrong. An unfinished run with the same
    arguments goes on, unless `fresh`.
    """
    vanished = close_vanished(workspace)
    if vanished:
        screen.line(f"note: the last run ({vanished}) went away without finishing; it is marked as killed")
    with Stopper() as stopper:
        try:
            trains = "train" in stages
            context = begin(list(words), workspace, screen, stopper, cwd=cwd, trains=trains, fresh=fresh)
        except InputError as error:
            _refuse(workspace, words, error)
            raise
        screen.line(f"run {context.run_dir}")
        try:
            _peek(context)
            return _run_steps(context, stages)
        except InputError as error:
            _close(context, ExitCause("input_error", error.exit_code, detail=str(error)))
            raise
        except BaseException as error:
            kind = "failed" if isinstance(error, DiagError) else "internal_error"
            _close(context, ExitCause(kind, 3, detail=f"{type(error).__name__}: {error}"))
            raise


def _peek(context: Context) -> None:
    try:
        data.peek(context)
    except InputError as error:
        context.health.end(StageResult("data", Status.FAIL, str(error)))
        raise


def _run_steps(context: Context, stages: Sequence[str]) -> int:
    failed = ""
    number = 0
    for step in STEPS:
        if step.name not in stages:
            context.health.end(StageResult(step.name, Status.SKIP, "not asked for"))
            continue
        number += 1
        if context.stopper.signal and not step.always:
            result = StageResult(step.name, Status.SKIP, f"stopped by {context.stopper.signal}")
        elif failed and not step.always:
            result = StageResult(step.name, Status.SKIP, f"{failed} failed")
        else:
            context.screen.heading(number, len(stages), step.name, step.what)
            context.health.begin(step.name)
            result = _run_step(context, step)
        context.health.end(result)
        context.screen.result(result)
        if result.status is Status.FAIL and not failed:
            failed = step.name
            if not step.always:  # the analysis has to know that, and why, nothing more was done
                mark_run(context.run_dir, _cause(context, failed))
    return _finish(context, failed)


def _run_step(context: Context, step: Step) -> StageResult:
    try:
        return step.run(context)
    except InputError as error:
        # The stage's answer first, so that the summary says where it ended; then the caller's one clear line.
        context.health.end(StageResult(step.name, Status.FAIL, str(error)))
        raise
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            cause = ExitCause("disk_full", EXIT_FAILED, "", str(error))
            reason = f"{error.strerror}: {error.filename or context.run_dir}"
        elif error.errno == errno.EAGAIN:  # fork(2): even our own child could not start
            cause = ExitCause("thread_limit", EXIT_FAILED, "", DETAILS["thread_limit"], str(error))
            reason = cause.detail
        else:
            raise
        context.facts.setdefault("exit_cause", cause)
        return StageResult(step.name, Status.FAIL, reason)
    except Exception as error:
        if step.always:  # judging must not hide how the training ended
            return StageResult(step.name, Status.FAIL, f"internal error: {type(error).__name__}: {error}")
        raise


def _cause(context: Context, failed: str) -> ExitCause:
    """How the run ended: as its training said, else by the stage that failed."""
    cause: ExitCause | None = context.facts.get("exit_cause")
    if cause is not None and not (failed and cause.kind == "finished"):
        return cause
    reason = context.health.document.get(failed, {}).get("reason", "") if failed else ""
    kind = "check_failed" if failed == "check" else "failed"
    return ExitCause(kind, EXIT_FAILED, detail=f"{failed}: {reason}") if failed else ExitCause("finished", 0)


def _finish(context: Context, failed: str) -> int:
    cause = _cause(context, failed)
    report = context.facts.get("judged")
    verdict = context.health.finish(cause, report[0].verdict if report else "")
    mark_run(context.run_dir, cause)
    summary = context.workspace / "health" / "latest.md"
    context.screen.line()
    context.screen.line(f"verdict {context.screen.status(Status(verdict))}   summary {summary}")
    if context.stopper.signal:
        return EXIT_STOPPED[context.stopper.signal]
    return EXIT_FAILED if failed else EXIT_OK


def _close(context: Context, cause: ExitCause) -> None:
    context.health.finish(cause)
    mark_run(context.run_dir, cause)


def _refuse(workspace: Path, words: Sequence[str], error: InputError) -> None:
    """Write a summary for input that never became a run; a workspace that can't be written is the error itself."""
    health = Health(workspace, None, {})
    health.document["run"]["overrides"] = list(words)
    try:
        health.finish(ExitCause("input_error", error.exit_code, detail=str(error)))
    except InputError:
        return
