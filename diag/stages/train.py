"""Stage `train`: Ultralytics in a child process, its output shown and kept, its end explained."""

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diag.child import Ended, run_child
from diag.counters.process import CountersProcess
from diag.health import mark_run, read_resumed
from diag.load.results import read_results
from diag.load.stall import lost_gpu, read_marks, stalls
from diag.model.check import StageResult, Status
from diag.model.run import Epochs
from diag.stages.cause import known_names, with_gpu, with_resume
from diag.stages.context import Context, save_args
from diag.stages.environment import child_env
from diag.stages.progress import Progress, read_progress
from diag.stages.resume import last_pt
from diag.stages.stall import Hang, drop_empty, stall_cause
from diag.stages.warn import Warner

WHAT = "train, and record where every second goes"

SUMMARY_EVERY_S = 10.0
RESERVE_BYTES = 128 * 1024
"""Kept back while training, so that on a full disk there is room to write down how it ended."""


def run(context: Context) -> StageResult:
    """Train as `context.args` say; sets `facts["exit_cause"]` and the run's end in run.json."""
    start = time.monotonic()
    save_args(context)
    ended, warner = _watched(context)
    context.facts["first_seen"] = warner.first_seen
    marks = read_marks(context.run_dir / "trace" / "counters.jsonl")
    stall, lost = stalls(marks), lost_gpu(marks)
    cause = with_gpu(stall_cause(ended.cause, stall, ended.tail), lost)
    cause = known_names(with_resume(cause, last_pt(context.run_dir).exists()), context.workspace / "cache" / "views")
    context.facts["exit_cause"] = cause
    mark_run(context.run_dir, cause)
    resumed = read_resumed(context.run_dir)
    drop_empty(context.run_dir / "stall.txt")
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
    if warner.cost:
        details["watching"] = warner.cost
    done = f"{details['epochs_done']} epochs"
    if stall:
        details["stall"] = vars(stall)
        done += f", hung {stall.count} times for up to {stall.longest_s:.0f} s (stall.txt)"
    if lost:
        details["gpu_lost"] = lost
        done += f", {lost}"
    if details["best"]:
        done += ", best " + ", ".join(f"{k} {v:.3f}" for k, v in details["best"].items() if k != "epoch")
    if resumed and resumed.how != "start":
        details["resumed"] = vars(resumed)
        done += f", resumed after epoch {resumed.epoch}"
        done += " bit for bit" if resumed.exact else f" (not bit for bit: {resumed.why_not})" if resumed.why_not else ""
    if cause.kind == "finished":
        return StageResult("train", Status.PASS, done, time.monotonic() - start, details)
    reached = f" at {progress}" if progress else " before the first batch"
    reason = f"{cause.detail or cause.kind}{reached}; {done} finished"
    return StageResult("train", Status.FAIL, reason, time.monotonic() - start, details)


def _watched(context: Context) -> tuple[Ended, Warner]:
    """Train in a child, the counters and the early warnings beside it."""
    last = time.monotonic()
    hang = Hang(context, "train", context.run_dir)
    weights = context.workspace / "weights"
    weights.mkdir(parents=True, exist_ok=True)
    env = child_env(context.workspace, context.stopper)
    counters, warner = CountersProcess(context.run_dir, env), Warner(context.run_dir, env)

    def on_tick() -> None:
        nonlocal last
        if time.monotonic() - last > SUMMARY_EVERY_S:
            last = time.monotonic()
            context.health.update("train", progress=_plain(read_progress(context.run_dir)))
        hang.tell()
        warner.tell(context.health, context.screen)

    reserve = context.run_dir / ".reserve"
    reserve.write_bytes(os.urandom(RESERVE_BYTES))  # no file system makes that smaller
    warner.start()
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
        reserve.unlink(missing_ok=True)
        warner.stop(context.health, context.screen)
    write_rest(context.run_dir / "console.log", ended.unwritten)
    return ended, warner


def write_rest(console: Path, lines: Sequence[str]) -> None:
    """The last lines that found no room, now that there is some again."""
    if lines:
        with contextlib.suppress(OSError), console.open("a", encoding="utf-8") as file:
            file.write("\n" + "".join(f"{line}\n" for line in lines))


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
