"""Small questions that several rules ask of arguments and machine. No rules here."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from diag.model.curves import Curves
from diag.model.evidence import Console, StepStats
from diag.model.finding import Fix, Skip, Source, Value
from diag.model.foreign import DataYaml, Notes, Phases, Table, Tables, TrainLog
from diag.model.hardware import Baseline
from diag.model.run import RunRecord, TrainArgs

_CARD = re.compile(
    r"(?:NVIDIA )?(?:GeForce )?\b(?:(?:RTX|GTX|MX|Quadro|Tesla|TITAN)[ -]?[A-Z]{0,3} ?\d{2,4}\w{0,2}"
    r"(?: ?(?:Ti|SUPER|Max-Q))*|(?:Tesla )?(?:T4|V100|P100|P4|K80|A100|H100|L40S?))\b",
    re.I,
)
"""A card as people write it in a line of their own words (`GPU: GTX 1650, 4 GB`)."""
YOLOV5_ARGS = frozenset({"noautoanchor", "image_weights", "bbox_interval", "artifact_alias", "local_rank", "hyp"})
"""Arguments that only the older repositories have."""
_OFFICIAL = re.compile(r"(?:.*[/\\])?(yolo(?:v\d{1,2}|\d{1,2}))([a-z]?)(-(?:seg|pose|obb|cls))?\.yaml")
"""A model of Ultralytics: family, scale (n where none is given, as the library assumes), task."""


def asked_cpu(args: TrainArgs | None) -> bool:
    """True if the user chose the CPU: device=cpu."""
    return args is not None and str(args.get("device", "")).strip().lower() == "cpu"


def chose_cpu(args: TrainArgs | None, run: RunRecord | None) -> bool:
    """True if a person asked for the CPU. The recorded command line knows; args.yaml may hold the fallback."""
    return asked_cpu(TrainArgs(run.overrides)) if run is not None else asked_cpu(args)


def asked_gpu(args: TrainArgs | None) -> bool:
    """True if the user named a GPU: device=0, device=0,1, device=[0], device=cuda:1."""
    device = str(args.get("device", "")).strip(" []()").lower() if args else ""
    return device.startswith("cuda") or device[:1].isdigit()


def on_cpu(args: TrainArgs | None, baseline: Baseline | None, console: Console | None = None) -> bool | None:
    """True if training computed on the CPU, False if on a GPU, None if that is not known."""
    if asked_cpu(args) or (console is not None and console.device == "cpu"):
        return True
    if console is not None and console.device in {"cuda", "mps"}:
        return False
    if args is not None and str(args.get("device", "")).strip().lower() == "mps":
        return False
    if baseline is not None and baseline.cuda_usable is not None:
        return not baseline.cuda_usable
    return None


def own_weights(args: TrainArgs | None) -> bool:
    """True if the training started from the weights of an earlier one of the user's: best.pt, last.pt, epoch10.pt."""
    model = str(args.get("model", args.get("weights", ""))) if args else ""
    return re.search(r"(?:^|[/\\])(?:best|last|epoch\d{1,5})[\w-]{0,40}\.pt['\"]?$", model, re.I) is not None


def from_scratch(args: TrainArgs | None) -> bool:
    """True if the model started without pretrained weights: a .yaml model, or pretrained=False.

    pretrained=FILE loads weights into a .yaml model; pretrained=True (the default) does not.
    """
    if args is None:
        return False
    given = args.get("pretrained", True)
    if isinstance(given, str) and given.lower().endswith((".pt", ".pth")):
        return False
    return given is False or str(args.get("model", "")).endswith((".yaml", ".yml"))


def pretrained(args: TrainArgs | None) -> dict[str, Value]:
    """The argument that starts from pretrained weights: `model=yolo11n.pt` for `yolo11n.yaml`, else pretrained=True."""
    found = _OFFICIAL.fullmatch(str(args.get("model", ""))) if args else None
    return {"model": f"{found[1]}{found[2] or 'n'}{found[3] or ''}.pt"} if found else {"pretrained": True}


def from_pretrained(args: TrainArgs | None) -> tuple[Fix, ...]:
    """The advice to start from pretrained weights; none where the training did (`model=yolo11n.pt`)."""
    if args is not None and str(args.get("model", "")).strip() and not from_scratch(args):
        return ()
    return (Fix("pretrained", pretrained(args)),)


def auto_optimizer(args: TrainArgs | None) -> bool:
    """Whether Ultralytics chooses optimizer and rate by itself, so that an own lr0 needs a named optimizer.

    YOLOv5 and YOLOv7 know no `auto`.
    """
    if args is None:
        return True
    old = "task" not in args.raw and (YOLOV5_ARGS | {"anchor_t"}) & set(args.raw)
    return str(args.get("optimizer", "SGD" if old else "auto")).lower() == "auto"


def accumulated(args: TrainArgs | None) -> int:
    """Batches to an optimizer step: nbs / batch, at least one (ultralytics/engine/trainer.py)."""
    batch, nbs = (args.get("batch"), args.get("nbs", 64)) if args else (None, None)
    if not isinstance(batch, int) or not isinstance(nbs, int) or batch < 1:
        return 1
    return max(1, round(nbs / batch))


def open_ended(curves: Curves, log: TrainLog | None) -> Skip | None:
    """A skip where the curves come from a log that just ends: it may be a part of one; nothing is made of its end."""
    return Skip("excerpt") if log is not None and curves.file == log.file and log.ended in {"cut", ""} else None


def sources(console: Console | None, kinds: Iterable[str], *, limit: int = 3) -> tuple[Source, ...]:
    """Where the console says one of these things, first lines first."""
    if console is None:
        return ()
    lines = sorted((line for kind in kinds for line in console.of(kind)), key=lambda line: line.line)
    return tuple(Source(line.file or console.file, line.line, line.text) for line in lines[:limit])


def argued(args: TrainArgs | None, *names: str) -> tuple[Source, ...]:
    """Where these arguments were read, with their values; args.yaml without a line where that is not known."""
    found = []
    for name in names:
        if args is not None and name in args.raw:
            file, line, text = args.places.get(name, ("args.yaml", 0, f"{name}: {args.raw[name]}"))
            found.append(Source(file, line or None, text))
    return tuple(found)


def described(data: DataYaml, *keys: str) -> tuple[Source, ...]:
    """Where a data.yaml says so: its line of the first of these keys that it has."""
    line = next((data.lines[key] for key in keys if key in data.lines), None)
    return (Source(data.file, line),)


def memory_peak(log: TrainLog) -> Source:
    """The line of the log with the most GPU memory."""
    rows = [e for e in (*log.epochs, *log.parts) if e.gpu_mem_g]
    most = max(rows, key=lambda e: (e.gpu_mem_g or 0.0, -e.line), default=None)
    return Source(log.file, most.line if most else None)


def noted(notes: Notes | None, pattern: str, *, file: str = "", limit: int = 2) -> tuple[Source, ...]:
    """Where the captured texts say so."""
    found = notes.find(pattern, file=file) if notes is not None else ()
    return tuple(Source(n.file, n.line, n.text) for n in found[:limit])


_GIB = {"KIB": 2**-20, "MIB": 2**-10, "GIB": 1.0, "KB": 2**-20, "MB": 2**-10, "GB": 1.0}
_SIZE = r"(\d+(?:\.\d+)?) ?([KMG]i?B|bytes)"


@dataclass(frozen=True)
class Oom:
    """The numbers of a CUDA out-of-memory message, in GiB; None where it does not say."""

    tried: float | None
    total: float | None
    free: float | None
    allocated: float | None
    reserved_free: float | None
    """Reserved by PyTorch but not allocated."""
    others: float
    """Held by other processes."""
    device: int | None
    source: Source


def out_of_memory(console: Console | None) -> Oom | None:
    """The first CUDA out-of-memory message of the log."""
    lines = console.of("gpu_oom") if console else ()
    if console is None or not lines:
        return None
    line = max(lines, key=lambda item: "Tried to allocate" in item.text)
    text = line.text
    allocated = _gib(rf"{_SIZE} (?:already allocated|is allocated by PyTorch)", text)
    reserved = _gib(rf"{_SIZE} reserved in total", text)
    spare = _gib(rf"{_SIZE} is reserved by PyTorch but", text)
    if spare is None and reserved is not None and allocated is not None:
        spare = max(0.0, reserved - allocated)
    held = [_gib_of(m) for m in re.finditer(rf"Process \d+ has {_SIZE} memory in use", text)]
    own = _gib(rf"including non-PyTorch memory, this process has {_SIZE}", text)
    mine = own if own is not None else allocated or 0.0
    # Without a statement of its own, this process is the one nearest to what PyTorch allocated.
    if own is None and held:
        held.remove(min(held, key=lambda value: abs(value - mine)))
    device = re.search(r"GPU[: ]?(\d+)", text)
    return Oom(
        _gib(rf"Tried to allocate {_SIZE}", text),
        _gib(rf"total capac\w*(?: of)? {_SIZE}", text) or _gib(rf"{_SIZE} total capacity", text),
        _gib(rf"{_SIZE} (?:is )?free", text),
        allocated,
        spare,
        sum(held),
        int(device[1]) if device else None,
        Source(line.file or console.file, line.line, text),
    )


def _gib(pattern: str, text: str) -> float | None:
    found = re.search(pattern, text, re.I)
    return _gib_of(found) if found else None


def _gib_of(found: re.Match[str]) -> float:
    return float(found[1]) * _GIB.get(found[2].upper(), 2**-30)


def windows(args: TrainArgs | None, notes: Notes | None, console: Console | None, log: TrainLog | None = None) -> bool:
    """True if something speaks of Windows: its name, a drive letter, a backslash in a module path."""
    if log is not None and log.windows:
        return True
    if notes is not None and notes.find(r"\bWindows\b|\bwin32\b|spawn|[A-Z]:\\\\"):
        return True
    if console is not None and any(re.search(r"\b[A-Z]:\\|WinError|engine\\trainer", i.text) for i in console.lines):
        return True
    return args is not None and re.search(r"^[A-Z]:\\", str(args.get("data", ""))) is not None


def ram_cache(args: TrainArgs | None, log: TrainLog | None) -> bool:
    """True if images are cached in memory: cache=ram or True, or the log says so."""
    asked = str(args.get("cache", False)).lower() in {"true", "ram"} if args else False
    return asked or bool(log and any(c.where in {"ram", ""} for c in log.caches))


def swap_in_use(notes: Notes | None) -> float:
    """Swap in use in GiB by free or top; 0 where neither tells."""
    for note in notes.find(r"^(?:Swap:|[KMG]iB Swap\s*:)") if notes is not None else ():
        if found := re.search(r"Swap:\s+\S+\s+(\d+(?:[.,]\d+)?)([KMGT]?)i?B?\b", note.text, re.I):
            unit = {"K": 2**-20, "M": 2**-10, "G": 1, "T": 2**10}.get(found[2].upper(), 2**-20)
            return float(found[1].replace(",", ".")) * unit
    return 0.0


def free_memory(notes: Notes | None) -> tuple[float, float] | None:
    """Available and total host memory in GiB by the `Mem:` line of free; None without one."""
    for note in notes.find(r"^Mem:\s") if notes is not None else ():
        cells = re.findall(r"(\d+(?:[.,]\d+)?)([KMGTP]?)i?B?(?=\s|$)", note.text[4:])
        sizes = [
            float(n.replace(",", ".")) * {"K": 2**-20, "M": 2**-10, "G": 1, "T": 2**10}.get(u, 2**-20) for n, u in cells
        ]
        if len(sizes) >= 3 and sizes[0] > 0:
            return sizes[5] if len(sizes) > 5 else sizes[2], sizes[0]
    return None


HELD = r"gpu_mem(?:_g|_gb|_gib|_mib|_mb)?$|reserved"
"""Columns of GPU memory in use or reserved."""


def held_gib(tables: Tables | None) -> tuple[float, ...]:
    """GPU memory in use or reserved, in GiB; a column without a unit counts as it stands. Empty without one."""
    table = tables.having(HELD) if tables is not None else None
    values = tables.series(HELD) if tables is not None else ()
    mib = table is not None and re.search(r"_(?:mib|mb)$", table.find(HELD), re.I) is not None
    return tuple(v / 1024 for v in values) if mib else values


def gpu_name(log: TrainLog | None, notes: Notes | None, baseline: Baseline | None) -> str:
    """The GPU that was trained on, as far as one can tell."""
    if log is not None and log.gpu:
        return log.gpu
    if baseline is not None and baseline.gpus and baseline.gpus[0].name:
        return baseline.gpus[0].name
    if notes is None:
        return ""
    told = next((m for n in notes.lines if (m := _CARD.search(n.text))), None)
    return notes.gpus[0].name if notes.gpus else told[0].strip() if told else ""


def low_and_high(values: Sequence[float], share: float = 0.25) -> tuple[float, float]:
    """Mean of the first and of the last quarter."""
    n = max(1, round(len(values) * share))
    return sum(values[:n]) / n, sum(values[-n:]) / n


def table_source(tables: Tables | None, pattern: str) -> tuple[Source, ...]:
    """The first table with such a column, as evidence."""
    table = tables.having(pattern) if tables is not None else None
    return (whole(table),) if table else ()


def whole(table: Table | Phases | StepStats, text: str = "") -> Source:
    """A table that is judged as a whole: its file, and its first line where a text holds more than the table."""
    return Source(table.file, table.line, text)
