"""hw.* and env.*: what benchmarks and listings of the machine say that people paste beside a log."""

import math
import re
from collections import defaultdict
from statistics import median

from diag.model.evidence import Console, StepStats
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import Note, Notes, Tables
from diag.model.run import TrainArgs
from diag.model.trace import Stage
from diag.rules.base import rule
from diag.rules.facts import noted, on_cpu, sources, whole
from diag.rules.limits import pod_file, pod_limits

_RATE = r"(\d+(?:\.\d+)?)\s*([TG])\s?FLOP"
_EXPECTED = r"(?:expected|reference|nominal|threshold|should be|baseline)"
_PROCESS = re.compile(r"^\|\s+(\d{1,2})\s+\S+\s+\S+\s+(\d+)\s+C(?:\+G)?\s+(\S+)\s.*?(\d+)MiB\s*\|$")
_GPUSTAT = re.compile(r"^\[(\d{1,2})\] .*?\|.*?\|.*?\|\s*(.+)$")


@rule("hw.gpu_wrong_result", Severity.CRITICAL)
def gpu_wrong_result(notes: Notes, console: Console | None) -> Verdict:
    """A repeated computation gave different or wrong numbers.

    gpu_burn compares each multiplication with the first one: `errors: 1374  (WARNING!)`, `GPU 0: FAULTY`
    (wilicc/gpu-burn#12); memtest_vulkan names the first wrong word. A test that died (`DIED!`) compared nothing.
    """
    said = noted(
        notes,
        r"errors:.*\(WARNING!\)|Error found\. Mode \w+"
        r"|(?:matmul|gemm|cuda|gpu)\b.{0,60}(?:wrong result|results? differ|mismatch(?:es)?: [1-9])",
    )
    faulty = noted(notes, r"^\s*GPU \d+: FAULTY")
    if not said and (not faulty or notes.find(r"\(DIED!\)|No clients are alive")):
        return None
    return Hit(values={"line": (said or faulty)[0].text}, fixes=(Fix("replace"),), evidence=(*said[:2], *faulty[:1]))


@rule("hw.gpu_slow", Severity.HIGH, explained_by=("hw.thermal_throttle", "hw.power_throttle"))
def gpu_slow(notes: Notes, *, max_share: float = 0.6, max_clock: float = 0.7) -> Verdict:
    """Measured speed is far below this model's expected figure, or its clocks are locked far below their maximum.

    max_share: of the figure that the same benchmark names as expected (DCGM's targeted tests fail below 0.75; a
    multiplication in another precision than the figure's is no slow card). max_clock: of the highest SM clock, while
    the driver says that the application clocks hold it down.
    """
    for note in notes.find(rf"{_RATE}.*{_EXPECTED}"):
        got = re.search(_RATE, note.text, re.I)
        want = re.search(rf"{_EXPECTED}\D{{0,12}}(\d+(?:\.\d+)?)", note.text)
        if got and want and float(want[1]) > 0 and float(got[1]) < max_share * float(want[1]):
            share = float(got[1]) / float(want[1])
            return Hit(
                values={"case": "measured", "share": share, "line": note.text},
                fixes=(Fix("clocks"), Fix("compare")),
                evidence=(Source(note.file, note.line, note.text),),
            )
    held = noted(notes, r"Applications Clocks Setting\s*:\s*Active")
    sm = [float(m[1]) for n in notes.find(r"^SM\s*:\s*\d+ MHz") if (m := re.search(r"(\d+) MHz", n.text))]
    if held and len(sm) >= 2 and 0 < sm[0] < max_clock * max(sm):
        return Hit(
            values={"case": "locked", "share": sm[0] / max(sm), "line": f"{sm[0]:.0f} MHz"},
            fixes=(Fix("clocks"), Fix("compare")),
            evidence=held,
        )
    return None


@rule("hw.disk_slow", Severity.MEDIUM, explained_by=("speed.storage_remote",))
def disk_slow(
    notes: Notes | None,
    tables: Tables | None,
    steps: StepStats | None,
    *,
    max_mb_s: float = 50.0,
    min_wait: float = 0.2,
    busy: float = 90.0,
) -> Verdict:
    """The data set's disk reads slower than training needs, by fio, hdparm, dd or iostat.

    max_mb_s: Ultralytics' own limit for slow reading (ultralytics PR#20303). min_wait: the step waits for data as
    for speed.loader_bound; where no step was timed the rate has to be below half of that limit, and a GPU that is
    busy percent of the time has what it needs. Writing is no reading.
    """
    rate, where = _read_rate(notes, tables)
    if rate is None:
        return Skip("not_said", {"what": "fio, hdparm, dd, iostat"})
    util = tables.series("gpu_util") if tables is not None else ()
    if steps is None and len(util) >= 10 and median(util) >= busy:
        return None
    waits = steps.share(Stage.DATA_WAIT) >= min_wait if steps is not None else rate < max_mb_s / 2
    if rate >= max_mb_s or not waits:
        return None
    spinning = noted(notes, r"\bROTA\b.*\b1\b|^\W*sd[a-z]\w*\s+1\s|rotational\W+1\b|\b(?:5400|7200) ?rpm", limit=1)
    return Hit(
        values={"case": "spinning" if spinning else None if where is None or where.text else "busy", "mb_s": rate},
        fixes=(Fix("local_ssd"), Fix("cache", {"cache": "ram"})),
        evidence=(where, *spinning) if where else spinning,
        confidence=Confidence.HIGH if steps is not None else Confidence.MEDIUM,
    )


def _read_rate(notes: Notes | None, tables: Tables | None) -> tuple[float | None, Source | None]:
    """MB/s of reading by a benchmark; of iostat only while the disk is saturated."""
    number = r"(\d+(?:\.\d+)?) ?([KMG])i?B/s(?:ec)?"
    scale = {"K": 1e-3, "M": 1.0, "G": 1e3}
    for pattern in (rf"^READ: bw={number}", rf"^read\s*:.*\bBW={number}", rf"buffered disk reads.*= *{number}"):
        for note in notes.find(pattern) if notes is not None else ():
            if found := re.search(number, note.text, re.I):
                return float(found[1]) * scale[found[2].upper()], Source(note.file, note.line, note.text)
    for note in notes.find(rf"copied, .*{number}") if notes is not None else ():
        writes = notes is not None and notes.find(r"if=/dev/(?:zero|u?random)", file=re.escape(note.file))
        found = re.search(rf"{number}\s*$", note.text, re.I)
        if found and not writes:
            return float(found[1]) * scale[found[2].upper()], Source(note.file, note.line, note.text)
    table = tables.having("^disk_util", "^disk_read_mb_s$") if tables is not None else None
    if table is not None:
        reads = table.numbers("^reads_per_s$") or (math.inf,) * len(table.rows)
        rows = zip(table.numbers("^disk_util"), table.numbers("^disk_read_mb_s$"), reads, strict=True)
        busy = [rate for util, rate, count in rows if util >= 90 and count >= 10]  # else it is busy with writing
        if len(busy) >= 2:
            return median(busy), whole(table)
    return None, None


@rule("hw.gpu_busy@told", Severity.HIGH)
def gpu_busy(notes: Notes, *, min_mib: float = 1000.0) -> Verdict:
    """Another process computes on the same GPU: nvidia-smi or gpustat lists two that hold much memory.

    min_mib: above the context that each rank of a DDP run opens on the first GPU (some 500 MiB).
    """
    held: dict[str, list[tuple[float, str, Note]]] = defaultdict(list)
    for note in notes.lines:
        if found := _PROCESS.match(note.text):
            held[found[1]].append((float(found[4]), f"{found[3]} ({found[2]})", note))
        elif found := _GPUSTAT.match(note.text):
            for name, mib in re.findall(r"(\S+)\((\d+)M\)", found[2]):
                held[found[1]].append((float(mib), name, note))
    for index, found_here in held.items():
        big = sorted((h for h in found_here if h[0] >= min_mib), key=lambda h: -h[0])
        if len(big) > 1:
            return Hit(
                values={"index": index, "count": len(big), "first": big[0][1], "gib": sum(h[0] for h in big) / 1024},
                fixes=(Fix("free"), Fix("other")),
                evidence=tuple(Source(n.file, n.line, n.text) for _, _, n in big[:2]),
                confidence=Confidence.MEDIUM,
            )
    return None if held else Skip("not_said", {"what": "nvidia-smi: Processes"})


@rule("hw.pcie_degraded@told", Severity.HIGH)
def pcie_degraded(
    notes: Notes | None, tables: Tables | None, *, max_part: int = 4, busy: float = 20.0, narrow: int = 2
) -> Verdict:
    """The PCIe link has a quarter of its lanes or fewer: a riser, a chipset slot, a bad seat.

    The speed of a link falls while the card idles, its width does not, so lspci and nvidia-smi -q tell it at any time.
    max_part: full lanes over those in use; x8 of x16 costs a training nothing. narrow: lanes in telemetry that
    doesn't know the maximum, at more than busy percent utilisation.
    """
    if notes is None and tables is None:
        return Skip("no_evidence", {"missing": "notes, tables"})
    for full, now, note in _widths(notes):
        if now * max_part <= full:
            return Hit(
                values={"now": now, "full": full},
                fixes=(Fix("reseat"),),
                evidence=(Source(note.file, note.line, note.text),),
            )
    table = tables.having("^pcie_width$", "^gpu_util") if tables is not None else None
    if table is None:
        return None
    lanes = [
        w
        for w, u in zip(table.numbers("^pcie_width$"), table.numbers("^gpu_util"), strict=True)
        if u > busy and 0 < w <= 64
    ]
    most = max((w for w in table.numbers("^pcie_width_max$") if 0 < w <= 64), default=0.0)
    limit = most / max_part if most else narrow
    if len(lanes) < 3 or not 0 < median(lanes) <= limit:
        return None
    return Hit(
        values={"now": int(median(lanes)), "full": int(most or 16)},
        fixes=(Fix("reseat"),),
        evidence=(whole(table),),
    )


def _widths(notes: Notes | None) -> list[tuple[int, int, Note]]:
    """(lanes of the card, lanes in use, where) of lspci and nvidia-smi -q."""
    made, capable, ours = [], 0, True
    lines = notes.lines if notes is not None else ()
    for i, note in enumerate(lines):
        if re.match(r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d ", note.text):
            ours = re.search(r"VGA|3D controller|Display controller|NVIDIA", note.text, re.I) is not None
        if not ours:
            continue
        if found := re.search(r"LnkCap:.*Width x(\d+)", note.text):
            capable = int(found[1])
        elif (found := re.search(r"LnkSta:.*Width x(\d+)", note.text)) and capable:
            made.append((capable, int(found[1]), note))
            capable = 0
        elif note.text == "Link Width":
            near = (re.match(r"(Max|Current)\s*:\s*(\d+)x", n.text) for n in lines[i + 1 : i + 3])
            block = {m[1]: int(m[2]) for m in near if m}
            if len(block) == 2:
                made.append((block["Max"], block["Current"], note))
    return made


@rule("env.docker_no_gpu@told", Severity.CRITICAL)
def no_gpu_given(notes: Notes, console: Console | None, args: TrainArgs | None) -> Verdict:
    """The container was not given a GPU: a pod that asks for none on a node that has some, or Docker without --gpus.

    The training has to run on the CPU, or nvidia-smi to be missing inside; a job that wants the CPU is left alone.
    """
    missing = noted(notes, r"nvidia-smi: (?:command )?not found", limit=1) or sources(console, ("no_cuda",), limit=1)
    if str(args.get("device", "") if args else "").lower() == "cpu":
        return None
    if on_cpu(args, None, console) is not True and not missing:
        return None
    pod = pod_file(notes)
    asked = any("gpu" in key or "/mig-" in key for key in pod_limits(notes))
    node = [n for n in notes.find(r"^(?:nvidia\.com/gpu|nvidia\.com/mig-\S+|amd\.com/gpu):\s+[1-9]") if n.file != pod]
    if pod and node and not asked:
        return Hit(
            values={"case": "pod"},
            fixes=(Fix("limits"),),
            evidence=(*(Source(n.file, n.line, n.text) for n in node[:1]), *missing),
        )
    none = noted(notes, r"\"DeviceRequests\": (?:null|\[\])", limit=1)
    host = noted(notes, r"NVIDIA-SMI \d|Driver Version: \d", limit=1)
    if none and host:
        return Hit(values={"case": "docker"}, fixes=(Fix("gpus"),), evidence=(*none, *host))
    return None
