"""env.* and hw.*: versions, drivers, several GPUs and the container, by their own words."""

import re
from itertools import permutations
from statistics import median

from diag.model.counters import Counters
from diag.model.curves import Curves
from diag.model.evidence import Console, Peers
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Value, Verdict
from diag.model.foreign import Notes, Tables, TrainLog
from diag.model.hardware import Baseline
from diag.rules.base import rule
from diag.rules.facts import noted, sources, table_source, whole

_LOW_LINK = (
    r"(?:PCIe?|link).{0,30}(?:gen|speed)\D{0,20}(?:1\b|2\.5 ?GT)|2\.5 ?GT/s.{0,20}(?:downgraded|width)"
    r"|pcie\.link\.gen\.current\D*1\b"
)


def _said(console: Console, kinds: tuple[str, ...], fixes: tuple[Fix, ...]) -> Verdict:
    said = sources(console, kinds)
    return Hit(values={"line": said[0].text}, fixes=fixes, evidence=said) if said else None


@rule("env.driver_old", Severity.CRITICAL)
def driver_old(console: Console) -> Verdict:
    """The driver is older than the CUDA runtime of torch needs, or its library and kernel module differ

    After an update. Reported in yolov5#2389, tabbyAPI#324, PETRIC2#27.
    """
    return _said(console, ("driver_old",), (Fix("driver"), Fix("image")))


@rule("env.no_kernel", Severity.CRITICAL)
def no_kernel(console: Console) -> Verdict:
    """The GPU's compute capability is not in torch's list: too new or too old for this wheel.

    Reported in ultralytics#19833, pytorch#167244, open-webui#13186.
    """
    return _said(console, ("no_kernel",), (Fix("wheel"),))


@rule("env.torchvision_mismatch", Severity.CRITICAL)
def torchvision(console: Console, notes: Notes | None, log: TrainLog | None) -> Verdict:
    """torch and torchvision come from different builds: training runs, the first NMS of the validation fails.

    ultralytics#520, #1774, #5059, yolov5#281: a CPU build of torchvision beside a CUDA torch has no CUDA operators.
    """
    said = sources(console, ("torchvision",))
    if not said:
        return None
    torch = (notes.packages.get("torch") if notes else None) or (log.torch if log else "")
    vision = notes.packages.get("torchvision") if notes else None
    return Hit(
        values={"case": "versions" if torch and vision else None, "torch": torch, "vision": vision},
        fixes=(Fix("same_index"),),
        evidence=(*said[:1], *noted(notes, "^torchvision", limit=1)),
    )


@rule("env.library_bug@log", Severity.MEDIUM)
def old_loader(console: Console, notes: Notes | None, log: TrainLog | None) -> Verdict:
    """Weights can't be loaded: torch 2.6 turned `torch.load` to weights_only=True, which old Ultralytics doesn't know.

    ultralytics#19778, #19824, assets#102: "Weights only load failed ... Unsupported global". The file is not broken.
    """
    said = sources(console, ("weights_only",))
    if not said:
        return None
    torch = (notes.packages.get("torch") if notes else None) or (log.torch if log else "")
    yolo = (notes.packages.get("ultralytics") if notes else None) or (log.versions[-1] if log and log.versions else "")
    return Hit(
        values={"case": "versions" if torch and yolo else None, "torch": torch, "ultralytics": yolo},
        fixes=(Fix("update"), Fix("older_torch")),
        evidence=said[:2],
    )


@rule("env.nccl_timeout_scan", Severity.HIGH)
def nccl_timeout(console: Console, log: TrainLog | None) -> Verdict:
    """DDP ranks timed out while rank 0 scanned labels or cached images: no training step had been made.

    Reported in ultralytics#1439.
    """
    said = sources(console, ("nccl_timeout",))
    if not said or (log is not None and (log.epochs or log.parts)):
        return None
    if log is None or not (log.scans or log.caches):
        return None
    return Hit(
        values={"images": log.scans[0].total if log.scans else None, "case": "images" if log.scans else None},
        fixes=(Fix("build_cache"), Fix("timeout")),
        evidence=(*said[:1], *(Source(s.file, s.line) for s in log.scans[:1])),
    )


@rule("env.nccl_hang_p2p", Severity.CRITICAL)
def nccl_hang(
    console: Console | None,
    tables: Tables | None,
    notes: Notes | None,
    log: TrainLog | None,
    *,
    min_util: float = 95.0,
    max_power: float = 0.45,
) -> Verdict:
    """DDP hangs in NCCL's peer-to-peer though utilisation reads 100 %.

    Kernels spin, so power stays low and nothing moves. nccl-tests#117, pytorch-lightning#19425. min_util:
    percent, in the median; max_power: of the limit: a training that computes draws 70 % and more. No epoch has
    begun. That it starts with NCCL_P2P_DISABLE=1 settles it without telemetry.
    """
    if console is None and notes is None:
        return Skip("no_evidence", {"missing": "console, notes"})
    several = sources(console, ("nccl", "nccl_timeout")) or noted(notes, r"NCCL|nproc|[2-9]x |CUDA:0,1")
    if not several or (log is not None and log.epochs):
        return None
    util, power, limit = (
        (tables.series(c) for c in ("gpu_util", "^power(?:_draw)?(?:_w)?$", "power_limit")) if tables else ((), (), ())
    )
    spins = bool(util and power and limit) and median(util) >= min_util and median(power) <= max_power * median(limit)
    cured = noted(notes, r"NCCL_P2P_DISABLE=1.{0,40}(?:start|work|train|ok|run|fine)")
    if not spins and not cured:
        return None
    return Hit(
        values={
            "case": "spins" if spins else None,
            "util": median(util) / 100 if util else None,
            "power": median(power) / median(limit) if spins else None,
        },
        fixes=(Fix("p2p"), Fix("iommu")),
        evidence=(*several[:1], *cured[:1], *table_source(tables, "power_w")),
    )


def _smi_link(notes: Notes | None) -> tuple[Source, ...]:
    """The line of nvidia-smi -q that tells a link of the first generation on a card that can do more."""
    lines = notes.lines if notes is not None else ()
    for i, head in enumerate(lines):
        if head.text == "PCIe Generation":
            block = lines[i + 1 : i + 7]
            more = any(re.match(r"(?:Device )?Max\s*:\s*[2-9]", n.text) for n in block)
            now = next((n for n in block if re.match(r"(?:Device )?Current\s*:\s*1$", n.text)), None)
            if more and now is not None:
                return (Source(now.file, now.line, f"{head.text}: {now.text}"),)
    return ()


@rule("env.pcie_idle_ok@foreign", Severity.INFO)
def pcie_idle(notes: Notes | None, tables: Tables | None, *, max_util: float = 10.0) -> Verdict:
    """The PCIe link reads low because the GPU is idle: cards lower the link to save power; not a fault. max_util.

    Percent, in the median. The limit is a proposal.
    """
    gen, util = (tables.series(r"(?:pcie.*gen|link_gen)(?!.*max)"), tables.series("gpu_util")) if tables else ((), ())
    said = noted(
        notes,
        _LOW_LINK,
    )
    said = said or _smi_link(notes)
    idle_noted = noted(notes, r"\bidle\b(?!\s*:\s*Not)|util\w*\W{0,3}0 ?%|P8\b")
    if not gen and not said:
        return Skip("not_said", {"what": "pcie link"})
    low = [u for g, u in zip(gen, util, strict=False) if g <= 1]
    busy = [g for g, u in zip(gen, util, strict=False) if u > 50]
    idle = bool(low) and median(low) <= max_util and all(g > 1 for g in busy)
    if not idle and not (said and not gen and (idle_noted or (util and median(util) <= max_util))):
        return None
    return Hit(
        values={"case": "both" if busy else None, "loaded": max(busy, default=None)},
        fixes=(Fix("under_load"),),
        evidence=said or table_source(tables, "pcie|link_gen"),
    )


@rule(
    "env.hung_worker_exit",
    Severity.HIGH,
    explained_by=("mem.shm_small", "mem.ram_oom_killed", "mem.pagefile", "mem.ram_cache_too_big", "mem.map_count"),
)
def worker_exit(console: Console) -> Verdict:
    """A loader worker died (signal, import, spawn without a main guard) and the run stopped.

    Or it can't hand over its tensors: each needs a file handle, and the limit (ulimit -n, often 1024) is reached
    (Pointcept#61, pytorch#14768, opensoundscape#726). Reported in ultralytics#21002, pytorch#5301, yolov3#1151.
    """
    handles = sources(console, ("open_files",))
    if handles and not console.of("completed"):
        fixes = (Fix("file_limit"), Fix("sharing"), Fix("fewer_workers"))
        return Hit(values={"line": handles[0].text, "case": "handles"}, fixes=fixes, evidence=handles)
    return _said(console, ("worker_died",), (Fix("main_guard"), Fix("in_process", {"workers": 0})))


@rule("env.workspace_unwritable", Severity.CRITICAL)
def unwritable(console: Console, curves: Curves | None) -> Verdict:
    """The output folder can't be written by the user of the process.

    A label cache that is not saved is another, harmless thing. Reported in ultralytics#14558.
    """
    said = tuple(
        s
        for s in sources(console, ("denied",), limit=20)
        if not re.search(r"\.cache|\.npy|settings|Fonts?|Arial", s.text)
    )
    if not said or curves is not None:
        return None
    return Hit(values={"line": said[0].text}, fixes=(Fix("owner"),), evidence=said[:2])


@rule("env.version_changed", Severity.HIGH)
def version_changed(log: TrainLog | None, console: Console | None, peers: Peers | None) -> Verdict:
    """A run was continued with another library version than it was started with (ultralytics#16678).

    Its banners differ and it was resumed; or of two runs of as many planned epochs one goes on where the other ended.
    """
    if log is None and peers is None:
        return Skip("no_evidence", {"missing": "log, peers"})
    logs = {n: r.log for n, r in peers.runs.items() if r.log is not None and r.log.epochs} if peers else {}
    for (a, one), (b, two) in permutations(logs.items(), 2):
        goes_on = one.epochs[-1].epoch < two.epochs[0].epoch and one.epochs[-1].planned == two.epochs[0].planned
        if goes_on and one.versions and two.versions and one.versions[-1] != two.versions[-1]:
            values: dict[str, Value] = {"first": one.versions[-1], "last": two.versions[-1]}
            return Hit(values=values, fixes=(Fix("pin"),), evidence=(Source(a), Source(b)))
    if log is None or len(log.versions) < 2:
        return None
    resumed = sources(console, ("resume",))
    if not resumed:
        return None
    return Hit(
        values={"first": log.versions[0], "last": log.versions[-1]},
        fixes=(Fix("pin"),),
        evidence=(*sources(console, ("banner",), limit=2), *resumed[:1]),
    )


@rule("hw.xid", Severity.CRITICAL)
def xid(console: Console | None, counters: Counters | None) -> Verdict:
    """The driver logged an Xid error, or NVML lost the GPU during the run: the GPU or its driver failed.

    79 is a card that fell off the bus, 48, 63, 94 and 95 memory, 13 and 31 mostly the program. A container can't
    read the kernel's log, but NVML_ERROR_GPU_IS_LOST (nvml.h: 15) is what Xid 79 looks like from there. Reported
    in open-gpu-kernel-modules#507, returnn#1486.
    """
    if console is None and counters is None:
        return Skip("no_evidence", {"missing": "console, counters"})
    said = sources(console, ("xid",))
    lost = next((mark for mark in counters.marks if mark.name == "gpu_lost"), None) if counters else None
    if lost is not None:
        return Hit(
            values={"case": "lost", "gpu": lost.values.get("gpu"), "line": lost.values.get("said")},
            fixes=(Fix("reset"), Fix("check")),
            evidence=(Source("trace/counters.jsonl", text=str(lost.values.get("said"))), *said),
            confidence=Confidence.HIGH,
        )
    if not said:
        return None
    codes = [int(m[1]) for s in said if (m := re.search(r"Xid(?: ?\([^)]*\))?: ?(\d+)", s.text))]
    # Without a code: nvidia-smi says that the card is gone, which is what follows on 79.
    code = codes[0] if codes else 79 if any(re.search("lost|bus|handle", s.text) for s in said) else None
    kind = {
        79: "bus",
        48: "memory",
        63: "memory",
        64: "memory",
        94: "memory",
        95: "memory",
        13: "program",
        31: "program",
        43: "program",
    }
    return Hit(
        values={"case": kind.get(code or 0), "code": code, "line": said[0].text},
        fixes=(Fix("reset"), Fix("check")),
        evidence=said,
    )


def _counted(tables: Tables | None) -> tuple[Source, ...]:
    """Tables whose counters of uncorrected errors are above zero, or that say that a page or row waits for a reset."""
    for table in tables.tables if tables is not None else ():
        for at, column in enumerate(table.columns):
            cells = {row[at].strip().lower() for row in table.rows}
            if re.search(r"ecc\b.*uncorrect|uncorrect\w*.*ecc|dbe\b|double_bit", column, re.I):
                if any(c.isdigit() and int(c) > 0 for c in cells):
                    return (whole(table, column),)
            elif re.search(r"(?:remapped_rows|retired_pages)\W*(?:pending|failure)", column, re.I) and "yes" in cells:
                return (whole(table, column),)
    return ()


@rule("hw.ecc_errors", Severity.CRITICAL)
def ecc(console: Console | None, baseline: Baseline | None, tables: Tables | None) -> Verdict:
    """Uncorrected memory errors, or a row remap is pending: results can't be trusted until the GPU is reset.

    Reported in jade-hpc-gpu.github.io#194, verl#407.
    """
    if console is None and baseline is None and tables is None:
        return Skip("no_evidence", {"missing": "console, baseline"})
    said = sources(console, ("ecc",)) or _counted(tables)
    bad = (
        [g for g in baseline.gpus if g.ecc_uncorrected or g.remap_pending or g.remap_failed or g.retired_pending]
        if baseline
        else []
    )
    if not said and not bad:
        return None
    return Hit(
        values={"gpu": bad[0].name if bad else None, "case": "gpu" if bad else None},
        fixes=(Fix("reset"), Fix("replace")),
        evidence=said or (Source("baseline.json"),),
    )
