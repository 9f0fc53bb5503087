"""mem.* and disk.*: host memory, swap, page file, memory maps and caches on disk."""

import re
from statistics import median

from diag.model.evidence import Console
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import Notes, Tables, TrainLog
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.facts import free_memory, noted, ram_cache, sources, table_source, windows


@rule("mem.ram_cache_too_big", Severity.CRITICAL)
def ram_cache_too_big(
    console: Console | None, log: TrainLog | None, args: TrainArgs | None, tables: Tables | None, *, full: float = 0.95
) -> Verdict:
    """cache=ram does not fit the memory: decoded images take width x height x 3 bytes each.

    yolov5#1862, #4008: 2.5 GB of JPEG became 33 GB. Caching was cut off by the kernel, or what is cached and what
    is still to come exceeds the memory. full: of the memory in use at the end of the record.
    """
    if console is None and log is None:
        return Skip("no_evidence", {"missing": "console, log"})
    refused = sources(console, ("no_ram_cache",), limit=1)
    if refused:
        return _refused(refused[0])
    if not ram_cache(args, log):
        return None
    ram = [c for c in log.caches if c.where in {"ram", ""}] if log else []
    need = sum(c.gib * c.total / c.done for c in ram if c.done)
    cut = any(c.done < c.total for c in ram)
    used, total = (
        (tables.series("ram_used.*gb|mem_used"), tables.series("ram_total|mem_(?:total|limit)")) if tables else ((), ())
    )
    size = max(total, default=0.0)
    before = min(used, default=0.0)
    killed = sources(console, ("ram_oom", "killed"))
    at_limit = bool(used) and size > 0 and used[-1] >= full * size
    over = size > 0 and need + before > size
    if not (killed and (ram or at_limit)) and not (cut and (at_limit or over)):
        return None
    return Hit(
        values={
            "case": "known" if need and size else "need" if need else None,
            "need": need or None,
            "total": size or None,
            "before": before,
        },
        fixes=(Fix("disk", {"cache": "disk"}), Fix("off", {"cache": False}), Fix("smaller_imgsz")),
        evidence=(
            *killed[:2],
            *(Source(log.file, c.line) for c in ram[-1:] if log),
            *table_source(tables, "ram_used")[:1],
        ),
    )


@rule("mem.map_count", Severity.CRITICAL)
def map_count(
    console: Console, notes: Notes | None, tables: Tables | None, *, near: float = 0.9, max_ram: float = 0.9
) -> Verdict:
    """vm.max_map_count is reached, not the memory: each cached array and shared tensor is a mapping.

    "Cannot allocate memory" though memory is free. near: of the limit, where both are known; max_ram: in use at
    most, as above it the memory itself may be short. The default limit is 65530 mappings. Reported in
    sd-scripts#1790, SlowFast#473.
    """
    said = sources(console, ("cannot_allocate",))
    limit, count = (
        _number(notes, r"max_map_count\D{1,6}(\d+)"),
        _number(notes, r"(?:map_count|maps|mappings)(?<!max_map_count)\D{1,20}(\d+)")
        or _number(notes, r"^(\d+) +/proc/\d+/maps"),
    )
    if not said:
        return None
    used, total = (tables.series("ram_used.*gb|mem_used"), tables.series("ram_total|mem_total")) if tables else ((), ())
    free = bool(used) and bool(total) and max(used) <= max_ram * max(total)
    if not used and (memory := free_memory(notes)):
        free = memory[0] >= (1 - max_ram) * memory[1]
    reached = bool(limit and count and count >= near * limit)
    if not reached and not (free and (limit or any("mmap" in s.text for s in said))):
        return None
    return Hit(
        values={"case": "known" if reached else None, "count": count, "limit": limit},
        fixes=(Fix("sysctl"), Fix("disk", {"cache": "disk"})),
        evidence=(*said[:2], *noted(notes, "map_count", limit=1)),
    )


@rule("mem.low_disk_swap", Severity.HIGH)
def low_disk_swap(
    tables: Tables | None, notes: Notes | None, *, full: float = 0.98, min_swap_gb: float = 0.5
) -> Verdict:
    """Swap can't grow because the disk is full (macOS and Windows grow it on demand).

    full: of a disk; min_swap_gb: in use or asked for at the same time. Reported in yolov5#13292.
    """
    if notes is None:
        return Skip("no_evidence", {"missing": "notes"})
    disks = [d for d in notes.disks if d.used_share >= full or (d.free_bytes is not None and d.free_bytes < 2**30)]
    swap = tables.series("swap") if tables else ()
    said = notes.find(r"swap|page ?file|vm\.swapusage|sysmem")
    used = max(swap, default=0.0)
    if not disks or (used < min_swap_gb and not said):
        return None
    return Hit(
        values={"mount": disks[0].mount, "swap_gb": used or None, "case": "known" if used else None},
        fixes=(Fix("free"), Fix("less_memory")),
        evidence=(*noted(notes, re.escape(disks[0].mount), limit=1), *table_source(tables, "swap")),
    )


@rule("mem.pagefile", Severity.HIGH)
def pagefile(
    console: Console, args: TrainArgs | None, notes: Notes | None, log: TrainLog | None, *, max_gib: float = 0.5
) -> Verdict:
    """The Windows commit limit (page file) is reached.

    Each spawned worker commits torch's libraries again (WinError 1455, yolov5#7657). Windows promises no memory that
    it does not have, so any small allocation that fails there means the same. max_gib: a larger request, or a RAM
    cache, is a reason of its own.
    """
    said = sources(console, ("pagefile",)) or _refused_by_windows(console, args, notes, log, max_gib)
    if not said:
        return None
    workers = args.get("workers") if args else None
    if workers is None:
        workers = next(
            (int(m[1]) for line in console.lines if (m := re.search(r"Using (\d+) dataloader workers", line.text))),
            None,
        )
    return Hit(
        values={
            "workers": str(workers) if workers is not None else None,
            "case": "known" if workers is not None else None,
        },
        fixes=(Fix("fewer_workers", {"workers": 0 if workers == 1 else 1}), Fix("larger_pagefile")),
        evidence=(*said[:1], *noted(notes, "commit|page ?file", limit=1)),
    )


@rule("disk.cache_full", Severity.HIGH)
def cache_full(console: Console | None, log: TrainLog | None, args: TrainArgs | None, notes: Notes | None) -> Verdict:
    """cache=disk filled the disk: one uncompressed .npy beside each image, never deleted (yolov5#7533)."""
    if console is None and notes is None:
        return Skip("no_evidence", {"missing": "console, notes"})
    full = sources(console, ("disk_full",))
    asked = args is not None and str(args.get("cache", "")).lower() == "disk"
    cached = [c for c in log.caches if c.where == "disk"] if log else []
    npy = noted(notes, r"\.npy")
    tight = notes is not None and any(d.used_share >= 0.98 for d in notes.disks)
    if not (full or tight) or not (asked or cached or npy):
        return None
    gib = sum(c.gib for c in cached) or None
    return Hit(
        values={"case": "known" if gib else None, "gib": gib},
        fixes=(Fix("delete"), Fix("off", {"cache": False})),
        evidence=(*full[:1], *npy[:1], *(Source(log.file, c.line) for c in cached[:1] if log)),
    )


@rule("hw.disk_low", Severity.HIGH, explained_by=("disk.full", "disk.cache_full", "mem.low_disk_swap"))
def disk_low(notes: Notes | None, console: Console | None, *, full: float = 0.97) -> Verdict:
    """A disk has less free space than checkpoints and caches of a run need.

    full: of any real disk in the listing. Or Ultralytics refused a download or a disk cache for want of space.
    Reported in yolov5#6756, ultralytics#26112.
    """
    said = sources(console, ("no_disk_cache",), limit=1)
    if said:
        return Hit(values={"case": "refused"}, fixes=(Fix("free"),), evidence=said, severity=Severity.MEDIUM)
    if notes is None or not notes.disks:
        return Skip("not_said", {"what": "df"})
    worst = max(notes.disks, key=lambda d: d.used_share)
    if worst.used_share < full or worst.mount.startswith(("/snap", "/boot", "/dev", "/sys", "/mnt/wsl")):
        return None
    return Hit(
        values={"mount": worst.mount, "share": worst.used_share},
        fixes=(Fix("free"),),
        evidence=noted(notes, re.escape(worst.mount), limit=1),
        confidence=Confidence.MEDIUM,
    )


@rule("hw.mem_limit", Severity.MEDIUM, explained_by=("mem.ram_cache_too_big",))
def mem_limit(
    notes: Notes, console: Console | None, tables: Tables | None, args: TrainArgs | None, *, max_share: float = 0.9
) -> Verdict:
    """The container's memory limit is smaller than this run needs: killed by the cgroup while the host has memory.

    max_share: of the host's memory in use, where a table tells. The limit is a proposal.
    """
    file, none = (
        r"(?:memory\.max|limit_in_bytes)",
        r"\W+(?:max\b|9\d{18})",
    )  # version 1 has the largest integer for "max"
    said = noted(notes, rf"memory cgroup (?:out of memory|stats)|CONSTRAINT_MEMCG|{file}(?!{none})")
    if not noted(notes, file + none):  # without a limit, a kill in the group was the whole machine's
        said += noted(notes, r"oom_kill [1-9]")
    killed = sources(console, ("ram_oom", "killed"))
    used, total = (tables.series("ram_used.*gb"), tables.series("ram_total")) if tables else ((), ())
    if not said or not (killed or any("oom_kill" in s.text for s in said)):
        return None
    if used and total and median(used) > max_share * max(total):
        return None
    workers = args.get("workers", 8) if args else 8
    fewer = (Fix("fewer_workers", {"workers": 2}),) if not isinstance(workers, int) or workers > 2 else ()
    return Hit(fixes=(Fix("raise_limit"), *fewer), evidence=(*said[:1], *killed[:1]))


def _refused(said: Source) -> Hit:
    """Ultralytics weighed the cache against the memory before filling it, and trains without it: no harm, no gain."""
    size = r"(\d+(?:\.\d+)?) ?GB"
    need, free = re.search(rf"{size} RAM required", said.text), re.search(r"only \d", said.text)
    total = re.search(rf"/{size} available", said.text)
    return Hit(
        values={
            "case": "refused" if need and free else None,
            "need": float(need[1]) if need else None,
            "total": float(total[1]) if total else None,
            "before": 0.0,
        },
        fixes=(Fix("disk", {"cache": "disk"}), Fix("off", {"cache": False}), Fix("smaller_imgsz")),
        evidence=(said,),
        severity=Severity.LOW,
    )


def _refused_by_windows(
    console: Console, args: TrainArgs | None, notes: Notes | None, log: TrainLog | None, max_gib: float
) -> tuple[Source, ...]:
    """Small allocations of host memory that failed on Windows. Empty on other systems and with a RAM cache."""
    if ram_cache(args, log):
        return ()
    found = []
    for said in sources(console, ("ram_oom",)):
        asked = _ASKED.search(said.text)
        if asked is None or not (windows(args, notes, console, log) or re.search(r"\.\.\\c10\\", said.text)):
            continue
        if float(asked[1]) * _GIB[(asked[2] or "b")[0].lower()] <= max_gib:
            found.append(said)
    return tuple(found)


_ASKED = re.compile(r"(?:tried to|Unable to|Failed to) allocate (\d+(?:\.\d+)?) ?([KMG]?i?B(?:ytes)?\b)?", re.I)
_GIB = {"b": 2**-30, "k": 2**-20, "m": 2**-10, "g": 1.0}


def _number(notes: Notes | None, pattern: str) -> float | None:
    for note in notes.find(pattern) if notes is not None else ():
        if found := re.search(pattern, note.text, re.I):
            return float(found[1])
    return None
