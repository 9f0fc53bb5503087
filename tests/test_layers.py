"""Import directions: what each part of diag may import from diag, and from outside."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

DIAG = Path(__file__).resolve().parent.parent / "diag"

LAYERS: dict[int, dict[str, set[str]]] = {
    # layer: part of the package -> outside modules that it may use beside the standard library
    0: {"model": set(), "errors": set()},
    1: {"stats": set(), "rules": set(), "messages": {"yaml"}, "codec": {"msgspec", "yaml"}},
    2: {
        "engine": set(),
        "load": {"msgspec"},
        "render": {"jinja2", "tensorboard"},
        "settings": {"yaml"},
        "history": set(),
        "train_args": {"yaml"},
        "train_tables": set(),
        "train_values": set(),
        "health": set(),
        "screen": set(),
        "exit_cause": set(),
    },
    3: {
        "probe": {"pynvml", "psutil", "numpy", "PIL", "cv2", "packaging"},
        "dataset": {"numpy", "PIL"},
        "record": {"torch", "torchvision", "ultralytics", "numpy", "yaml", "psutil", "pynvml", "cv2", "PIL"},
        "child": set(),
        "counters": {"pynvml"},
        "collect": set(),
        "experiment": set(),
    },
    4: {
        "commands": set(),
        "live": set(),
        "pipeline": set(),
        "stages": set(),
        "cli": set(),
        "__main__": set(),
        "__init__": set(),
    },
}
OF = {part: layer for layer, parts in LAYERS.items() for part in parts}
OUTSIDE = {part: names for parts in LAYERS.values() for part, names in parts.items()}
NARROW: dict[str, set[str]] = {
    # stricter than the layer alone
    "model": {"model"},
    "errors": set(),
    "stats": {"model"},
    "rules": {"model", "rules", "stats"},
    "messages": {"errors"},
    "codec": {"model", "errors"},
    "engine": {"model", "rules", "errors"},
    "load": {"model", "codec", "stats", "errors", "load"},
}
TORCH = {"torch", "ultralytics", "torchvision"}


def _part(path: Path) -> str:
    return path.relative_to(DIAG).parts[0].removesuffix(".py")


def _imports(path: Path) -> Iterator[tuple[str, bool]]:
    """(module, runs at import) of all imports of a file; TYPE_CHECKING blocks are left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    late = {
        id(n) for f in ast.walk(tree) if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)) for n in ast.walk(f)
    }
    typing_only = {
        id(n)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for n in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) not in late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [f"diag.{a.name}" for a in node.names] if node.module == "diag" else [node.module]
            yield from ((name, id(node) not in late) for name in names)


FILES = sorted(DIAG.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(DIAG)))
def test_imports_point_down(path: Path) -> None:
    part = _part(path)
    if part not in OF:
        pytest.skip(f"diag.{part} is in no layer yet")
    for module, _ in _imports(path):
        root, *rest = module.split(".")
        if root == "diag" and rest and rest[0] != "__version__":
            assert OF.get(rest[0], 0) <= OF[part], f"{part} may not import diag.{rest[0]}"
            if part in NARROW:
                assert rest[0] in NARROW[part], f"{part} may not import diag.{rest[0]}"
        elif root != "diag" and root not in sys.stdlib_module_names:
            assert root in OUTSIDE[part], f"{part} may not import {root}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(DIAG)))
def test_only_the_recorder_knows_torch(path: Path) -> None:
    if _part(path) == "record":
        return
    used = {module.split(".")[0] for module, _ in _imports(path)} & TORCH
    assert not used, f"{path.name} imports {used}; the run directory is the only interface (law 1)"


@pytest.mark.parametrize("path", [p for p in FILES if _part(p) == "commands"], ids=lambda p: p.name)
def test_commands_import_late(path: Path) -> None:
    early = {module for module, at_import in _imports(path) if at_import and module.startswith("diag.")}
    early = {module for module in early if not module.startswith("diag.commands")}
    assert not early, f"{path.name}: import {early} inside run(), so that --help stays quick"


def test_every_part_has_a_layer() -> None:
    unknown = {_part(p) for p in FILES} - set(OF)
    assert not unknown, f"add {sorted(unknown)} to LAYERS"
