"""Ultralytics arguments given as `key=value`: parsed, type-checked and named against Ultralytics' own default.yaml."""

import ast
import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from diag.errors import InputError
from diag.train_tables import Tables, tables, ultralytics_dir
from diag.train_values import check_value

__all__ = ["check_overrides", "parse_overrides", "ultralytics_dir"]
OURS = {
    "project": "runs live in WORKSPACE/runs; move them with --workspace DIR or WORKSPACE=DIR",
    "save_dir": "runs live in WORKSPACE/runs; move them with --workspace DIR or WORKSPACE=DIR",
    "exist_ok": "a run directory is never reused",
    "mode": "this command always trains",
    "cfg": "give its arguments as key=value",
}
"""Arguments that the run directory decides, and what to do instead."""

TASK_OF_SUFFIX = {"-seg": "segment", "-pose": "pose", "-obb": "obb", "-cls": "classify"}
TASKS = ("detect", "segment", "pose", "obb", "classify")

OTHER_NAMES = {
    "img": "imgsz", "img_size": "imgsz", "image_size": "imgsz", "batch_size": "batch", "weights": "model",
    "epoch": "epochs", "lr": "lr0", "learning_rate": "lr0", "cache_images": "cache", "gpu": "device",
    "gpus": "device", "num_workers": "workers", "hyp": "cfg", "adam": "optimizer", "image_weights": "cls_pw",
    "workspace_dir": "workspace",
}  # fmt: skip
"""Names of YOLOv5 and others for arguments of Ultralytics; used where no argument has that name."""


def known_args() -> Mapping[str, tuple[type, ...]]:
    """Every Ultralytics argument and the Python types that its comment in default.yaml allows.

    An empty tuple means "no type stated". Empty without an installed ultralytics.
    """
    return tables().types


def parse_value(text: str) -> Any:
    """A command line value as Ultralytics reads it: none, booleans, numbers, [lists], else the text."""
    lowered = text.lower()
    if lowered in {"none", "null", ""}:
        return None
    if lowered in {"true", "false"}:
        return lowered == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    if text[0] in "[(":
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return text
    return text


def parse_overrides(words: Sequence[str]) -> dict[str, Any]:
    """`["epochs=3", "data=x.yaml"]` as a dict.

    Raises InputError for a word without `=`, an argument that Ultralytics does not know ("did you mean"),
    one that the run directory decides, or a value that Ultralytics would refuse (diag/train_values.py).
    """
    overrides: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            plain = key.lstrip("-").replace("-", "_")
            example = f"{plain}=VALUE" if key.startswith("-") and plain in known_args() else "epochs=3"
            raise InputError(f"'{word}': arguments are given as key=value, for example {example}")
        if key.startswith("-"):
            raise InputError(f"'{word}': without dashes, as {key.lstrip('-').replace('-', '_')}={text}")
        as_text = known_args().get(key) == (str,) and text.lower() not in {"none", "null"}
        overrides[key] = text if as_text else _parse_as(key, text)
    check_overrides(overrides)
    return overrides


def _parse_as(key: str, text: str) -> Any:
    """`0,1` is a list for an argument that may be one; device= takes the text."""
    value = parse_value(text)
    if key != "device" and isinstance(value, str) and "," in value and list in known_args().get(key, ()):
        parts = [parse_value(part.strip()) for part in value.split(",") if part.strip()]
        if parts and all(isinstance(p, (int, float)) and not isinstance(p, bool) for p in parts):
            return parts
    return value


def check_overrides(overrides: Mapping[str, Any]) -> None:
    """Raise InputError for an unknown argument, one that is ours to set, or a value that Ultralytics would refuse."""
    known = tables()
    for key, value in overrides.items():
        if key in OURS:
            raise InputError(f"{key}= can't be set: {OURS[key]}")
        if known.types and key not in known.types:
            raise InputError(_unknown(key, known))
        if key == "resume" and isinstance(value, str):
            continue  # a checkpoint; its comment in 8.3 says bool
        check_value(key, value, known)


def _unknown(key: str, known: Tables) -> str:
    """What to say of an argument that this release does not have."""
    of = f"Ultralytics {known.version}".strip()
    if now := known.renamed.get(key):
        return f"'{key}' is an old name; {of} calls it {now}="
    if key in known.removed:
        return f"'{key}' was removed from Ultralytics ({known.version} ignores it); leave it out"
    plain = key.replace("-", "_").lower()
    other = plain if plain in known.types else OTHER_NAMES.get(plain)
    near = [other] if other in known.types else difflib.get_close_matches(key.lower(), known.types, n=3)
    hint = f"; did you mean {' or '.join(f'{n}=' for n in near)}?" if near else ""
    return f"'{key}' is no Ultralytics argument{hint}"


def task_of(args: Mapping[str, Any]) -> str:
    """The task that these arguments train: `task=`, else by the model's name (yolo11n-seg.yaml), else detect.

    Raises InputError for a task that is none of TASKS, and when `task=` and the model's name contradict each other.
    """
    stem = Path(str(args.get("model") or "")).stem
    by_name = next((task for suffix, task in TASK_OF_SUFFIX.items() if stem.endswith(suffix)), None)
    task = args.get("task")
    if task and task not in TASKS:
        near = difflib.get_close_matches(str(task).lower(), TASKS, n=1, cutoff=0.5)
        hint = f"; did you mean task={near[0]}?" if near else ""
        raise InputError(f"task={task}: one of {', '.join(TASKS)}{hint}")
    if task and by_name and task != by_name:
        raise InputError(f"task={task} but model={args['model']} is a {by_name} model; drop one of the two")
    return str(task or by_name or "detect")


def default_model(task: str) -> str:
    """The model that is trained when the user names none: yolo11n from its yaml, which needs no download."""
    suffix = next((s for s, t in TASK_OF_SUFFIX.items() if t == task), "")
    return f"yolo11n{suffix}.yaml"


def load_defaults(path: Path) -> dict[str, Any]:
    """The arguments in one of configs/train/*.yaml."""
    with path.open(encoding="utf-8") as file:
        return dict(yaml.safe_load(file) or {})


def is_cpu(device: Any) -> bool:
    """True if `device=` asks for the CPU on purpose."""
    return str(device).strip().lower() == "cpu"
