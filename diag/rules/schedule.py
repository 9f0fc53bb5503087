"""train.*: learning rate and mosaic, as configured and as they really were."""

import math
import re

from diag.model.curves import Curves
from diag.model.evidence import Console
from diag.model.finding import Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import TrainLog
from diag.model.run import RunRecord, TrainArgs
from diag.rules.base import rule
from diag.rules.ending import planned_epochs
from diag.rules.facts import sources
from diag.stats import mean

DEFAULT_LR0 = 0.01


def _named(lr0: float, *, usual: float = 0.01, high: float = 2.0) -> Fix:
    """Name an optimizer that heeds lr0; a rate of more than `high` times the usual one of SGD is not advised."""
    if lr0 > high * usual:
        return Fix("name_usual", {"optimizer": "SGD", "lr0": usual})
    return Fix("name_optimizer", {"optimizer": "SGD" if lr0 >= 0.005 else "AdamW", "lr0": lr0})


@rule("train.lr0_ignored", Severity.HIGH)
def lr0_ignored(
    curves: Curves,
    args: TrainArgs,
    run: RunRecord | None,
    console: Console | None,
    *,
    factor: float = 1.5,
    medium_factor: float = 3.0,
    high_factor: float = 10.0,
    low_score: float = 0.3,
) -> Verdict:
    """optimizer=auto overrides lr0: the LR column shows another learning rate than was asked for.

    Only a lr0 that somebody chose counts (given on the command line, or not the default 0.01). factor: the largest
    LR of the weights differs from it by this much: low; medium from medium_factor on, high from high_factor on.
    low_score: a run that ends there or above, and near its best, was not harmed: low where it would be medium. The
    factors are proposals. Reported in ultralytics#8400.
    """
    if str(args.get("optimizer", "auto")).lower() != "auto":
        return None
    lr0 = args.get("lr0")
    chosen = "lr0" in run.overrides if run is not None else lr0 != DEFAULT_LR0
    lrs = [v for v in curves.lr if math.isfinite(v) and v > 0]
    if not isinstance(lr0, (int, float)) or not lrs or lr0 <= 0:
        return Skip("no_lr")
    real = max(lrs)
    ratio = max(real / lr0, lr0 / real)
    if not chosen or ratio < factor:
        return None
    return Hit(
        values={"lr0": float(lr0), "real": real, "ratio": ratio},
        fixes=(_named(float(lr0)),),
        evidence=(
            Source(curves.file, curves.line(curves.lr.index(real) + 1)),
            *sources(console, ("optimizer_auto",), limit=1),
        ),
        severity=Severity.HIGH
        if ratio >= high_factor
        else Severity.MEDIUM
        if ratio >= medium_factor and not _unharmed(curves, low_score)
        else Severity.LOW,
    )


def _unharmed(curves: Curves | None, low_score: float) -> bool:
    """The run ended at a fair score near its best."""
    return curves is not None and curves.last >= max(low_score, 0.9 * curves.best)


@rule("train.lr0_ignored@log", Severity.HIGH)
def lr0_ignored_log(
    console: Console,
    log: TrainLog | None,
    curves: Curves | None,
    args: TrainArgs | None,
    *,
    factor: float = 1.5,
    medium_factor: float = 3.0,
    high_factor: float = 10.0,
    low_score: float = 0.3,
) -> Verdict:
    """optimizer=auto overrides lr0: Ultralytics says so, and which rate it chose instead (ultralytics#8400, #22782).

    Only where no LR column tells it better, and for a lr0 that is not the default 0.01. Releases before 8.0.19x do not
    say so: there the rate of the `optimizer:` line differs from that of the arguments (#3629: 0.1 and 0.001429).
    factor, medium_factor, high_factor, low_score: as for train.lr0_ignored; without the chosen rate it is medium.
    """
    said = sources(console, ("optimizer_auto",), limit=1)
    found = re.search(r"ignoring \W{0,2}(?:lr0?)=(\d*\.?\d+(?:e-?\d+)?)", said[0].text) if said else None
    lr0 = float(found[1].rstrip(".") or 0) if found else 0.0
    asked = args.get("lr0") if args else None
    named = str(args.get("optimizer", "")) if args else ""
    silent = not said and log is not None and log.optimizer_lr and named.lower() == "auto"
    if silent and isinstance(asked, float) and asked > 0:
        lr0, said = asked, sources(console, ("optimizer",), limit=1)
    if not lr0 or lr0 == DEFAULT_LR0:
        return None
    if curves is not None and any(math.isfinite(v) and v > 0 for v in curves.lr):
        return None  # train.lr0_ignored knows it better
    real = log.optimizer_lr if log else None
    ratio = max(real / lr0, lr0 / real) if real else 0.0
    if real and ratio < factor:
        return None
    return Hit(
        values={"case": "known" if real else None, "lr0": lr0, "real": real, "ratio": ratio},
        fixes=(_named(lr0),),
        evidence=said,
        severity=Severity.HIGH
        if ratio >= high_factor
        else Severity.MEDIUM
        if (ratio >= medium_factor and not _unharmed(curves, low_score)) or not real
        else Severity.LOW,
    )


@rule("train.close_mosaic_step", Severity.INFO, unless=("num.nan_loss", "num.collapse", "num.diverged"))
def close_mosaic(
    curves: Curves, args: TrainArgs, *, step: float = 0.05, width: int = 3, max_loss: float = 0.3
) -> Verdict:
    """The step in the training loss at epochs - close_mosaic is mosaic being switched off; no fault.

    step: of 63 public runs that can be checked the loss fell by more than 5 % in 19 and rose by more
    than 4 % in 17 (small and dense objects). Classification has no mosaic. max_loss: of the score; where more is
    lost at that epoch something broke (ultralytics#372: zero and inf from epoch 40 of 50 on).
    """
    if "accuracy" in curves.metric:
        return None
    planned, last = planned_epochs(args), args.get("close_mosaic", 10)
    if planned is None or not isinstance(last, int):
        return Skip("no_plan")
    at = planned - last - (curves.trained - curves.rows)  # rows before the switch
    if last <= 0 or args.get("mosaic", 1.0) == 0 or at < width or curves.rows < at + width:
        return None
    score = [mean(curves.score[at - width : at]), mean(curves.score[at : at + width])] if curves.score else []
    if (score and score[1] < (1 - max_loss) * score[0]) or any(not math.isfinite(v) for v in curves.train_sum[at:]):
        return None  # something broke there: num.collapse, num.nan_loss
    before = [v for v in curves.train_sum[at - width : at] if math.isfinite(v)]
    after = [v for v in curves.train_sum[at : at + width] if math.isfinite(v)]
    if not before or not after or sum(before) <= 0:
        return Skip("no_losses")
    change = (sum(after) / len(after)) / (sum(before) / len(before)) - 1
    if abs(change) < step:
        return None
    return Hit(
        values={"epoch": curves.epoch(at + 1), "change": change, "close_mosaic": last},
        evidence=(Source(curves.file, curves.line(at + 1)),),
    )
