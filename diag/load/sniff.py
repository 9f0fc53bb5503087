"""What a text is, by what stands in it: names of pasted and downloaded files say nothing."""

import re
from pathlib import PurePath
from typing import Literal

from diag.codec import parse_yaml
from diag.errors import InputError
from diag.load.dialect import grid
from diag.load.tables import parse_results_txt

Kind = Literal["results", "rows", "table", "args", "opt", "hyp", "data", "text"]

ARGUMENTS = frozenset({
    "epochs", "batch", "batch_size", "imgsz", "img_size", "patience", "lr0", "lrf", "momentum", "weight_decay",
    "warmup_epochs", "optimizer", "hsv_h", "hsv_s", "hsv_v", "mosaic", "mixup", "close_mosaic", "workers", "amp",
    "cos_lr", "box", "cls", "dfl", "obj", "device", "save_period", "rect", "cache", "seed", "deterministic",
    "single_cls", "image_weights", "multi_scale", "label_smoothing", "fliplr", "flipud", "degrees", "translate",
    "scale", "warmup_bias_lr", "warmup_momentum", "nbs", "freeze", "pretrained", "weights", "hyp", "resume",
})  # fmt: skip
"""Names of training arguments of Ultralytics and YOLOv5 that hardly anything else has."""
_KEY = re.compile(r"^\s{0,8}['\"]?([A-Za-z_]\w{0,40})['\"]?\s*:(?:\s|$)")
_MAX = 1 << 18
_LEAST = 3


_PICTURES = {
    ".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".heic", ".tif", ".tiff", ".pdf", ".docx", ".doc", ".xlsx",
}  # fmt: skip
_SHOTS = re.compile(
    r"screen|shot|snap|capture|bildschirm|captura|\u622a\u56fe|\u622a\u5c4f|\u5fae\u4fe1|img_\d|^image(?:\W|\d|$)"
    r"|paste|error|log|console",
    re.I,
)


def is_screenshot(path: PurePath) -> bool:
    """A picture of a text, by its name; the plots of a training are named otherwise."""
    return path.suffix.lower() in _PICTURES and _SHOTS.search(path.stem) is not None


def kind_of(text: str) -> Kind:
    """The kind of a text; `text` for logs, captures and whatever else."""
    head = text[:_MAX]
    if (keys := _yaml_keys(head)) is not None:
        known = keys & ARGUMENTS
        if keys & {"names", "nc"} and (keys & {"train", "val"} or (keys >= {"names", "nc"} and len(keys) < 10)):
            return "data"
        if len(known) >= _LEAST and len(known) >= 0.3 * len(keys):
            if "epochs" not in keys:
                return "hyp" if "lr0" in keys and len(known) >= 0.6 * len(keys) else "text"
            return "opt" if keys & {"batch_size", "img_size"} else "args"
        return "text"
    if (table := grid(head)) is not None:
        names = [c.strip() for c in table[0]]
        results = sum(c.startswith(("train/", "val/", "metrics/")) for c in names) >= 2
        return "results" if results else "table"
    return "rows" if parse_results_txt(head[:20_000]) is not None else "text"


def _yaml_keys(text: str) -> set[str] | None:
    """The keys of a YAML mapping or of a JSON object; None where most lines are something else."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if text.lstrip()[:1] == "{":
        try:
            made = parse_yaml(text, "text")
        except (InputError, RecursionError):
            return None
        return {str(k) for k in made} if isinstance(made, dict) else None
    if not lines or any(len(line) > 4000 for line in lines[:200]):
        return None
    found = [m[1] for line in lines if (m := _KEY.match(line))]
    items = sum(
        line.lstrip().startswith(("- ", "]", "[", "---")) or re.match(r"\s+\d+:\s?\S", line) is not None
        for line in lines
    )
    return set(found) if len(found) >= 2 and len(found) + items >= 0.9 * len(lines) else None
