"""Small questions that several rules ask of arguments and machine. No rules here."""

from collections.abc import Iterable

from diag.model.evidence import Console
from diag.model.finding import Source
from diag.model.hardware import Baseline
from diag.model.run import TrainArgs


def asked_cpu(args: TrainArgs | None) -> bool:
    """True if the user chose the CPU: device=cpu."""
    return args is not None and str(args.get("device", "")).strip().lower() == "cpu"


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


def sources(console: Console | None, kinds: Iterable[str], *, limit: int = 3) -> tuple[Source, ...]:
    """Where the console says one of these things, first lines first."""
    if console is None:
        return ()
    lines = sorted((line for kind in kinds for line in console.of(kind)), key=lambda line: line.line)
    return tuple(Source(console.file, line.line, line.text) for line in lines[:limit])
