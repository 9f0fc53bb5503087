"""The cu121 stack (Ultralytics 8.3.9, torch 2.3.1) goes the same way: its trainer has fewer seams."""

import json
import os
import re
import sysconfig
from pathlib import Path

import pytest

from diag import settings
from tests.e2e.conftest import TINY, environment, summary
from tests.processes import run

VENV = settings.ROOT / ".venv-cu121"


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of the old stack, built if needed."""
    if not os.environ.get("DIAG_OLD_STACK"):
        pytest.skip("not run: set DIAG_OLD_STACK=1 to build and try the cu121 stack (6 GB)")
    built = run([settings.ROOT / "scripts/setup", "cu121"], env={**os.environ, "VENV": str(VENV)}, timeout=800)
    assert built.returncode == 0, built.stderr
    return VENV / "bin" / "python"


def test_every_seam_holds_on_the_old_release(python: Path, tmp_path: Path) -> None:
    tools = sysconfig.get_path("purelib")  # pytest; what both have is taken from the old stack
    env = environment(tmp_path, PYTHONPATH=f"{settings.ROOT}{os.pathsep}{tools}", PYTHONSAFEPATH="1")
    tests = ("test_contract.py", "test_loader.py", "test_traps.py::test_time_lands_where_it_is_spent")
    command = [
        str(python),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        "not spawn",
        *(f"tests/record/{t}" for t in tests),
    ]
    done = run(command, cwd=settings.ROOT, env=env, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for task in ("detect", "segment", "pose", "obb", "classify", "rtdetr"):
        assert f"[{task}]" not in done.stdout  # neither failed nor skipped
    assert re.search(r"\d\d passed", done.stdout)


def test_the_whole_pipeline_runs_on_the_old_stack(python: Path, tmp_path: Path) -> None:
    env = environment(tmp_path)
    args = [str(VENV / "bin" / "diag"), "pipeline", *TINY]
    done = run(args, env=env, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    document = summary(tmp_path)
    assert [v["status"] for v in document["smoke"]["verdicts"]] == ["pass"] * 6
    assert document["environment"]["software"]["ultralytics"] == "8.3.9"
    assert document["environment"]["software"]["drift"] == []
    trace = Path(document["run"]["dir"]) / "trace" / "rank0.jsonl"
    stages = {s for line in trace.read_text().splitlines() for s, _ in json.loads(line).get("l", [])}
    assert stages >= {"data_wait", "transfer", "forward", "backward", "optimizer", "log", "validate", "checkpoint"}
