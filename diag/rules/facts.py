"""Small questions that several rules ask of arguments and machine. No rules here."""

import re
from collections.abc import Iterable

from diag.model.evidence import Console
from diag.model.finding import Source, Value
from diag.model.hardware import Baseline
from diag.model.run import RunRecord, TrainArgs

_OFFICIAL = re.compile(r"(?:.*/)?(yolo\w{1,20}(?:-\w{2,4})?)\.yaml")


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


def from_scratch(args: TrainArgs | None) -> bool:
    """True if the model started without pretrained weights: a .yaml model, or pretrained=False."""
    return args is not None and (args.get("pretrained", True) is False or str(args.get("model", "")).endswith(".yaml"))


def pretrained(args: TrainArgs | None) -> dict[str, Value]:
    """The argument that starts from pretrained weights: `model=yolo11n.pt` for `yolo11n.yaml`, else pretrained=True."""
    found = _OFFICIAL.fullmatch(str(args.get("model", ""))) if args else None
    return {"model": f"{found[1]}.pt"} if found else {"pretrained": True}


def sources(console: Console | None, kinds: Iterable[str], *, limit: int = 3) -> tuple[Source, ...]:
    """Where the console says one of these things, first lines first."""
    if console is None:
        return ()
    lines = sorted((line for kind in kinds for line in console.of(kind)), key=lambda line: line.line)
    return tuple(Source(console.file, line.line, line.text) for line in lines[:limit])
