"""The cu121 stack (Ultralytics 8.3.9, torch 2.3.1) goes the same way: its trainer has fewer seams."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from diag import settings
from tests.e2e.conftest import TINY, environment, summary

VENV = settings.ROOT / ".venv-cu121"


@pytest.mark.skipif(
    not os.environ.get("DIAG_OLD_STACK"), reason="not run: set DIAG_OLD_STACK=1 to build and try the cu121 stack (6 GB)"
)
def test_the_whole_pipeline_runs_on_the_old_stack(tmp_path: Path) -> None:
    built = subprocess.run(
        [str(settings.ROOT / "scripts" / "setup"), "cu121"],
        env={**os.environ, "VENV": str(VENV)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    env = environment(tmp_path)
    args = [str(VENV / "bin" / "diag"), "pipeline", *TINY]
    done = subprocess.run(args, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    document = summary(tmp_path)
    assert [v["status"] for v in document["smoke"]["verdicts"]] == ["pass"] * 6
    assert document["environment"]["software"]["ultralytics"] == "8.3.9"
    assert document["environment"]["software"]["drift"] == []
    trace = Path(document["run"]["dir"]) / "trace" / "rank0.jsonl"
    stages = {s for line in trace.read_text().splitlines() for s, _ in json.loads(line).get("l", [])}
    assert stages >= {"data_wait", "transfer", "forward", "backward", "optimizer", "log", "validate", "checkpoint"}
