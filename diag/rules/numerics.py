"""num.*: losses that are no numbers any more."""

import math
import re
from collections.abc import Callable, Mapping

from diag.model.curves import Curves
from diag.model.evidence import Console
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import TrainLog
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.facts import auto_optimizer, on_cpu, sources
from diag.stats import finite


@rule(
    "num.nan_loss",
    Severity.CRITICAL,
    explained_by=("num.amp_gpu_arch", "num.seg_nan", "num.amp_overflow", "num.lr_too_high", "num.mps_bad_loss"),
)
def nan_loss(curves: Curves | None, args: TrainArgs | None, console: Console | None, log: TrainLog | None) -> Verdict:
    """The training loss became NaN or inf.

    Also in the running mean of an epoch that is not finished, which can never become a number again.

    Rows of training losses only: half-precision validation alone gives nan in healthy runs. Losses that are
    numbers again at the end have recovered: medium instead of critical. An epoch that Ultralytics itself took back
    is never written to results.csv; only the console tells of it. "NaN persisted" is its last word: it took back
    as often as it does, and the training ended. Reported in ultralytics#4733, ultralytics#24063, Adan#20.
    """
    said = sources(console, ("nan_recovered",))
    broken = curves is not None and any(math.isnan(v) for values in curves.train.values() for v in values)
    if said and not broken:
        told = [line.text for line in console.of("nan_recovered")] if console else []
        died = next((line for line in told if "persist" in line), "")
        times = re.search(r"persisted for (\d{1,4})", died)
        rows = int(times[1]) if times else len(told) - bool(died)
        return Hit(
            values={"case": "died" if died else "reloaded", "rows": rows},
            fixes=(Fix("lower_lr_by_hand"), Fix("check_data")),
            evidence=said,
            severity=Severity.CRITICAL if died else Severity.MEDIUM,
        )
    part = next((e for e in log.parts if any(map(math.isnan, e.losses.values()))), None) if log else None
    if part is not None and log is not None and not log.epochs and log.parts[-1].epoch == part.epoch:
        names = [n for n, v in part.losses.items() if math.isnan(v)]
        return Hit(
            values={"case": "part", "epoch": part.epoch, "losses": ", ".join(names), "done": part.done or 0},
            fixes=(Fix("amp_off", {"amp": False}), Fix("check_data")),
            evidence=(Source(log.file, part.line),),
        )
    if curves is None:
        return Skip("no_evidence", {"missing": "curves"})
    bad = _bad_rows(curves.train)
    if not curves.train:
        return Skip("no_losses")
    if not bad or not any(math.isnan(v) for values in curves.train.values() for v in values):
        return None  # inf alone is num.loss_inf
    odd = {n for n, v in curves.train.items() if any(math.isnan(x) for x in v)}
    if odd == {"seg_loss"} and len(curves.train) > 1:
        return None  # num.seg_nan: the mask head alone, which lower rates do not heal
    first, forever = bad[0], bad[-1] == curves.rows
    amp = args is None or args.get("amp", True) is not False
    fixes = [Fix("amp_off", {"amp": False})] if amp else []
    if first > 1:
        lr0 = args.get("lr0") if args else None
        if isinstance(lr0, float) and lr0 > 0:
            key = "lower_lr_named" if auto_optimizer(args) else "lower_lr"
            fixes.insert(
                0 if _rose(curves, first) else len(fixes), Fix(key, {"lr0": lr0 / 10, "optimizer": _optimizer(args)})
            )
        fixes.append(Fix("resume_before"))
    else:
        fixes += [Fix("check_data"), Fix("lower_lr_by_hand")] if not amp else [Fix("check_data")]
    return Hit(
        values={
            "case": "start" if first == 1 and not curves.excerpt else "later" if forever else "recovered",
            "epoch": curves.epoch(first),
            "rows": len(bad),
            "of": curves.rows,
            "losses": ", ".join(sorted(n for n, v in curves.train.items() if not all(map(math.isfinite, v)))),
        },
        fixes=tuple(fixes) or (Fix("check_data"),),
        evidence=(Source(curves.file, curves.line(first)),),
        severity=Severity.CRITICAL if forever else Severity.MEDIUM,
    )


@rule("num.val_fp16_nan", Severity.MEDIUM)
def val_nan(curves: Curves, args: TrainArgs | None, console: Console | None) -> Verdict:
    """Only validation losses are NaN: half-precision validation, training is healthy.

    Not on the CPU, which validates in full precision (engine/validator.py), nor where training losses are zero:
    there the model itself is broken. Reported in ultralytics#9829, ultralytics#21765.
    """
    return _val_only(curves, args, console, math.isnan)


@rule("num.val_fp16_inf", Severity.MEDIUM)
def val_inf(curves: Curves, args: TrainArgs | None, console: Console | None) -> Verdict:
    """Only a validation loss is inf: half-precision overflow, training is healthy. Never on the CPU."""
    return _val_only(curves, args, console, math.isinf)


def _val_only(
    curves: Curves, args: TrainArgs | None, console: Console | None, test: Callable[[float], bool]
) -> Verdict:
    if not curves.val:
        return Skip("no_losses")
    rows = sorted({i for values in curves.val.values() for i, v in enumerate(values, 1) if test(v)})
    if not rows or _bad_rows(curves.train) or on_cpu(args, None, console) or 0.0 in curves.train_sum:
        return None
    # Rows at the end matter; a few at the start are overflow while the losses are still large: no fault.
    late = rows[-1] > curves.rows - curves.window
    return Hit(
        values={
            "rows": len(rows),
            "of": curves.rows,
            "epoch": curves.epoch(rows[0]),
            "losses": ", ".join(sorted(n for n, v in curves.val.items() if any(map(test, v)))),
        },
        fixes=(Fix("fp32_val", {"half": False}),) if late else (Fix("ignore"),),
        evidence=(Source(curves.file, curves.line(rows[0])),),
        confidence=Confidence.HIGH if late else Confidence.MEDIUM,
        severity=Severity.MEDIUM if late else Severity.INFO,
    )


def _bad_rows(losses: Mapping[str, tuple[float, ...]]) -> list[int]:
    return sorted({i for values in losses.values() for i, v in enumerate(values, 1) if not math.isfinite(v)})


def _rose(curves: Curves, first: int, *, growth: float = 1.1) -> bool:
    """The losses had left their minimum by a tenth before the first NaN: steps too large, not half precision alone."""
    before = finite(curves.train_sum[: first - 1])
    return len(before) >= 2 and before[-1] > growth * min(before) > 0


def _optimizer(args: TrainArgs | None) -> str:
    name = str(args.get("optimizer", "auto")) if args else "auto"
    # optimizer=auto ignores lr0, so a lower lr0 needs a named optimizer.
    return "AdamW" if name.lower() == "auto" else name
