"""A `Scanning labels` line -> what the loader counted."""

import re

from diag.load.bars import bar
from diag.model.foreign import Scan

_SCAN = re.compile(r"^(?:(\w+): ?)?\W{0,12}Scanning\s+(.*?)(?:\.\.\.|: )\s*(.*)", re.I)
_SCAN_NEW = re.compile(r"(\d+) images(?:, (\d+) backgrounds?)?, (\d+) corrupt", re.I)
_SCAN_OLD = re.compile(r"(\d+) found, (\d+) missing, (\d+) empty, (\d+) corrupt", re.I)


def scan(number: int, line: str, file: str) -> Scan | None:
    """The counts of a scan line of Ultralytics or YOLOv5; None for another line. `number` is its line in `file`."""
    found = _SCAN.match(line)
    if not found:
        return None
    split, path, drawn = found[1] or "", found[2], bar(line)
    total = drawn.total if drawn else 0
    done, seconds = (drawn.done, drawn.seconds) if drawn else (None, None)
    path = re.sub(r"'? (?:for )?images and labels", "", path).strip(" '\"")
    if new := _SCAN_NEW.search(line):
        labelled, background, corrupt = (int(n or 0) for n in new.groups())
        counts: tuple[int, int, int | None, int, int] = (
            total or labelled + background, labelled, None, background, corrupt,
        )  # fmt: skip
    elif old := _SCAN_OLD.search(line):
        labelled, missing, empty, corrupt = map(int, old.groups())
        counts = (total or labelled + missing, labelled, missing, empty, corrupt)
    elif drawn and drawn.seconds is not None:
        counts = (total, total, None, 0, 0)
    else:
        return None
    return Scan(split.lower(), *counts, number, path, seconds, done, file)
