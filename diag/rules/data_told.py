"""data.*: what the console of somebody else's run says of paths, encodings and classes of the data set."""

import re

from diag.model.evidence import Console
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import TrainLog
from diag.rules.base import rule
from diag.rules.facts import sources
from diag.rules.label_facts import left_out


@rule("data.no_images@log", Severity.CRITICAL)
def no_images(console: Console, log: TrainLog | None) -> Verdict:
    """The paths of the data yaml hold no images, by the words of the loader.

    Relative paths count from `path`, and a relative `path` from the datasets folder of the Ultralytics settings, not
    from the yaml (ultralytics#18323, #6915, #628). A set that was downloaded thereupon, and trained on, was found in
    the end.
    """
    said = sources(console, ("no_images",))
    if not said or (log is not None and any(e.losses and e.complete for e in log.epochs)):
        return None
    path = next((m[1] for s in said if (m := re.search(r"missing paths? \[?['\"]([^'\"]{1,200})", s.text))), None)
    return Hit(
        values={"case": "path" if path else None, "path": path},
        fixes=(Fix("absolute"), Fix("settings")),
        evidence=said,
    )


_MARK = r"convert string to float: b?['\"](?:\\ufeff|\ufeff|\u00ef\u00bb\u00bf|\u9518|\\xef\\xbb\\xbf)"
"""Why a row with a byte order mark is refused: as text, as it is, in cp1252, in gbk, as bytes."""


@rule("data.encoding@log", Severity.MEDIUM)
def encoding(console: Console) -> Verdict:
    """A yaml, list or label file is not in the encoding that Python reads it with (yolov5#1669, #13462, #5066).

    On Windows in Chinese that is gbk: a file saved as UTF-8 with an emoji or Chinese text fails, and vice versa. A byte
    order mark at the start of a label file sticks to the class ("could not convert string to float: '\\ufeff0'", or as
    gbk and cp1252 show it), so that the loader leaves out each image.
    """
    said = sources(console, ("bad_encoding",))
    marked = tuple(said for said in left_out(console, "rows") if re.search(_MARK, said.text, re.IGNORECASE))
    if marked and not said:
        return Hit(values={"case": "mark"}, fixes=(Fix("no_mark"),), evidence=marked[:3], severity=Severity.HIGH)
    if not said:
        return None
    found = re.search(r"'([\w-]{1,20})' codec", said[0].text)
    return Hit(values={"codec": found[1] if found else ""}, fixes=(Fix("utf8"), Fix("utf8_mode")), evidence=said)


@rule("data.class_imbalance@log", Severity.HIGH, explained_by=("data.no_labels", "data.class_oob"))
def class_imbalance(log: TrainLog, *, min_ratio: float = 100.0, few: int = 10, min_rows: int = 200) -> Verdict:
    """Classes differ by orders of magnitude in the validation table of the log, some have almost no instances.

    min_ratio: the most against the least frequent class; few: a validation split holds a tenth to a fifth of the
    instances, so fewer than few there are fewer than a hundred in training, which is too few to learn from
    (Ultralytics advises 10000 per class). min_rows: in total. COCO's own split has 9 of its rarest class against
    11004. Reported in ultralytics#5738, ultralytics#20259.
    """
    counts = log.class_instances
    if len(counts) < 2 or sum(counts.values()) < min_rows:
        return Skip("no_class_counts")
    rare = [name for name, count in counts.items() if count < few]
    top, name = max(counts, key=lambda n: counts[n]), min(counts, key=lambda n: counts[n])
    if not rare or counts[top] < min_ratio * max(1, counts[name]) or len(counts) == _COCO:
        return None
    if any(re.search(r"\bcoco\d{1,3}\b", s.path) for s in log.scans):
        return None  # a demo: some images of COCO
    return Hit(
        values={
            "most": counts[top], "least": counts[name], "top": top, "name": name, "rare": len(rare),
            "classes": len(counts), "few": few,
        },
        fixes=(Fix("collect"), Fix("merge"), Fix("per_class")),
        evidence=(Source(log.file, log.class_line or None),),
        confidence=Confidence.MEDIUM,
    )  # fmt: skip


_COCO = 80
