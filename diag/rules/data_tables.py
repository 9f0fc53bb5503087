"""data.*: what tables about a data set say: figures by split, predictions beside labels."""

import math
import re

from diag.model.curves import Curves
from diag.model.evidence import Console, Dataset
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Value, Verdict
from diag.model.foreign import Table, Tables
from diag.rules.base import rule
from diag.rules.facts import sources

_OBJECTS = r"mean_objects|objects_per_image|mean_instances|instances_per_image|boxes_per_image"
_BRIGHT = r"^(?:mean_|median_|avg_)?(?:brightness|luminance|intensity|grey|gray|luma)"
_SPREAD = r"^(?:std|sd|sigma)_?(?:brightness|luminance|intensity|grey|gray|luma)|brightness_std"
_AREA = r"(?:box|bbox|object|instance)_?area|^area|(?:box|bbox|object)_?size"
_SIDE = r"^(?:mean_|median_|avg_)?(?:image_)?(?:width|w)$"


@rule("data.val_shift@foreign", Severity.MEDIUM)
def val_shift(
    dataset: Dataset | None, curves: Curves | None, tables: Tables | None, *, factor: float = 3.0,
    brightness: float = 0.5, plain_brightness: float = 40.0, area: float = 4.0, side: float = 2.0,
) -> Verdict:  # fmt: skip
    """Validation images differ from the training images in objects per image, brightness, object or image size.

    factor: between the mean numbers of objects; brightness: of a standard deviation of the training images, where the
    table has one, else plain_brightness of 255 grey levels; area: of the median box, twice its side (one octave, as in
    the data doctor); side: of the images themselves.
    """
    if dataset is not None:
        each = {n: s.instances / s.labelled for n, s in dataset.splits.items() if n in {"train", "val"} and s.labelled}
        return _apart("objects", each.get("train", 0.0), each.get("val", 0.0), factor, "data.json")
    table = tables.having("^(?:split|set|subset|fold)$") if tables else None
    pair = _splits(table) if table else None
    if table is None or pair is None:
        return Skip("no_evidence", {"missing": "dataset, tables"})
    for what, pattern, limit in (("objects", _OBJECTS, factor), ("area", _AREA, area), ("side", _SIDE, side)):
        train, val = (_cell(table, row, pattern) for row in pair)
        if isinstance(found := _apart(what, train, val, limit, table.file), Hit):
            return found
    train, val = (_cell(table, row, _BRIGHT) for row in pair)
    spread = _cell(table, pair[0], _SPREAD)
    if not (train >= 0 and val >= 0):
        return None
    limit = brightness * spread if spread > 0 else plain_brightness if max(train, val) > 1.5 else plain_brightness / 255
    if abs(train - val) <= limit:
        return None
    return _hit("brightness", train, val, table.file)


def _splits(table: Table) -> tuple[int, int] | None:
    """The rows of train and val (else test)."""
    names = [n.strip().lower() for n in table.texts(table.find("^(?:split|set|subset|fold)$"))]
    held = next((names.index(n) for n in ("val", "valid", "validation", "test") if n in names), None)
    return (names.index("train"), held) if "train" in names and held is not None else None


def _cell(table: Table, row: int, pattern: str) -> float:
    numbers = table.numbers(pattern)
    return numbers[row] if numbers else math.nan


def _apart(what: str, train: float, val: float, limit: float, file: str) -> Verdict:
    if not (train > 0 and val > 0) or max(train, val) < limit * min(train, val):
        return None
    return _hit(what, train, val, file)


def _hit(what: str, train: float, val: float, file: str) -> Hit:
    values: dict[str, Value] = {"case": what if what != "objects" else None, "train": train, "val": val}
    return Hit(values=values, fixes=(Fix("resplit"),), evidence=(Source(file),), confidence=Confidence.MEDIUM)


@rule("data.label_noise@table", Severity.LOW)
def label_noise(
    tables: Tables, *, sure: float = 0.9, overlap: float = 0.7, min_rows: int = 20, few: float = 0.02, most: float = 0.5
) -> Verdict:
    """A table of predictions beside labels: the model contradicts labels of the same box with confidence.

    sure: confidence of the prediction; overlap: IoU of the two boxes, where the table has it. few: of the rows, fewer
    are the model's own mistakes; most: above it the class ids are mixed up, which is no noise of labels. min_rows: in
    total.
    """
    table = tables.having(r"^(?:label|gt|true|target|given)\w*$|^(?:gt|true)_", r"^pred", r"conf|score|prob")
    if table is None:
        return Skip("no_predictions")
    labels = table.texts(table.find(r"^(?:label|gt|true|target|given)\w*$|^(?:gt|true)_"))
    said = table.texts(table.find(r"^pred"))
    confidence, iou = table.numbers(r"conf|score|prob"), table.numbers(r"iou")
    if len(labels) < min_rows:
        return Skip("too_few_rows", {"have": len(labels), "need": min_rows})
    against = [
        i
        for i, (a, b, c) in enumerate(zip(labels, said, confidence, strict=True))
        if a.strip() and b.strip() and a.strip() != b.strip() and c >= sure and (not iou or iou[i] >= overlap)
    ]
    if not few * len(labels) <= len(against) <= most * len(labels):
        return None
    first = against[0]
    return Hit(
        values={
            "count": len(against), "of": len(labels), "sure": sure, "label": labels[first].strip(),
            "said": said[first].strip(),
        },
        fixes=(Fix("look"),),
        evidence=tuple(Source(table.file, i + 2, ", ".join(table.rows[i])[:120]) for i in against[:3]),
        confidence=Confidence.LOW,
    )  # fmt: skip


@rule("data.tiny_boxes@log", Severity.LOW)
def tiny_boxes(console: Console, *, min_share: float = 0.05) -> Verdict:
    """AutoAnchor of YOLOv5 and v7 counts labels under three pixels (yolov5#4350: 5669 of 8075).

    min_share: of all labels; a handful in a large set (256 of 129021, #10733) is slips of the mouse.
    """
    said = sources(console, ("tiny_labels",), limit=1)
    found = re.search(r"(\d{1,12}) of (\d{1,12}) labels", said[0].text) if said else None
    count, total = (int(found[1]), int(found[2])) if found else (0, 0)
    if not total or count < min_share * total:
        return None
    values: dict[str, Value] = {"count": count, "of": total, "share": count / total}
    return Hit(values=values, fixes=(Fix("imgsz"), Fix("tile")), evidence=said)
