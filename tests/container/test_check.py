"""The check service in the real image: what it says of limits that only a container has."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.container.engine import Engine

pytestmark = pytest.mark.container
QUICK = ("check", "--format", "json", "imgsz=96", "batch=2")


def check(engine: Engine, *options: str) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Exit code, checks by id, baseline."""
    done = engine.run(*options, args=QUICK)
    answer = json.loads(done.out)
    return done.code, {check["id"]: check for check in answer["checks"]}, answer["baseline"]


def test_a_plain_container_can_train(engine: Engine, workspace: Path, as_owner: tuple[str, ...]) -> None:
    code, checks, baseline = check(engine, "-v", f"{workspace}:/workspace", *as_owner)
    assert code == 0
    assert {checks[name]["status"] for name in ("workspace.writable", "stack.lock", "torch.step")} == {"pass"}
    assert baseline["host"]["container"] is True
    assert baseline["software"]["drift"] == []


def test_limits_of_the_container_are_seen(engine: Engine, workspace: Path, as_owner: tuple[str, ...]) -> None:
    limits = ("--cpus", "0.5", "--memory", "3g", "--shm-size", "32m")
    _, checks, baseline = check(engine, *limits, "-v", f"{workspace}:/workspace", *as_owner)
    host = baseline["host"]
    assert (host["cpus_effective"], host["memory_limit_bytes"]) == (0.5, 3 << 30)
    assert host["shm_total_bytes"] == 32 << 20
    assert checks["memory.limit"]["facts"]["limit_bytes"] == 3 << 30
