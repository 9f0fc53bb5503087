"""train.eval_mismatch: two evaluations of the same weights on the same images disagree."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Value, Verdict
from diag.model.foreign import Evaluation, TrainLog
from diag.model.run import TrainArgs
from diag.rules.base import rule

_LIBRARY = re.compile(r"(?:^|[=/\\'\"\s\[])(?:yolo(?:v?\d+\w?)|rtdetr)(?:-\w+)?\.pt\b", re.I)
_WEIGHTS = re.compile(r"(?:Validating |\b(?:model|weights)[=\s]+)\[?['\"]?([^\s,'\"\]]+)", re.I)
_OTHER_SPLIT = re.compile(r"\b(?:task|split)['\"]?[=\s]+['\"]?(?:test|train|study|speed)", re.I)


@dataclass(frozen=True)
class _Reference:
    """What another evaluation of the weights said: the range of its scores, and of what images."""

    low: float
    high: float
    images: int | None
    instances: int | None
    where: Source
    size: int | None
    whole: bool
    """No better epoch is missing between its scores."""
    weights: str = ""


@rule("train.eval_mismatch", Severity.HIGH, explained_by=("num.mps_bad_loss", "train.ddp_metrics_broken"))
def eval_mismatch(
    log: TrainLog,
    args: TrainArgs | None,
    *,
    far: float = 0.6,
    min_score: float = 0.2,
    min_gap: float = 0.15,
) -> Verdict:
    """The same weights score far lower, or higher, in one evaluation than in another of the same images.

    Then it is the evaluation that differs, not the training: another picture size (ultralyticsPro#138: 0.8 at 160
    pixels, 0.269 at 640), an exported format or INT8 without calibration, half precision, another release
    (yolov5#845, ultralytics#17802). Images and instances must be the same in number. far: share of the other's score;
    padding and batch make a point or two (ultralytics#10149), a test set of its own some more. min_score: of the better
    one; below min_gap of difference nothing is said. The score lies outside the range of the last and the best epoch,
    and may be the better one only where no epoch is missing. Weights of the library or with another name, other splits,
    evaluations before the training and of a training whose log breaks off are no comparison; a bare result beside it
    names no weights, so it is medium.
    """
    if not log.evaluations:
        return Skip("no_evaluation")
    for one, other in _pairs(log, args):
        score, fallen = one.score50, one.score50 < other.low
        near, better = (other.low, other.low) if fallen else (other.high, score)
        if not math.isfinite(score) or abs(score - near) < min_gap or better < min_score:
            continue
        if min(score, near) >= far * max(score, near) or not (fallen or other.whole):
            continue
        sizes = (other.size, one.size)
        case = "export" if one.export else "size" if all(sizes) and sizes[0] != sizes[1] else None
        values: dict[str, Value] = {
            "case": case, "first": near, "second": score, "images": one.images, "export": one.export,
            "size": other.size, "other_size": one.size,
        }  # fmt: skip
        fixes = {
            "export": (Fix("calibrate"), Fix("compare_pt")),
            "size": (Fix("size", {"imgsz": other.size or 0}),),
        }.get(case or "", (Fix("settings"), Fix("update")))
        known = one.instances is not None and one.instances == other.instances
        return Hit(
            values=values,
            fixes=fixes,
            evidence=(other.where, Source(one.file, one.line or None)),
            confidence=Confidence.HIGH if known and one.said else Confidence.MEDIUM,
            severity=None if one.said else Severity.MEDIUM,
        )
    return None


def _pairs(log: TrainLog, args: TrainArgs | None) -> Iterator[tuple[Evaluation, _Reference]]:
    """Each evaluation with the training's scores and with those of the evaluations before it, of as many images."""
    trained = _trained(log, args)
    known = [e for e in log.evaluations if not _LIBRARY.search(e.said) and not _OTHER_SPLIT.search(e.said)]
    for at, one in enumerate(known):
        named = _weights(one)
        before = [
            _Reference(e.score50, e.score50, e.images, e.instances, Source(e.file, e.line or None), e.size, True, w)
            for e in known[:at]
            if (w := _weights(e)) and named  # of bare results nothing says that they are of the same weights
        ]
        own = trained is not None and _after(one, log) and (not named or _stem(named) in {"best", "last"})
        for other in (*([trained] if trained and own else []), *before):
            same = one.images and one.images == other.images and one.instances == other.instances
            if same and (not other.weights or _same(named, other.weights)):
                yield one, other


def _after(one: Evaluation, log: TrainLog) -> bool:
    """The evaluation came after the training that is judged, as far as one file with one training can tell."""
    return one.file != log.file or (log.runs <= 1 and bool(log.epochs) and one.line > log.epochs[-1].line)


def _weights(one: Evaluation) -> str:
    """The weights that the words before the evaluation name last; empty without any."""
    found = _WEIGHTS.findall(one.said)
    return str(found[-1]).replace("\\", "/").rstrip(".") if found else ""


def _stem(path: str) -> str:
    """`best` of runs/train/weights/best_int8.tflite, and of best_openvino_model/."""
    return re.split(r"[._]", path.rstrip("/").rpartition("/")[2])[0].lower()


def _same(one: str, other: str) -> bool:
    """Both names may be of one file and of what was exported from it."""
    folders = [p.rstrip("/").rpartition("/")[0] for p in (one, other)]
    inside = [re.sub(r"/[^/]+_saved_model$", "", f) for f in folders]
    return _stem(one) == _stem(other) and (inside[0] == inside[1] or "" in inside)


def _trained(log: TrainLog, args: TrainArgs | None) -> _Reference | None:
    """The last and the best score of the epochs; none of a log that breaks off: what is tested may be of later ones."""
    rows = [e for e in log.epochs if e.planned and math.isfinite(e.metrics.get("metrics/mAP50(B)", math.nan))]
    ends = log.ended in {"completed", "early_stop"} or (bool(rows) and rows[-1].epoch >= rows[-1].planned - 1)
    if not rows or not ends:
        return None
    scores = [e.metrics["metrics/mAP50(B)"] for e in rows]
    asked = (args.get("imgsz") if args else None) or log.args.get("imgsz")
    file, line = log.place(rows[-1].line)
    return _Reference(
        low=min(scores[-1], max(scores)),
        high=max(scores),
        images=rows[-1].val_images,
        instances=rows[-1].val_instances,
        where=Source(file, line),
        size=rows[-1].size or (asked if isinstance(asked, int) else None),
        whole=len(rows) >= rows[-1].planned,
    )
