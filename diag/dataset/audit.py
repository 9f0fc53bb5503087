"""The audit: read everything once, ask every question, and hand over counts, faults and figures."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from diag.dataset import boxes, shapes, spread, structure
from diag.dataset.copies import copy_faults
from diag.dataset.faults import ROW_LOSS, Faults
from diag.dataset.gather import Item, gather
from diag.dataset.pictures import picture_faults
from diag.dataset.resolve import DataSpec
from diag.dataset.table import Marks, Table, make_table
from diag.model.audit import Place
from diag.model.evidence import Dataset, SplitCounts

MAX_PROBLEMS = 50
"""Lines of `Dataset.problems`; the counts are always complete."""


@dataclass(frozen=True)
class Audit:
    """The evidence (`dataset`), and what reports and repairs need beside it."""

    dataset: Dataset
    faults: Faults
    items: Sequence[Item]
    table: Table
    histograms: dict[str, list[int]]


def audit(
    spec: DataSpec,
    *,
    level: str = "header",
    imgsz: int = 640,
    cache: Path | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> Audit:
    """Audit a resolved data set at a level of `gather.LEVELS`."""
    # Late: numpy costs a quarter of a second.
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):  # rows may hold 1e300; they are named, not warned of
        return _audit(spec, level, imgsz, cache, progress)


def _audit(spec: DataSpec, level: str, imgsz: int, cache: Path | None, progress: Callable[[str], None]) -> Audit:
    items = gather(spec, level=level, cache=cache, progress=progress)
    root = spec.source if spec.task == "classify" else spec.source.parent
    faults = Faults(root)
    unique: dict[Path, Item] = {}
    for item in items:
        unique.setdefault(item.label, item)
    once = list(unique.values()) if spec.task != "classify" else []
    table = make_table(
        [i.rows for i in once],
        [i.label for i in once],
        [i.split for i in once],
        [i.header.shown_size for i in once],
        spec.task,
        keypoints=boxes.pose_fields(spec),
    )
    figures: dict[str, float] = {"imgsz": float(imgsz), "level": float(("header", "look", "deep").index(level))}
    structure.yaml_faults(spec, faults)
    if spec.task == "classify":
        structure.folder_faults(spec, faults)
    else:
        structure.partner_faults(items, spec, faults)
        progress("checking the labels")
        figures |= _label_faults(once, table, spec, faults, imgsz)
    progress("checking the images")
    figures |= picture_faults(items, faults, imgsz)
    copy_faults(items, spec, faults, cache)
    dataset, counts = _dataset(spec, items, faults, table, figures)
    return Audit(dataset, faults, items, table, spread.histograms(table, counts))


def _label_faults(once: Sequence[Item], table: Table, spec: DataSpec, faults: Faults, imgsz: int) -> dict[str, float]:
    for item in once:
        for flaw in item.rows.flaws:
            faults.add(flaw.fault, flaw.kind, item.label, flaw.line, flaw.value, fix=flaw.fix, split=item.split)
    marks = Marks(table, faults)
    fits = boxes.field_faults(marks, spec)
    known = boxes.class_faults(marks, spec, fits)
    inside = boxes.coordinate_faults(marks, spec, known)
    sound = boxes.box_faults(marks, spec, inside, imgsz)
    boxes.copy_faults(marks, sound)
    figures = shapes.polygon_faults(marks, spec, inside)
    if spec.task == "obb":
        shapes.obb_faults(marks, inside)
    if spec.task == "pose":
        figures |= shapes.keypoint_faults(marks, spec, inside)
    return figures


def _dataset(
    spec: DataSpec, items: Sequence[Item], faults: Faults, table: Table, figures: dict[str, float]
) -> tuple[Dataset, list[int]]:
    """Counts by split and class, and the evidence as a whole; also the objects of each image."""
    dropped = {p.file for f, p in faults.all() if f in ROW_LOSS and p.kind != "names_short"}
    dropped |= {p.file for f, p in faults.all() if f == "encoding" and p.kind in {"utf16", "separator"}}
    lost = {p.file for f, p in faults.all() if f == "corrupt_images" or (f, p.kind) == ("image_extreme", "small")}
    if spec.task in {"detect", "segment"}:  # one file must not hold both kinds of rows
        mixed = set(table.file[table.shape].tolist()) & set(table.file[table.count == 5].tolist())
        dropped |= {faults.name(table.files[k]) for k in mixed}
    by_label = {label: k for k, label in enumerate(table.files)}
    starts = _starts(table)
    by_name = {name: i for i, name in spec.names.items()}
    splits: dict[str, SplitCounts] = {}
    classes: dict[str, dict[int, int]] = {}
    objects: list[int] = []
    loss = 0
    fault_rows = Counter((p.file, f) for f, p in faults.all() if f in ROW_LOSS and p.kind != "names_short")
    for split in spec.splits:
        tally: Counter[str] = Counter()
        found: Counter[int] = Counter()
        for item in items:
            if item.split != split:
                continue
            tally["images"] += 1
            if spec.task == "classify":
                found[by_name.get(item.image.parent.name, -1)] += 1
                tally["labelled"] += 1
                tally["instances"] += 1
                loss += faults.name(item.image) in lost
                continue
            name = faults.name(item.label)
            rows, bad = (
                item.rows,
                sum((f.line is not None and f.fault != "encoding") or f.kind == "separator" for f in item.rows.flaws),
            )
            tally["labelled"] += rows.state == "rows"
            tally["background"] += rows.state == "empty"
            tally["missing_labels"] += rows.state == "missing"
            tally["instances"] += len(rows.lines) + bad
            objects.append(len(rows.lines))
            for fault in ROW_LOSS:
                tally[fault] += fault_rows[name, fault]
            loss += name in dropped or faults.name(item.image) in lost
            k = by_label[item.label]
            for c in table.cls[starts[k] : starts[k + 1]].tolist():
                found[int(c)] += 1
        fields = (
            "images",
            "labelled",
            "background",
            "missing_labels",
            "instances",
            "bad_rows",
            "class_oob",
            "coord_oob",
        )
        splits[split] = SplitCounts(**{name: tally[name] for name in fields})
        classes[split] = dict(sorted(found.items()))
    total: Counter[int] = Counter()
    for counts in classes.values():
        total.update(counts)
    figures["dropped_images"] = float(loss)
    if {"train", "val"} <= set(classes):
        figures["class_distance"], figures["class_distance_chance"] = spread.class_distance(
            classes["train"], classes["val"]
        )
        figures["brightness_shift"] = spread.brightness_shift(items)
        figures["size_shift"] = spread.size_shift(table)
    figures["max_objects"] = float(max(objects, default=0))
    dataset = Dataset(
        yaml=str(spec.source),
        task=spec.task,
        names=dict(spec.names),
        splits=splits,
        class_counts={i: total.get(i, 0) for i in sorted({*spec.names, *total})},
        problems=tuple(_problems(faults)),
        faults=faults.summary(),
        measures=figures,
        split_classes=classes,
    )
    return dataset, objects


def _starts(table: Table) -> Sequence[int]:
    """Where the rows of each file begin in the table; one more entry for the end."""
    import numpy as np

    result: list[int] = np.searchsorted(table.file, np.arange(len(table.files) + 1)).tolist()
    return result


def _problems(faults: Faults) -> list[str]:
    """The first faults that cost whole images as `file:line: what`."""
    places = [p for fault in sorted(ROW_LOSS) for p in faults.places.get(fault, [])]
    places += [p for p in faults.places.get("encoding", []) if p.kind in {"utf16", "separator"}]
    return [_line(place) for place in places[:MAX_PROBLEMS]]


def _line(place: Place) -> str:
    return f"{place.file}:{place.line}: {place.value}" if place.line else f"{place.file}: {place.value}"
