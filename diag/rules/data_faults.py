"""What the rules about data sets share: from a fault of the audit to a hit. No rules here."""

from diag.model.audit import Fault, Place
from diag.model.evidence import Dataset
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Value, Verdict

NONE = Fault()


def judge(
    dataset: Dataset,
    name: str,
    fixes: tuple[str, ...],
    *,
    severity: Severity | None = None,
    confidence: Confidence = Confidence.HIGH,
    kinds: tuple[str, ...] = (),
    **more: Value,
) -> Verdict:
    """A hit if the audit found this fault (or one of `kinds` of it), with its counts and places; else pass."""
    if not dataset.measures:
        return Skip("not_audited")
    fault = only(fault_of(dataset, name), kinds)
    if not fault.count:
        return None
    return Hit(
        values=counts(dataset, fault) | more,
        fixes=tuple(Fix(key) for key in fixes),
        evidence=sources(fault),
        confidence=confidence,
        severity=severity,
    )


def fault_of(dataset: Dataset, name: str) -> Fault:
    """The fault, or an empty one."""
    return dataset.faults.get(name, NONE)


def only(fault: Fault, kinds: tuple[str, ...]) -> Fault:
    """The part of a fault that is of these kinds; all of it without kinds."""
    if not kinds:
        return fault
    count = sum(fault.kinds.get(kind, 0) for kind in kinds)
    places = tuple(p for p in fault.places if p.kind in kinds)
    return Fault(
        count, min(fault.files, count), {k: n for k, n in fault.kinds.items() if k in kinds}, fault.splits, places
    )


def counts(dataset: Dataset, fault: Fault) -> dict[str, Value]:
    """The numbers that every finding about faults carries. `case` is the most frequent kind."""
    splits = ", ".join(f"{name}: {n}" for name, n in fault.splits.items()) or "-"
    kinds = ", ".join(f"{name}: {n}" for name, n in fault.kinds.items())
    objects = sum(s.instances for s in dataset.splits.values())
    images = sum(s.images for s in dataset.splits.values())
    return {
        "case": fault.main_kind,
        "count": fault.count,
        "files": fault.files,
        "splits": splits,
        "kinds": kinds,
        "objects": objects,
        "images": images,
    }


def sources(fault: Fault) -> tuple[Source, ...]:
    """The places as evidence."""
    return tuple(Source(p.file, p.line, said(p)) for p in fault.places)


def said(place: Place) -> str:
    """What stands there, and what it clashes with."""
    return f"{place.value} ({place.other})" if place.value and place.other else place.value or place.other


def share(dataset: Dataset, fault: Fault) -> float:
    """How many of all objects have the fault."""
    return fault.count / max(sum(s.instances for s in dataset.splits.values()), 1)
