"""train.*: arguments that work against the training."""

from diag.model.curves import Curves
from diag.model.evidence import Console
from diag.model.finding import Fix, Hit, Severity, Skip, Source, Value, Verdict
from diag.model.foreign import DataYaml, Notes, TrainLog
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.facts import YOLOV5_ARGS, argued, from_scratch, pretrained, sources

GAINS = {"box": 7.5, "cls": 0.5, "dfl": 1.5}
"""Ultralytics' defaults; YOLOv5 has other losses and other gains."""


@rule("train.loss_gain_imbalance", Severity.MEDIUM)
def gains(args: TrainArgs, curves: Curves | None, *, factor: float = 4.0, low_score: float = 0.3) -> Verdict:
    """The gains of box, cls and dfl are far from their defaults, so one loss drowns the others

    (ultralytics#21765, #20903). factor: from the default, either way. Tuned recipes stay within about two.
    low_score: a run that ends there or above, and near its best, shows that no loss drowned the others: low.
    """
    if "dfl" not in args.raw and "obj" in args.raw:
        return Skip("other_gains")
    given = {n: v for n in GAINS if isinstance(v := args.get(n), (int, float)) and not isinstance(v, bool)}
    if not given:
        return Skip("other_gains")
    far = {n: v / GAINS[n] for n, v in given.items() if v <= 0 or not 1 / factor <= v / GAINS[n] <= factor}
    if not far:
        return None
    name = max(far, key=lambda n: max(far[n], 1 / far[n]) if far[n] > 0 else float("inf"))
    said = ", ".join(f"{n}={given[n]:g} ({GAINS[n]:g})" for n in sorted(far))
    changes: dict[str, Value] = {n: GAINS[n] for n in sorted(far)}
    fine = curves is not None and curves.last >= max(low_score, 0.9 * curves.best)
    return Hit(
        values={
            "case": "fine" if fine else None,
            "gains": said,
            "name": name,
            "last": curves.last if curves and fine else None,
            "metric": curves.metric_name if curves and fine else None,
        },
        fixes=(Fix("defaults", changes),),
        evidence=argued(args, *sorted(far)),
        severity=Severity.LOW if fine else None,
    )


@rule("train.batch_too_small", Severity.MEDIUM)
def batch_small(
    args: TrainArgs,
    curves: Curves | None,
    log: TrainLog | None,
    *,
    max_batch: int = 2,
    low_score: float = 0.3,
    full: float = 0.4,
) -> Verdict:
    """Batches of one or two images: BatchNorm statistics are noise.

    max_batch: per device; nbs accumulates gradients, not statistics. A run that reached low_score all the same is
    told as low. full: from this share of the card on a batch several times as large can't fit, and is no advice.
    Wu and He, Group Normalization (2018): with BatchNorm the error on ImageNet rises from 24 % at 32 images a GPU
    to 35 % at 2.
    """
    batch = args.get("batch")
    if not isinstance(batch, int) or isinstance(batch, bool):
        return Skip("no_batch")
    if not 0 < batch <= max_batch:
        return None
    fine = curves is not None and curves.last >= low_score
    memory = max((e.gpu_mem_g or 0.0 for e in (*log.epochs, *log.parts)), default=0.0) if log else 0.0
    fits = not (log and log.gpu_mib and memory * 1024 >= full * log.gpu_mib)
    return Hit(
        values={"batch": batch},
        fixes=(*((Fix("larger", {"batch": 8}),) if fits else ()), Fix("smaller_imgsz")),
        evidence=argued(args, "batch"),
        severity=Severity.LOW if fine else None,
    )


@rule("train.rect_no_shuffle", Severity.HIGH)
def rect(args: TrainArgs | None, console: Console | None, curves: Curves | None, *, good_score: float = 0.3) -> Verdict:
    """rect=True fixes the order of the batches: images are sorted by shape and never shuffled, mosaic is off.

    good_score: large sets bear it (public runs with rect=True reached 0.7); from there on it is a remark. RT-DETR
    and classification do not use the argument (ultralytics/models/rtdetr/train.py passes rect=False to its data
    set). Reported in ultralytics#186, ultralytics#19468.
    """
    said = sources(console, ("rect_shuffle",))
    on = args is not None and args.get("rect", False) in (True, "True", "true")
    if on and args is not None and not said and _ignores_rect(args, curves):
        return None
    if args is None and console is None:
        return Skip("no_evidence", {"missing": "args, console"})
    if not said and not on:
        return None
    return Hit(
        fixes=(Fix("off", {"rect": False}),),
        evidence=said or argued(args, "rect"),
        severity=Severity.LOW if curves is not None and curves.last >= good_score else None,
    )


def _ignores_rect(args: TrainArgs, curves: Curves | None) -> bool:
    detr = "detr" in str(args.get("model", "")).lower() or (curves is not None and "giou_loss" in curves.train)
    return detr or args.get("task") == "classify"


@rule("train.frozen_untrained", Severity.HIGH)
def frozen_untrained(args: TrainArgs, log: TrainLog | None, *, max_share: float = 0.5) -> Verdict:
    """Layers are frozen that no pretrained weights were loaded into: they stay as random as they began.

    freeze= is for fine-tunes (docs.ultralytics.com, "Transfer learning with frozen layers"). Weights that fit in part
    only leave the rest random, too. max_share: of the tensors were transferred at most. A single number in a list is a
    layer to Ultralytics, and a count to YOLOv5 and YOLOv7, whose default [0] freezes none.
    """
    freeze = args.get("freeze")
    if isinstance(freeze, (list, tuple)) and len(freeze) == 1 and YOLOV5_ARGS & set(args.raw):
        freeze = freeze[0]
    layers = len(freeze) if isinstance(freeze, (list, tuple)) else freeze
    if not isinstance(layers, int) or isinstance(layers, bool) or layers <= 0:
        return None
    got, of = log.transferred[-1] if log and log.transferred else (0, 0)
    if not from_scratch(args) and not (of and got < max_share * of):
        return None
    return Hit(
        values={
            "layers": layers,
            "model": str(args.get("model", "")),
            "case": "part" if of else None,
            "got": got,
            "of": of,
        },
        fixes=(Fix("none", {"freeze": None}), Fix("pretrained", pretrained(args))),
        evidence=argued(args, "freeze", "model"),
    )


@rule("train.no_augmentation", Severity.LOW)
def no_augmentation(
    args: TrainArgs, log: TrainLog | None, data: DataYaml | None, notes: Notes | None, *, max_images: int = 2000
) -> Verdict:
    """Augmentation is off on a small data set: mosaic, flips, scale, translation and colour are all 0.

    max_images: in train, where known; large sets bear it. The limit is a proposal.
    """
    names = ("mosaic", "fliplr", "flipud", "scale", "translate", "degrees", "hsv_h", "hsv_s", "hsv_v", "mixup")
    given = {n: args.raw[n] for n in names if n in args.raw}
    if not {"mosaic", "fliplr", "scale"} <= set(given):
        return Skip("other_gains")
    if any(v not in (0, None) for v in given.values()):
        return None
    images = next((s.total for s in log.scans if s.split in {"", "train"}), None) if log else None
    if images is not None and images > max_images:
        return None
    return Hit(
        values={"case": "images" if images else None, "images": images},
        fixes=(Fix("on", {"mosaic": 1.0, "fliplr": 0.5, "scale": 0.5}),),
        evidence=argued(args, "mosaic", "fliplr", "scale"),
    )


@rule("train.seg_loss_high", Severity.MEDIUM, explained_by=("num.seg_nan",))
def seg_loss(curves: Curves, *, min_epochs: int = 10, factor: float = 2.5, max_fall: float = 0.2) -> Verdict:
    """The mask loss is far above the box loss and hardly falls. factor: over the box loss at the end; max_fall.

    Of its own start. Of 13 public runs the median is 1.5, one had 3.0 and a loss that fell by 6 %.
    """
    seg, box = curves.train.get("seg_loss", ()), curves.train.get("box_loss", ())
    if len(seg) < min_epochs or not box:
        return Skip("no_losses")
    if not seg[-1] > factor * box[-1] > 0 or not seg[0] > 0 or 1 - seg[-1] / seg[0] > max_fall:
        return None
    return Hit(
        values={"seg": seg[-1], "box": box[-1], "fall": 1 - seg[-1] / seg[0]},
        fixes=(Fix("polygons"), Fix("mask_ratio", {"mask_ratio": 1})),
        evidence=(Source(curves.file, curves.line(curves.rows)),),
    )


@rule(
    "train.map_stuck",
    Severity.MEDIUM,
    explained_by=("data.no_labels", "num.nan_loss", "data.train_too_small", "train.ddp_metrics_broken"),
)
def map_stuck(
    curves: Curves | None,
    log: TrainLog | None,
    *,
    min_epochs: int = 20,
    max_score: float = 0.05,
    late: int = 50,
    fall: float = 0.2,
) -> Verdict:
    """Losses fall but the score stays near 0.

    max_score: mAP50-95 after min_epochs or more epochs with a training loss that fell by this share (fall); or so
    late an epoch that it should have come. RT-DETR may stay at 0 for 30 epochs and learn then: it is late from
    there on. Of 79 public runs of 20 epochs and more, five stayed below max_score, and each had a fault.
    """
    if curves is not None and curves.rows >= min_epochs and curves.best_at:
        slow = "giou_loss" in curves.train
        if curves.best >= max_score or not curves.train_fall >= fall or (slow and curves.rows < late):
            return None
        values: dict[str, Value] = {
            "case": "curve",
            "score": curves.best,
            "epoch": curves.epoch(curves.rows),
            "fall": curves.train_fall,
        }
        return Hit(
            values=values,
            fixes=(Fix("val_labels"), Fix("pretrained")),
            evidence=(Source(curves.file, curves.line(curves.rows)),),
        )
    if log is None or not log.epochs:
        return Skip("too_few_epochs", {"have": curves.rows if curves else 0, "need": min_epochs})
    last = next((e for e in reversed(log.epochs) if "metrics/mAP50-95(B)" in e.metrics), None)
    if last is None or last.epoch < late or last.metrics["metrics/mAP50-95(B)"] >= max_score:
        return None
    return Hit(
        values={"score": last.metrics["metrics/mAP50-95(B)"], "epoch": last.epoch},
        fixes=(Fix("val_labels"), Fix("pretrained")),
        evidence=(Source(log.file, last.line),),
    )
