"""data.*: what the loader's messages, listings and tables say of a data set."""

import re
from collections.abc import Sequence

from diag.model.evidence import Console, Dataset
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Value, Verdict
from diag.model.foreign import DataYaml, LabelFiles, Notes, Scan, Tables, TrainLog
from diag.rules.base import rule
from diag.rules.data_counts import left_out_few
from diag.rules.facts import described, noted, sources
from diag.rules.label_facts import left_out
from diag.rules.listing_facts import class_folders


@rule("data.corrupt_images@foreign", Severity.HIGH)
def corrupt_images(console: Console, log: TrainLog | None, *, few_images: float = 0.01) -> Verdict:
    """Images can't be decoded or are truncated. few_images: below this share of a scan it is medium.

    A scan's "corrupt" counts images left out for bad labels, too; only reasons that speak of the image count.
    Reported in yolov5#3450.
    """
    said = left_out(console, "image")
    if not said:
        return None
    return Hit(
        values={"count": len(said)},
        fixes=(Fix("replace"),),
        evidence=said[:3],
        severity=Severity.MEDIUM if all("restored" in s.text for s in said) or left_out_few(log, few_images) else None,
    )


_OTHER_TEXTS = r"(?:classes|labels?|train|val|valid|test|names|notes|obj|readme|requirements|license)\b"


def _unlabelled(scan: Scan) -> int:
    return scan.background + (scan.missing or 0)


def _beside(notes: Notes | None) -> tuple[Source, ...]:
    """Listed label files in a folder called images; lists and class names of annotation tools are none."""
    return noted(notes, rf"(?:^|[/\\\s])images[/\\](?:[^\s/\\]+[/\\])*(?!{_OTHER_TEXTS})[^\s/\\]+\.txt\b")


@rule("data.path_mismatch@foreign", Severity.CRITICAL)
def path_mismatch(
    console: Console | None,
    log: TrainLog | None,
    notes: Notes | None,
    data: DataYaml | None,
    dataset: Dataset | None,
    *,
    min_share: float = 0.10,
) -> Verdict:
    """Labels are not found because of the folder layout.

    They are looked for by replacing the last /images/ of a path with /labels/. yolov5#13610, #11085: images are
    read, not one label is, and either label files exist elsewhere or no image path has an images folder: also where
    images/ is a link, since its resolved path counts (libreyolo#187). Where min_share of the pictures or more has no
    label (more than the 0 to 10 % of backgrounds that Ultralytics advises) and label files are listed beside pictures
    in a folder called images, it is those (ultralytics#21224). Images that are left out as corrupt had their labels
    read; and where the set was audited, the audit says.
    """
    if dataset is not None:
        return None
    if console is None and log is None:
        return Skip("no_evidence", {"missing": "console, log"})
    beside = _beside(notes)
    scans = log.scans if log else ()
    partly = next((s for s in scans if s.labelled and _unlabelled(s) >= min_share * s.total > 0), None)
    if partly and beside:
        values: dict[str, Value] = {"case": "beside", "images": _unlabelled(partly), "of": partly.total}
        return Hit(values=values, fixes=(Fix("layout"), Fix("cache")), evidence=beside)
    bare = [s for s in log.scans if s.total and not s.labelled and s.background + (s.missing or 0)] if log else []
    said = sources(console, ("no_labels",))
    corrupt = any(s.total and s.corrupt > s.total / 2 for s in log.scans) if log else False
    if not bare and (not said or corrupt):
        return None
    exist = noted(notes, r"\.txt\b.{0,40}(?:\d|non-empty)|labels?[\\/].{0,60}\.txt|^\s*\d+ \.txt")
    images = noted(notes, r"\.(?:png|jpe?g|bmp|tiff?|webp)\b")
    odd = bool(images) and not any("/images/" in s.text.replace("\\", "/") for s in images)
    path = data.train if data else bare[0].path if bare else ""
    odd = odd or (
        bool(path) and not path.endswith(".txt") and "images" not in path.replace("\\", "/").split("/") and not images
    )
    linked = tuple(s for s in noted(notes, r"\bimages/? +-> +\S+") if not re.search(r"-> +\S*\bimages\b", s.text))
    if linked:
        to: dict[str, Value] = {"case": "link", "images": bare[0].total if bare else None}
        return Hit(values=to, fixes=(Fix("layout"), Fix("cache")), evidence=(*said[:1], *linked, *exist[:1]))
    if not exist and not odd:
        return None
    return Hit(
        values={"case": "layout" if odd else None, "images": bare[0].total if bare else None, "path": path or None},
        fixes=(Fix("layout"), Fix("cache")),
        evidence=(*said[:1], *images[:1], *exist[:1]),
        confidence=Confidence.HIGH if exist else Confidence.MEDIUM,
    )


@rule("data.cls_folder_mismatch@foreign", Severity.CRITICAL)
def cls_folders(console: Console | None, notes: Notes | None) -> Verdict:
    """Classification splits have different class folders.

    Ids follow the sorted folder names of each split (ultralytics#13936, #9135).
    """
    said = sources(console, ("class_folders",))
    folders = class_folders(notes)
    sizes = {split: names for split, names in folders.items() if names}
    differ = len(set(sizes.values())) > 1
    if console is None and notes is None:
        return Skip("no_evidence", {"missing": "console, notes"})
    if not said and not differ:
        return None
    missing = sorted(frozenset().union(*sizes.values()) - frozenset.intersection(*sizes.values())) if differ else []
    return Hit(
        values={"case": "named" if missing else None, "missing": ", ".join(missing[:5])},
        fixes=(Fix("same"), Fix("update")),
        evidence=(
            *said[:2],
            *(noted(notes, r"^(?:train|val|test)\w*: ", limit=1) or noted(notes, _entries(missing), limit=3)),
        ),
    )


def _entries(names: Sequence[str]) -> str:
    """A pattern for the lines of a listing that name one of these folders."""
    return rf"(?-i:(?:^|[/\\\s])(?:{'|'.join(map(re.escape, names))})(?:[/\\]|$))" if names else r"(?!)"


@rule("data.cls_sort_order@foreign", Severity.LOW)
def cls_order(notes: Notes) -> Verdict:
    """Class ids follow the text order of the folder names: 0, 180, 270, 90."""
    for split, names in class_folders(notes).items():
        if len(names) > 1 and all(n.isdigit() for n in names):
            order = sorted(names)
            if [int(n) for n in order] != sorted(int(n) for n in order):
                return Hit(
                    values={"order": ", ".join(order[:8]), "split": split},
                    fixes=(Fix("pad"),),
                    evidence=noted(notes, rf"^\W*{split}\b", limit=1),
                )
    return None


@rule("data.val_equals_train@foreign", Severity.HIGH, explained_by=("data.no_images",))
def val_equals_train(data: DataYaml) -> Verdict:
    """Train and val are the same images: the score says nothing about new ones.

    The coco8 and coco128 demos do so on purpose. Reported in ultralytics#16035.
    """
    if not data.train or not data.val:
        return Skip("split_missing")
    if (
        data.train.rstrip("/\\") != data.val.rstrip("/\\")
        or "coco128" in data.root + data.train
        or "coco8" in data.root + data.train
    ):
        return None
    return Hit(
        values={"path": data.train},
        fixes=(Fix("split"),),
        evidence=(*described(data, "train"), *described(data, "val")),
    )


@rule("data.val_equals_train@log", Severity.HIGH, explained_by=("data.no_images", "data.no_labels"))
def val_scans_train(log: TrainLog, *, min_images: int = 10) -> Verdict:
    """The loader scanned the same labels for train and for val.

    The same folder or cache, and the same numbers: YOLOv5 names one cache for two lists of one folder, whose numbers
    differ. The coco8 and coco128 demos do so on purpose. min_images: own demos of 4 and 8 images.
    """
    train, val = (
        {_scanned_path(s): s for s in log.scans if s.split == split and s.total} for split in ("train", "val")
    )
    if not train or not val:
        return Skip("split_missing")
    same = next(((p, s, val[p]) for p, s in train.items() if p in val and _counts(s) == _counts(val[p])), None)
    if same is None or same[1].total < min_images or re.search(r"coco\d{1,3}\b", same[0]):
        return None
    path, first, second = same
    return Hit(
        values={"path": path, "images": first.total},
        fixes=(Fix("split"),),
        evidence=(Source(first.file, first.line), Source(second.file, second.line)),
        confidence=Confidence.MEDIUM,
    )


def _scanned_path(scan: Scan) -> str:
    return scan.path.replace("\\", "/").removesuffix(".cache").rstrip("/. ")


def _counts(scan: Scan) -> tuple[int, int, int, int]:
    return scan.total, scan.labelled, scan.background, scan.corrupt


@rule("data.class_imbalance@foreign", Severity.HIGH)
def class_imbalance(
    dataset: Dataset | None,
    labels: LabelFiles | None,
    tables: Tables | None,
    data: DataYaml | None,
    *,
    min_ratio: float = 50.0,
    few: int = 20,
    min_rows: int = 100,
) -> Verdict:
    """Classes differ by orders of magnitude, or some have almost no instances.

    min_ratio: the most against the least frequent class; few: instances with which a class can't be learned
    (Ultralytics advises 10000 per class, ultralytics#20259). min_rows: in total. COCO itself differs by 1 to
    1300, but its rarest class has 200.
    """
    counts = _class_counts(dataset, labels, tables)
    if counts is None or len(counts) < 2 or sum(counts.values()) < min_rows:
        return Skip("no_class_counts")
    rare = {n: c for n, c in counts.items() if c < few}
    most, least = max(counts.values()), min(counts.values())
    if not rare or most < min_ratio * max(1, least):
        return None
    name = min(counts, key=lambda n: counts[n])
    return Hit(
        values={
            "most": most,
            "least": least,
            "top": max(counts, key=lambda n: counts[n]),
            "name": name,
            "rare": len(rare),
            "classes": len(counts),
            "few": few,
        },
        fixes=(Fix("collect"), Fix("merge"), Fix("per_class")),
        evidence=(Source(tables.tables[0].file if tables and not dataset else data.file if data else "data.json"),),
    )


def _class_counts(dataset: Dataset | None, labels: LabelFiles | None, tables: Tables | None) -> dict[str, int] | None:
    if dataset is not None and dataset.class_counts:
        return {dataset.names.get(i, str(i)): n for i, n in dataset.class_counts.items()}
    table = tables.having(r"^(?:class|name|label)", r"^(?:instances|count|objects|boxes|n)$") if tables else None
    if table is not None:
        names = table.texts(table.find(r"^(?:name|label)") or table.find("^class"))
        numbers = table.numbers(r"^(?:instances|count|objects|boxes|n)$")
        return {n: int(c) for n, c in zip(names, numbers, strict=True) if n.lower() not in {"all", "total"} and c >= 0}
    return {str(i): n for i, n in labels.class_counts.items()} if labels and labels.class_counts else None
