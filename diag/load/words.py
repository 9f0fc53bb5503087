"""Words of a command line or of a printed argument list -> values."""

import re
from typing import Any

from diag.codec import parse_yaml
from diag.errors import InputError

_PAIR = re.compile(r"([A-Za-z_]\w*)=(.*?)(?=, ?[A-Za-z_]\w*=|$)")


def arguments(text: str) -> dict[str, Any]:
    """`a=1, b=[0, 1], c=None` as values."""
    found: dict[str, Any] = {}
    for name, value in _PAIR.findall(text[:8000]):
        found[name] = scalar(value.strip().rstrip(","))
    return found


def scalar(value: str) -> Any:
    """A word of a command line as the value that YAML would make of it; None for `None`."""
    if value in {"None", ""}:
        return None
    if not re.fullmatch(r"[\w.,+ \[\]-]{1,200}", value):
        return value
    try:
        made = parse_yaml(value, "argument")
    except InputError:
        return value
    if isinstance(made, str) and re.fullmatch(r"[+-]?\d+(?:\.\d*)?[eE][+-]?\d{1,3}", made):
        return float(made)
    return made if isinstance(made, (bool, int, float, str, list)) else value
