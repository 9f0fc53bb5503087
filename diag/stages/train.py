"""Stage `train`: Ultralytics in a child process, its output shown and kept, its end explained."""

import contextlib
import dataclasses
import os
import re
import time
from pathlib import Path
from typing import Any

from diag.child import run_child
from diag.counters.process import CountersProcess
from diag.health import mark_run
from diag.load.results import read_results
from diag.load.stall import Stalls, lost_gpu, read_marks, stalls
from diag.model.check import StageResult, Status
from diag.model.run import Epochs, ExitCause
from diag.stages.context import Context, save_args
from diag.stages.environment import child_env
from diag.stages.progress import Progress, read_progress

WHAT = "train, and record where every second goes"

SUMMARY_EVERY_S = 10.0


def run(context: Context) -> StageResult:
    """Train as `context.args` say; sets `facts["exit_cause"]` and the run's end in run.json."""
    start = last = time.monotonic()
    hang = _Hang()
    save_args(context)
    weights = context.workspace / "weights"
    weights.mkdir(parents=True, exist_ok=True)

    def on_tick() -> None:
        nonlocal last
        if time.monotonic() - last > SUMMARY_EVERY_S:
            last = time.monotonic()
            context.health.update("train", progress=_plain(read_progress(context.run_dir)))
        hang.tell(context)

    env = child_env(context.workspace, context.stopper)
    counters = CountersProcess(context.run_dir, env)
    try:
        ended = run_child(
            "diag.record.launch",
            [str(context.run_dir)],
            console=context.run_dir / "console.log",
            env=env,
            stopper=context.stopper,
            cwd=weights,
            screen=context.screen.stream,
            on_tick=on_tick,
            on_start=counters.start,
        )
    finally:
        counters.stop()
    marks = read_marks(context.run_dir / "trace" / "counters.jsonl")
    stall, lost = stalls(marks), lost_gpu(marks)
    cause = known_names(_cause(ended.cause, stall, lost), context.workspace / "cache" / "views")
    context.facts["exit_cause"] = cause
    mark_run(context.run_dir, cause)
    _drop_empty(context.run_dir / "stall.txt")
    results = context.run_dir / "ultralytics" / "results.csv"
    epochs = read_results(results) if results.exists() else None
    progress = read_progress(context.run_dir)
    details: dict[str, Any] = {
        "progress": _plain(progress),
        "epochs_done": len(epochs.rows) if epochs else 0,
        "best": best_metrics(epochs),
        "weights": {
            name: str(path)
            for name in ("best", "last")
            if (path := context.run_dir / "ultralytics" / "weights" / f"{name}.pt").exists()
        },
    }
    done = f"{details['epochs_done']} epochs"
    if stall:
        details["stall"] = vars(stall)
        done += f", hung {stall.count} times for up to {stall.longest_s:.0f} s (stall.txt)"
    if lost:
        details["gpu_lost"] = lost
        done += f", {lost}"
    if details["best"]:
        done += ", best " + ", ".join(f"{k} {v:.3f}" for k, v in details["best"].items() if k != "epoch")
    if cause.kind == "finished":
        return StageResult("train", Status.PASS, done, time.monotonic() - start, details)
    reached = f" at {progress}" if progress else " before the first batch"
    reason = f"{cause.detail or cause.kind}{reached}; {done} finished"
    return StageResult("train", Status.FAIL, reason, time.monotonic() - start, details)


def known_names(cause: ExitCause, views: Path) -> ExitCause:
    """The cause with the user's own files in place of the links to them below `views`, through which training reads."""
    pattern = re.escape(str(views)) + r"[^\s'\",:]+"

    def own(text: str) -> str:
        return re.sub(pattern, lambda link: os.path.realpath(link[0]), text)

    return dataclasses.replace(cause, detail=own(cause.detail), evidence=own(cause.evidence))


class _Hang:
    """Tells a stall once, while it lasts: on the screen and in the summary."""

    def __init__(self) -> None:
        self._told = ""

    def tell(self, context: Context) -> None:
        """Look for the watchdog's flag."""
        try:
            said = (context.run_dir / "trace" / "stalled").read_text(encoding="utf-8").strip()
        except OSError:
            said = ""
        if said == self._told:
            return
        self._told = said
        context.health.update("train", stall=said or None)
        context.screen.line(f"      HANGS: {said}; stacks in stall.txt" if said else "      training goes on")


def _cause(cause: ExitCause, stall: Stalls | None, lost: str = "") -> ExitCause:
    """The end of a training that the watchdog ended is a stall, whatever signal did it; CUDA's own words on a lost GPU
    are any of a dozen, NVML's are clear."""
    if lost and cause.kind == "failed":
        return ExitCause("gpu_lost", cause.code, cause.signal, f"{lost}: reset it or reboot", cause.detail)
    if stall is None or not stall.aborted or cause.kind in {"finished", "stopped"}:
        return cause
    detail = f"hung for {stall.longest_s:.0f} s after step {stall.step} and was ended (DIAG_STALL_ABORT=1)"
    return ExitCause("stalled", cause.code, cause.signal, detail, "stall.txt")


def _drop_empty(path: Path) -> None:
    with contextlib.suppress(OSError):
        if not path.stat().st_size:
            path.unlink()


def best_metrics(epochs: Epochs | None) -> dict[str, float]:
    """The metrics of the epoch with the best main metric: mAP50 and mAP50-95 (of masks, if there are), or top-1."""
    if not epochs or not epochs.rows:
        return {}
    names = {
        "mAP50": ("metrics/mAP50(M)", "metrics/mAP50(P)", "metrics/mAP50(B)"),
        "mAP50-95": ("metrics/mAP50-95(M)", "metrics/mAP50-95(P)", "metrics/mAP50-95(B)"),
        "top1": ("metrics/accuracy_top1",),
    }
    columns = {short: next((c for c in long if c in epochs.columns), "") for short, long in names.items()}
    main = columns["mAP50-95"] or columns["top1"]
    rows = [row for row in epochs.rows if row.values.get(main, float("nan")) == row.values.get(main)]
    if not main or not rows:
        return {}
    best = max(rows, key=lambda row: row.values[main])
    return {"epoch": best.epoch, **{short: best.values[c] for short, c in columns.items() if c in best.values}}


def _plain(progress: Progress | None) -> dict[str, int] | None:
    return vars(progress) if progress else None
