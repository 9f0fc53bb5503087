"""data.*: how classes and images are spread over the set and its splits."""

from diag.model.evidence import Dataset
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Value, Verdict
from diag.rules.base import rule


@rule("data.class_imbalance", Severity.HIGH, explained_by=("data.no_labels", "data.class_oob"))
def class_imbalance(dataset: Dataset, *, ratio: float = 10.0, high_ratio: float = 100.0, few: int = 10) -> Verdict:
    """Classes differ by orders of magnitude in the training split, or have almost no instances.

    ratio, high_ratio: one order of magnitude is medium, two are high (LVIS calls a class in under 10 images rare
    and one in over 100 frequent). few: classes with fewer instances than LVIS' rare ones are counted. Reported in
    ultralytics#5738, ultralytics#20259.
    """
    counts = dataset.split_classes.get("train", dataset.class_counts)
    named = {name: counts.get(i, 0) for i, name in dataset.names.items()}
    if len(named) < 2 or not any(named.values()):
        return Skip("one_class")
    most, least = max(named, key=lambda n: named[n]), min(named, key=lambda n: named[n])
    factor = named[most] / max(named[least], 1)
    if factor < ratio:
        return None
    rare = [name for name, n in named.items() if n < few]
    values: dict[str, Value] = {
        "case": "none" if named[least] == 0 else "few",
        "ratio": factor,
        "most": most,
        "most_count": named[most],
        "least": least,
        "least_count": named[least],
        "classes": len(named),
        "rare": len(rare),
        "count": len(rare),
        "few": few,
        "zero": sum(n == 0 for n in named.values()),
    }
    severity = Severity.HIGH if factor >= high_ratio else Severity.MEDIUM
    lines = tuple(
        Source(dataset.yaml, text=f"{name}: {n}") for name, n in sorted(named.items(), key=lambda i: i[1])[:5]
    )
    return Hit(values=values, fixes=(Fix("collect"), Fix("merge")), evidence=lines, severity=severity)


@rule("data.val_shift", Severity.MEDIUM, explained_by=("data.val_equals_train",))
def val_shift(
    dataset: Dataset, *, max_classes: float = 0.10, max_brightness: float = 0.5, max_size: float = 1.0
) -> Verdict:
    """Validation images differ from the training images in classes, brightness or object size.

    max_classes: total variation of the class shares beyond what chance makes of samples of these sizes;
    max_brightness: half a standard deviation of the training images (Cohen's medium effect);
    max_size: the median box is twice as large or small (one octave).
    """
    figures = dataset.measures
    if "class_distance" not in figures:
        return Skip("split_missing" if figures else "not_audited")
    distance, chance = figures["class_distance"], figures["class_distance_chance"]
    brightness, size = figures.get("brightness_shift", 0.0), figures.get("size_shift", 0.0)
    found = {
        "classes": distance - chance > max_classes,
        "brightness": brightness > max_brightness,
        "size": size > max_size,
    }
    if not any(found.values()):
        return None
    values: dict[str, Value] = {
        "case": next(name for name, yes in found.items() if yes),
        "distance": distance,
        "chance": chance,
        "brightness": brightness,
        "factor": 2.0**size,
    }
    return Hit(values=values, fixes=(Fix("resplit"),), evidence=(Source(dataset.yaml),), confidence=Confidence.MEDIUM)
