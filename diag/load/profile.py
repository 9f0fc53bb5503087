"""Threshold profiles: configs/rules/<name>.yaml or any YAML file -> overrides for the engine."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diag.codec import read_yaml
from diag.errors import ConfigError


def load_profile(name: str, folder: Path) -> Mapping[str, Mapping[str, Any]]:
    """Rule id -> threshold -> value. `name` is a profile in `folder` or a path. Raises ConfigError."""
    path = folder / f"{name}.yaml" if "/" not in name and not name.endswith((".yaml", ".yml")) else Path(name)
    if not path.is_file():
        known = sorted(p.stem for p in folder.glob("*.yaml"))
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]}?" if close else f"; profiles: {', '.join(known) or 'none'}"
        raise ConfigError(f"--rules {name}: no such file or profile{hint}")
    data = read_yaml(path)
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected `rule id: {{threshold: value}}`")
    for id, change in data.items():
        if not isinstance(change, dict):
            raise ConfigError(f"{path}: {id}: expected `{{threshold: value}}`, not {change!r}")
    return {str(id): {str(k): v for k, v in change.items()} for id, change in data.items()}
