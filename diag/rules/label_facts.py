"""What scan lines and label files say of a data set, for the data rules. No rules here."""

import re
from dataclasses import dataclass

from diag.model.evidence import Console
from diag.model.finding import Source
from diag.model.foreign import LabelFiles, TrainLog


@dataclass(frozen=True)
class Told:
    """A count with where it was read."""

    count: int
    of: int
    where: tuple[Source, ...]


def ignored(console: Console | None, pattern: str) -> tuple[Source, ...]:
    """Lines about images that the loader leaves out, whose reason matches."""
    lines = console.of("ignored_label") if console else ()
    return tuple(
        Source(i.file or (console.file if console else ""), i.line, i.text)
        for i in lines
        if re.search(pattern, i.text, re.I)
    )


def problems(labels: LabelFiles | None, words: str, *, limit: int = 3) -> tuple[Source, ...]:
    """The label files' first problems that match."""
    found = [p for p in labels.problems if re.search(words, p)] if labels else []
    return tuple(Source(p.split(":")[0], text=p) for p in found[:limit])


def told(
    labels: LabelFiles | None, count: int, words: str, said: tuple[Source, ...], *, of: int | None = None
) -> Told | None:
    """What the files and the console say together; None if neither does."""
    if not count and not said:
        return None
    rows = of if of is not None else labels.rows if labels else 0
    return Told(max(count, len(said)), rows, (*said[:3], *problems(labels, words))[:4])


def scanned(log: TrainLog | None) -> bool:
    """True if the log holds a scan of labels."""
    return log is not None and bool(log.scans)
