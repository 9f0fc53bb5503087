"""The rules: every module of this folder, and entry points of the group `diag.rules`."""

import importlib
import importlib.metadata
import pkgutil
from functools import cache

from diag.model.finding import Crash
from diag.rules.base import Rule

ENTRY_POINTS = "diag.rules"


@cache
def load_rules() -> tuple[Rule, ...]:
    """All rules, by id. A plugin that can't be imported is in `broken_plugins()`."""
    return _load()[0]


@cache
def broken_plugins() -> tuple[Crash, ...]:
    """Outside rules that could not be loaded; reports show them under crashed."""
    return _load()[1]


def _load() -> tuple[tuple[Rule, ...], tuple[Crash, ...]]:
    rules: dict[str, Rule] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        _collect(rules, importlib.import_module(module.name))
    broken = []
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            _collect(rules, entry.load())
        except Exception as error:  # a plugin may fail in any way; it must not take the analysis with it
            broken.append(Crash(f"plugin {entry.name}", f"{type(error).__name__}: {error}"))
    return tuple(rules[key] for key in sorted(rules)), tuple(broken)


def _collect(rules: dict[str, Rule], module: object) -> None:
    for value in [module, *vars(module).values()] if hasattr(module, "__dict__") else [module]:
        if isinstance(value, Rule) and rules.setdefault(value.id, value) is not value:
            raise ValueError(f"two rules have the id {value.id}")
