"""data.*: faults of the data set that training can't heal."""

from collections.abc import Callable
from dataclasses import replace

from diag.model.curves import Curves
from diag.model.evidence import Console, Dataset, SplitCounts
from diag.model.finding import Fix, Hit, Severity, Skip, Source, Value, Verdict
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.data_faults import counts, fault_of, only, sources
from diag.rules.facts import pretrained

Values = dict[str, Value]


@rule("data.no_images", Severity.CRITICAL)
def no_images(dataset: Dataset) -> Verdict:
    """The paths of the data yaml hold no images."""
    empty = [name for name in ("train", "val") if name in dataset.splits and not dataset.splits[name].images]
    empty += [name for name in ("train", "val") if name not in dataset.splits]
    if not empty:
        return None
    return Hit(
        values={"splits": ", ".join(empty), "yaml": dataset.yaml}, fixes=(Fix("paths"),), evidence=_where(dataset)
    )


@rule("data.no_labels", Severity.CRITICAL, explained_by=("data.no_images",))
def no_labels(
    dataset: Dataset | None, curves: Curves | None, console: Console | None, args: TrainArgs | None
) -> Verdict:
    """No image of a split has a label.

    Seen in the audit, or in the losses: box and dfl losses are exactly 0 in every row only when no
    object was ever trained on (on Apple MPS zero losses are a fault of the backend).
    """
    if dataset is None and curves is None:
        return Skip("no_evidence", {"missing": "dataset, curves"})
    if dataset is not None and dataset.task != "classify":
        bare = [n for n in ("train", "val") if (s := dataset.splits.get(n)) and s.images and not s.labelled]
        if bare:
            images = sum(dataset.splits[n].images for n in bare)
            values: Values = {"case": "audit", "splits": ", ".join(bare), "images": images}
            return Hit(values=values, fixes=(Fix("layout"), Fix("export")), evidence=_where(dataset))
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


@rule("data.missing_labels", Severity.HIGH, explained_by=("data.no_labels",))
def missing_labels(dataset: Dataset, *, max_share: float = 0.10) -> Verdict:
    """Many images lack a label file and train as background.

    max_share: Ultralytics' training tips advise 0 to 10 % background images; more than that without
    any label file is rather a lost export than intent. Fewer are low, and are named; so are single empty files.
    """
    many = _share(dataset, lambda s: s.missing_labels, max_share, ("restore", "empty_files"))
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


@rule("data.too_many_backgrounds", Severity.HIGH, explained_by=("data.no_labels", "data.missing_labels"))
def too_many_backgrounds(dataset: Dataset, *, max_share: float = 0.33, min_images: int = 20) -> Verdict:
    """A large share of the images is empty.

    max_share: about 10 % is advised (Ultralytics' training tips); with half of them empty recall fell
    from 0.975 to 0.503 in ultralytics#4793. A third is reported. min_images: below that a share says little.
    """
    split = dataset.splits.get("train")
    if split is not None and split.images < min_images:
        return Skip("too_few_images", {"have": split.images, "need": min_images})
    return _share(dataset, lambda s: s.background + s.missing_labels, max_share, ("check_empty", "fewer"), only="train")


@rule("data.class_oob", Severity.CRITICAL, explained_by=("data.names_invalid",))
def class_oob(dataset: Dataset) -> Verdict:
    """Class ids are negative or not below the number of names: Ultralytics drops these images' labels or stops."""
    return _rows(dataset, "class_oob", lambda s: s.class_oob, ("but names",))


@rule("data.coord_oob", Severity.HIGH)
def coord_oob(dataset: Dataset, *, few: float = 0.001) -> Verdict:
    """Coordinates outside 0..1 or in pixels: the whole image is left out of training.

    few: below one row in a thousand it is medium instead of high.
    """
    return _rows(dataset, "coord_oob", lambda s: s.coord_oob, ("outside 0..1",), few=few)


@rule("data.bad_rows", Severity.HIGH)
def bad_rows(dataset: Dataset, *, few: float = 0.001) -> Verdict:
    """Label rows can't be parsed (wrong number of fields, text): the whole image is left out of training.

    few: below one row in a thousand it is medium instead of high.
    """
    words = ("not numbers", "fields", "nan or inf", "not re")
    return _rows(dataset, "bad_rows", lambda s: s.bad_rows, words, few=few)


@rule("data.names_invalid", Severity.CRITICAL)
def names_invalid(dataset: Dataset) -> Verdict:
    """Class names are duplicated, empty, or their ids are not 0, 1, 2 ..."""
    names = dataset.names
    if not names:
        return Skip("no_names")
    lower = [name.strip().lower() for name in names.values()]
    twice = sorted({name for name in lower if name and lower.count(name) > 1})
    wrong_nc = fault_of(dataset, "names_invalid")
    case = (
        "gaps"
        if sorted(names) != list(range(len(names)))
        else "twice"
        if twice
        else "empty"
        if "" in lower
        else wrong_nc.main_kind
    )
    if not case:
        return None
    ids = ", ".join(str(i) for i in sorted(names)[:10])
    severity = Severity.MEDIUM if case == "twice" else None
    named: Values = {"case": case, "ids": ids, "twice": ", ".join(twice[:5]), "count": len(names)}
    evidence = sources(wrong_nc) or (Source(dataset.yaml),)
    return Hit(values=named, fixes=(Fix("names"),), evidence=evidence, severity=severity)


@rule("data.train_too_small", Severity.MEDIUM, explained_by=("data.no_images", "data.no_labels"))
def train_too_small(dataset: Dataset, args: TrainArgs | None, *, min_images: int = 100) -> Verdict:
    """Very small training set.

    min_images: under about 100 images even a fine-tune memorises; Ultralytics advises 1500 per class.
    """
    split = dataset.splits.get("train")
    if split is None:
        return Skip("split_missing")
    if not split.images or split.images >= min_images:
        return None
    values: Values = {"images": split.images, "instances": split.instances, "need": min_images}
    return Hit(values=values, fixes=(Fix("more_data"), Fix("pretrained", pretrained(args))), evidence=_where(dataset))


@rule("data.val_too_small", Severity.MEDIUM, explained_by=("data.no_images", "data.no_labels"))
def val_too_small(dataset: Dataset, *, min_images: int = 25, min_instances: int = 50) -> Verdict:
    """The validation split is too small to judge by.

    min_instances: with 50 objects one object more or less is 2 points of recall, the size of the noise
    that hides most changes; min_images: objects of one image are not independent.
    """
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
        evidence=_where(dataset),
    )


def _share(
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
    return Hit(values=values, fixes=tuple(Fix(key) for key in fixes), evidence=_where(dataset))


def _rows(
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
        evidence=sources(fault) or _where(dataset, words),
        severity=Severity.MEDIUM if rare else None,
    )


def _where(dataset: Dataset, words: tuple[str, ...] = ()) -> tuple[Source, ...]:
    """The audit's first lines that hold one of the words, else the data yaml itself."""
    lines = [line for line in dataset.problems if any(word in line for word in words)]
    return tuple(Source("data.json", text=line) for line in lines[:3]) or (Source(dataset.yaml),)
