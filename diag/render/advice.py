"""Advice as it is typed: arguments of Ultralytics, flags of YOLOv5 and YOLOv7, whole commands."""

import shlex
from collections.abc import Mapping

from diag.messages import text
from diag.model.evidence import Evidence
from diag.model.finding import Finding, Value
from diag.render.safe import clean

_OLD = {"noautoanchor", "image_weights", "evolve", "quad", "img_size", "hyp"}
"""Arguments of train.py of YOLOv5, YOLOv7 and YOLOv9."""
_FLAGS = {
    "epochs": "--epochs", "batch": "--batch-size", "imgsz": "--img", "workers": "--workers", "device": "--device",
    "cache": "--cache", "rect": "--rect", "resume": "--resume", "exist_ok": "--exist-ok", "patience": "--patience",
    "optimizer": "--optimizer", "freeze": "--freeze", "model": "--weights", "save_period": "--save-period",
    "cos_lr": "--cos-lr", "close_mosaic": "--close-mosaic", "single_cls": "--single-cls",
    "multi_scale": "--multi-scale", "data": "--data",
}  # fmt: skip
_HYP = {
    "lr0", "lrf", "momentum", "weight_decay", "warmup_epochs", "warmup_momentum", "warmup_bias_lr", "box", "cls", "obj",
    "hsv_h", "hsv_s", "hsv_v", "degrees", "translate", "scale", "shear", "perspective", "flipud", "fliplr", "mosaic",
    "mixup", "copy_paste",
}  # fmt: skip
_SHOWN = ("model", "data", "epochs", "batch", "imgsz", "device", "optimizer", "lr0", "workers")
_DEFAULTS = {"batch": 16, "imgsz": 640, "workers": 8, "optimizer": "auto", "lr0": 0.01, "device": None}


def is_old(evidence: Evidence) -> bool:
    """True for a run of YOLOv5, YOLOv7 or YOLOv9, whose arguments are flags of train.py and a hyp.yaml."""
    raw = evidence.args.raw if evidence.args else {}
    if "task" in raw:  # Ultralytics always writes it; its first releases had image_weights, too
        return False
    losses = set(evidence.curves.train) if evidence.curves else set()
    return bool(_OLD & set(raw)) or "obj_loss" in losses


def typed(change: Mapping[str, Value], lang: str, *, old: bool = False) -> str:
    """`workers=4 cache=disk`; for YOLOv5 `--workers 4 --cache disk`. Empty where there is nothing to type."""
    if not old:
        return _pairs(change)
    return ", ".join(word for k, v in change.items() if (word := _flag(k, v, lang)))


def _pairs(change: Mapping[str, Value]) -> str:
    return " ".join(f"{k}={shlex.quote(clean(v))}" for k, v in change.items())


def _flag(name: str, value: Value, lang: str = "en") -> str:
    if name in _HYP:
        return f"{name}: {clean(value)} (hyp.yaml)"
    flag = _FLAGS.get(name)
    if flag is None or (name == "optimizer" and str(value).lower() == "auto"):
        return ""
    if value is False or value is None:
        return text(lang, "ui", "without", {"flag": flag})
    return flag if value is True else f"{flag} {shlex.quote(clean(value))}"


def command(evidence: Evidence, finding: Finding) -> str:
    """The training command with the finding's first argument change; empty where too little is known for one."""
    first = next((fix.change for fix in finding.fixes if fix.change), None)
    if first is None or evidence.peers is not None:
        return ""
    if evidence.run is not None:
        return "scripts/train " + _pairs({**evidence.run.overrides, **first})
    raw = evidence.args.raw if evidence.args else {}
    if not raw.get("model") or not raw.get("data"):
        return ""
    if is_old(evidence):
        return _old_command(raw, first)
    if first.get("resume") is True:
        return f"yolo train resume model={shlex.quote(clean(_last(raw)))}"
    kept = {k: raw[k] for k in _SHOWN if raw.get(k) is not None and raw[k] != _DEFAULTS.get(k, ...)}
    return "yolo train " + _pairs({**kept, **first})


def _old_command(raw: Mapping[str, object], first: Mapping[str, Value]) -> str:
    changed = [_flag(k, v) for k, v in first.items()]
    if not all(flag.startswith("--") for flag in changed):
        return ""  # it takes a hyp.yaml, or a flag less
    kept = [
        _flag(k, v)
        for k in ("model", "data", "epochs", "batch", "imgsz")
        if k not in first and isinstance(v := raw.get(k), (str, int))
    ]
    return "python train.py " + " ".join([*kept, *changed])


def _last(raw: Mapping[str, object]) -> str:
    """The last checkpoint of Ultralytics: in save_dir, else in project/name, which is runs/TASK/train by default."""
    project = raw.get("project") or f"runs/{raw.get('task') or 'detect'}"
    name = raw.get("name") or "train"
    return f"{raw.get('save_dir') or f'{project}/{name}'}/weights/last.pt"
