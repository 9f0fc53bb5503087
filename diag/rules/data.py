"""data.*: faults of the data set that training can't heal."""

import re
from dataclasses import replace

from diag.model.curves import Curves
from diag.model.evidence import Console, Dataset
from diag.model.finding import Fix, Hit, Severity, Skip, Source, Value, Verdict
from diag.model.foreign import DataYaml, LabelFiles, Tables, TrainLog
from diag.model.run import TrainArgs
from diag.rules import facts
from diag.rules.base import rule
from diag.rules.data_counts import (
    LostRows,
    audit_rows,
    audit_source,
    lost_rows,
    scan_share,
    split_share,
    told_rows,
    val_small_by_others,
)
from diag.rules.data_faults import counts, fault_of, only, sources
from diag.rules.facts import from_pretrained
from diag.rules.label_facts import scanned

Values = dict[str, Value]


@rule("data.no_images", Severity.CRITICAL)
def no_images(dataset: Dataset) -> Verdict:
    """The paths of the data yaml hold no images.

    Reported in ultralytics#18323, ultralytics#6915, yolov5#12240.
    """
    empty = [name for name in ("train", "val") if name in dataset.splits and not dataset.splits[name].images]
    empty += [name for name in ("train", "val") if name not in dataset.splits]
    if not empty:
        return None
    return Hit(
        values={"splits": ", ".join(empty), "yaml": dataset.yaml}, fixes=(Fix("paths"),), evidence=audit_source(dataset)
    )


@rule("data.no_labels", Severity.CRITICAL, explained_by=("data.no_images", "data.path_mismatch"))
def no_labels(
    dataset: Dataset | None,
    curves: Curves | None,
    console: Console | None,
    args: TrainArgs | None,
    log: TrainLog | None,
) -> Verdict:
    """No image of a split has a label.

    Seen in the audit, or in the losses: box and dfl losses are exactly 0 in every row only when no object was ever
    trained on (on Apple MPS zero losses are a fault of the backend); or the table of the validation counts images and
    not one object. Reported in yolov5#13610, ultralytics#20595.
    """
    if dataset is None and curves is None and not scanned(log):
        return Skip("no_evidence", {"missing": "dataset, curves"})
    bare_scan = next((s for s in log.scans if s.total and not s.labelled and s.background), None) if log else None
    if bare_scan is not None and not bare_scan.corrupt:
        found: Values = {"case": "audit", "splits": bare_scan.split or "train", "images": bare_scan.total}
        where = (Source(bare_scan.file, bare_scan.line), *facts.sources(console, ("no_labels",), limit=1))
        return Hit(values=found, fixes=(Fix("layout"), Fix("export")), evidence=where)
    judged = [e for e in log.epochs if e.metrics and e.val_images] if log else []
    if judged and log is not None and all(e.val_instances == 0 for e in judged):
        told: Values = {"case": "audit", "splits": "val", "images": judged[-1].val_images}
        return Hit(values=told, fixes=(Fix("layout"), Fix("export")), evidence=(Source(log.file, judged[-1].line),))
    if dataset is not None and dataset.task != "classify":
        bare = [n for n in ("train", "val") if (s := dataset.splits.get(n)) and s.images and not s.labelled]
        if bare:
            images = sum(dataset.splits[n].images for n in bare)
            values: Values = {"case": "audit", "splits": ", ".join(bare), "images": images}
            return Hit(values=values, fixes=(Fix("layout"), Fix("export")), evidence=audit_source(dataset))
    if curves is not None:
        boxes = [v for n, v in curves.train.items() if n in {"box_loss", "dfl_loss"}]
        if boxes and all(value == 0.0 for values in boxes for value in values):
            if (console and console.device == "mps") or (args and str(args.get("device", "")) == "mps"):
                return Skip("mps_zero_loss")
            source = Source(curves.file, curves.line(1), "train/box_loss = 0")
            return Hit(
                values={"case": "losses", "rows": curves.rows}, fixes=(Fix("layout"), Fix("export")), evidence=(source,)
            )
    return None


@rule("data.missing_labels", Severity.HIGH, explained_by=("data.no_labels", "data.path_mismatch"))
def missing_labels(dataset: Dataset | None, log: TrainLog | None, *, max_share: float = 0.10) -> Verdict:
    """Many images lack a label file and train as background.

    max_share: Ultralytics' training tips advise 0 to 10 % background images; more than that without any label file
    is rather a lost export than intent. Fewer are low, and are named; so are single empty files. Reported in
    yolov5#2268.
    """
    if dataset is None:
        return scan_share(log, lambda s: s.missing or 0, max_share, ("restore", "empty_files"))
    many = split_share(dataset, lambda s: s.missing_labels, max_share, ("restore", "empty_files"))
    fault = fault_of(dataset, "missing_labels")
    if isinstance(many, Hit):
        return replace(many, evidence=sources(only(fault, ("missing",))) or many.evidence)
    if not fault.count or many is not None:
        return many
    values = counts(dataset, fault) | {"case": f"few_{fault.main_kind}", "split": next(iter(fault.splits), "-")}
    values["share"] = fault.count / max(int(values["images"] or 0), 1)
    return Hit(
        values=values, fixes=(Fix("restore"), Fix("empty_files")), evidence=sources(fault), severity=Severity.LOW
    )


@rule(
    "data.too_many_backgrounds",
    Severity.HIGH,
    explained_by=("data.no_labels", "data.missing_labels", "data.path_mismatch"),
)
def too_many_backgrounds(
    dataset: Dataset | None,
    log: TrainLog | None,
    labels: LabelFiles | None,
    *,
    max_share: float = 0.33,
    high_share: float = 0.45,
    min_images: int = 20,
) -> Verdict:
    """A large share of the images is empty.

    max_share: about 10 % is advised (Ultralytics' training tips); with half of them empty recall fell
    from 0.975 to 0.503 in ultralytics#4793. A third is reported, as medium up to high_share. min_images: below that a
    share says little.
    """
    found = _backgrounds(dataset, log, labels, max_share, min_images)
    if isinstance(found, Hit) and isinstance(share := found.values.get("share"), float) and share < high_share:
        return replace(found, severity=Severity.MEDIUM)
    return found


def _backgrounds(
    dataset: Dataset | None, log: TrainLog | None, labels: LabelFiles | None, max_share: float, min_images: int
) -> Verdict:
    if dataset is None and labels is not None and not scanned(log):
        if labels.files < min_images:
            return Skip("too_few_images", {"have": labels.files, "need": min_images})
        if labels.empty <= max_share * labels.files or not labels.rows:
            return None
        empty: Values = {"share": labels.empty / labels.files, "count": labels.empty, "images": labels.files}
        return Hit(
            values=empty | {"split": "labels"}, fixes=(Fix("check_empty"), Fix("fewer")), evidence=(Source("labels"),)
        )
    if dataset is None:
        found = scan_share(log, lambda s: s.background, max_share, ("check_empty", "fewer"))
        few = isinstance(found, Hit) and isinstance(n := found.values.get("images"), int) and n < min_images
        return (
            Skip("too_few_images", {"have": found.values["images"], "need": min_images})
            if few and isinstance(found, Hit)
            else found
        )
    split = dataset.splits.get("train")
    if split is not None and split.images < min_images:
        return Skip("too_few_images", {"have": split.images, "need": min_images})
    return split_share(
        dataset, lambda s: s.background + s.missing_labels, max_share, ("check_empty", "fewer"), only="train"
    )


_LAST_ID = re.compile(r"class -?\d+ but names 0 to (\d+)$")


@rule("data.class_oob", Severity.CRITICAL, explained_by=("data.names_invalid",))
def class_oob(dataset: Dataset | None, console: Console | None, labels: LabelFiles | None) -> Verdict:
    """Class ids are negative or not below the number of names: Ultralytics drops these images' labels or stops.

    Older releases fail later instead, with an assertion on the device (ultralytics#4728, #13486).
    """
    if dataset is None:
        said = facts.sources(console, ("class_oob",), limit=20)
        verdict = told_rows(labels, labels.class_oob if labels else 0, "but names", said, console)
        last = next((int(m[1]) for p in labels.problems if (m := _LAST_ID.search(p))), -1) if labels else -1
        if not isinstance(verdict, Hit) or verdict.values.get("case"):
            return verdict
        return replace(verdict, values={**verdict.values, "case": None if last >= 0 else "negative", "names": last + 1})
    return audit_rows(dataset, "class_oob", lambda s: s.class_oob, ("but names",))


@rule("data.coord_oob", Severity.HIGH)
def coord_oob(
    dataset: Dataset | None,
    console: Console | None,
    labels: LabelFiles | None,
    log: TrainLog | None,
    *,
    few: float = 0.001,
    few_images: float = 0.01,
) -> Verdict:
    """Coordinates outside 0..1 or in pixels: the whole image is left out of training.

    few: below one row in a thousand, or few_images: one image in a hundred of a scan, it is medium instead of high.
    Ultralytics leaves the image out (data/utils.py, verify_image_label); the limit for medium is a proposal.
    Reported in ultralytics#19553, yolov5#5210, ultralytics#13924.
    """
    return lost_rows(
        LostRows("coord_oob", "coords", ("outside 0..1",)),
        dataset,
        console,
        labels,
        log,
        few=few,
        few_images=few_images,
    )


@rule("data.bad_rows", Severity.HIGH)
def bad_rows(
    dataset: Dataset | None,
    console: Console | None,
    labels: LabelFiles | None,
    log: TrainLog | None,
    *,
    few: float = 0.001,
    few_images: float = 0.01,
) -> Verdict:
    """Label rows can't be parsed (wrong number of fields, text): the whole image is left out of training.

    few: below one row in a thousand, or few_images: one image in a hundred of a scan, it is medium instead of high.
    Ultralytics leaves the image out (data/utils.py, verify_image_label); the limit for medium is a proposal.
    Reported in ultralytics#3041, ultralytics#7907, YOLOv7_OBB#21.
    """
    words = ("not numbers", "fields", "nan or inf", "whole number", "not re")
    return lost_rows(LostRows("bad_rows", "rows", words), dataset, console, labels, log, few=few, few_images=few_images)


@rule("data.names_invalid", Severity.CRITICAL)
def names_invalid(dataset: Dataset | None, data: DataYaml | None) -> Verdict:
    """Class names are duplicated, empty, their ids are not 0, 1, 2 ..., or their number is not nc.

    `0:cat` without a space after the colon is a text to YAML, no mapping (ultralytics#639).
    """
    if dataset is None and data is None:
        return Skip("no_evidence", {"missing": "dataset, data"})
    file = dataset.yaml if dataset else data.file if data else ""
    names = dataset.names if dataset else data.names if data else {}
    if data is not None and names and data.nc is not None and data.nc != len(names):
        wrong: Values = {"case": "nc", "nc": data.nc, "count": len(names)}
        return Hit(values=wrong, fixes=(Fix("names"),), evidence=facts.described(data, "nc", "names"))
    if data is not None and not names and data.names_text:
        text: Values = {"case": "text", "text": data.names_text}
        return Hit(values=text, fixes=(Fix("mapping"),), evidence=facts.described(data, "names"))
    if not names:
        return Skip("no_names")
    lower = [name.strip().lower() for name in names.values()]
    twice = sorted({name for name in lower if name and lower.count(name) > 1})
    wrong_nc = fault_of(dataset, "names_invalid") if dataset else None
    case = (
        "gaps"
        if sorted(names) != list(range(len(names)))
        else "twice"
        if twice
        else "empty"
        if "" in lower
        else wrong_nc.main_kind
        if wrong_nc
        else ""
    )
    if not case:
        return None
    ids = ", ".join(str(i) for i in sorted(names)[:10])
    severity = Severity.MEDIUM if case == "twice" else None
    named: Values = {"case": case, "ids": ids, "twice": ", ".join(twice[:5]), "count": len(names)}
    evidence = (sources(wrong_nc) if wrong_nc else ()) or (facts.described(data, "names") if data else (Source(file),))
    return Hit(values=named, fixes=(Fix("names"),), evidence=evidence, severity=severity)


@rule("data.train_too_small", Severity.MEDIUM, explained_by=("data.no_images", "data.no_labels"))
def train_too_small(
    dataset: Dataset | None, args: TrainArgs | None, log: TrainLog | None, *, min_images: int = 100
) -> Verdict:
    """Very small training set.

    min_images: under about 100 images even a fine-tune memorises; Ultralytics advises 1500 per class. Reported in
    ultralytics#1256.
    """
    if dataset is None:
        scan = next((s for s in log.scans if s.split == "train" and s.total), None) if log else None
        if scan is None or log is None:
            return Skip("no_evidence", {"missing": "dataset, log"})
        if scan.labelled >= min_images or not scan.labelled or scan.corrupt >= scan.labelled:
            return None
        few: Values = {"case": "scan", "images": scan.labelled, "need": min_images}
        fixes = (Fix("more_data"), *from_pretrained(args))
        return Hit(values=few, fixes=fixes, evidence=(Source(scan.file, scan.line),))
    split = dataset.splits.get("train")
    if split is None:
        return Skip("split_missing")
    if not split.images or split.images >= min_images:
        return None
    values: Values = {"images": split.images, "instances": split.instances, "need": min_images}
    return Hit(values=values, fixes=(Fix("more_data"), *from_pretrained(args)), evidence=audit_source(dataset))


@rule("data.val_too_small", Severity.MEDIUM, explained_by=("data.no_images", "data.no_labels"))
def val_too_small(
    dataset: Dataset | None,
    log: TrainLog | None,
    curves: Curves | None,
    tables: Tables | None,
    *,
    min_images: int = 25,
    min_instances: int = 50,
) -> Verdict:
    """The validation split is too small to judge by.

    min_instances: with 50 objects one object more or less is 2 points of recall, the size of the noise that hides
    most changes; min_images: objects of one image are not independent. Without an audit the log's `all` line
    counts, or classes with so few objects that they can't be in both splits, or a recall that only takes few
    values. Reported in ultralytics#20259, ultralytics#2988.
    """
    if dataset is None:
        return val_small_by_others(log, curves, tables, min_images, min_instances)
    split = dataset.splits.get("val")
    if split is None:
        return Skip("split_missing")
    few_objects = dataset.task != "classify" and 0 < split.instances < min_instances
    if not split.images or (split.images >= min_images and not few_objects):
        return None
    return Hit(
        values={
            "case": dataset.task if dataset.task == "classify" else "objects",
            "images": split.images,
            "instances": split.instances,
            "step": 1 / split.instances if split.instances else None,
            # 95 % interval of a share near 0.5: no metric of so many objects is known better
            "width": 0.98 / split.instances**0.5 if split.instances else None,
        },
        fixes=(Fix("larger_split"),),
        evidence=audit_source(dataset),
    )
