"""What the installed Ultralytics says of its own arguments, read from its source without importing it (or torch)."""

import ast
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

_LINE = re.compile(r"^(\w+):\s*(.*?)\s*(?:#\s*(.*))?$")
_RENAMED = re.compile(r'"(\w+)": \("(\w+)", lambda|if key == "(\w+)":\s*deprecation_warn\(key, "(\w+)"\)')
_TYPES: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "str": (str,),
    "list": (list,),
    "tuple": (tuple, list),
}


@dataclass(frozen=True)
class Tables:
    """The tables of ultralytics/cfg; all empty without an installed ultralytics."""

    types: Mapping[str, tuple[type, ...]] = field(default_factory=dict)
    """Every argument and the Python types that its comment in default.yaml allows; () means none is stated."""
    comments: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    """As written in default.yaml; empty for an argument without a default."""
    fractions: frozenset[str] = frozenset()
    """Must lie in 0..1 (CFG_FRACTION_KEYS); `fraction` and `scale` may allow more, see their types."""
    integers: frozenset[str] = frozenset()
    floats: frozenset[str] = frozenset()
    booleans: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    least: Mapping[str, int] = field(default_factory=dict)
    """CFG_INT_MIN of newer releases."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Old names and what they are called now."""
    removed: frozenset[str] = frozenset()
    quantize: frozenset[str] = frozenset()
    """What quantize= may be, in lower case; empty in releases without it."""
    version: str = ""
    none_refused: bool = False
    """Whether None is an error where the default is not None."""
    any_case: bool = False
    """Whether optimizers are known in any letter case."""

    @property
    def typed(self) -> frozenset[str]:
        """All arguments that a table of the library names."""
        return self.fractions | self.integers | self.floats | self.booleans | self.texts


def ultralytics_dir() -> Path | None:
    """The folder of the installed ultralytics package, found without importing it; None if absent."""
    spec = importlib.util.find_spec("ultralytics")
    return Path(spec.origin).parent if spec and spec.origin else None


@cache
def tables(folder: Path | None = None) -> Tables:
    """The tables of the installed package, or of the one in `folder`. What a release does not have stays empty."""
    folder = folder or ultralytics_dir()
    if folder is None:
        return Tables()
    types, comments, defaults = _defaults((folder / "cfg" / "default.yaml").read_text(encoding="utf-8"))
    source = _text(folder / "cfg" / "__init__.py")
    sets = _assigned(source)
    found = re.search(r'__version__ = "([\d.]+)"', _text(folder / "__init__.py"))
    old = {m[1] or m[3]: m[2] or m[4] for m in _RENAMED.finditer(source)}
    for name, now in (("half", "quantize"), ("int8", "quantize"), ("end2end", "nms")):
        if f'custom.pop("{name}"' in source and name not in types:
            old[name] = now
    gone = re.search(r"removed_keys = (\{[^}]*\})", source)
    return Tables(
        types,
        comments,
        defaults,
        frozenset(sets.get("CFG_FRACTION_KEYS", ())),
        frozenset(sets.get("CFG_INT_KEYS", ())),
        frozenset(sets.get("CFG_FLOAT_KEYS", ())),
        frozenset(sets.get("CFG_BOOL_KEYS", ())),
        frozenset(sets.get("CFG_STR_KEYS", ())) - {"auto_augment"},  # None switches it off
        dict(sets.get("CFG_INT_MIN", {})),
        {name: now for name, now in old.items() if name not in types},
        frozenset(ast.literal_eval(gone[1]) if gone else ()) - set(types),
        frozenset(sets.get("QUANTIZE_ALIASES", ())),
        found[1] if found else "",
        "must not be None" in source,
        "x.lower(): x for x in optimizers" in _text(folder / "engine" / "trainer.py"),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _defaults(text: str) -> tuple[dict[str, tuple[type, ...]], dict[str, str], dict[str, str]]:
    types: dict[str, tuple[type, ...]] = {}
    comments: dict[str, str] = {}
    defaults: dict[str, str] = {}
    for line in text.splitlines():
        if match := _LINE.match(line):
            comment = match[3] or ""
            stated = re.match(r"\(([^)]*)\)", comment)
            words = re.findall(r"[a-z]+", re.sub(r"\[.*?\]", "", stated[1] if stated else ""))
            types[match[1]] = tuple(t for word in words for t in _TYPES.get(word, ()))
            comments[match[1]], defaults[match[1]] = comment, match[2]
    return types, comments, defaults


def _assigned(source: str) -> dict[str, Any]:
    """The literal sets and mappings that a module assigns to names in CFG_, and the aliases of quantize."""
    made: dict[str, Any] = {}
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return made
    for node in body:
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
            continue
        name, value = node.targets[0].id, node.value
        if isinstance(value, ast.Call) and value.args:  # frozenset({...})
            value = value.args[0]
        if (name.startswith("CFG_") or name == "QUANTIZE_ALIASES") and isinstance(value, (ast.Set, ast.Dict)):
            made[name] = ast.literal_eval(value)
    return made
