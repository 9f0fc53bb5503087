"""Stage `smoke`: a mini-run on the user's own data that proves the whole path before hours are spent."""

import math
import shutil
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from diag import codec, settings
from diag.child import run_child
from diag.counters.process import CountersProcess
from diag.dataset.view import make_subset
from diag.health import now
from diag.load.stall import read_stalls
from diag.model.check import Check, StageResult, Status, worst
from diag.model.run import ExitCause, RunRecord
from diag.stages.context import RUN_SCHEMA_VERSION, Context, resolve_data
from diag.stages.environment import child_env
from diag.stages.progress import read_progress
from diag.stages.stall import Hang, drop_empty, stall_cause
from diag.train_args import load_defaults

WHAT = "mini-run on your data: loads, learns, saves, predicts, resumes"

IMAGES = {"train": 32, "val": 16}

KEPT = ("model", "device", "single_cls", "classes", "amp", "seed", "pretrained", "freeze")
"""Arguments of the real run that the mini-run keeps, because they decide whether the path works."""


def run(context: Context) -> StageResult:
    """Train and use a tiny model in `run_dir/smoke`; a failed verdict fails the stage."""
    start = time.monotonic()
    if passed := _passed_before(context):
        return passed
    folder = context.run_dir / "smoke"
    spec = resolve_data(context)
    data = make_subset(spec, folder / "data", IMAGES)
    kept = {key: context.args[key] for key in KEPT if key in context.args}
    args = {**load_defaults(settings.CONFIGS / "train" / "smoke.yaml"), **kept, "data": str(data)}
    if isinstance(args.get("device"), str) and "," in args["device"]:
        args["device"] = args["device"].split(",")[0]  # one GPU proves the path; ranks come with the real run
    record = RunRecord("smoke", RUN_SCHEMA_VERSION, now(), context.overrides, args, context.task)
    codec.write_json(folder / "run.json", record)

    def on_tick() -> None:
        progress = read_progress(folder)
        context.screen.progress(f"mini-run: {progress or 'starting'}, {time.monotonic() - start:.0f} s")
        hang.tell()

    hang = Hang(context, "smoke", folder)
    env = child_env(context.workspace, context.stopper)
    # What hangs in a mini-run would hang in the training: it is ended, so that the run fails with a reason.
    counters = CountersProcess(folder, {**env, "DIAG_STALL_ABORT": "1"})
    try:
        ended = run_child(
            "diag.record.smoke",
            [str(folder)],
            console=folder / "console.log",
            env=env,
            stopper=context.stopper,
            cwd=_weights_dir(context),
            on_tick=on_tick,
            on_start=counters.start,
        )
    finally:
        counters.stop()
    cause = stall_cause(ended.cause, read_stalls(folder / "trace" / "counters.jsonl"), ended.tail)
    drop_empty(folder / "stall.txt")
    verdicts = judge(_proof(folder), cause, read_progress(folder) is not None)
    codec.write_json(context.run_dir / "smoke.json", verdicts)
    status = worst([check.status for check in verdicts])
    if status is not Status.FAIL and ended.cause.kind == "finished":
        for name in ("data", "ultralytics"):  # a proved mini-run leaves its logs, not its weights
            shutil.rmtree(folder / name, ignore_errors=True)
    if context.stopper.signal:
        context.facts["exit_cause"] = ended.cause
    bad = [check for check in verdicts if check.status in {Status.FAIL, Status.WARN}]
    reason = f"{bad[0].id}: {bad[0].reason or bad[0].value}" if bad else "; ".join(check.value for check in verdicts)
    return StageResult("smoke", status, reason, time.monotonic() - start, {"verdicts": codec.plain(verdicts)})


def _passed_before(context: Context) -> StageResult | None:
    """The verdicts of an earlier start of this run, if all its starts were on this machine and image."""
    path = context.run_dir / "smoke.json"
    machines = {attempt.machine for attempt in context.attempts}
    if not context.attempts or len(machines) > 1 or not path.exists():
        return None
    verdicts = codec.read_json(path, list)
    statuses = [str(verdict.get("status")) for verdict in verdicts if isinstance(verdict, dict)]
    if not statuses or not set(statuses) <= {Status.PASS, Status.WARN}:
        return None
    reason = "passed at an earlier start of this run on the same machine and image; not repeated"
    status = worst([Status(s) for s in statuses])
    return StageResult("smoke", status, reason, 0.0, {"verdicts": verdicts})


def _weights_dir(context: Context) -> Path:
    """Where weights that the user names are fetched to: Ultralytics saves them in the working folder."""
    folder = context.workspace / "weights"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _proof(folder: Path) -> dict[str, Any]:
    path = folder / "proof.json"
    return codec.read_json(path, dict) if path.exists() else {}


def judge(proof: Mapping[str, Any], cause: ExitCause, trained_a_batch: bool) -> tuple[Check, ...]:
    """The verdicts of a mini-run from what it proved until it ended."""
    died = "" if cause.kind == "finished" else cause.detail or cause.kind
    missing = Status.FAIL if died else Status.UNKNOWN
    losses = [float(v) for v in proof.get("losses", {}).get("per_batch", [])]
    loads = Check("smoke.data_loads", Status.PASS, "data loads")
    if not trained_a_batch:
        loads = Check(
            "smoke.data_loads", missing, reason=f"no batch was trained: {died}", remedy="see smoke/console.log"
        )
    return (
        loads,
        _finite(losses, died),
        _falling(losses),
        _saved(proof.get("saved"), died),
        _predicted(proof.get("predicted"), died),
        _resumed(proof.get("resumed"), died),
    )


def _finite(losses: Sequence[float], died: str) -> Check:
    if not losses:
        return Check(
            "smoke.losses_finite", Status.FAIL if died else Status.UNKNOWN, reason=died or "no loss was recorded"
        )
    bad = sum(not math.isfinite(v) for v in losses)
    if bad:
        return Check(
            "smoke.losses_finite",
            Status.FAIL,
            f"{bad} of {len(losses)} batch losses are nan or inf",
            "all finite",
            remedy="try amp=False; look at the labels with `diag data`",
            finding="num.nan_loss",
        )
    return Check("smoke.losses_finite", Status.PASS, f"{len(losses)} losses finite", "all finite")


def _falling(losses: Sequence[float], *, rise: float = 1.1) -> Check:
    """Compares the median of the first and the last third. A rise above `rise` fails, a flat loss warns.

    Medians, because single batches differ by 10 % (measured on BCCD); from scratch the summed loss falls by
    15-30 % in 24 batches, while pretrained weights may start near their floor and stay flat.
    """
    if len(losses) < 6 or not all(map(math.isfinite, losses)):
        return Check("smoke.losses_fall", Status.UNKNOWN, reason=f"only {len(losses)} usable losses")
    third = len(losses) // 3
    first, last = statistics.median(losses[:third]), statistics.median(losses[-third:])
    value = f"loss {first:.2f} -> {last:.2f}"
    facts = {"first": round(first, 4), "last": round(last, 4), "batches": len(losses)}
    if last > rise * first:
        return Check(
            "smoke.losses_fall", Status.FAIL, value, "falling", "the loss rises",
            "lower lr0, and look at the labels with `diag data`", "num.diverged", facts=facts,
        )  # fmt: skip
    status = Status.PASS if last < first else Status.WARN
    return Check("smoke.losses_fall", status, value, "falling", "" if last < first else "the loss is flat", facts=facts)


def _saved(saved: Mapping[str, Any] | None, died: str) -> Check:
    size = int((saved or {}).get("bytes", 0))
    if not size:
        return Check("smoke.model_saved", Status.FAIL if died or saved else Status.UNKNOWN, reason=died or "no last.pt")
    return Check("smoke.model_saved", Status.PASS, f"model saved ({size / 1e6:.1f} MB)")


def _predicted(predicted: Mapping[str, Any] | None, died: str) -> Check:
    if not predicted or "error" in predicted:
        reason = str((predicted or {}).get("error") or died or "not reached")
        return Check("smoke.model_predicts", Status.FAIL if died or predicted else Status.UNKNOWN, reason=reason)
    return Check("smoke.model_predicts", Status.PASS, "loads and predicts", facts=dict(predicted))


def _resumed(resumed: Mapping[str, Any] | None, died: str) -> Check:
    if not resumed or "error" in resumed:
        reason = str((resumed or {}).get("error") or died or "not reached")
        return Check("smoke.resumable", Status.FAIL if died or resumed else Status.UNKNOWN, reason=reason)
    good = resumed["batches"] > 0 and resumed["optimizer_state"] and math.isfinite(float(resumed["mean_loss"]))
    value = f"resumed epoch {resumed['epoch']} ({resumed['batches']} batches)"
    return Check("smoke.resumable", Status.PASS if good else Status.FAIL, value, facts=dict(resumed))
