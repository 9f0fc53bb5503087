"""Must anything be downloaded, and can it be? No connection is tried unless something is missing."""

import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from diag.model.check import Check, Status
from diag.probe.plan import Plan

ASSET_HOST = "github.com"
"""Where Ultralytics downloads its released weights (ultralytics/utils/downloads.py)."""


def missing_weights(plan: Plan, places: Sequence[Path]) -> tuple[str, ...]:
    """Weight files (`*.pt`) that the arguments name and that are in none of `places`."""
    named = [name for name in (plan.model, plan.pretrained) if name.endswith(".pt")]
    return tuple(n for n in dict.fromkeys(named) if not any((p / n).expanduser().is_file() for p in places))


def weights(plan: Plan, places: Sequence[Path], *, offline: bool, reachable: Callable[[], str]) -> Check:
    """Are the weights here, or can they be fetched? A name with a folder in it is never fetched.

    `reachable` returns "" or why the host can't be reached; it is asked only when a download is needed.
    """
    missing = missing_weights(plan, places)
    if not missing:
        return Check("network.weights", Status.PASS, "nothing must be downloaded")
    value, facts = f"not here: {', '.join(missing)}", {"missing": list(missing), "looked_in": [str(p) for p in places]}
    expected, finding = "weights at hand, or reachable", "env.weights_missing"
    put = f"put the file into {places[-1]}, or pass its path with model=PATH"
    local = [name for name in missing if "/" in name or not name.lower().startswith(("yolo", "rtdetr", "sam"))]
    if local:
        reason = f"{local[0]} is no file, and no name that Ultralytics downloads"
        return Check("network.weights", Status.FAIL, value, expected, reason, put, finding, facts=facts)
    if offline:
        reason = "offline mode is on (OFFLINE or YOLO_OFFLINE): nothing is downloaded"
        return Check("network.weights", Status.FAIL, value, expected, reason, put, finding, facts=facts)
    problem = reachable()
    if problem:
        reason = f"{ASSET_HOST} can't be reached: {problem}"
        return Check("network.weights", Status.FAIL, value, expected, reason, put, finding, facts=facts)
    return Check(
        "network.weights", Status.INFO, f"{value}; will be downloaded from {ASSET_HOST}", expected, facts=facts
    )


def reach(host: str = ASSET_HOST, port: int = 443, *, timeout_s: float = 3.0) -> str:
    """Open and close one TCP connection. "" when that worked, else why not."""
    try:
        socket.create_connection((host, port), timeout=timeout_s).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""
