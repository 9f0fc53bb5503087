"""What `sar`, `vmstat`, `iostat` and `nvidia-smi dmon` print every few seconds -> a table.

Columns by their manual pages (sysstat's sar(1) and iostat(1), procps' vmstat(8), `nvidia-smi dmon -h`).
"""

import csv
import io
import re
from collections.abc import Sequence

_NAMES = {
    "%iowait": "iowait_pct",
    "wa": "iowait_pct",
    "sm": "gpu_util_pct",
    "pwr": "power_w",
    "fb": "gpu_mem_mib",
    "gtemp": "gpu_temp_c",
    "pclk": "sm_clock_mhz",
    "%swpused": "swap_used_pct",
}
_IDLE = {"%idle": "%iowait", "id": "wa"}
_NUMBER = re.compile(r"\d+(?:[.,]\d+)?|-")
_LEAST = 2
_MAX_LINES = 200_000


def samples(text: str) -> str | None:
    """The samples of one of these programs as CSV; None for any other text.

    The load of the CPU is what is neither idle nor waiting. Lines are read from the right, so that it does not matter
    how the time at their left is written; averages are left out.
    """
    head: list[str] = []
    names: tuple[str, ...] = ()
    rows: list[list[str]] = []
    for line in text.splitlines()[:_MAX_LINES]:
        words = line.split()
        if found := _head(words):
            made = tuple(_NAMES[w] for w in found if w in _NAMES)
            if names and made != names:
                continue  # another report of the same program
            head, names = found, made
        elif head and len(words) >= len(head) and not words[0].startswith(("Average", "#")):
            cells = words[len(words) - len(head) :]
            if all(_NUMBER.fullmatch(c) or h in {"CPU", "gpu"} for h, c in zip(head, cells, strict=True)):
                rows.append(_row(head, [c.replace(",", ".") for c in cells]))
    if len(rows) < _LEAST:
        return None
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*names, *(["cpu_util_pct"] if set(_IDLE) & set(head) else [])])
    writer.writerows(rows)
    return out.getvalue()


def _head(words: Sequence[str]) -> list[str]:
    """The names of the columns, from the first one that is known to be of such a report; empty for another line."""
    plain = [w for w in words if w != "#"]
    for first, needed in (("CPU", "%iowait"), ("%user", "%iowait"), ("r", "wa"), ("gpu", "sm")):
        if first in plain and needed in plain:
            at = plain.index(first) + (first == "CPU")
            return list(plain[at:])
    return []


def _row(head: Sequence[str], cells: Sequence[str]) -> list[str]:
    made = ["" if c == "-" else c for h, c in zip(head, cells, strict=True) if h in _NAMES]
    by_name = dict(zip(head, cells, strict=True))
    for idle, wait in _IDLE.items():
        if idle in by_name:
            made.append(f"{max(0.0, 100 - float(by_name[idle]) - float(by_name.get(wait, 0))):.2f}")
    return made
