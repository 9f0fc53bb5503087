"""speed.val_postproc_cpu: what comes after the model takes the validation's time."""

from diag.model.evidence import Ledger, ValidationStats
from diag.model.finding import Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.run import TrainArgs
from diag.model.trace import STEP_STAGES, Stage
from diag.rules.base import rule


@rule("speed.val_postproc_cpu", Severity.MEDIUM)
def val_postproc_cpu(
    validation: ValidationStats,
    ledger: Ledger,
    args: TrainArgs | None,
    *,
    min_part: float = 0.50,
    min_share: float = 0.20,
    min_wall_s: float = 30.0,
) -> Verdict:
    """Validation time is post-processing on the CPU: NMS, matching, metrics.

    min_part: more than the model itself. min_share: validation is a fifth of the time in batches and validation, the
    limit that the loader's rules use: without it training is at most 1.25 times faster. min_wall_s: shorter runs are
    too small to say.
    """
    train_s = sum(ledger.seconds.get(stage, 0.0) for stage in STEP_STAGES)
    all_val_s = ledger.seconds.get(Stage.VALIDATE, 0.0)
    if train_s + all_val_s < min_wall_s:
        return Skip("run_too_short", {"have": train_s + all_val_s, "need": min_wall_s})
    post_s = validation.mean_s.get("postprocess", 0.0) + validation.mean_s.get("metrics", 0.0)
    share = all_val_s / (train_s + all_val_s)
    part = post_s / validation.val_s if validation.val_s > 0 else 0.0
    if part < min_part or share < min_share:
        return None
    conf = args.get("conf") if args else None
    fixes = [Fix("higher_conf", {"conf": 0.01})] if not isinstance(conf, float) or conf < 0.01 else []
    return Hit(
        values={"part": part, "post_s": post_s, "val_s": validation.val_s, "share": share, "images": validation.images},
        fixes=(*fixes, Fix("lower_max_det", {"max_det": 100})),
        evidence=(Source(validation.file),),
        headroom=share * part,
    )
