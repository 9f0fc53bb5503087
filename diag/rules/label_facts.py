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


_REASONS = (
    ("coords", r"non-normalized|out of bounds coord|negative label|bounds coordinate labels"),
    ("classes", r"Label class \d|exceeds"),
    ("mixed", r"labels mix"),
    ("duplicates", r"duplicate labels"),
    (
        "image",
        r"truncated|cannot identify|broken data stream|image size|<10 pixels|image format|Invalid image"
        r"|(?<![.\w])(?:JPE?G|PNG)|decoder|unrecognized|unsupported|No such file|zero-size|decompression bomb|bad image"
        r"|invalid format|not a .* file",
    ),
)


def reason(text: str) -> str:
    """Why the loader leaves an image out: coords, classes, mixed, duplicates, image, else rows.

    The known reasons have words of their own; whatever else is raised while a label file is read (a number that is
    none, too few fields, another format) is about its rows.
    """
    said = re.split(r"ignoring corrupt image/label:?|Ignoring corrupted image and/or label", text, flags=re.I)[-1]
    said = re.sub(r"^.{0,300}?\.[a-z]{2,4}: ", "", said, flags=re.I)  # the image's path
    return next((name for name, pattern in _REASONS if re.search(pattern, said, re.I)), "rows")


def left_out(console: Console | None, why: str) -> tuple[Source, ...]:
    """Lines about images that the loader leaves out for this reason."""
    lines = console.of("ignored_label") if console else ()
    return tuple(
        Source(i.file or (console.file if console else ""), i.line, i.text) for i in lines if reason(i.text) == why
    )


def problems(labels: LabelFiles | None, words: str, *, limit: int = 3) -> tuple[Source, ...]:
    """The label files' first problems that match."""
    found = [p for p in labels.problems if re.search(words, p)] if labels else []
    return tuple(_place(p) for p in found[:limit])


def _place(problem: str) -> Source:
    """`labels/a.txt:3: what` as evidence; a problem of a whole file has no line."""
    match = re.fullmatch(r"(.+?)(?::(\d+))?: (.*)", problem, re.S)
    return Source(match[1], int(match[2]) if match[2] else None, match[3]) if match else Source(problem)


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
