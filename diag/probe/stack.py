"""Are the installed packages those of the lock that this environment was built from? Nothing is imported for it."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from diag.model.check import Check, Status

OWN = frozenset(("diag", "pip", "setuptools", "wheel", "uv"))
"""Packages that may be there beside the lock: diag itself and installers."""
SHOWN = 3


@dataclass(frozen=True)
class Drift:
    """How the environment differs from its lock. Entries read `name: lock -> installed`."""

    changed: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    locked: int = 0


def read_lock(text: str) -> dict[str, str]:
    """Name -> version of a `requirements.txt` lock; a line whose environment marker is false here is left out."""
    versions = {}
    for line in text.replace("\\\n", " ").splitlines():
        match = re.match(
            r"([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*==\s*([^\s;#]+)\s*(?:;\s*(.*?))?\s*(?:--hash|#|$)", line
        )
        if match and _applies(match.group(3) or ""):
            versions[normal(match.group(1))] = match.group(2)
    return versions


def _applies(marker: str) -> bool:
    if not marker:
        return True
    from packaging.markers import Marker  # part of every stack; only locks with markers need it

    return bool(Marker(marker).evaluate())


def normal(name: str) -> str:
    """A package name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> dict[str, str]:
    """Name -> version of everything that this interpreter can import as a package."""
    from importlib import metadata  # a slow import, needed only here

    found: dict[str, str] = {}
    for package in metadata.distributions():
        name = package.metadata["Name"]
        if name:
            found.setdefault(normal(name), package.version)  # the first on sys.path is the one that is imported
    return found


def compare(lock: Mapping[str, str], here: Mapping[str, str]) -> Drift:
    """What is missing or of another version, and what was added. `1.0+cpu` is another build than `1.0`."""
    changed = [f"{n}: {v} -> {here.get(n, 'missing')}" for n, v in sorted(lock.items()) if here.get(n) != v]
    extra = [f"{n} {v}" for n, v in sorted(here.items()) if n not in lock and n not in OWN]
    return Drift(tuple(changed), tuple(extra), len(lock))


def stack_lock(stack: tuple[str, str], stacks: Path, here: Mapping[str, str]) -> tuple[Check, Drift]:
    """Compare the environment with its lock. `stack` is name and SHA-256 as noted when it was built.

    Another version of a locked package warns; packages beside the lock are told.
    """
    name, sha256 = stack
    if not name:
        reason = "this environment was not built by scripts/setup or the image"
        return Check("stack.lock", Status.SKIP, reason=reason), Drift()
    path = stacks / f"{name}.lock"
    if not path.is_file():
        return Check("stack.lock", Status.SKIP, reason=f"{path} is not here"), Drift()
    data = path.read_bytes()
    drift = compare(read_lock(data.decode()), here)
    facts = {"stack": name, "changed": list(drift.changed), "extra": list(drift.extra)}
    rebuild = f"scripts/setup {name} builds it again from the lock; in a container, rebuild the image"
    if drift.changed:
        shown = "; ".join(drift.changed[:SHOWN]) + ("; ..." if len(drift.changed) > SHOWN else "")
        value = f"{len(drift.changed)} of {drift.locked} packages differ: {shown}"
        reason = "a run here is not the run that the lock describes"
        return Check("stack.lock", Status.WARN, value, name, reason, rebuild, "env.version_drift", facts=facts), drift
    if sha256 and hashlib.sha256(data).hexdigest() != sha256:
        value, reason = f"{drift.locked} packages as locked", f"{name}.lock was edited after this environment was built"
        return Check("stack.lock", Status.WARN, value, name, reason, rebuild, "env.version_drift", facts=facts), drift
    value = f"{drift.locked} packages as in {name}.lock"
    if drift.extra:
        value += f", {len(drift.extra)} more: {', '.join(drift.extra[:SHOWN])}"
        return Check("stack.lock", Status.INFO, value, "nothing else", facts=facts), drift
    return Check("stack.lock", Status.PASS, value, facts=facts), drift
