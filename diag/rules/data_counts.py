"""Counting helpers of the data rules. No rules here."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from diag.model.curves import Curves
from diag.model.evidence import Console, Dataset, SplitCounts
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Value, Verdict
from diag.model.foreign import LabelFiles, Scan, Tables, TrainLog
from diag.rules.data_faults import fault_of
from diag.rules.data_faults import sources as fault_sources
from diag.rules.facts import whole
from diag.rules.label_facts import left_out, told

Values = dict[str, Value]
MAX_RECALL_VALUES = 12
"""A recall of n validation objects takes at most n + 1 values; a run of 30 epochs on a usual set shows 25 and more."""
MANY_OBJECTS = 4
"""Times the objects asked for: the error of a rate is halved, so few images with that many objects (crowded scenes,
aerial tiles) leave only the doubt that they show few scenes."""


def scan_share(log: TrainLog | None, count: Callable[[Scan], int], limit: float, fixes: tuple[str, ...]) -> Verdict:
    """Hit with the training scan in which `count` is the largest share of the images."""
    scans = [s for s in log.scans if s.total and s.labelled and s.split in {"", "train"}] if log else []
    if not scans:
        return Skip("no_evidence", {"missing": "dataset, log"})
    worst = max(scans, key=lambda s: count(s) / s.total)
    if count(worst) / worst.total <= limit:
        return None
    values: Values = {
        "share": count(worst) / worst.total,
        "count": count(worst),
        "images": worst.total,
        "split": worst.split or "train",
    }
    return Hit(values=values, fixes=tuple(Fix(key) for key in fixes), evidence=(Source(worst.file, worst.line),))


def told_rows(
    labels: LabelFiles | None,
    count: int,
    words: str,
    said: tuple[Source, ...],
    console: Console | None,
    *,
    rare: bool = False,
) -> Verdict:
    """Hit if label files or the loader's warnings speak of such rows; medium if those are `rare`."""
    if labels is None and console is None:
        return Skip("no_evidence", {"missing": "labels, console"})
    found = told(labels, count, words, said)
    if found is None:
        return None
    values: Values = {
        "case": "images" if not count else None,
        "count": found.count,
        "objects": found.of,
        "splits": "train",
        "names": 0,
    }
    mild = Severity.MEDIUM if rare and not count else None
    return Hit(values=values, fixes=(Fix("repair"),), evidence=found.where, severity=mild)


@dataclass(frozen=True)
class LostRows:
    """A fault of label rows for which the loader leaves the whole image out.

    `name` is the count in `SplitCounts` and `LabelFiles` and the part of the finding's id after `data.`, `reason` that
    of `label_facts.reason`, `words` are in the problems that the audit and the label files name.
    """

    name: str
    reason: str
    words: tuple[str, ...]


def lost_rows(
    fault: LostRows,
    dataset: Dataset | None,
    console: Console | None,
    labels: LabelFiles | None,
    log: TrainLog | None,
    *,
    few: float,
    few_images: float,
) -> Verdict:
    """Hit with the rows of this fault: from the audit, else from the label files and the loader's warnings.

    Medium below the share `few` of the rows of an audit, or `few_images` of the images of a scan.
    """
    if dataset is not None:
        return audit_rows(dataset, fault.name, lambda split: getattr(split, fault.name), fault.words, few=few)
    count = getattr(labels, fault.name) if labels else 0
    said = left_out(console, fault.reason)
    words = "|".join(map(re.escape, fault.words))
    return told_rows(labels, count, words, said, console, rare=left_out_few(log, few_images))


def left_out_few(log: TrainLog | None, share: float, *, least: int = 100) -> bool:
    """True if the scans left out less than this share of at least so many images."""
    scans = [s for s in log.scans if s.total >= least and s.corrupt] if log else []
    return bool(scans) and all(s.corrupt / s.total < share for s in scans)


def val_small_by_others(
    log: TrainLog | None, curves: Curves | None, tables: Tables | None, min_images: int, min_instances: int
) -> Verdict:
    """The same question without an audit."""
    row = next((e for e in reversed(log.epochs) if e.val_images), None) if log else None
    if row is not None and log is not None and row.val_images:
        instances = row.val_instances or 0
        if row.val_images >= min_images and instances >= min_instances:
            return None
        if not instances:
            return None  # nothing to count: data.no_labels tells of it
        # Many objects in few images are known well enough, only from few scenes.
        many = instances >= MANY_OBJECTS * min_instances
        values: Values = {
            "case": "scenes" if many else "objects",
            "images": row.val_images,
            "instances": instances,
            "step": 1 / instances,
            "width": 0.98 / instances**0.5,  # 95 % interval of a share near 0.5
        }
        mild = Severity.LOW if many else None
        where = (Source(log.file, row.line),)
        return Hit(values=values, fixes=(Fix("larger_split"),), evidence=where, severity=mild)
    table = tables.having(r"^(?:class|name|label)", r"^(?:instances|count|objects|boxes)$") if tables else None
    if table is not None:
        counts = table.numbers(r"^(?:instances|count|objects|boxes)$")
        single = sum(1 for c in counts if 0 <= c <= 2)
        if not single:
            return None
        values = {"case": "classes", "classes": single, "of": len(counts)}
        return Hit(values=values, fixes=(Fix("larger_split"),), evidence=(whole(table),))
    if curves is not None and "accuracy" in curves.metric:
        return _few_classified(log, curves, min_instances) or Skip("no_evidence", {"missing": "dataset"})
    recall = _fresh_recall(curves) if curves else ()
    if curves is None or len(recall) < 30 or not curves.best > 0.1:
        return Skip("no_evidence", {"missing": "dataset, log, tables"})
    late = {round(v, 4) for v in recall[len(recall) // 3 :]}
    # A score that swings and a recall of few values: a handful of objects decide. A saturated one has few values, too.
    if len(late) > MAX_RECALL_VALUES or len(late) > len(recall) // 4 or curves.noise < 0.02 * curves.best:
        return None
    values = {"case": "recall", "values": len(late), "rows": len(recall)}
    return Hit(
        values=values,
        fixes=(Fix("larger_split"),),
        evidence=(Source(curves.file, curves.line(curves.rows)),),
        confidence=Confidence.MEDIUM,
    )


def _fresh_recall(curves: Curves) -> tuple[float, ...]:
    """Recall by validation: a run that validates every few epochs repeats the whole row in between, losses and all."""
    recall = next((v for n, v in curves.columns.items() if n.startswith("metrics/recall")), ())
    losses = [v for v in curves.val.values() if len(v) == len(recall) and any(v)]
    if not losses:
        return recall
    told = [*losses, *(v for n, v in curves.columns.items() if n.startswith("metrics/") and len(v) == len(recall))]
    return tuple(r for i, r in enumerate(recall) if i == 0 or any(v[i] != v[i - 1] for v in told))


def _few_classified(
    log: TrainLog | None, curves: Curves, min_images: int, *, least: int = 5, rounding: float = 6e-6
) -> Hit | None:
    """The images of a classification's validation split: those scanned, or by its top-1, a multiple of 1/images.

    The smallest number of images that all values (rounded to five digits) fit. Of 40,000 random splits of 150 to 5000
    images one value fitted some number below 50 in 2.3 %, two different ones in 0.13 %; so two are asked for.
    """
    scan = next((s for s in reversed(log.scans) if s.split == "val" and s.total), None) if log else None
    values = {v for v in curves.columns.get("metrics/accuracy_top1", ()) if 0 < v < 1}
    if scan is not None:
        images: int | None = scan.total if scan.total < min_images else None
    elif len(values) < 2 or curves.rows < least or (log is not None and curves.file == log.file):
        return None  # a console prints three digits, which fit anything
    else:
        fits = (n for n in range(2, min_images) if all(abs(v - round(v * n) / n) <= rounding for v in values))
        images = next(fits, None)
    if images is None:
        return None
    return Hit(
        values={"case": "classify", "images": images, "step": 1 / images, "instances": None, "width": None},
        fixes=(Fix("larger_split"),),
        evidence=(Source(curves.file, curves.line(curves.rows)),),
        confidence=Confidence.MEDIUM,
    )


def split_share(
    dataset: Dataset, count: Callable[[SplitCounts], int], limit: float, fixes: tuple[str, ...], *, only: str = ""
) -> Verdict:
    """Hit with the split in which `count` is the largest share of the images, if that is above `limit`."""
    if dataset.task == "classify":
        return None
    shares = {n: (count(s) / s.images, count(s), s.images) for n, s in dataset.splits.items() if s.images}
    shares = {n: v for n, v in shares.items() if not only or n == only}
    if not shares:
        return Skip("split_missing")
    worst = max(shares, key=lambda n: shares[n])
    share, some, images = shares[worst]
    if share <= limit:
        return None
    values: Values = {"share": share, "count": some, "images": images, "split": worst}
    return Hit(values=values, fixes=tuple(Fix(key) for key in fixes), evidence=audit_source(dataset))


def audit_rows(
    dataset: Dataset,
    name: str,
    count: Callable[[SplitCounts], int],
    words: tuple[str, ...],
    *,
    few: float = 0.0,
) -> Verdict:
    """Hit if any split has such rows. Without the audit's places `words` pick the lines that speak of them."""
    total = sum(count(s) for s in dataset.splits.values())
    if not total:
        return None
    objects = sum(s.instances for s in dataset.splits.values())
    where = ", ".join(f"{n}: {count(s)}" for n, s in dataset.splits.items() if count(s))
    rare = objects > 0 and total / objects < few
    fault = fault_of(dataset, name)
    values: Values = {"count": total, "objects": objects, "splits": where, "names": len(dataset.names)}
    if fault.count:
        values |= {"case": fault.main_kind, "files": fault.files}
    return Hit(
        values=values,
        fixes=(Fix("repair"),),
        evidence=fault_sources(fault) or audit_source(dataset, words),
        severity=Severity.MEDIUM if rare else None,
    )


def audit_source(dataset: Dataset, words: tuple[str, ...] = ()) -> tuple[Source, ...]:
    """The audit's first lines that hold one of the words, else the data yaml itself."""
    lines = [line for line in dataset.problems if any(word in line for word in words)]
    return tuple(Source("data.json", text=line) for line in lines[:3]) or (Source(dataset.yaml),)
