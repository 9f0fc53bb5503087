"""args.yaml (or YOLOv5's opt.yaml and hyp.yaml) -> TrainArgs."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from diag.codec import parse_yaml
from diag.errors import InputError
from diag.load.read import UnreadableError, read_text
from diag.model.run import TrainArgs

_MAX_BYTES = 1024 * 1024
_MAX_SHOWN = 200
_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*:\s*(.*)")
_SCIENTIFIC = re.compile(r"[+-]?\d+(?:\.\d*)?[eE][+-]?\d{1,3}")
_V5_NAMES = {"batch_size": "batch", "img_size": "imgsz", "weights": "model"}


def read_args(paths: list[Path], *, name: Callable[[Path], str] = lambda path: path.name) -> TrainArgs:
    """The arguments in these files together, with their places; `name` is what a file is called.

    Raises UnreadableError when one can't be read.
    """
    raw: dict[str, Any] = {}
    places: dict[str, tuple[str, int, str]] = {}
    for path in paths:
        text = read_text(path, limit=_MAX_BYTES)
        raw |= parse_args(text)
        places |= argument_lines(text, name(path))
    return TrainArgs(raw, places)


def argument_lines(text: str, file: str) -> dict[str, tuple[str, int, str]]:
    """The line of each `name: value` that stands at the margin."""
    found: dict[str, tuple[str, int, str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if match := _LINE.fullmatch(line.rstrip()):
            found[_V5_NAMES.get(match[1], match[1])] = (file, number, line.strip()[:_MAX_SHOWN])
    return found


def parse_args(text: str) -> dict[str, Any]:
    """Arguments of one YAML file. A file that a second process wrote into is read line by line instead."""
    if text.count("&") + text.count("*") > 100:
        raise UnreadableError("full of YAML references; this is no args.yaml")
    try:
        data = parse_yaml(text, "args.yaml")
    except InputError:
        data = _lines(text)
    if not isinstance(data, dict) or not data:
        raise UnreadableError("holds no `name: value` lines")
    named = {str(name): _number(value) for name, value in data.items()}
    # YOLOv5's own name wins: forks put an unused `batch: -1` beside the real `batch_size: 16`.
    own = {name: value for name, value in named.items() if name not in _V5_NAMES}
    return own | {_V5_NAMES[name]: value for name, value in named.items() if name in _V5_NAMES}


def _number(value: object) -> object:
    """YAML 1.1 takes `1e-3` for a text; a whole number beyond all floats is infinite."""
    if isinstance(value, int) and abs(value) >= 2**63:
        return math.copysign(math.inf, value >= 0 or -1)
    return float(value) if isinstance(value, str) and _SCIENTIFIC.fullmatch(value) else value


def _lines(text: str) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for line in text.splitlines():
        found = _LINE.fullmatch(line.strip())
        if found:
            try:
                data[found[1]] = parse_yaml(found[2], "args.yaml")
            except InputError:
                data[found[1]] = found[2]
    return data
