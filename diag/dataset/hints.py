"""Labels that a trained model contradicts: hints at label noise, ranked. Numbers only; the model ran elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from diag.dataset.audit import Audit
from diag.dataset.gather import Item

if TYPE_CHECKING:
    from diag.dataset.table import Floats, Mask

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
    images = _images(audit, predicted)
    sure, finds = _support(images, list(audit.dataset.names))
    judge = _Judge(audit.dataset.names, sure, finds)
    found = [hint for image in images for hint in judge.hints(image)]
    found.sort(key=lambda h: -h.score)
    total = sum(len(i.lines) for i in images)
    covered = sum(int(_covered(i).sum()) for i in images)
    left_out = {c: share for c, share in finds.items() if share < MIN_SUPPORT}
    return Hints(found, len(images), covered / total if total else 0.0, left_out)


@dataclass
class _Judge:
    """Compares the labels of single images with what is predicted there; the fields are those of `_support`."""

    names: Mapping[int, str]
    sure: Mapping[int, float]
    finds: Mapping[int, float]

    def hints(self, image: _Image) -> list[Hint]:
        """The contradictions of one image; a prediction that one of them speaks of is not told again as missing."""
        import numpy as np

        rows = image.rows
        confident = np.array([r[1] >= self.sure.get(int(r[0]), 2.0) for r in rows], dtype=bool)
        same = image.cls[:, None] == rows[None, :, 0]
        agreed = (image.iou >= MATCH) & same
        free = ~agreed.any(axis=0)  # predictions that no label of their own class explains
        told = np.zeros(len(rows), dtype=bool)
        found = []
        for k in range(len(image.lines)):
            other = confident & free & ~same[k] & (image.iou[k] >= MATCH)
            near = confident & same[k] & (image.iou[k] >= LOOSE[0]) & (image.iou[k] < LOOSE[1])
            near &= image.iou.argmax(axis=0) == k if len(rows) else near
            if hint := self._other_class(image, k, other, agreed[k]):
                told |= free & (image.iou[k] >= MATCH)
            elif hint := self._beside(image, k, near, agreed[k]):
                told |= near
            else:
                hint = self._unsupported(image, k)
            found += [hint] if hint else []
        return found + self._missing(image, confident & free & ~told, told)

    def _other_class(self, image: _Image, k: int, other: "Mask", agreed: "Mask") -> Hint | None:
        if not other.any():
            return None
        own = float(image.rows[agreed, 1].max()) if agreed.any() else 0.0
        row = image.rows[other][image.rows[other, 1].argmax()]
        if row[1] * 0.5 < own:
            return None
        value = f"label {self._class(image.cls[k])}, predicted {self._said(row)}"
        return _hint("class", image, image.lines[k], value=value, row=row, score=float(row[1]) * (1 - own))

    def _beside(self, image: _Image, k: int, near: "Mask", agreed: "Mask") -> Hint | None:
        if not near.any() or (agreed & (image.iou[k] >= LOOSE[1])).any():
            return None
        p = int((near * image.rows[:, 1]).argmax())
        row = image.rows[p]
        score = float(row[1]) * min(1.0, 2 * (1 - float(image.iou[k, p])) - 0.5)
        value = f"label {self._class(image.cls[k])}, predicted elsewhere {self._said(row)}"
        return _hint("misplaced", image, image.lines[k], value=value, row=row, score=score)

    def _unsupported(self, image: _Image, k: int) -> Hint | None:
        best = float(image.iou[k].max()) if len(image.rows) else 0.0
        share = self.finds.get(int(image.cls[k]), 0.0)
        if best >= ALONE or share < MIN_FOUND:
            return None
        value = f"{self._class(image.cls[k])}: no prediction"
        return Hint("unsupported", image.item, image.lines[k], value, round(share * (1 - best), 4), 0.0)

    def _missing(self, image: _Image, left: "Mask", told: "Mask") -> list[Hint]:
        """Confident predictions that overlap no label, each object once."""
        import numpy as np

        found = []
        rows, done = image.rows, list(np.flatnonzero(told))
        for p in sorted(np.flatnonzero(left), key=lambda p: -rows[p, 1]):
            if len(image.cls) and image.iou[:, p].max() >= ALONE:
                continue
            if done and _overlaps(rows[p : p + 1, 2:], rows[done, 2:]).max() >= MATCH:
                continue
            done.append(p)
            value = f"no label, predicted {self._said(rows[p])}"
            found.append(_hint("missing", image, None, value=value, row=rows[p], score=float(rows[p, 1])))
        return found

    def _class(self, c: float) -> str:
        return _name(self.names, int(c))

    def _said(self, row: "Floats") -> str:
        return f"{self._class(row[0])} {row[1]:.2f}"


def _hint(kind: str, image: _Image, line: int | None, *, value: str, row: "Floats", score: float) -> Hint:
    box = tuple(round(float(v), 5) for v in row[2:])
    return Hint(kind, image.item, line, value, round(score, 4), float(row[1]), box)


def _name(names: Mapping[int, str], c: int) -> str:
    return names.get(c, str(c))


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


def _covered(image: _Image) -> "Mask":
    """Labels that a prediction of their own class covers."""
    same = image.cls[:, None] == image.rows[None, :, 0]
    covered: Mask = ((image.iou >= MATCH) & same).any(axis=1)
    return covered


def _support(images: Sequence[_Image], classes: Sequence[int]) -> tuple[dict[int, float], dict[int, float]]:
    """By class: the confidence that contradicts a label, and the share of labels that the model finds.

    The threshold follows confident learning (Northcutt, Jiang and Chuang 2021): what the model's confidence in this
    class is on average where the label agrees, less some slack (TRUST); but at least FLOOR. A class below MIN_SUPPORT
    has none.
    """
    agreed: dict[int, list[float]] = {c: [] for c in classes}
    labels: dict[int, int] = dict.fromkeys(classes, 0)
    for image in images:
        for k, c in enumerate(int(v) for v in image.cls):
            if c not in labels:
                continue
            labels[c] += 1
            match = [
                image.rows[p, 1] for p in range(len(image.rows)) if image.iou[k, p] >= MATCH and image.rows[p, 0] == c
            ]
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
    result: Floats = inside / np.maximum(union, 1e-12)
    return result


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
        right += _best(said) == c
        own.setdefault(c, []).append(said.probs.get(c, 0.0))
    sure = {c: max(FLOOR, TRUST * sum(p) / len(p)) for c, p in own.items()}
    agrees: dict[int, int] = dict.fromkeys(own, 0)
    for i, c in seen.items():
        agrees[c] += _best(predicted[i]) == c
    finds = {c: agrees[c] / len(p) for c, p in own.items()}
    left_out = {c: share for c, share in finds.items() if share < MIN_SUPPORT}
    found = []
    for i, c in seen.items():
        probs, best = predicted[i].probs, _best(predicted[i])
        if best == c or best in left_out or probs[best] < sure.get(best, 2.0):
            continue
        value = f"folder {_name(names, c)}, predicted {_name(names, best)} {probs[best]:.2f}"
        score = round(probs[best] - probs.get(c, 0.0), 4)
        found.append(Hint("class", audit.items[i], None, value, score, probs[best]))
    found.sort(key=lambda h: -h.score)
    return Hints(found, len(seen), right / len(seen) if seen else 0.0, left_out)


def _best(said: Predicted) -> int:
    return max(said.probs, key=lambda k: said.probs[k])


def as_predicted(answer: Mapping[str, Any], to_set: Mapping[int, int]) -> Predicted:
    """One line of the child's answer with the model's classes as the data set's; other classes are left out."""
    rows = [[to_set[int(r[0])], *r[1:]] for r in answer.get("rows", ()) if int(r[0]) in to_set]
    probs = {to_set[k]: float(p) for k, p in enumerate(answer.get("probs", ())) if k in to_set}
    return Predicted(rows, probs)
