"""Ultralytics arguments given as `key=value`: parsed, type-checked and named against Ultralytics' own default.yaml."""

import ast
import difflib
import importlib.util
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from diag.errors import InputError

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

_KEY = re.compile(r"^(\w+):\s*(.*?)\s*(?:#\s*\(([^)]*)\).*)?$")
_TYPES: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),
    "bool": (bool, int),
    "str": (str,),
    "list": (list,),
    "tuple": (tuple, list),
}


def ultralytics_dir() -> Path | None:
    """The folder of the installed ultralytics package, found without importing it; None if absent."""
    spec = importlib.util.find_spec("ultralytics")
    return Path(spec.origin).parent if spec and spec.origin else None


@cache
def known_args() -> Mapping[str, tuple[type, ...]]:
    """Every Ultralytics argument and the Python types that its comment in default.yaml allows.

    An empty tuple means "no type stated". Empty without an installed ultralytics.
    """
    folder = ultralytics_dir()
    if folder is None:
        return {}
    known: dict[str, tuple[type, ...]] = {}
    for line in (folder / "cfg" / "default.yaml").read_text(encoding="utf-8").splitlines():
        if match := _KEY.match(line):
            words = re.findall(r"[a-z]+", re.sub(r"\[.*?\]", "", match[3] or ""))
            known[match[1]] = tuple(t for word in words for t in _TYPES.get(word, ()))
    return known


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
    one that the run directory decides, or a value of the wrong type.
    """
    overrides: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise InputError(f"'{word}': arguments are given as key=value, for example epochs=3")
        plain = known_args().get(key) == (str,) and text.lower() not in {"none", "null"}
        overrides[key] = text if plain else parse_value(text)
    check_overrides(overrides)
    return overrides


def check_overrides(overrides: Mapping[str, Any]) -> None:
    """Raise InputError for an unknown argument, one that is ours to set, or a value of the wrong type."""
    known = known_args()
    for key, value in overrides.items():
        if key in OURS:
            raise InputError(f"{key}= can't be set: {OURS[key]}")
        if known and key not in known:
            near = difflib.get_close_matches(key, known, n=3)
            hint = f"; did you mean {' or '.join(f'{n}=' for n in near)}?" if near else ""
            raise InputError(f"'{key}' is no Ultralytics argument{hint}")
        if key == "resume" and isinstance(value, str):
            continue  # a checkpoint; its comment in 8.3 says bool
        allowed = known.get(key, ())
        wrong_bool = isinstance(value, bool) and allowed and bool not in allowed
        if value is not None and allowed and (wrong_bool or not isinstance(value, allowed)):
            names = " or ".join(dict.fromkeys(t.__name__ for t in allowed))
            raise InputError(f"{key}={value}: expected {names}")
    for key in ("epochs", "imgsz"):
        value = overrides.get(key)
        if isinstance(value, int) and value < 1:
            raise InputError(f"{key}={value}: must be at least 1")


def task_of(args: Mapping[str, Any]) -> str:
    """The task that these arguments train: `task=`, else by the model's name (yolo11n-seg.yaml), else detect.

    Raises InputError when `task=` and the model's name contradict each other.
    """
    stem = Path(str(args.get("model") or "")).stem
    by_name = next((task for suffix, task in TASK_OF_SUFFIX.items() if stem.endswith(suffix)), None)
    task = args.get("task")
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
