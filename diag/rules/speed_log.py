"""speed.*: what a console log, a stage table or a capture says about lost time."""

import re
from statistics import median

from diag.model.evidence import Console, Peers, StepStats
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import DataYaml, Notes, Phases, Tables, TrainLog
from diag.model.run import TrainArgs
from diag.model.trace import Stage
from diag.rules.base import rule
from diag.rules.facts import (
    free_memory,
    memory_peak,
    noted,
    out_of_memory,
    ram_cache,
    sources,
    swap_in_use,
    table_source,
    whole,
    windows,
)  # fmt: skip

_REMOTE_FS = re.compile(
    r"nfs\d?|cifs|smb\w*|9p|drvfs|gluster\w*|ceph|lustre|beegfs|afs|davfs|vboxsf|prl_fs|grpcfuse|osxfs|virtiofs"
    r"|fuse\.(?!lxcfs|overlay|snapfuse|gvfsd|portal|ext|ntfs|exfat)[\w.-]+"
)
_REMOTE_PATH = re.compile(r"/content/(?:drive|gdrive)/|^/mnt/[a-z]/|^\\\\\\\\|/gdrive/|/Volumes/|gs://|s3://|^//")


@rule("speed.storage_remote", Severity.HIGH)
def storage_remote(  # noqa: PLR0917 # six kinds of evidence
    log: TrainLog | None,
    notes: Notes | None,
    data: DataYaml | None,
    args: TrainArgs | None,
    tables: Tables | None,
    steps: StepStats | None,
    *,
    slow_scan_s: float = 0.05,
    min_iowait: float = 20.0,
    max_keeping_up: float = 0.1,
    busy: float = 90.0,
) -> Verdict:
    """Files are read through a network or FUSE mount: each small file costs a round trip.

    yolov5#1145 and #6437: a mounted cloud drive scans labels at 1 to 2 s an image, a local disk hundreds a second.
    slow_scan_s: seconds per image in the label scan from which on it is slow; min_iowait: as percent of CPU time.
    Either of them, or a data path on such a mount, is asked for. A loader that keeps up is left in peace: the step
    waits for data less than max_keeping_up of its time, or the GPU is busy percent of the time in the median.
    """
    if log is None and notes is None:
        return Skip("no_evidence", {"missing": "log, notes"})
    paths = [s.path for s in log.scans] if log else []
    paths += [p for p in ((data.root, data.train) if data else ()) if p]
    paths += [str(args.get("data", ""))] if args else []
    mounts = {p: fs for p, fs in (notes.mounts if notes else {}).items() if _REMOTE_FS.fullmatch(fs) and p != "/"}
    under = next(((p, fs) for p, fs in mounts.items() if any(_below(path, p) for path in paths)), None)
    spelled = next((p for p in paths if _REMOTE_PATH.search(p)), "")
    scan = (
        max((s.s_per_image for s in log.scans if s.s_per_image and (s.done or 0) >= 20), default=None) if log else None
    )
    iowait = tables.series("iowait") if tables else ()
    slow = (scan or 0.0) >= slow_scan_s or (bool(iowait) and median(iowait) >= min_iowait)
    if not (under or (slow and (spelled or mounts))):
        return None
    util = tables.series("gpu_util") if tables else ()
    keeps_up = steps.share(Stage.DATA_WAIT) <= max_keeping_up if steps else len(util) >= 10 and median(util) >= busy
    if keeps_up and not slow:
        return None
    place, kind = under or next(iter(mounts.items()), (spelled, ""))
    line = next((s for s in log.scans if s.s_per_image == scan), None) if log and scan else None
    case = ("slow",) * bool(scan and scan >= slow_scan_s) + ("path",) * (
        not kind
    )  # the path alone names no file system
    return Hit(
        values={"case": "_".join(case) or None, "mount": place, "fs": kind, "scan_s": scan},
        fixes=(Fix("copy_local"), Fix("archive")),
        evidence=(
            *((Source(line.file, line.line),) if line else ()),
            *noted(notes, re.escape(place)),
        ),
        confidence=Confidence.HIGH if under and slow else Confidence.MEDIUM,
        severity=Severity.HIGH if slow else Severity.MEDIUM,
    )


def _below(path: str, mount: str) -> bool:
    path = path.replace("\\", "/")  # Z:\\data is below the drive Z:
    return path == mount or path.startswith(mount.rstrip("/") + "/")


@rule("speed.worker_respawn", Severity.HIGH)
def worker_respawn(
    log: TrainLog | None,
    phases: Phases | None,
    args: TrainArgs | None,
    notes: Notes | None,
    console: Console | None,
    *,
    min_share: float = 0.25,
    min_gap_s: float = 5.0,
) -> Verdict:
    """Loader workers are created again for each epoch or phase; each imports torch anew where processes are spawned.

    ultralytics#577, #509: on Windows 30 s before training and 30 s before validation in every epoch. min_share: of the
    epoch goes to such starts, in at least two epochs; min_gap_s: a shorter gap is the mosaic switch or a checkpoint.
    Stage tables show it directly; time stamps of the log count where processes are spawned.
    """
    starts = phases.of("loader_start") + phases.of("worker_start") if phases else ()
    if phases is not None and len({p.epoch for p in starts}) >= 2:
        gap = sum(p.wall_s for p in starts) / len({p.epoch for p in starts})
        share = sum(p.wall_s for p in starts) / sum(p.wall_s for p in phases.rows)
        where: tuple[Source, ...] = (whole(phases),)
    elif log is not None:
        gap, share = _clock_gap(log)
        where = tuple(Source(log.file, e.line) for e in log.epochs[:2])  # their time stamps
        if not windows(args, notes, console, log):
            return None if log.epochs else Skip("too_few_epochs", {"have": 0, "need": 3})
    else:
        return Skip("no_evidence", {"missing": "log, phases"})
    if share < min_share or gap < min_gap_s:
        return None
    workers = args.get("workers") if args else None
    fewer = {"workers": max(1, workers // 4)} if isinstance(workers, int) and workers > 1 else {}
    return Hit(
        values={
            "case": "spawn" if windows(args, notes, console, log) else None,
            "gap_s": gap,
            "share": share,
            "workers": str(workers) if workers is not None else None,
        },
        fixes=(Fix("update"), Fix("fewer_workers", fewer), Fix("linux")),
        evidence=where,
        headroom=share,
    )


def _clock_gap(log: TrainLog) -> tuple[float, float]:
    """Seconds of an epoch that neither training nor validation explains, and their share, by time stamps."""
    gaps, walls = [], []
    for before, after in zip(log.epochs, log.epochs[1:], strict=False):
        if before.clock_s is None or after.clock_s is None or before.train_s is None or after.epoch != before.epoch + 1:
            continue
        wall = (after.clock_s - before.clock_s) % 86400
        if wall > 0:
            walls.append(wall)
            gaps.append(max(0.0, wall - before.train_s - (before.val_s or 0.0)))
    return (median(gaps), sum(gaps) / sum(walls)) if len(gaps) >= 2 else (0.0, 0.0)


@rule("speed.nms_time_limit", Severity.LOW)
def nms_time_limit(console: Console, log: TrainLog | None) -> Verdict:
    """NMS hit its time limit: the rest of the batch is thrown away, so early mAP is under-reported (yolov5#7390)."""
    said = sources(console, ("nms_limit",))
    if not said:
        return None
    epoch = log.epochs[-1] if log and log.epochs else None
    return Hit(
        values={
            "case": "epoch" if epoch else None,
            "count": len(console.of("nms_limit")),
            "epoch": epoch.epoch if epoch else None,
            "size": epoch.size if epoch else None,
        },
        fixes=(Fix("wait"), Fix("conf", {"conf": 0.01})),
        evidence=said,
    )


@rule("speed.val_postproc_cpu@foreign", Severity.MEDIUM)
def val_postproc_cpu(
    phases: Phases, *, min_share: float = 0.4, min_wall_s: float = 10.0, min_gain: float = 0.1
) -> Verdict:
    """Validation time is post-processing and scoring on the CPU (NMS, matching, masks); ultralytics#17523.

    min_share: of the validation's wall time. min_wall_s: shorter validations are not worth a change. min_gain: of all
    the time in the table, where it holds training as well; the limit is a proposal.
    """
    rows = phases.of("val")
    wall = sum(r.wall_s for r in rows)
    if not rows or wall < min_wall_s:
        return Skip("run_too_short", {"have": wall, "need": min_wall_s})
    share = sum(r.share("postproc", "metrics", "nms", "matching", "plots") * r.wall_s for r in rows) / wall
    total = sum(r.wall_s for r in phases.rows)
    if share < min_share or share * wall < min_gain * total:
        return None
    return Hit(
        values={"share": share, "val_s": wall},
        fixes=(Fix("conf", {"conf": 0.01}), Fix("max_det", {"max_det": 100}), Fix("less_often")),
        evidence=(whole(phases),),
        headroom=share * wall / total,
    )


@rule("speed.label_rescan", Severity.LOW)
def label_rescan(console: Console) -> Verdict:
    """Labels are scanned at each start because two splits write the same cache file, or it is made anew

    At a second start. ultralytics#6659: the cache is named after the label folder; a hash of the other split's
    paths never matches.
    """
    paths: dict[str, set[tuple[str, str]]] = {}
    for line in console.of("cache_created"):
        found = re.search(r"^(?:(\w+): )?New cache created: (.+?)\s*$", line.text)
        if found:
            paths.setdefault(found[2], set()).add((found[1] or "", line.file or console.file))
    twice = {p: who for p, who in paths.items() if len(who) > 1}
    if not paths:
        return Skip("not_said", {"what": "New cache created"})
    if not twice:
        return None
    path, who = next(iter(twice.items()))
    splits = sorted({split for split, _ in who if split})
    said = tuple(s for s in sources(console, ("cache_created",), limit=20) if path in s.text)
    return Hit(
        values={"case": "splits" if len(splits) > 1 else "starts", "path": path, "splits": ", ".join(splits)},
        fixes=(Fix("folders"),),
        evidence=said[:3],
    )


@rule("speed.ram_cache_swapping", Severity.HIGH)
def ram_cache_swapping(
    tables: Tables,
    args: TrainArgs | None,
    log: TrainLog | None,
    peers: Peers | None,
    notes: Notes | None,
    *,
    min_swap_gb: float = 1.0,
    min_ram: float = 0.93,
    min_moving: float = 100.0,
) -> Verdict:
    """The RAM cache lives in swap: random access to swapped pages is slower than decoding the images (yolov5#309).

    min_swap_gb: in use in the median; min_ram: memory is at its limit. min_moving: KiB a second that vmstat sees come
    back from swap; old pages that lie there and don't move cost nothing. Memory by free counts like a table's.
    """
    if not ram_cache(args, log):
        return None
    swap, used, total = (
        tables.series("swap"),
        tables.series("ram_used.*gb|mem_used"),
        tables.series("ram_total|mem_total"),
    )
    memory, moving = free_memory(notes), tables.series("^swap_in$")
    if memory is not None and not used:
        used, total = (memory[1] - memory[0],), (memory[1],)
    swap = swap or tuple(s for s in (swap_in_use(notes),) if s)
    if not swap or not used:
        return Skip("no_column", {"column": "swap_used_gb, ram_used_gb"})
    if moving and median(moving) < min_moving:
        return None
    full = not total or median(used) / median(total) >= min_ram
    if median(swap) < min_swap_gb or not full:
        return None
    without = (
        [r.log for r in peers.runs.values() if r.log is not None and not ram_cache(r.args, r.log)] if peers else []
    )
    times = [e.train_s for r in without for e in r.epochs if e.train_s]
    own = [e.train_s for e in log.epochs if e.train_s] if log else []
    ratio = median(own) / median(times) if own and times and median(times) > 0 else None
    return Hit(
        values={"case": "compared" if ratio else None, "swap_gb": median(swap), "ratio": ratio},
        fixes=(Fix("disk", {"cache": "disk"}), Fix("off", {"cache": False})),
        evidence=table_source(tables, "swap") or noted(notes, "^Swap:", limit=1),
    )


@rule("speed.tal_cpu_fallback", Severity.CRITICAL)
def tal_cpu_fallback(console: Console, log: TrainLog | None, args: TrainArgs | None, phases: Phases | None) -> Verdict:
    """Target assignment fell back to the CPU on crowded images: every such batch takes minutes.

    The assigner pads each image to the most crowded one of the batch; out of memory it moves to the CPU
    (ultralytics#12711, PR#25990).
    """
    said = sources(console, ("tal_cpu",))
    if not said:
        return None
    rows = [*log.parts, *log.epochs] if log else []
    steps = [e.step_s for e in rows if e.step_s]
    batch = args.get("batch") if args else None
    half = {"batch": max(1, batch // 2)} if isinstance(batch, int) and batch > 1 else {}
    slower = max(steps) / min(steps) if len(steps) > 1 and min(steps) > 0 else None
    loss = max((p.share("loss") for p in phases.of("train")), default=0.0) if phases else 0.0
    return Hit(
        values={
            "case": "slower" if slower and slower > 2 else None,
            "slower": slower,
            "batch": str(batch) if batch is not None else None,
            "loss": loss,
        },
        fixes=(Fix("smaller_batch", half), Fix("tile"), Fix("update")),
        evidence=said,
    )


@rule("speed.sysmem_spill", Severity.HIGH)
def sysmem_spill(
    tables: Tables | None, log: TrainLog | None, args: TrainArgs | None, notes: Notes | None, console: Console | None
) -> Verdict:
    """GPU memory spills into system memory (Windows WDDM, WSL): more is in use than the card has, without an error.

    The driver's "CUDA sysmem fallback" pages over PCIe instead of failing. Reported in yolov5#13541.
    """
    card = log.gpu_mib if log else None
    used = max((e.gpu_mem_g for e in (*log.epochs, *log.parts) if e.gpu_mem_g), default=0.0) if log else 0.0
    shared = tables.series("shared_gpu_mem|shared_(?:mem|gpu)") if tables else ()
    if not card and not shared:
        return Skip("no_column", {"column": "gpu memory"})
    over = used * 1024 / card if card else 0.0
    here = windows(args, notes, console, log) or (notes is not None and bool(notes.find(r"\bWSL|microsoft")))
    if out_of_memory(console) is not None or not ((over > 1.02 and here) or (shared and median(shared) > 0.5)):
        return None
    return Hit(
        values={"case": "card" if card else "shared", "used_gib": used, "card_gib": card / 1024 if card else None},
        fixes=(Fix("smaller_batch"), Fix("no_fallback")),
        evidence=(memory_peak(log),) if log else table_source(tables, "shared"),
    )
