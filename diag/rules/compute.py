"""speed.gpu_bound, speed.optimizer_bound, speed.val_dominates: compute, the optimizer or validation is the limit."""

from diag.model.evidence import Console, Ledger, StepStats
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import Phases, TrainLog
from diag.model.hardware import Baseline
from diag.model.run import TrainArgs
from diag.model.trace import STEP_STAGES, Stage
from diag.rules.base import rule
from diag.rules.facts import on_cpu, whole
from diag.rules.step_views import compute_share


@rule(
    "speed.gpu_bound",
    Severity.INFO,
    explained_by=("speed.tal_cpu_fallback", "env.torch_cpu"),
    # Where an epoch is made of something else than steps.
    unless=("speed.val_dominates", "speed.checkpoint_heavy", "speed.worker_respawn"),
)
def gpu_bound(
    steps: StepStats,
    args: TrainArgs | None,
    baseline: Baseline | None,
    console: Console | None,
    phases: Phases | None,
    *,
    min_share: float = 0.65,
    max_wait: float = 0.20,
    min_steps: int = 5,
) -> Verdict:
    """Compute is the limit; the loader keeps up.

    min_share: two thirds of the step in transfer, forward and backward; TraceML asks for 90 % of a step
    without its residual, LibreYOLO for 80 % of GPU time, which host times cannot show.
    max_wait: the limit of speed.loader_bound, so that both are never reported together. A loss that takes more than
    half of the training is computed elsewhere (speed.tal_cpu_fallback).
    """
    if phases is not None and max((p.share("loss") for p in phases.of("train")), default=0.0) > 0.5:
        return None
    if steps.steady_steps < min_steps:
        return Skip("too_few_steps", {"have": steps.steady_steps, "need": min_steps})
    cpu = on_cpu(args, baseline, console)
    compute = compute_share(steps)
    if cpu is False and Stage.LOG in steps.mean_s:
        # CUDA runs behind the host: the host waits for it in the optimizer (inf check of AMP) and at the loss read-out.
        compute += steps.share(Stage.OPTIMIZER) + steps.share(Stage.LOG)
    if compute < min_share or steps.share(Stage.DATA_WAIT) > max_wait:
        return None
    fixes = [Fix("smaller_model")]
    imgsz = args.get("imgsz") if args else None
    if isinstance(imgsz, int) and imgsz > 320:
        fixes.append(Fix("smaller_imgsz", {"imgsz": max(320, imgsz // 64 * 32)}))
    if cpu is False and args is not None and args.get("amp", True) is False:
        fixes.append(Fix("amp", {"amp": True}))
    return Hit(
        values={
            "case": {True: "cpu", False: "gpu", None: "unknown"}[cpu],
            "unit": {True: "CPU", False: "GPU", None: "CPU/GPU"}[cpu],
            "compute": compute,
            "wait": steps.share(Stage.DATA_WAIT),
            "step_s": steps.step_s,
            "compute_s": compute * steps.step_s,
        },
        fixes=tuple(fixes),
        evidence=(whole(steps),),
        confidence=Confidence.HIGH if steps.steady_steps >= 30 else Confidence.MEDIUM,
        headroom=compute,
    )


@rule("speed.optimizer_bound", Severity.MEDIUM)
def optimizer_bound(
    steps: StepStats,
    args: TrainArgs | None,
    baseline: Baseline | None,
    console: Console | None,
    *,
    max_share: float = 0.20,
    min_steps: int = 5,
) -> Verdict:
    """The optimizer step is a large share of the step (clipping, EMA, tiny batch).

    max_share: as for the loader, 20 % of the step: without it training is at most 1.25 times faster.
    On CUDA the host's clock can't tell: the optimizer lap holds the wait for the GPU's backward pass.
    """
    if steps.steady_steps < min_steps:
        return Skip("too_few_steps", {"have": steps.steady_steps, "need": min_steps})
    # A train.log of three fields comes from a script that times on its own terms; a trace is host time.
    if on_cpu(args, baseline, console) is False and Stage.LOG in steps.mean_s:
        return Skip("cuda_host_clock")
    share = steps.share(Stage.OPTIMIZER)
    if share <= max_share:
        return None
    batch = args.get("batch") if args else None
    nbs = args.get("nbs", 64) if args else None
    fixes = []
    if isinstance(batch, int) and isinstance(nbs, int) and batch > 0 and nbs > 0:
        # One optimizer step per max(1, round(nbs / batch)) batches: up to nbs a larger batch saves none.
        fixes.append(Fix("accumulate", {"nbs": 4 * max(batch, nbs // 2)}))
        if batch >= nbs:
            fixes.append(Fix("larger_batch", {"batch": batch * 2}))
    return Hit(
        values={
            "share": share,
            "optimizer_s": steps.steady_mean_s.get(Stage.OPTIMIZER, 0.0),
            "step_s": steps.step_s,
            "speedup": 1 / (1 - share) if share < 1 else float("inf"),
            "batch": str(batch) if batch is not None else None,
        },
        fixes=tuple(fixes) or (Fix("larger_batch_by_hand"),),
        evidence=(whole(steps),),
        confidence=Confidence.HIGH if steps.steady_steps >= 30 else Confidence.MEDIUM,
        headroom=share,
    )


@rule("speed.val_dominates", Severity.HIGH, explained_by=("speed.val_postproc_cpu",))
def val_dominates(
    ledger: Ledger | None,
    args: TrainArgs | None,
    log: TrainLog | None,
    phases: Phases | None,
    *,
    max_share: float = 0.40,
    high_share: float = 0.60,
    min_wall_s: float = 15.0,
) -> Verdict:
    """Validation takes a large share of the epoch.

    max_share: of the time in batches and validation. Validation runs the forward pass only, on fewer images: a 20
    % split at a third of the cost per image is about 6 %; 40 % is far outside that. high_share: from 60 % on the
    run waits more for validation than it trains: high, else medium. min_wall_s: shorter runs (smoke tests) are too
    small to say. Without a trace the bars of the console log tell both times. Reported in ultralytics#509,
    yolov5#11474, ultralytics#17523.
    """
    if ledger is None:
        return _val_by_bars(log, max_share, high_share, min_wall_s)
    train_s = sum(ledger.seconds.get(stage, 0.0) for stage in STEP_STAGES)
    val_s = ledger.seconds.get(Stage.VALIDATE, 0.0)
    if train_s + val_s < min_wall_s:
        return Skip("run_too_short", {"have": train_s + val_s, "need": min_wall_s})
    share = val_s / (train_s + val_s)
    if share <= max_share:
        return None
    fixes = [Fix("fewer_val_images")]
    if args is None or args.get("plots", True):
        fixes.append(Fix("no_plots", {"plots": False}))
    return Hit(
        values={"share": share, "val_s": val_s, "train_s": train_s},
        fixes=tuple(fixes),
        evidence=(whole(phases) if phases else Source("trace/rank0.jsonl"),),
        headroom=share,
        severity=Severity.HIGH if share >= high_share else Severity.MEDIUM,
    )


def _val_by_bars(log: TrainLog | None, max_share: float, high_share: float, min_wall_s: float) -> Verdict:
    rows = [(e.train_s, e.val_s) for e in log.epochs if e.train_s is not None and e.val_s is not None] if log else []
    if log is None or not rows:
        return Skip("no_evidence", {"missing": "ledger, log"})
    train_s, val_s = sum(t for t, _ in rows), sum(v for _, v in rows)
    if train_s + val_s < min_wall_s:
        return Skip("run_too_short", {"have": train_s + val_s, "need": min_wall_s})
    share = val_s / (train_s + val_s)
    if share <= max_share:
        return None
    return Hit(
        values={"share": share, "val_s": val_s, "train_s": train_s},
        fixes=(Fix("fewer_val_images"), Fix("no_plots", {"plots": False})),
        evidence=(Source(log.file, log.epochs[-1].line),),
        confidence=Confidence.MEDIUM,
        headroom=share,
        severity=Severity.HIGH if share >= high_share else Severity.MEDIUM,
    )
