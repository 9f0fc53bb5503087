"""Labels that a trained model contradicts: hints at label noise, ranked. Numbers only; the model ran elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from diag.dataset.audit import Audit
from diag.dataset.gather import Item

if TYPE_CHECKING:
    from diag.dataset.table import Floats

MATCH = 0.5
"""IoU from which a prediction speaks of the same object, as in mAP50."""

LOOSE = (0.25, 0.6)
"""IoU range in which a confident prediction says that the label is badly placed: below it they are two things."""

ALONE = 0.3
"""A prediction that overlaps no label by this IoU speaks of something that has no label."""

FLOOR = 0.4
"""No prediction below it contradicts a label, however unsure the model is of the whole class."""

TRUST = 0.75
"""Share of the mean confidence of a class from which on a prediction contradicts; see docs/benchmarks.md."""

MIN_SUPPORT = 0.5
"""A class of which the model finds fewer labels than this gets no hints: they would say more of the model."""

MIN_FOUND = 0.75
"""That a label is supported by no prediction says something only where the model finds nearly all of its kind."""


@dataclass(frozen=True)
class Predicted:
    """What the model says of one image: `rows` of class, confidence, x, y, w, h (shares); or `probs` of a classifier.

    Classes are ids of the data set, not of the model.
    """

    rows: Sequence[Sequence[float]] = ()
    probs: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Hint:
    """One contradicted label. `line` is None for an object without a label; `box` is what the model sees."""

    kind: str
    """`class`, `missing`, `misplaced` or `unsupported`."""
    item: Item
    line: int | None
    value: str
    score: float
    """0..1, what hints are ranked by: the model's confidence times how much the label disagrees."""
    confidence: float
    box: tuple[float, ...] = ()


@dataclass(frozen=True)
class Hints:
    """Hints, worst first; `left_out` are classes (by id) with the share of their labels that the model finds."""

    found: Sequence[Hint]
    images: int
    support: float
    """Share of all labels that a prediction of their class covers."""
    left_out: Mapping[int, float]


@dataclass
class _Image:
    item: Item
    lines: list[int]
    cls: "Floats"
    rows: "Floats"
    iou: "Floats"
    """Labels by predictions."""


def label_hints(audit: Audit, predicted: Mapping[int, Predicted]) -> Hints:
    """Compare labels and predictions; `predicted` is keyed by the index in `audit.items`."""
    if audit.dataset.task == "classify":
        return _class_hints(audit, predicted)
    return _box_hints(audit, predicted)


def _box_hints(audit: Audit, predicted: Mapping[int, Predicted]) -> Hints:
    import numpy as np

    images = _images(audit, predicted)
    sure, finds = _support(images, [c for c in audit.dataset.names])
    total = sum(len(i.lines) for i in images)
    covered = sum(int(_covered(i).sum()) for i in images)
    left_out = {c: share for c, share in finds.items() if share < MIN_SUPPORT}
    name = audit.dataset.names
    found: list[Hint] = []
    for image in images:
        cls, rows, iou = image.cls, image.rows, image.iou
        confident = np.array([r[1] >= sure.get(int(r[0]), 2.0) for r in rows], dtype=bool)
        same = cls[:, None] == rows[None, :, 0] if len(rows) else np.zeros((len(cls), 0), dtype=bool)
        agreed = (iou >= MATCH) & same
        taken = agreed.any(axis=0)  # predictions that a label of their own class explains
        told = np.zeros(len(rows), dtype=bool)
        for k, line in enumerate(image.lines):
            c = int(cls[k])
            own = float(rows[agreed[k], 1].max()) if agreed[k].any() else 0.0
            other = np.flatnonzero((iou[k] >= MATCH) & ~same[k] & confident & ~taken)
            if len(other) and (p := other[rows[other, 1].argmax()]) is not None and rows[p, 1] * 0.5 >= own:
                told[(iou[k] >= MATCH) & ~taken] = True
                found.append(_hint("class", image, line, rows[p], name, float(rows[p, 1]) * (1 - own), c))
                continue
            best = float(iou[k].max()) if len(rows) else 0.0
            near = np.flatnonzero((iou[k] >= LOOSE[0]) & (iou[k] < LOOSE[1]) & same[k] & confident)
            near = np.array([p for p in near if iou[:, p].argmax() == k], dtype=int)
            if len(near) and not (agreed[k] & (iou[k] >= LOOSE[1])).any():
                p = near[rows[near, 1].argmax()]
                told[p] = True
                score = float(rows[p, 1]) * min(1.0, 2 * (1 - float(iou[k, p])) - 0.5)
                found.append(_hint("misplaced", image, line, rows[p], name, score, c))
                continue
            if best < ALONE and finds.get(c, 0.0) >= MIN_FOUND:
                found.append(Hint("unsupported", image.item, line, f"{_name(name, c)}: no prediction", float(finds[c] * (1 - best)), 0.0))
        for p in np.flatnonzero(confident & ~told & ~taken):
            if len(cls) and iou[:, p].max() >= ALONE:
                continue
            if any(_iou(rows[p, 2:], rows[q, 2:]) >= MATCH for q in np.flatnonzero(told)):
                continue
            told[p] = True
            found.append(_hint("missing", image, None, rows[p], name, float(rows[p, 1]), None))
    found.sort(key=lambda h: -h.score)
    return Hints(found, len(images), covered / total if total else 0.0, left_out)


def _hint(
    kind: str, image: _Image, line: int | None, row: "Floats", names: Mapping[int, str], score: float, c: int | None
) -> Hint:
    said = f"{_name(names, int(row[0]))} {row[1]:.2f}"
    value = {
        "class": f"label {_name(names, c)}, predicted {said}",
        "missing": f"no label, predicted {said}",
        "misplaced": f"label {_name(names, c)}, predicted elsewhere {said}",
    }[kind]
    return Hint(kind, image.item, line, value, round(score, 4), float(row[1]), tuple(round(float(v), 5) for v in row[2:]))


def _name(names: Mapping[int, str], c: int | None) -> str:
    return names.get(c, str(c)) if c is not None else ""


def _images(audit: Audit, predicted: Mapping[int, Predicted]) -> list[_Image]:
    """Labels and predictions of each image that has both a label file (or deliberately none) and a prediction."""
    import numpy as np

    table = audit.table
    number = {label: k for k, label in enumerate(table.files)}
    first = np.searchsorted(table.file, np.arange(len(table.files) + 1))
    images, seen = [], set()
    for i, item in enumerate(audit.items):
        if i not in predicted or item.label in seen or item.rows.state == "unreadable":
            continue
        seen.add(item.label)
        k = number[item.label]
        chosen = np.arange(first[k], first[k + 1])
        box = table.box[chosen]
        sound = np.isfinite(box).all(axis=1) & (box[:, 2] > 0) & (box[:, 3] > 0)
        rows = np.array([list(r) for r in predicted[i].rows], dtype=float).reshape(-1, 6)
        iou = _overlaps(box[sound], rows[:, 2:])
        images.append(_Image(item, table.line[chosen][sound].tolist(), table.cls[chosen][sound], rows, iou))
    return images


def _covered(image: _Image) -> "Floats":
    """Labels that a prediction of their own class covers."""
    same = image.cls[:, None] == image.rows[None, :, 0]
    return ((image.iou >= MATCH) & same).any(axis=1) if image.rows.size else (image.cls != image.cls)


def _support(images: Sequence[_Image], classes: Sequence[int]) -> tuple[dict[int, float], dict[int, float]]:
    """By class: the confidence that contradicts a label, and the share of labels that the model finds.

    The threshold follows confident learning (Northcutt, Jiang and Chuang 2021): what the model's confidence in this class
    is on average where the label agrees, less some slack (TRUST); but at least FLOOR. A class below MIN_SUPPORT has none.
    """
    agreed: dict[int, list[float]] = {c: [] for c in classes}
    labels: dict[int, int] = dict.fromkeys(classes, 0)
    for image in images:
        for k, c in enumerate(int(v) for v in image.cls):
            if c not in labels:
                continue
            labels[c] += 1
            match = [image.rows[p, 1] for p in range(len(image.rows)) if image.iou[k, p] >= MATCH and image.rows[p, 0] == c]
            if match:
                agreed[c].append(float(max(match)))
    finds = {c: len(agreed[c]) / labels[c] for c in classes if labels[c]}
    sure = {c: max(FLOOR, TRUST * sum(agreed[c]) / len(agreed[c])) for c in finds if finds[c] >= MIN_SUPPORT}
    return sure, finds


def _overlaps(a: "Floats", b: "Floats") -> "Floats":
    """IoU of all pairs of boxes (x, y, w, h)."""
    import numpy as np

    low = np.maximum((a[:, :2] - a[:, 2:] / 2)[:, None], (b[:, :2] - b[:, 2:] / 2)[None])
    high = np.minimum((a[:, :2] + a[:, 2:] / 2)[:, None], (b[:, :2] + b[:, 2:] / 2)[None])
    inside = np.clip(high - low, 0, None).prod(axis=2)
    union = a[:, 2:].prod(axis=1)[:, None] + b[:, 2:].prod(axis=1)[None] - inside
    return inside / np.maximum(union, 1e-12)


def _iou(a: "Floats", b: "Floats") -> float:
    return float(_overlaps(a.reshape(1, 4), b.reshape(1, 4))[0, 0])


def _class_hints(audit: Audit, predicted: Mapping[int, Predicted]) -> Hints:
    """Images whose folder a confident prediction contradicts."""
    names: dict[int, str] = dict(audit.dataset.names)
    ids = {name: i for i, name in names.items()}
    seen: dict[int, int] = {}
    own: dict[int, list[float]] = {}
    right = 0
    for i, said in predicted.items():
        c = ids.get(audit.items[i].image.parent.name)
        if c is None or not said.probs:
            continue
        seen[i] = c
        best = max(said.probs, key=lambda k: said.probs[k])
        right += best == c
        own.setdefault(c, []).append(said.probs.get(c, 0.0))
    sure = {c: max(FLOOR, TRUST * sum(p) / len(p)) for c, p in own.items()}
    finds = {
        c: sum(max(predicted[i].probs, key=lambda k, i=i: predicted[i].probs[k]) == c for i in seen if seen[i] == c) / len(p)
        for c, p in own.items()
    }  # fmt: skip
    left_out = {c: share for c, share in finds.items() if share < MIN_SUPPORT}
    found = []
    for i, c in seen.items():
        probs = predicted[i].probs
        best = max(probs, key=lambda k: probs[k])
        if best == c or best in left_out or probs[best] < sure.get(best, 2.0):
            continue
        value = f"folder {_name(names, c)}, predicted {_name(names, best)} {probs[best]:.2f}"
        score = round(probs[best] - probs.get(c, 0.0), 4)
        found.append(Hint("class", audit.items[i], None, value, score, probs[best]))
    found.sort(key=lambda h: -h.score)
    return Hints(found, len(seen), right / len(seen) if seen else 0.0, left_out)


def as_predicted(answer: Mapping[str, Any], to_set: Mapping[int, int]) -> Predicted:
    """One line of the child's answer with the model's classes as the data set's; other classes are left out."""
    rows = [[to_set[int(r[0])], *r[1:]] for r in answer.get("rows", ()) if int(r[0]) in to_set]
    probs = {to_set[k]: float(p) for k, p in enumerate(answer.get("probs", ())) if k in to_set}
    return Predicted(rows, probs)
