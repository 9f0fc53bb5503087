"""A /dev/shm that is too small hangs Ultralytics without an end: seen, explained, and ended, in the real image."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.container.engine import ROOT, Container, Engine
from tests.container.faults import Faults, kept
from tests.container.test_train import TINY, summary, wait_for_file

pytestmark = [pytest.mark.container, pytest.mark.slow]
LIMIT_S = 6
SMALL = ("--shm-size", "1m", "-e", f"DIAG_STALL_S={LIMIT_S}", "-e", "OFFLINE=1", "-e", "OMP_WAIT_POLICY=PASSIVE")
WORKERS = ("-v", f"{ROOT}/tests/container/workers:/workers:ro", "-e", "PYTHONPATH=/workers", "-e", "TEST_WORKERS=2")
HEALTH = ("--health-interval", "1s", "--health-retries", "1", "--health-start-period", "0s")
"""The image's own HEALTHCHECK, asked more often."""
REASON = "/dev/shm is too small for the data loader"


def marks(file: Path) -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {line["m"]: line["v"] for line in lines if line["k"] == "mark"}


def until_unhealthy(container: Container, *, seconds: float = LIMIT_S) -> None:
    until = time.monotonic() + seconds
    while container.inspect("{{.State.Health.Status}}") != "unhealthy":
        assert time.monotonic() < until, container.logs()
        time.sleep(0.2)


def test_training_that_hangs_is_told_with_its_stacks_and_ended(
    engine: Engine, workspace: Path, as_owner: tuple[str, ...], faults: Faults
) -> None:
    # Batches of 614 kB: the first ones fit, then a worker says "unable to allocate shared memory" and nobody goes on.
    args = ("train", "--no-check", "--no-smoke", *TINY, "imgsz=160", "epochs=3")
    mounts = ("-v", f"{workspace}:/workspace", "-e", "DIAG_STALL_ABORT=1")
    container = engine.start(*mounts, *SMALL, *WORKERS, *HEALTH, *as_owner, args=args)
    flag = wait_for_file(workspace, "runs/*/trace/stalled", container)
    until_unhealthy(container)  # asked for an end, it hangs on; it is killed as many seconds later
    assert "hangs: " in container.inspect("{{range .State.Health.Log}}{{.Output}}{{end}}")
    done = container.wait()
    assert done.code == 1, done.out + done.err
    assert f"{REASON}; stacks in stall.txt" in done.out
    run = flag.parent.parent
    said = marks(run / "trace/counters.jsonl")
    assert said["stall"]["idle_s"] >= LIMIT_S
    assert {"stall_abort", "end"} <= said.keys()
    stacks = (run / "stall.txt").read_text()
    assert stacks.count("== worker ") == 2
    trainer, *workers = stacks.split("\n== ")[1:]
    assert "_try_get_data" in trainer
    assert ["_worker_loop" in worker for worker in workers] == [True, True]
    assert not flag.exists()
    told = summary(workspace)
    assert (told["verdict"], told["exit_cause"]["kind"], told["exit_cause"]["signal"]) == ("fail", "stalled", "SIGKILL")
    assert REASON in told["exit_cause"]["detail"]
    assert "unable to allocate shared memory" in told["exit_cause"]["evidence"]
    assert told["findings"][0]["id"] == "mem.shm_small"
    assert "mem.shm_small" in (workspace / "health/latest.md").read_text()
    faults.add("shm too small", "--shm-size 1m", 1, "stalled", told["exit_cause"]["detail"], kept(run))


def test_a_mini_run_that_hangs_in_its_first_fetch_is_ended_with_the_reason(
    engine: Engine, workspace: Path, as_owner: tuple[str, ...]
) -> None:
    # One batch of the mini-run (1.2 MB) is larger than all of /dev/shm: no batch ever arrives.
    done = engine.run("-v", f"{workspace}:/workspace", *SMALL, *WORKERS, *as_owner, args=("train", "--no-check", *TINY))
    assert done.code == 1, done.out + done.err
    told = summary(workspace)
    assert told["verdict"] == "fail"
    assert (told["smoke"]["status"], told["train"]["status"]) == ("fail", "skip")
    assert REASON in told["smoke"]["reason"]
    run = Path(str(workspace) + told["run"]["dir"].removeprefix("/workspace"))
    stall = marks(run / "smoke/trace/counters.jsonl")["stall"]
    assert stall["in_batch"] is False
    assert 2 * LIMIT_S <= stall["idle_s"] < 4 * LIMIT_S
    assert (run / "smoke/stall.txt").read_text().count("_worker_loop") == 2
