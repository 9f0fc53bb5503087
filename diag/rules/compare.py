"""train.* and env.*: what two runs side by side say that neither says alone."""

import math
from collections.abc import Iterator, Mapping
from itertools import permutations

from diag.model.curves import Curves
from diag.model.evidence import Evidence, Peers
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import TrainLog
from diag.rules.base import rule

_SCORES = ("metrics/mAP50(B)", "metrics/mAP50", "metrics/mAP_0.5", "metrics/accuracy_top1")


def _last(run: Evidence) -> tuple[dict[str, float], float | None]:
    """The last losses and the best mAP50 of a run."""
    rows = run.log.epochs if run.log else ()
    losses = dict(rows[-1].losses) if rows else {}
    if not losses and run.curves is not None:
        losses = {n: v[-1] for n, v in run.curves.train.items()}
    scores = [e.metrics[n] for e in rows for n in _SCORES if n in e.metrics]
    if not scores and run.curves is not None:
        scores = [v for v in run.curves.score50 or run.curves.score if math.isfinite(v)]
    return losses, max(scores) if scores else None


def _pairs(runs: Mapping[str, Evidence]) -> Iterator[tuple[str, Evidence, str, Evidence]]:
    """Each two runs, in both orders."""
    for (a, one), (b, two) in permutations(runs.items(), 2):
        yield a, one, b, two


def _gpus(run: Evidence) -> int:
    device = run.args.get("device") if run.args else None
    if isinstance(device, list):
        return len(device)
    return run.log.gpus if run.log and run.log.gpus else str(device or "0").count(",") + 1


def _versions(run: Evidence) -> str:
    return run.log.versions[-1] if run.log and run.log.versions else ""


@rule("train.ddp_metrics_broken", Severity.CRITICAL)
def ddp_metrics(
    peers: Peers, *, loss_within: float = 0.15, collapse: float = 0.1, min_score: float = 0.1, far: float = 0.6
) -> Verdict:
    """Validation under DDP evaluates another model than the one that trains.

    ultralytics#978, #15592: the same data on one GPU and on several, training losses agree, only the score of
    the several is about 0. loss_within: so near are the losses; collapse: the score is below this share of the
    other, which is above min_score. far: or it is below this share of the other after as many epochs or more, at
    training losses that are as near or lower (ultralytics#884: 0.3 after 60 epochs on eight, 0.59 after one on one);
    medium confidence, since batch and rate usually differ, too.
    """
    for a, one, b, many in _pairs(peers.runs):
        if _gpus(many) <= _gpus(one):
            continue
        (losses, good), (others, bad) = _last(one), _last(many)
        if good is None or bad is None or good < min_score or bad > far * good or not losses:
            continue
        gone = bad <= collapse * good
        told = {d.what for d in peers.differences}
        if not gone and (_epoch(many) < max(3, _epoch(one)) or told & {"model", "data", "lr0", "optimizer", "imgsz"}):
            continue
        apart = [abs(others[n] / v - 1) for n, v in losses.items() if n in others and v > 0]
        if apart and max(apart) <= loss_within:
            return Hit(
                values={"good": good, "bad": bad, "few": _gpus(one), "gpus": _gpus(many), "apart": max(apart)},
                fixes=(Fix("update"), Fix("one_gpu", {"device": 0})),
                evidence=(Source(a), Source(b)),
                confidence=Confidence.HIGH if gone else Confidence.MEDIUM,
                severity=Severity.CRITICAL if gone else Severity.HIGH,
            )
    return None


def _epoch(run: Evidence) -> int:
    """The last epoch that is known of a run."""
    if run.log and run.log.epochs:
        return run.log.epochs[-1].epoch
    return run.curves.epoch(run.curves.rows) if run.curves else 0


@rule("num.amp_overflow@peers", Severity.HIGH)
def amp_pair(peers: Peers) -> Verdict:
    """Of two runs that differ in mixed precision, only the one with it has losses that are no numbers.

    Batch and workers may differ as well, since a run in full precision often needs that; not data, model or rate.
    """
    kept = {"model", "data", "lr0", "optimizer", "imgsz", "device", "gpu"}
    told = {d.what for d in peers.differences}
    for a, whole, b, half in _pairs(peers.runs):
        amp = [run.args.get("amp", True) if run.args else None for run in (whole, half)]
        if amp[0] not in {False, "False", "false"} or amp[1] in {False, "False", "false", None} or told & kept:
            continue
        good, bad = _last(whole)[0], _last(half)[0]
        if good and bad and all(map(math.isfinite, good.values())) and any(map(math.isnan, bad.values())):
            return Hit(
                values={"bad": b, "good": a}, fixes=(Fix("amp_off", {"amp": False}),), evidence=(Source(a), Source(b))
            )
    return None


@rule("env.library_bug", Severity.MEDIUM, explained_by=("train.ddp_metrics_broken", "train.partial_transfer"))
def library_bug(peers: Peers, *, drop: float = 0.5, min_score: float = 0.1) -> Verdict:
    """Another version of the library explains the symptom.

    Runs that differ in it differ in the outcome, and in nothing else that is known. drop: of the score is lost
    with the other version; or weights that transferred completely before transfer in part. min_score: of the good
    run. The limits are proposals; half a score is beyond every difference of seeds (noise of 79 public runs: 9.5 %
    at most). Reported in ultralytics#19824.
    """
    for a, good_run, b, bad_run in _pairs(peers.runs):
        versions = _versions(good_run), _versions(bad_run)
        if not all(versions) or versions[0] == versions[1]:
            continue
        (_, good), (_, bad) = _last(good_run), _last(bad_run)
        others = [
            d.what for d in peers.differences if d.what in {"model", "data", "optimizer", "lr0", "imgsz", "device"}
        ]
        if good is None or bad is None or good < min_score or bad > (1 - drop) * good or others:
            continue
        return Hit(
            values={"good_version": versions[0], "bad_version": versions[1], "good": good, "bad": bad},
            fixes=(Fix("go_back"), Fix("report")),
            evidence=(Source(a), Source(b)),
            severity=Severity.HIGH,
        )
    return None


@rule("train.partial_transfer", Severity.HIGH, explained_by=("env.version_changed",))
def partial_transfer(
    log: TrainLog | None,
    curves: Curves | None,
    peers: Peers | None,
    *,
    max_share: float = 0.8,
    head: int = 12,
    low: float = 0.02,
    few: float = 0.5,
) -> Verdict:
    """Only part of the pretrained weights was transferred, beyond the head that depends on the number of

    Classes. yolov12#159, ultralytics#7356: 93 % of the tensors can miss the layers that matter, which only another run
    of the same data shows that transferred more and scored more. Alone a count proves little: a change of classes costs
    6 to 12 tensors on three scales (head), on newer heads a seventh (logs of healthy runs: 448 of 499 for YOLO11n, 355
    of 397 for YOLOv8n-pose, 606 of 708 for YOLO26n); so a fifth must be missing (max_share) and the early score, of the
    log or of the csv beside it, be about 0 as well (low). Without a score: no head of any release is half of the
    tensors (few).
    """
    if log is None and peers is None:
        return Skip("no_evidence", {"missing": "log, peers"})
    if peers is not None:
        for a, full, b, part in _pairs(peers.runs):
            got, all_ = _transfer(part.log)
            more, of = _transfer(full.log)
            (_, good), (_, bad) = _last(full), _last(part)
            if (
                all_
                and (not of or got / all_ < more / of)
                and good is not None
                and bad is not None
                and bad < 0.3 * good
                and all_ - got > head
            ):
                return Hit(
                    values={
                        "case": "compared",
                        "got": got,
                        "of": all_,
                        "missing": all_ - got,
                        "score": bad,
                        "other": good,
                    },
                    fixes=(Fix("pt"), Fix("same_release")),
                    evidence=(Source(a), Source(b)),
                )
    got, all_ = _transfer(log)
    if not all_ or log is None:
        return None
    first = _first_score(log, curves)
    if got / all_ > max_share or all_ - got <= head or (got / all_ > few if first is None else first > low):
        return None
    return Hit(
        values={
            "case": "count" if first is None else None,
            "got": got,
            "of": all_,
            "missing": all_ - got,
            "score": first,
        },
        fixes=(Fix("pt"), Fix("same_release")),
        evidence=(Source(log.file, next(iter(log.transferred_lines), None)),),
        confidence=Confidence.LOW,
        severity=Severity.MEDIUM,
    )


def _first_score(log: TrainLog, curves: Curves | None) -> float | None:
    """The score after the first epoch; None where neither the log nor the curves begin with it."""
    if log.epochs:
        scores = (e.metrics[n] for e in log.epochs[:1] for n in _SCORES if n in e.metrics)
        return next(scores, None) if log.epochs[0].epoch <= 1 else math.inf
    if curves is None:
        return None
    scores = (v for v in (curves.score50 or curves.score)[:1] if math.isfinite(v))
    return math.inf if curves.excerpt else next(scores, None)


def _transfer(log: TrainLog | None) -> tuple[int, int]:
    return log.transferred[0] if log is not None and log.transferred else (0, 0)


@rule("num.bn_garbage", Severity.CRITICAL, explained_by=("train.ddp_metrics_broken", "num.lr_too_high"))
def bn_garbage(
    curves: Curves,
    log: TrainLog | None,
    *,
    min_epochs: int = 5,
    factor: float = 20.0,
    train_fall: float = 0.1,
    max_score: float = 0.05,
    enormous: float = 1000.0,
    few_epochs: int = 2,
) -> Verdict:
    """BatchNorm statistics hold garbage: training losses are normal and fall, validation losses are beyond any scale.

    The training uses batch statistics, validation the running ones. factor: of the training loss, in most epochs,
    while the training loss fell by train_fall and the score stays below max_score. A training loss of exactly zero
    is not normal: then the model is broken for training, too. enormous: times;
    few_epochs are enough to tell that. The ratio of validation to training loss was 2.5 or less in nine of ten public
    runs.
    """
    ratios = [v / t for t, v in zip(curves.train_sum, curves.val_sum, strict=False) if t > 0 and v > 0]
    sure = len(ratios) >= few_epochs and min(ratios) >= enormous
    if curves.rows < min_epochs and not sure:
        return Skip("too_few_epochs", {"have": curves.rows, "need": min_epochs})
    pairs = [(t, v) for t, v in zip(curves.train_sum, curves.val_sum, strict=False) if t > 0 and v > 0]
    if not pairs:
        return Skip("no_losses")
    if 0.0 in curves.train_sum:
        return None
    wild = [v / t for t, v in pairs if v > factor * t]
    if len(wild) < 0.6 * len(pairs) or not curves.train_fall >= train_fall or curves.last > max_score:
        return None
    return Hit(
        values={"ratio": sorted(wild)[len(wild) // 2], "score": curves.last},
        fixes=(Fix("update"), Fix("larger_batch")),
        evidence=(Source(curves.file, curves.line(curves.rows)),),
    )
