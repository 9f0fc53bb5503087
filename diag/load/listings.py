"""Tables that other programs print as text: nvidia-smi dmon, vmstat, iostat -x, mpstat, sar -u, top; and markdown."""

import re
from collections.abc import Iterable

from diag.load.tables import made_table
from diag.model.foreign import Table

_MAX_LINES = 20_000
_DMON = {"mem": "mem_util", "sm": "sm_util", "fb": "fb_used", "rxpci": "pcie_rx", "txpci": "pcie_tx", "idx": "gpu"}
_CPU = {"wa": "iowait [%]", "%iowait": "iowait [%]", "r": "procs_running", "b": "procs_blocked",
        "swpd": "swap_used [kib]", "si": "swap_in", "so": "swap_out",
        "bi": "blocks_in", "%util": "disk_util [%]", "r_await": "read_await_ms",
        "rkb/s": "disk_read [kb/s]", "r/s": "reads_per_s", "device": "device", "device:": "device",
        "%cpu": "cpu_util [%]", "%usr": "user [%]", "%user": "user [%]", "us": "user [%]", "id": "idle [%]",
        "%idle": "idle [%]"}  # fmt: skip
_HEAD_LINES = 6
_IDLE, _WAIT = "idle [%]", "iowait [%]"
_DMON_HEAD = re.compile(r"\s*#\s*(?:Date\b.*\bgpu|gpu)\s.*\b(?:pwr|sm|fb)\b")
_HEADS = (
    re.compile(r"^\s*r\s+b\s+swpd\b.*\bwa\b"),
    re.compile(r"^\s*Device:?\s+.*%util\s*$"),
    re.compile(r"^avg-cpu:\s+%user\b.*%iowait\b"),
    re.compile(r"^\s*(?:\d\d:\d\d:\d\d(?: [AP]M)?\s+)?CPU\s+.*%(?:iowait|idle)\b"),
)


def listing_tables(texts: Iterable[tuple[str, str]]) -> tuple[Table, ...]:
    """The tables in texts given as (file name, content); a header that comes again goes on with its table."""
    made: list[Table] = []
    for file, text in texts:
        lines = text.splitlines()[:_MAX_LINES]
        if "NVIDIA-SMI" not in text:  # its boxes look like a grid, and their cells hold three things each
            made += _piped(file, lines)
        dmon = _dmon(file, lines)
        found = [dmon] if dmon else _columns(file, lines)
        if not found and (top := _top(file, lines)):
            found = [top]
        made += found
    return tuple(made)


def is_listing(text: str) -> bool:
    """True for what one of these programs printed: a header of it stands among the first lines."""
    head = [line for line in text[:8192].splitlines() if line.strip()][:_HEAD_LINES]
    return any(_DMON_HEAD.match(line) or any(p.match(line) for p in _HEADS) for line in head)


_RULE = re.compile(r"\s*[|+]?[\s:|+=-]*[-=]{2,}[\s:|+=-]*")


def _piped(file: str, lines: list[str]) -> list[Table]:
    """Markdown tables, and the grids of tabulate and pandas: a head, a line of dashes, rows with as many cells."""
    made = []
    for i in range(1, len(lines) - 1):
        if "|" not in lines[i - 1] or not _RULE.fullmatch(lines[i]) or not ("|" in lines[i] or "+" in lines[i]):
            continue
        head = _cells(lines[i - 1])
        rows = []
        for line in lines[i + 1 :]:
            if _RULE.fullmatch(line):
                continue
            cells = _cells(line)
            if "|" not in line or len(cells) != len(head):
                break
            rows.append(cells)
        if len(head) > 1 and rows and all(re.search(r"[A-Za-z]", c) for c in head):
            made.append(made_table(file, head, rows, i))
    return made[:20]


def _cells(line: str) -> list[str]:
    return [c.strip().strip("`*") for c in line.strip().strip("|").split("|")]


def _dmon(file: str, lines: list[str]) -> Table | None:
    """`# gpu pwr gtemp ... sm mem ...` with a second line of units."""
    names: list[str] = []
    rows: list[list[str]] = []
    start = 0
    for number, line in enumerate(lines, 1):
        cells = line.lstrip("# ").split()
        if re.match(r"\s*#\s*(?:Date|gpu)\b", line):
            if not names:
                names, start = [_DMON.get(c.lower(), c.lower()) for c in cells], number
        elif re.match(r"\s*#\s*(?:YYYYMMDD|Idx)\b", line):
            if len(cells) == len(names) and not any("[" in n for n in names):
                names = [n if u in {"Idx", "-"} else f"{n} [{u}]" for n, u in zip(names, cells, strict=True)]
        elif names and len(cells) == len(names) and line.strip()[:1].isdigit():
            rows.append([c if c != "-" else "" for c in cells])
    return made_table(file, names, rows, start) if rows else None


def _top(file: str, lines: list[str]) -> Table | None:
    """The `%Cpu(s):` line of each screen of top."""
    at = [n for n, line in enumerate(lines, 1) if re.match(r"\s*%?Cpu\(s\)", line)]
    rows = [re.findall(r"([\d.]+)[ %]*(us|id|wa)\b", lines[n - 1]) for n in at]
    cells = [[next((v for v, name in row if name == n), "") for n in ("us", "id", "wa")] for row in rows]
    return made_table(file, ["user [%]", "idle [%]", "iowait [%]"], cells, at[0]) if cells else None


def _columns(file: str, lines: list[str]) -> list[Table]:
    """A table for each kind of header; rows belong to the header above them, averages to none."""
    heads: dict[int, list[str]] = {}
    rows: dict[int, list[list[str]]] = {}
    starts: dict[int, int] = {}
    at = -1
    for number, line in enumerate(lines, 1):
        kind = next((i for i, pattern in enumerate(_HEADS) if pattern.match(line)), -1)
        cells = line.removeprefix("avg-cpu:").split()
        if kind >= 0:
            heads.setdefault(kind, cells)
            starts.setdefault(kind, number)
            at = kind
            continue
        head = heads.get(at, [])
        if not head or len(cells) != len(head) or cells[0] == "Average:":
            continue
        if sum(bool(re.fullmatch(r"\d+(?:[.,]\d+)?", c)) for c in cells) > 2:
            rows.setdefault(at, []).append([c.replace(",", ".") for c in cells])
    return [
        _busy(file, [_CPU.get(c.lower(), c) for c in heads[kind]], found, starts[kind]) for kind, found in rows.items()
    ]


def _busy(file: str, names: list[str], rows: list[list[str]], line: int) -> Table:
    """With the load of the CPU, where only what it did not do is told: what is neither idle nor waiting."""
    if _IDLE in names and "cpu_util [%]" not in names:
        idle, wait = names.index(_IDLE), names.index(_WAIT) if _WAIT in names else -1
        names = [*names, "cpu_util [%]"]
        rows = [[*row, _rest(row[idle], row[wait] if wait >= 0 else "0")] for row in rows]
    return made_table(file, names, rows, line)


def _rest(idle: str, wait: str) -> str:
    try:
        return f"{max(0.0, 100 - float(idle) - float(wait)):.2f}"
    except ValueError:
        return ""
