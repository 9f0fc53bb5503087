"""mem.*: what kind of CUDA out-of-memory it was, and whose memory it is."""

import re

from diag.model.evidence import Console
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import Notes, Tables, TrainLog
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.facts import held_gib, low_and_high, noted, out_of_memory, sources

_GROWTH = r"^(?:gpu_?)?mem(?:ory)?_?alloc\w*|allocated"


@rule("mem.wrong_device", Severity.CRITICAL)
def wrong_device(console: Console, notes: Notes | None, log: TrainLog | None, *, max_share: float = 0.6) -> Verdict:
    """The device index is not the card that was meant: the card that ran out is much smaller than the others.

    CUDA orders devices by speed unless CUDA_DEVICE_ORDER=PCI_BUS_ID; nvidia-smi by bus (ultralytics#7642: a
    display adapter). max_share: of the largest card in the listing or in the banner.
    """
    oom = out_of_memory(console)
    if oom is None:
        return None
    if oom.total is None:
        return Skip("not_said", {"what": "total capacity"})
    cards = [(g.memory_mib / 1024, g.name) for g in notes.gpus if g.memory_mib] if notes else []
    if log is not None and log.gpu_mib:
        cards.append((log.gpu_mib / 1024, log.gpu))
    if not cards:
        return Skip("gpu_unknown")
    largest, name = max(cards)
    if oom.total > max_share * largest:
        return None
    other = (
        next(
            (g for g in notes.gpus if g.memory_mib and abs(g.memory_mib / 1024 - oom.total) < 0.15 * oom.total + 0.3),
            None,
        )
        if notes
        else None
    )
    good = (
        ",".join(str(g.index) for g in notes.gpus if g.memory_mib and g.memory_mib / 1024 > 0.9 * largest)
        if notes
        else ""
    )
    return Hit(
        values={
            "case": "named" if other else None,
            "total": oom.total,
            "largest": largest,
            "name": name,
            "device": oom.device,
            "other": other.name if other else None,
        },
        fixes=(Fix("device", {"device": good} if good else {}), Fix("order")),
        evidence=(oom.source, *noted(notes, re.escape(other.name) if other else "MiB", limit=1)),
    )


@rule("mem.wrong_device@listed", Severity.CRITICAL)
def device_ignored(
    console: Console, notes: Notes, args: TrainArgs | None, *, min_gib: float = 1.0, near: float = 0.7
) -> Verdict:
    """The card that was asked for is empty in nvidia-smi; another one holds what stood in the way.

    CUDA started before device= could set CUDA_VISIBLE_DEVICES, so every index is still that of all cards
    (ultralytics#19084, #16997; device=2 is "GPU 0" in messages otherwise, so those tell nothing). min_gib: of another
    process, by the message; near: of it at least lies on another card by the listing. Where a variable or Slurm
    chose the cards, the indices are others than nvidia-smi's and nothing is said.
    """
    oom = out_of_memory(console)
    if oom is None:
        return None
    asked = re.fullmatch(r"[\[('\"]*(?:cuda:)?(\d)[\])'\",]*", str(args.get("device", "")).strip()) if args else None
    if asked is None or oom.others < min_gib:
        return None
    if noted(notes, r"(?:CUDA|NVIDIA)_VISIBLE_DEVICES\W{0,4}[=:]\W{0,2}\d|SLURM_"):
        return None
    meant = next((g for g in notes.gpus if g.index == int(asked[1])), None)
    if meant is None or meant.used_mib is None or meant.used_mib / 1024 > (1 - near) * oom.others:
        return None
    full = next(
        (g for g in notes.gpus if g is not meant and g.used_mib and g.used_mib / 1024 >= near * oom.others), None
    )
    if full is None:
        return None
    return Hit(
        values={"device": meant.index, "used": meant.used_mib / 1024, "other": full.index, "gib": oom.others},
        fixes=(Fix("before"), Fix("first")),
        evidence=(oom.source, *noted(notes, rf"\b{meant.used_mib:.0f} ?MiB", limit=1)),
    )


@rule("mem.gpu_shared", Severity.LOW, explained_by=("mem.wrong_device",))
def gpu_shared(console: Console, *, min_gib: float = 0.1, high_share: float = 0.2) -> Verdict:
    """Another process holds part of the card. min_gib: a desktop takes less; high_share: of the card: medium.

    The limits are proposals. Reported in ultralytics#9189.
    """
    oom = out_of_memory(console)
    if oom is None or oom.others < min_gib:
        return None
    share = oom.others / oom.total if oom.total else 0.0
    return Hit(
        values={"gib": oom.others, "share": share},
        fixes=(Fix("stop_it"),),
        evidence=(oom.source,),
        severity=Severity.MEDIUM if share >= high_share else None,
    )


@rule("mem.pinned_limit", Severity.CRITICAL)
def pinned_limit(console: Console, notes: Notes | None, *, min_free: float = 1.0) -> Verdict:
    """Pinned host memory ran out and is reported as CUDA out of memory (WSL, small ulimit -l); the GPU has room.

    The error comes from the pin-memory thread or cudaHostAlloc, or the platform is WSL and the message names no
    size. min_free: GiB that are free on the GPU meanwhile, where that is said. Reported in ultralytics#16862,
    WSL#8447.
    """
    oom = out_of_memory(console)
    pin = sources(console, ("pin_memory",))
    wsl = noted(notes, r"\bWSL2?\b|microsoft-standard")
    if oom is None:
        return None
    room = oom.free is None or (oom.free >= min_free and (oom.tried is None or oom.tried < oom.free / 2))
    if not room or not (pin or (wsl and oom.tried is None)):
        return None
    return Hit(
        values={"case": "wsl" if wsl else None, "free": oom.free},
        fixes=(Fix("no_pin"), Fix("fewer_workers", {"workers": 2}), Fix("wsl_memory")),
        evidence=(oom.source, *pin[:1], *wsl[:1]),
        confidence=Confidence.HIGH if pin else Confidence.MEDIUM,
    )


@rule("mem.fragmentation", Severity.MEDIUM, explained_by=("mem.wrong_device", "mem.gpu_shared"))
def fragmentation(
    console: Console, *, min_factor: float = 1.0, min_gib: float = 0.5, min_share: float = 0.15
) -> Verdict:
    """PyTorch holds more free memory than was asked for, but in pieces: reserved far above allocated.

    min_factor: the reserved but unallocated memory against the request: in one piece it would have held it.
    min_gib: below that it explains nothing. min_share: of what PyTorch holds; its own message says "if reserved
    memory is >> allocated memory". Up to a tenth is usual on a full card (ultralytics#1654: 3.8 of 36.9 GiB when a
    crowded batch asked for 3.2 more).
    """
    oom = out_of_memory(console)
    if oom is None or oom.reserved_free is None or oom.tried is None:
        return None
    if oom.reserved_free < min_gib or oom.reserved_free < min_factor * oom.tried:
        return None
    if oom.allocated is not None and oom.reserved_free < min_share * (oom.allocated + oom.reserved_free):
        return None
    return Hit(
        values={"spare": oom.reserved_free, "tried": oom.tried},
        fixes=(Fix("expandable"), Fix("smaller_batch")),
        evidence=(oom.source,),
    )


@rule("mem.gpu_oom_val", Severity.HIGH, explained_by=("mem.wrong_device",))
def gpu_oom_val(console: Console, log: TrainLog, args: TrainArgs | None) -> Verdict:
    """Out of memory in validation: it runs at twice the training batch and holds the predictions of a batch at once.

    The last one, of best.pt after the training, runs on one GPU with the batch of all (ultralytics#19375); nothing
    is lost then. Reported in yolov7#72.
    """
    oom = out_of_memory(console)
    if oom is None or log.oom_phase != "val":
        return None
    batch = args.get("batch") if args else None
    return Hit(
        values={
            "batch": str(batch) if batch is not None else None,
            "case": "last" if log.ended == "completed" else "batch" if batch is not None else None,
        },
        fixes=(
            Fix("smaller_batch", {"batch": max(1, batch // 2)} if isinstance(batch, int) and batch > 1 else {}),
            Fix("max_det", {"max_det": 100}),
            Fix("half", {"half": True}),
        ),
        evidence=(oom.source,),
    )


@rule("mem.gpu_oom_dense", Severity.HIGH, explained_by=("speed.tal_cpu_fallback",))
def gpu_oom_dense(
    console: Console,
    log: TrainLog | None,
    tables: Tables | None,
    args: TrainArgs | None,
    *,
    dense: int = 100,
    crowded: int = 300,
) -> Verdict:
    """Out of memory because of crowded images.

    Target assignment needs batch x objects of the fullest image x anchors. dense: objects per image in the
    batch that failed; crowded: in one image of the label statistics. COCO has 7 and at most about 90
    (ultralytics#12711, #467: aerial and cell images with thousands).
    """
    said = sources(console, ("tal_cpu",))
    oom = out_of_memory(console)
    if oom is None and not said:
        return None
    batch = args.get("batch") if args else None
    rows = [*log.parts, *log.epochs] if log else []
    objects = max((e.instances or 0 for e in rows), default=0)
    each = objects / batch if isinstance(batch, int) and batch > 0 else 0.0
    most = max(tables.series("max_objects|max_instances_per_image|max_labels") if tables else (), default=0.0)
    in_assigner = any("ssigner" in line.text or "tal.py" in line.text for line in console.lines)
    if not said and each < dense and most < crowded and not in_assigner:
        return None
    return Hit(
        values={
            "case": "most" if most else "each" if each else None,
            "objects": objects,
            "each": each,
            "most": int(most),
            "batch": str(batch) if batch is not None else None,
        },
        fixes=(
            Fix("smaller_batch", {"batch": max(1, batch // 4)} if isinstance(batch, int) and batch > 1 else {}),
            Fix("tile"),
        ),
        evidence=said or ((oom.source,) if oom else ()),
    )


@rule(
    "mem.gpu_oom_late",
    Severity.HIGH,
    explained_by=("mem.gpu_leak", "mem.gpu_oom_dense", "mem.wrong_device", "mem.gpu_oom_val", "mem.fragmentation"),
)
def gpu_oom_late(console: Console, log: TrainLog, tables: Tables | None, *, max_trend: float = 0.08) -> Verdict:
    """Out of memory after many steps: memory follows the content of the batch, not the time.

    A training that survived an epoch failed on a batch with more or larger objects (ultralytics#1654).
    max_trend: the memory of later epochs may lie this much above the early ones; a steady rise would be a leak.
    """
    oom = out_of_memory(console)
    if oom is None or log.oom_phase != "train" or not any(e.losses for e in log.epochs):
        return None
    memory = held_gib(tables) or tuple(e.gpu_mem_g for e in log.epochs if e.gpu_mem_g)
    first, last = low_and_high(memory) if memory else (0.0, 0.0)
    if len(memory) >= 8 and first > 0 and last / first - 1 > max_trend:
        return None
    return Hit(
        values={
            "case": "known" if oom.tried and oom.total and memory else None,
            "epoch": log.epochs[-1].epoch, "memory": max(memory, default=None), "total": oom.total, "tried": oom.tried,
        },
        fixes=(Fix("headroom"), Fix("expandable")),
        evidence=(oom.source, Source(log.file, log.epochs[-1].line)),
    )  # fmt: skip
