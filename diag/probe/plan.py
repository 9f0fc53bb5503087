"""What is going to be trained, as far as the machine must know it: device, batch, workers, cache ..."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from diag.errors import InputError

PREFETCH = 4
"""Batches that each loader worker keeps ready in training (ultralytics/data/build.py, 8.4.190)."""
ASSUMED_BATCH = 16
"""Ultralytics' default, also taken where AutoBatch (batch=-1 or a fraction) would choose."""

N = TypeVar("N", int, float)


class Kind(StrEnum):
    """Which device is asked for. `auto` is the first GPU if there is one, else the CPU."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"
    OTHER = "other"


@dataclass(frozen=True)
class CheckRequest:
    """What to check for. `args` are Ultralytics arguments and may be partial; `images` sample the user's data set."""

    workspace: Path
    args: Mapping[str, Any] = field(default_factory=dict)
    images: tuple[Path, ...] = ()
    dataset_dir: Path | None = None


@dataclass(frozen=True)
class Plan:
    """The typed part of the arguments, with Ultralytics' defaults where nothing was given."""

    kind: Kind = Kind.AUTO
    gpus: tuple[int, ...] = ()
    """CUDA indices that were asked for; empty for the default one."""
    device: str = ""
    """As the user wrote it."""
    batch: int = ASSUMED_BATCH
    auto_batch: bool = False
    """True where AutoBatch chooses; `batch` is then only assumed."""
    imgsz: int = 640
    workers: int = 8
    workers_given: bool = False
    cache: str = ""
    """"", "ram" or "disk"."""
    epochs: int = 100
    save_period: int = -1
    model: str = "yolo11n.yaml"
    pretrained: str = ""
    amp: bool = True

    @property
    def ranks(self) -> int:
        """Training processes on this machine: one for each GPU that was asked for."""
        return max(1, len(self.gpus))

    def loader_workers(self, cpus_visible: int, *, gpu: bool) -> int:
        """Loader processes for each rank as Ultralytics starts them; it forces 0 on the CPU."""
        return min(self.workers, cpus_visible // self.ranks) if gpu else 0


def make_plan(args: Mapping[str, Any]) -> Plan:
    """Read the arguments that matter here. Raises InputError for a value that can't be one."""
    kind, gpus = parse_device(args.get("device"))
    given = {k: v for k, v in args.items() if v is not None}
    batch = _number(given, "batch", float, float(ASSUMED_BATCH))
    cache = str(given.get("cache", "")).lower()
    pretrained = given.get("pretrained", "")
    return Plan(
        kind=kind,
        gpus=gpus,
        device="" if args.get("device") is None else str(args["device"]),
        batch=int(batch) if batch >= 1 else ASSUMED_BATCH,
        auto_batch=batch < 1,
        imgsz=_imgsz(given.get("imgsz", 640)),
        workers=_number(given, "workers", int, 8),
        workers_given="workers" in given,
        cache={"true": "ram", "1": "ram", "ram": "ram", "disk": "disk"}.get(cache, ""),
        epochs=max(1, _number(given, "epochs", int, 100)),
        save_period=_number(given, "save_period", int, -1),
        model=str(given.get("model", "yolo11n.yaml")),
        pretrained=pretrained if isinstance(pretrained, str) and pretrained.endswith(".pt") else "",
        amp=str(given.get("amp", True)).lower() not in {"false", "0"},
    )


def parse_device(value: Any) -> tuple[Kind, tuple[int, ...]]:
    """Ultralytics' `device`: None, "", "cpu", 0, "0,1", [0, 1], "cuda:0", -1 (an idle GPU), "mps" ...

    Raises InputError for text that is none of them.
    """
    text = "" if value is None else re.sub(r"[\s()\[\]']|cuda:", "", str(value).lower())
    if text in {"", "none"}:
        return Kind.AUTO, ()
    if text == "cpu":
        return Kind.CPU, ()
    if text in {"cuda", "-1"} or re.fullmatch(r"(-1,)+-1", text):
        return Kind.CUDA, ()
    if re.fullmatch(r"\d+(,\d+)*,?", text):
        indices = tuple(int(part) for part in text.split(",") if part)
        if len(set(indices)) < len(indices):
            raise InputError(f"device={value}: names a GPU twice")
        return Kind.CUDA, indices
    if re.fullmatch(r"(mps|npu|xpu|tpu|intel|vulkan)(:.*)?", text):
        return Kind.OTHER, ()
    raise InputError(f"device={value}: not a device; use cpu, 0, or 0,1")


def _imgsz(value: Any) -> int:
    sizes = value if isinstance(value, (list, tuple)) else [value]
    try:
        size = max(int(s) for s in sizes)
    except (TypeError, ValueError):
        raise InputError(f"imgsz={value}: not a number of pixels") from None
    if not 32 <= size <= 8192:
        raise InputError(f"imgsz={value}: must be from 32 to 8192 pixels")
    return size


def _number(given: Mapping[str, Any], name: str, kind: Callable[[Any], N], default: N) -> N:
    try:
        return kind(given.get(name, default))
    except (TypeError, ValueError):
        raise InputError(f"{name}={given[name]}: not a number") from None


def cpus_visible() -> int:
    """CPUs that Ultralytics believes in: `os.cpu_count`, which knows no container limit."""
    return os.cpu_count() or 1
