"""train.*: how the run ended, and whether that was as planned."""

import math
import re
from statistics import median

from diag.model.curves import Curves
from diag.model.evidence import Console
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import TrainLog
from diag.model.run import RunRecord, TrainArgs
from diag.rules.base import rule
from diag.rules.curve_facts import head_gain
from diag.rules.facts import open_ended, sources
from diag.stats import finite
from diag.stats import noise as noise_of

_CAUSES = (
    "mem.gpu_oom",
    "mem.ram_oom_killed",
    "mem.shm_small",
    "disk.full",
    "num.nan_loss",
    "data.no_labels",
    "env.port_in_use",
    "mem.gpu_oom_late",
    "mem.gpu_oom_val",
    "mem.gpu_oom_dense",
    "env.torchvision_mismatch",
    "env.hung_worker_exit",
    "num.collapse",
    "num.diverged",
    "num.lr_too_high",
    "num.mps_bad_loss",
    "num.amp_gpu_arch",
    "num.amp_overflow",
    "num.seg_nan",
    "num.bn_garbage",
    "hw.xid",
    "hw.ecc_errors",
    "hw.mem_limit",
    "mem.ram_cache_too_big",
    "mem.low_disk_swap",
    "mem.pagefile",
    "mem.pinned_limit",
    "mem.map_count",
    "disk.cache_full",
    "env.nccl_hang_p2p",
    "env.nccl_timeout_scan",
    "env.check_failed",
    "env.driver_old",
    "env.no_kernel",
    "env.weights_missing",
    "env.workspace_unwritable",
    "hw.disk_low",
    "hw.gpu_wrong_result",
)
"""What ends a run, or makes a person end it."""


PATIENCE_SHARE = 0.2
"""Of the planned epochs: a shorter patience ends the run while the schedule has hardly begun to anneal
(ultralytics#24138: 35 of 200)."""


def stopped_early(curves: Curves, args: TrainArgs | None) -> str:
    """The definition of fitness by which the run ended by early stopping: rows = best row + patience; else empty.

    The arithmetic is exact: it held in all 29 early-stopped of 159 public runs, and in none of the 14
    interrupted ones. Counted are epochs, not rows, since rows may be missing in between.
    """
    patience = args.get("patience", 100) if args else 100
    if not isinstance(patience, (int, float)) or patience <= 0:
        return ""
    best = curves.epoch(curves.rows) - patience
    return next((name for name, at in curves.stop_at.items() if any(curves.epoch(one) == best for one in at)), "")


def patience_too_short(
    curves: Curves, args: TrainArgs | None, *, max_patience: int, lr_left: float, gain: float, noise: float
) -> bool:
    """Early stopping ended a run that was still improving, or whose score is too noisy for its patience.

    The thresholds are those of train.es_premature.
    """
    patience = args.get("patience") if args else None
    if not stopped_early(curves, args) or not isinstance(patience, int) or not curves.best_at:
        return False
    lrs = [v for v in curves.lr if math.isfinite(v)]
    left = lrs[-1] / max(lrs) if lrs and max(lrs) > 0 else 0.0
    noisy = curves.best > 0 and max(curves.noise / curves.best, *head_noise(curves)) >= noise
    rising = max(curves.gain, head_gain(curves)) >= gain or curves.val_gain >= gain
    planned = planned_epochs(args) or 0
    short = patience <= max(max_patience, PATIENCE_SHARE * planned)
    if patience > max_patience:  # a patience that is only short for its plan must have cut a rising, noisy score off
        return short and left >= lr_left and noisy and curves.gain >= gain and curves.last < curves.best
    return short and left >= lr_left and (rising or noisy)


def head_noise(curves: Curves) -> list[float]:
    """Noise of the mAP50-95 of masks and keypoints as a share of its best: they count in the fitness, too."""
    columns = [v for n, v in curves.columns.items() if n.startswith("metrics/mAP50-95(") and not n.endswith("(B)")]
    found = [(v, max(finite(v), default=0.0)) for v in columns]
    return [0.0, *(noise_of(v[-max(5, len(v) // 3) :]) / best for v, best in found if best > 0)]


def planned_epochs(args: TrainArgs | None) -> int | None:
    """The epochs that were asked for; None where unknown or where a time limit decides."""
    epochs = args.get("epochs") if args else None
    limited = args is not None and args.get("time") is not None
    return epochs if isinstance(epochs, int) and epochs > 0 and not limited else None


def all_epochs(curves: Curves, planned: int) -> bool:
    """The file reaches the last planned epoch. An excerpt may count from 0, and one epoch less is believed."""
    return curves.trained >= planned - curves.excerpt


@rule("train.incomplete", Severity.MEDIUM, explained_by=_CAUSES)
def incomplete(
    curves: Curves, args: TrainArgs, run: RunRecord | None, console: Console | None, log: TrainLog | None
) -> Verdict:
    """The run ended before its planned epochs without early stopping.

    Reported in ultralytics#2175, yolov5#409.
    """
    planned = planned_epochs(args)
    if planned is None:
        return Skip("no_plan")
    if not curves.train and not curves.metric and run is None:
        return Skip("no_losses")  # a log of rates alone
    if run is not None and run.exit_cause.kind == "running" and not run.ended:
        return Skip("still_running")
    if all_epochs(curves, planned) or stopped_early(curves, args):
        return None
    if open_end := open_ended(curves, log):
        return open_end
    if curves.excerpt and run is None:
        return Skip("excerpt")
    if console is not None and console.of("early_stop"):
        return None
    cause = run.exit_cause if run is not None else None
    known = cause is not None and cause.kind not in {"running", "finished"}
    return Hit(
        values={
            "case": "known" if known else "unknown",
            "epochs": curves.trained,
            "planned": planned,
            "best": curves.best if curves.best_at else None,
            "cause": cause.kind if cause and known else None,
            "detail": cause.detail if cause and known else None,
        },
        fixes=(Fix("resume", {"resume": True}),),
        evidence=(Source(curves.file, curves.line(curves.rows)), *sources(console, ("killed", "error"))),
        confidence=Confidence.HIGH,
    )


@rule("train.early_stopped_ok", Severity.INFO, explained_by=("train.es_early_spike", "train.es_on_saturated_metric"))
def early_stopped(
    curves: Curves,
    args: TrainArgs | None,
    console: Console | None,
    *,
    max_patience: int = 20,
    lr_left: float = 0.5,
    gain: float = 0.02,
    noise: float = 0.05,
) -> Verdict:
    """Early stopping ended the run, as asked for.

    Not said where train.es_premature says that it came too early (max_patience, lr_left, gain, noise as there).
    Reported in ultralytics#7609.
    """
    if patience_too_short(curves, args, max_patience=max_patience, lr_left=lr_left, gain=gain, noise=noise):
        return None
    planned = planned_epochs(args)
    if planned is None and console is None:
        return Skip("no_plan")
    fitness = stopped_early(curves, args)
    said = console.of("early_stop") if console else ()
    if (planned is None or all_epochs(curves, planned) or not fitness) and not said:
        return None
    patience = args.get("patience", 100) if args else None
    words = " ".join(line.text for line in said)
    best = re.search(r"observed at epoch (\d+)", words)
    left = curves.epoch(curves.rows) - (patience or 0)
    best_at = next((at for at in curves.stop_at.get(fitness, ()) if curves.epoch(at) == left), curves.best_at)
    at = curves.epoch(best_at)
    known = best is None or int(best[1]) in {at, at + 1}  # an excerpt need not hold the row of the best epoch
    row = (Source(curves.file, curves.line(best_at)),) if known else ()
    return Hit(
        values={
            "case": "known" if planned and patience else "unknown",
            "epochs": curves.trained,
            "planned": planned,
            "best_epoch": at if known or best is None else int(best[1]),
            "patience": patience,
        },
        evidence=(*row, *sources(console, ("early_stop",), limit=1)),
    )


@rule("train.mixed_runs", Severity.HIGH)
def mixed_runs(curves: Curves) -> Verdict:
    """results.csv holds rows of more than one training; only the last long one is judged.

    A resume that repeats a few epochs is not meant: its rows continue the chain.
    """
    if curves.chains <= 1:
        return None
    return Hit(
        values={"chains": curves.chains, "rows": curves.rows, "first": curves.first_row},
        fixes=(Fix("own_folder", {"exist_ok": False}),),
        evidence=(Source(curves.file, curves.line(1)),),
    )


@rule(
    "train.converged_ok",
    Severity.INFO,
    unless=(
        "train.overfit",
        "train.val_gap",
        "train.early_peak",
        "data.train_val_leak",
        "num.nan_loss",
        "num.collapse",
        "num.diverged",
    ),
)
def converged(
    curves: Curves,
    args: TrainArgs | None,
    console: Console | None,
    *,
    min_epochs: int = 10,
    max_drop: float = 0.034,
    max_gain: float = 0.09,
    short_epochs: int = 30,
    short_gain: float = 0.05,
    max_val_rise: float = 0.10,
    min_score: float = 0.3,
    max_noise: float = 0.12,
    min_head: float = 0.1,
    rising: float = 0.04,
    max_dip: float = 0.1,
) -> Verdict:
    """Converged and healthy: ended as planned, near its best, no longer rising much.

    max_drop: nine of ten healthy public runs end within 3.4 % of their best. max_gain, short_epochs,
    short_gain: the limits from which train.undertrained is medium. max_val_rise: a rising validation loss with a steady
    score is common (up to 8 % in the healthy runs), and of no matter where the score is best at its end. A rate that
    rose for half of the run or longer has hardly come out of warm-up: nothing has converged. min_score: a low score is
    not called healthy. max_noise: a score that swings as train.oscillation calls medium ends near its best by chance
    only. min_head: mAP50 of masks or keypoints against that of the boxes; below it that head has learned nothing.
    rising: a last fifth that still brought so much (train.undertrained from there on) is said with it: one story. Not
    said where train.es_premature says (with its defaults) that the end came too early. max_dip: of the first score was
    lost and never quite regained: such a run has only damaged the weights it began with.
    """
    if curves.rows < min_epochs:
        return Skip("too_few_epochs", {"have": curves.rows, "need": min_epochs})
    if not curves.best_at:
        return Skip("no_score")
    if (scored := len(finite(curves.score))) < min_epochs:  # validated once in a while, or only after the last epoch
        return Skip("too_few_epochs", {"have": scored, "need": min_epochs})
    planned = planned_epochs(args)
    said = bool(console and console.of("early_stop"))
    if planned is not None and not all_epochs(curves, planned) and not said and not stopped_early(curves, args):
        return None
    if patience_too_short(curves, args, max_patience=20, lr_left=0.5, gain=0.02, noise=0.05):
        return None  # train.es_premature says so
    limit = short_gain if curves.rows <= short_epochs else max_gain
    gain = max(curves.gain, head_gain(curves)) if curves.rows <= short_epochs else curves.gain
    if curves.drop > max(max_drop, curves.drop_noise) or gain >= limit or curves.last < min_score:
        return None
    to_the_end = curves.smooth_best_at >= 0.9 * curves.rows
    if (curves.val_rise > max_val_rise and not to_the_end) or curves.noise / curves.best >= max_noise:
        return None
    if curves.lr and curves.lr.index(max(curves.lr)) >= curves.rows / 2 and max(curves.lr) > 1.5 * curves.lr[0]:
        return None
    scores = [v for v in curves.score if math.isfinite(v)]
    if curves.best_at <= 2 and min(scores) < (1 - max_dip) * scores[0] and curves.last < scores[0]:
        return None
    ends = {head: curves.columns.get(f"metrics/mAP50({head})", (math.nan,))[-1] for head in "BMP"}
    if any(ends[head] < min_head * ends["B"] for head in "MP"):
        return None
    return Hit(
        values={
            "case": "rising" if curves.gain >= rising else None,
            "best": curves.best,
            "last": curves.last,
            "epoch": curves.epoch(curves.best_at),
            "epochs": curves.trained,
            "gain": curves.gain,
            "metric": curves.metric_name,
        },
        evidence=(Source(curves.file, curves.line(curves.best_at)),),
    )


@rule("train.saturated", Severity.INFO, explained_by=("data.train_val_leak", "data.val_equals_train"))
def saturated(
    curves: Curves, *, min_score: float = 0.95, min_accuracy: float = 0.995, all_found: float = 0.98,
    from_start: float = 0.9, kept: float = 0.96,
) -> Verdict:  # fmt: skip
    """The score is at its ceiling: more training can't show anything, a harder validation set could.

    min_score: label noise of boxes leaves little above 0.95 mAP50-95. min_accuracy: accuracies reach 1 more
    easily. all_found, from_start, kept: so is a run that found everything (mAP50) in nearly every row, with a mAP50-95
    of from_start or more that was there in the first rows already (of trained weights). Of 95 public runs six ended at
    min_score. Reported in ultralytics#21123.
    """
    if not curves.best_at:
        return Skip("no_score")
    accuracy = "accuracy" in curves.metric
    found = sorted(finite(curves.score50))
    begun = finite(curves.score[: curves.window])
    throughout = (
        not accuracy
        and len(found) >= 2 * curves.window
        and found[len(found) // 10] >= all_found
        and median(begun or [0.0]) >= max(from_start, kept * curves.last)
    )
    if not curves.last >= (min_accuracy if accuracy else min_score) and not throughout:
        return None
    return Hit(
        values={"last": curves.last, "metric": curves.metric_name, "epoch": curves.epoch(curves.best_at)},
        fixes=(Fix("check_split"),),
        evidence=(Source(curves.file, curves.line(curves.rows)),),
        confidence=Confidence.MEDIUM,
    )
