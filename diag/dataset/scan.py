"""Count images, labels and label faults of a data set. Reads every label file once; opens no image."""

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from diag.dataset.resolve import DataSpec, label_of
from diag.model.evidence import Dataset, SplitCounts

MAX_PROBLEMS = 50
"""Lines of `Dataset.problems`; the counts are always complete."""

MAX_LABEL_BYTES = 8 * 1024 * 1024
"""A larger label file is not read; it counts as one bad row."""

OVERSHOOT = 0.01
"""How far outside 0..1 a coordinate may lie: Ultralytics' own tolerance (verify_image_label: points.max() <= 1.01)."""


@dataclass
class _Tally:
    """Counters of one split while it is read."""

    images: int = 0
    labelled: int = 0
    background: int = 0
    missing: int = 0
    instances: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    classes: Counter[int] = field(default_factory=Counter)

    def counts(self) -> SplitCounts:
        return SplitCounts(
            self.images,
            self.labelled,
            self.background,
            self.missing,
            self.instances,
            self.faults["bad_row"],
            self.faults["class_oob"],
            self.faults["coord_oob"],
        )


def scan(spec: DataSpec, *, progress: Callable[[str], None] = lambda line: None) -> Dataset:
    """Count a resolved data set; `progress` gets a line every two seconds."""
    problems: list[str] = []
    splits: dict[str, SplitCounts] = {}
    classes: Counter[int] = Counter()
    last = time.monotonic()
    for split, images in spec.splits.items():
        tally = _Tally()
        for number, image in enumerate(images, 1):
            _scan_image(spec, image, tally, problems)
            if time.monotonic() - last > 2:
                last = time.monotonic()
                progress(f"{split}: {number}/{len(images)} label files read")
        splits[split] = tally.counts()
        classes.update(tally.classes)
    counts = {i: classes.get(i, 0) for i in sorted({*spec.names, *classes})}
    return Dataset(str(spec.source), spec.task, dict(spec.names), splits, counts, tuple(problems[:MAX_PROBLEMS]))


def _scan_image(spec: DataSpec, image: Path, tally: _Tally, problems: list[str]) -> None:
    tally.images += 1
    if spec.task == "classify":
        by_name = {name: i for i, name in spec.names.items()}
        tally.classes[by_name.get(image.parent.name, -1)] += 1
        tally.labelled += 1
        tally.instances += 1
        return
    label = label_of(image)
    try:
        if label.stat().st_size > MAX_LABEL_BYTES:
            tally.faults["bad_row"] += 1
            problems.append(f"{label}: larger than {MAX_LABEL_BYTES >> 20} MiB, not read")
            return
        rows = label.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        tally.missing += 1
        return
    except (OSError, UnicodeDecodeError) as error:
        tally.faults["bad_row"] += 1
        problems.append(f"{label}: not readable: {error}")
        return
    rows = [row for row in rows if row.strip()]
    tally.labelled += bool(rows)
    tally.background += not rows
    for number, row in enumerate(rows, 1):
        tally.instances += 1
        kind, class_id, what = check_row(row.split(), spec)
        if class_id is not None:
            tally.classes[class_id] += 1
        if kind:
            tally.faults[kind] += 1
            if len(problems) < MAX_PROBLEMS:
                problems.append(f"{label}:{number}: {what}")


def check_row(fields: Sequence[str], spec: DataSpec) -> tuple[str, int | None, str]:
    """One label row: (fault kind or "", class id if readable, what is wrong).

    Kinds: `bad_row` (cannot be parsed, wrong number of fields), `class_oob`, `coord_oob`.
    """
    try:
        numbers = [float(f) for f in fields]
    except ValueError:
        return "bad_row", None, f"not numbers: {' '.join(fields)[:60]!r}"
    if not all(map(math.isfinite, numbers)):
        return "bad_row", None, "nan or inf"
    class_id = int(numbers[0])
    if problem := _field_count(len(numbers), spec):
        return "bad_row", class_id, problem
    if numbers[0] != class_id or class_id not in spec.names:
        return "class_oob", class_id, f"class {fields[0]}, but names has {len(spec.names)} classes"
    low, high = min(numbers[1:5]), max(numbers[1:5])
    if spec.task not in {"detect", "pose"} or (len(numbers) > 5 and spec.task == "detect"):
        low, high = min(numbers[1:]), max(numbers[1:])
    if low < -OVERSHOOT or high > 1 + OVERSHOOT:
        return "coord_oob", class_id, f"coordinate {low if low < -OVERSHOOT else high:g} outside 0..1"
    return "", class_id, ""


def _field_count(count: int, spec: DataSpec) -> str:
    """What is wrong with the number of fields of a row; empty when it fits the task."""
    polygon = count >= 7 and count % 2 == 1
    if spec.task == "pose":
        shape = spec.extra.get("kpt_shape")
        expected = 5 + shape[0] * shape[1] if isinstance(shape, list) and len(shape) == 2 else 0
        return f"{count} fields, expected {expected} (kpt_shape {shape})" if expected and count != expected else ""
    if spec.task == "obb":
        return "" if count == 9 or polygon else f"{count} fields, expected 9 (class and 4 corners)"
    if count == 5 or polygon:
        return ""
    return f"{count} fields, expected 5 (class x y w h) or a polygon of at least 3 points"
