"""num.*: why the numbers broke: the card, the backend, the learning rate, one head."""

import math
import re
from itertools import pairwise

from diag.model.curves import Curves
from diag.model.evidence import Console
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import Notes, Tables, TrainLog
from diag.model.hardware import Baseline
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.facts import from_scratch, gpu_name, sources, whole
from diag.stats import finite, smooth

_BROKEN_FP16 = re.compile(r"GTX ?16\d\d|\bT(?:400|600|1000|1200|500|550)\b|MX ?450|MX ?550|Quadro T\d", re.I)
_ADAM = re.compile(r"adam|lion|rmsprop", re.I)


@rule("num.amp_gpu_arch", Severity.CRITICAL)
def amp_gpu_arch(
    curves: Curves, log: TrainLog | None, notes: Notes | None, baseline: Baseline | None, args: TrainArgs | None
) -> Verdict:
    """This GPU's half precision is broken: NaN from the first step (GTX 16xx, T-series).

    Turing cards without tensor cores return NaN from fp16 convolutions; the AMP check passes all the same
    (ultralytics#1148, #280, #1655, yolov5#7908). Every training loss is NaN in the first rows, so it is neither
    the learning rate nor the labels.
    """
    name = gpu_name(log, notes, baseline)
    if not curves.train:
        return Skip("no_losses")
    if args is not None and args.get("amp", True) is False:
        return None
    nan = all(math.isnan(v) for values in curves.train.values() for v in values[:1])
    if not nan or curves.excerpt:
        return None
    if not name:
        return Skip("gpu_unknown")
    if not _BROKEN_FP16.search(name):
        return None
    return Hit(
        values={"gpu": name, "rows": sum(math.isnan(v) for v in curves.train_sum)},
        fixes=(Fix("amp_off", {"amp": False}), Fix("fp32_val", {"half": False})),
        evidence=(Source(curves.file, curves.line(1)),),
    )


@rule("num.amp_overflow", Severity.HIGH, explained_by=("num.amp_gpu_arch",))
def amp_overflow(
    curves: Curves | None, console: Console | None, args: TrainArgs | None, tables: Tables | None, *,
    fall: float = 256.0, low: float = 1.0, min_rows: int = 5,
) -> Verdict:  # fmt: skip
    """Half precision overflowed under AMP.

    The gradient scaler or the console says so, or only some losses are inf or NaN from the start. A learning
    rate that is too high breaks all losses after they have grown; overflow needs no growth. Or a table holds the scale:
    torch's GradScaler starts at 65536, halves it at each overflow and doubles it after 2000 good steps, so that a
    healthy one finds its level within some halvings. fall, low: it ends this factor below its maximum and below low, or
    is still halving in its last rows; min_rows: of the table. apex and deepspeed tell of each halving; one that ends
    above low is how a scaler finds its level.
    """
    table = tables.having(r"grad\w*_?scale|scaler?$|^(?:amp|loss)_?scale") if tables else None
    if table is not None and not (args is not None and args.get("amp", True) is False):
        scale = finite(table.numbers(r"grad\w*_?scale|scaler?$|^(?:amp|loss)_?scale"))
        tail = scale[-min_rows:]
        falling = all(b <= a for a, b in pairwise(tail)) and tail[-1:] < tail[:1]
        if len(scale) >= min_rows and scale[-1] * fall <= max(scale) and (scale[-1] < low or falling):
            return Hit(
                values={"case": "scale", "first": max(scale), "last": scale[-1]},
                fixes=(Fix("amp_off", {"amp": False}),),
                evidence=(whole(table),),
            )
    if console is None and curves is None:
        return Skip("no_evidence", {"missing": "console, curves"})
    lost = next((s for s in sources(console, ("loss_scale",), limit=20) if _scale(s.text) < low), None)
    said = (lost,) if lost else sources(console, ("nan_grad", "no_grad_scale"))
    if (args is not None and args.get("amp", True) is False) or not said:
        return None
    return Hit(values={"line": said[0].text}, fixes=(Fix("amp_off", {"amp": False}),), evidence=said)


def _scale(text: str) -> float:
    """The loss scale that a line of apex or deepspeed tells; 0 where it can't fall any more."""
    if "already at minimum" in text:
        return 0.0
    found = re.search(r"(?:reducing loss scale to|reducing to) ([\d.]+(?:e[+-]?\d+)?)", text)
    return float(found[1].rstrip(".") or 0) if found else math.inf


@rule("num.mps_bad_loss", Severity.CRITICAL)
def mps_bad_loss(
    console: Console | None, log: TrainLog | None, args: TrainArgs | None, curves: Curves | None, *, min_zero: int = 3,
    lost: float = 0.1,
) -> Verdict:  # fmt: skip
    """Zero or garbage losses from Apple's MPS backend: no boxes are assigned though objects are in the batch.

    hub#1199, ultralytics#9933, #7554, #24399: box and dfl loss exactly 0 with instances in the batch, cls loss
    enormous; the same training on the CPU is normal. Or all scores are exactly 0 for min_zero epochs of a pretrained
    model with objects to find (ultralytics#3962): a weak model scores little, not nothing. Or the library names its
    known pose bug (#4031) and keypoints are lost: their mAP50 is below this share (lost) of that of the boxes.
    """
    on_mps = (console is not None and console.device == "mps") or (
        args is not None and str(args.get("device", "")) == "mps"
    )
    if console is None and args is None:
        return Skip("no_evidence", {"missing": "console, args"})
    if not on_mps:
        return None
    rows = [*log.parts, *log.epochs] if log else []
    zero = [e for e in rows if e.instances and e.losses.get("box_loss") == 0.0]
    boxes = [v for n, values in curves.train.items() if n in {"box_loss", "dfl_loss"} for v in values] if curves else []
    scored = [e for e in log.epochs if e.metrics and e.val_instances] if log else []
    if len(scored) >= min_zero and not from_scratch(args) and not any(any(e.metrics.values()) for e in scored):
        return Hit(
            values={"case": "scores", "epochs": len(scored), "objects": scored[-1].val_instances},
            fixes=(Fix("other_device", {"device": "cpu"}), Fix("update")),
            evidence=(Source(log.file if log else "", scored[-1].line),),
            confidence=Confidence.MEDIUM,
        )
    warned = sources(console, ("mps_pose",), limit=1)
    boxed, posed = (_end(curves, f"metrics/mAP50({head})") for head in "BP")
    if warned and boxed > 0.1 and posed < lost * boxed:
        return Hit(
            values={"case": "pose", "box": boxed, "pose": posed},
            fixes=(Fix("other_device", {"device": "cpu"}), Fix("update")),
            evidence=warned,
            confidence=Confidence.MEDIUM,
            severity=Severity.HIGH,
        )
    if not (zero and len(zero) >= len(rows) / 2) and not (boxes and all(v == 0.0 for v in boxes)):
        return None
    cls = zero[0].losses.get("cls_loss") if zero else None
    where = Source(log.file, zero[0].line) if zero and log else Source(curves.file if curves else "", 2)
    return Hit(
        values={
            "case": "log" if zero and cls is not None and math.isfinite(cls) else "count" if zero else None,
            "instances": zero[0].instances if zero else None,
            "cls": cls if cls is not None and math.isfinite(cls) else None,
        },
        fixes=(Fix("other_device", {"device": "cpu"}), Fix("update")),
        evidence=(where,),
    )


def _end(curves: Curves | None, column: str) -> float:
    """The last value of a metric; nan without it."""
    return (curves.columns.get(column, ()) or (math.nan,))[-1] if curves else math.nan


@rule("num.mps_bad_loss@val", Severity.CRITICAL)
def mps_validation(
    console: Console | None, log: TrainLog | None, args: TrainArgs | None, curves: Curves | None, *, apart: float = 1.5,
    min_score: float = 0.05,
) -> Verdict:  # fmt: skip
    """On MPS the validation of the training loop and one of the same weights afterwards contradict each other.

    ultralytics#24399: 0.297 in results.csv, 0.780 by `yolo val` of best.pt on the same split; on CUDA both agree.
    apart: between the best score of the curves and that of a log which holds nothing but a result (or the other way
    round).
    min_score: the lower of the two; below it a label or path fault is nearer. Not for another split.
    """
    on_mps = (console is not None and console.device == "mps") or (
        args is not None and str(args.get("device", "")) == "mps"
    )
    if log is not None and str(log.args.get("split", "val")) != "val":
        return None
    if log is None or curves is None or not curves.score50 or curves.file == log.file:
        return Skip("no_evidence", {"missing": "log, curves"})
    alone = log.epochs[0] if len(log.epochs) == 1 and log.epochs[0].epoch == 0 and not log.epochs[0].losses else None
    after = alone.metrics.get("metrics/mAP50(B)", math.nan) if alone else math.nan
    best = max(finite(curves.score50), default=math.nan)
    if not on_mps or alone is None or not min(after, best) >= min_score or max(after, best) < apart * min(after, best):
        return None
    return Hit(
        values={"during": best, "after": after},
        fixes=(Fix("other_device", {"device": "cpu"}), Fix("update")),
        evidence=(Source(log.file, alone.line), Source(curves.file, curves.line(curves.best_at))),
        confidence=Confidence.MEDIUM,
        severity=Severity.HIGH,
    )


@rule("num.seg_nan", Severity.CRITICAL)
def seg_nan(curves: Curves) -> Verdict:
    """Only the mask loss is NaN.

    The mask head went non-finite and stays so, while boxes look healthy (ultralytics#4733).
    """
    bad = [n for n, v in curves.train.items() if v and not math.isfinite(v[-1])]
    if not curves.train:
        return Skip("no_losses")
    if bad != ["seg_loss"]:
        return None
    first = next(i for i, v in enumerate(curves.train["seg_loss"], 1) if not math.isfinite(v))
    masks = curves.columns.get("metrics/mAP50(M)", ())
    return Hit(
        values={"epoch": curves.epoch(first), "mask": masks[-1] if masks else None, "case": "mask" if masks else None},
        fixes=(Fix("resume_before"), Fix("amp_off", {"amp": False})),
        evidence=(Source(curves.file, curves.line(first)),),
    )


@rule("num.loss_inf", Severity.MEDIUM, explained_by=("num.seg_nan",))
def loss_inf(curves: Curves | None, log: TrainLog | None) -> Verdict:
    """A training loss is inf (not NaN) in single steps or epochs: one batch overflowed the running mean."""
    if curves is not None and curves.train:
        bad = [(i, n) for n, v in curves.train.items() for i, x in enumerate(v, 1) if math.isinf(x)]
        if not bad:
            return None
        at, name = min(bad)
        return Hit(
            values={"epoch": curves.epoch(at), "loss": name, "count": len(bad)},
            fixes=(Fix("find_batch"), Fix("amp_off", {"amp": False})),
            evidence=(Source(curves.file, curves.line(at)),),
        )
    if log is None:
        return Skip("no_evidence", {"missing": "curves, log"})
    found = next(((e, n) for e in (*log.epochs, *log.parts) for n, v in e.losses.items() if math.isinf(v)), None)
    if found is None:
        return None
    return Hit(
        values={"epoch": found[0].epoch, "loss": found[1], "count": 1},
        fixes=(Fix("find_batch"), Fix("amp_off", {"amp": False})),
        evidence=(Source(log.file, found[0].line),),
    )


@rule("num.lr_too_high", Severity.CRITICAL)
def lr_too_high(
    curves: Curves, args: TrainArgs | None, log: TrainLog | None,
    *, adam: float = 0.005, sgd: float = 0.05, growth: float = 1.15, low: float = 0.5,
    min_epochs: int = 3, enormous: float = 1000.0, absurd: float = 10.0,
) -> Verdict:  # fmt: skip
    """The learning rate is too high.

    Losses grow or the score collapses while the rate is far above what the optimizer bears. Both are asked for,
    a high rate and harm. adam, sgd: the largest rate of the weights; Ultralytics' own choices are 0.001 to
    0.002 for AdamW and 0.01 for SGD, and of 159 public runs only Adam at 0.01 and more diverged clearly.
    growth: the later training loss over its minimum; low: the score is below this share of its best (or never
    rises above 0.05); enormous: a loss that no healthy start shows. Losses of exactly zero are no success: the outputs
    are beyond all numbers, and no box is assigned to them any more. absurd: times the limit; broken losses at such a
    rate need no min_epochs to be judged. A rate of about zero can never be meant. Where no column shows the rate, the
    one that the optimizer's line prints counts: optimizer=auto ignores lr0.
    """
    lrs = finite(curves.lr)
    top = max(lrs, default=math.nan)
    optimizer = str(args.get("optimizer", "auto")) if args else "auto"
    named = optimizer.lower() != "auto"
    optimizer = log.optimizer if log and log.optimizer else optimizer
    if not lrs and log is not None and log.optimizer_lr is not None:
        top = log.optimizer_lr
    elif named and not lrs and args is not None and isinstance(args.get("lr0"), float):
        top = args.get("lr0")
    if math.isnan(top):
        return Skip("no_lr")
    limit = adam if _ADAM.search(optimizer) else sgd
    dead = curves.train_sum[-1:] == (0.0,) and not any(v >= 0.05 for v in finite(curves.score[-1:]))
    broken = dead or any(not math.isfinite(v) for v in curves.train_sum)
    if curves.rows < min_epochs and not (broken and top >= absurd * limit):
        return Skip("too_few_epochs", {"have": curves.rows, "need": min_epochs})
    losses = smooth(curves.train_sum, window=3)
    least = min((v for v in losses if v > 0 and math.isfinite(v)), default=math.nan)
    grown = (
        max(finite(losses), default=math.nan) / least if least > 0 and losses.index(least) < len(losses) - 1 else 1.0
    )
    later = max(finite(losses[losses.index(least) :]), default=least) / least if least > 0 else 1.0
    scores = finite(curves.score)
    poor = bool(scores) and (curves.last < low * curves.best or max(scores) < 0.05)
    flat = not curves.train_fall > 0.1
    if curves.best >= 0.05 and curves.smooth_best_at >= 0.9 * curves.rows and curves.last >= 0.9 * curves.best:
        later = min(later, 1.0)  # best at its end: the losses rose with the augmentation (mosaic closed, another set)
    harmed = (
        dead
        or later >= growth
        or (poor and (flat or curves.last < low * curves.best))
        or max(finite(losses), default=0.0) >= enormous
        or not finite(curves.train_sum[-1:])
    )
    if top < limit or not harmed or (later < growth and not poor and grown < 2 and not (broken and top >= 2 * limit)):
        return None
    return Hit(
        values={
            "case": "dead" if dead else None,
            "lr": top,
            "limit": limit,
            "optimizer": optimizer,
            "growth": later,
            "best": curves.best if curves.best_at else None,
            "last": curves.last if scores else None,
        },
        fixes=(
            Fix(
                "lower_lr",
                {
                    "lr0": float(f"{min(top / 10, limit / 5):.1g}"),
                    "optimizer": optimizer if optimizer.lower() != "auto" else "SGD",
                },
            ),
            Fix("auto", {"optimizer": "auto"}),
        ),
        evidence=(Source(curves.file, curves.line(curves.lr.index(top) + 1 if lrs else 1)),),
        confidence=Confidence.HIGH if top >= 2 * limit else Confidence.MEDIUM,
    )
