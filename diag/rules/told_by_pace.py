"""Causes that a pace alone tells: of two runs, of the loss within a step, of a label scan."""

import re
from itertools import permutations
from statistics import median

from diag.model.evidence import Console, Evidence, Peers
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import Phases, Tables, TrainLog
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.compare_speed import cache_pairs, epoch_time
from diag.rules.facts import ram_cache, sources, table_source, whole

_CROWDED = "max_objects|max_instances_per_image|max_labels"
_P2P_OFF = r"NCCL_P2P_DISABLE['\"\]]{0,3} ?[=:] ?['\"]?1"


@rule("speed.ram_cache_swapping@compared", Severity.HIGH)
def ram_cache_slower(peers: Peers, *, min_ratio: float = 1.5) -> Verdict:
    """The same training takes clearly longer an epoch with its images in memory than without: the cache is in swap.

    Reading memory is never slower than decoding a file, so what is read is no memory (yolov5#309: 1 h 18 against 20
    min). min_ratio: of the epochs' times; small differences are noise.
    """
    pairs = cache_pairs(peers)
    if not pairs:
        return Skip("nothing_to_compare")
    for a, cached, b, plain in pairs:
        slow, fast = epoch_time(cached), epoch_time(plain)
        if not ram_cache(cached.args, cached.log) or not slow or not fast or slow < min_ratio * fast:
            continue
        return Hit(
            values={"ratio": slow / fast, "with": slow, "without": fast},
            fixes=(Fix("disk", {"cache": "disk"}), Fix("off", {"cache": False})),
            evidence=(Source(a), Source(b)),
            confidence=Confidence.MEDIUM,
        )
    return None


@rule("env.nccl_hang_p2p@compared", Severity.CRITICAL)
def hangs_with_p2p(peers: Peers) -> Verdict:
    """Of two runs on several GPUs the one with NCCL_P2P_DISABLE=1 trains, the other never begins and says no error.

    pytorch#73206, pytorch-lightning#19425: that is the test that NCCL's own guide asks for.
    """
    for (a, stuck), (b, fine) in permutations(peers.runs.items(), 2):
        if _p2p_off(stuck) or not _p2p_off(fine) or not _several(stuck) or not _several(fine):
            continue
        begun = stuck.log is not None and (stuck.log.epochs or any(p.losses for p in stuck.log.parts))
        works = fine.log is not None and bool(fine.log.epochs)
        if works and not begun and not (stuck.console and stuck.console.of("error")):
            return Hit(fixes=(Fix("p2p"), Fix("iommu")), evidence=(Source(a), Source(b)))
    return None


def _p2p_off(run: Evidence) -> bool:
    noted = run.notes is not None and bool(run.notes.find(_P2P_OFF))
    said = run.console is not None and any(re.search(_P2P_OFF, line.text) for line in run.console.of("nccl"))
    return noted or said


def _several(run: Evidence) -> bool:
    asked = str(run.args.get("device", "")) if run.args else ""
    return (run.log is not None and run.log.gpus > 1) or "," in asked


@rule("speed.tal_cpu_fallback@stages", Severity.CRITICAL)
def loss_on_cpu(
    phases: Phases,
    tables: Tables | None,
    log: TrainLog | None,
    args: TrainArgs | None,
    *,
    min_share: float = 0.6,
    min_s: float = 2.0,
    crowded: int = 300,
    dense: int = 100,
) -> Verdict:
    """The loss takes most of a step, seconds each, on crowded images: target assignment runs on the CPU.

    On the GPU the loss is a fraction of the forward pass (ultralytics#12711: 195 s a step after the fallback).
    min_share: of the training's time; min_s: a step; crowded: objects in the fullest image; dense: a batch's average
    by the log.
    """
    rows = phases.of("train")
    wall, steps = sum(r.wall_s for r in rows), sum(r.iters for r in rows)
    if wall <= 0 or not steps:
        return Skip("run_too_short", {"have": wall, "need": min_s})
    loss = sum(r.share("loss") * r.wall_s for r in rows)
    if loss < min_share * wall or loss / steps < min_s:
        return None
    most = max(tables.series(_CROWDED) if tables else (), default=0.0)
    batch = args.get("batch") if args else None
    objects = max((e.instances or 0 for e in (*log.parts, *log.epochs)), default=0) if log else 0
    each = objects / batch if isinstance(batch, int) and batch > 0 else 0.0
    if most < crowded and each < dense:
        return None
    half = {"batch": max(1, batch // 2)} if isinstance(batch, int) and batch > 1 else {}
    return Hit(
        values={"loss": loss / wall, "loss_s": loss / steps},
        fixes=(Fix("smaller_batch", half), Fix("tile"), Fix("update")),
        evidence=(whole(phases), *(table_source(tables, _CROWDED) if most else ())),
        confidence=Confidence.MEDIUM,
        severity=Severity.HIGH,
    )


@rule("speed.storage_slow@scan", Severity.HIGH, explained_by=("speed.storage_remote", "hw.disk_slow"))
def slow_scan(log: TrainLog, console: Console | None, *, min_s: float = 0.1, min_images: int = 100) -> Verdict:
    """The label scan takes a tenth of a second an image and more: a small file costs several seeks or round trips.

    Eight threads open each image and its label; a local SSD does hundreds a second, a hard disk some fifty, a mounted
    drive one to three (yolov5#1145, #6437; ultralytics#10340: 6000 images in 1 h 45, locally in one minute).
    min_s: an image, twice what a hard disk with two seeks a file needs; min_images: fewer are the start of a scan.
    """
    if sources(console, ("slow_access",)):
        return None  # the library measured it itself
    slow = [s for s in log.scans if (s.s_per_image or 0.0) >= min_s and (s.done or 0) >= min_images]
    if not slow:
        return None if log.scans else Skip("not_said", {"what": "Scanning"})
    worst = max(slow, key=lambda s: s.s_per_image or 0.0)
    return Hit(
        values={"scan_s": median([s.s_per_image or 0.0 for s in slow]), "images": worst.done},
        fixes=(Fix("local_disk"),),
        evidence=(Source(worst.file, worst.line),),
        confidence=Confidence.MEDIUM,
        severity=Severity.MEDIUM,  # a scan is read once, and training may come from a cache
    )
