"""Two real processes train together on the CPU (gloo); one is slowed on purpose, and the report names it."""

import json
import sys
from pathlib import Path

from diag import settings
from diag.engine import evaluate
from diag.load.run import load_run
from tests.e2e.conftest import environment
from tests.e2e.test_tasks import make
from tests.processes import run as run_command


def test_the_slow_one_of_two_ranks_is_named(tmp_path: Path) -> None:
    data = make(tmp_path / "set", "detect")
    run = tmp_path / "run"
    worker = settings.ROOT / "tests" / "record" / "ddp_worker.py"
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    env = environment(
        tmp_path,
        PYTHONPATH=str(settings.ROOT),
        DIAG_RUN_DIR=str(run),
        YOLO_CONFIG_DIR=str(tmp_path / "config"),
        YOLO_OFFLINE="true",
        YOLO_AUTOINSTALL="false",
        OMP_NUM_THREADS="1",
    )
    done = run_command([*start, str(worker), str(data), "1"], env=env, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-8000:]
    assert sorted(path.name for path in (run / "trace").iterdir()) == ["rank0.jsonl", "rank1.jsonl"]
    assert len((run / "train.log").read_text().splitlines()) == 2 * 2  # rank 0 only
    evidence = load_run(run)
    assert evidence.ranks is not None
    assert sorted(evidence.ranks.steps) == [0, 1]
    # Four batches are no statistics for the rule as it is; that it asks for more is tested with its cases.
    report = evaluate(evidence, overrides={"speed.ddp_straggler": {"min_steps": 1}})
    found = {finding.id: finding.values for finding in report.findings}["speed.ddp_straggler"]
    assert (found["rank"], found["stage"]) == (1, "transfer")
    excess = found["excess_s"]
    assert isinstance(excess, float)
    assert excess > 0.06
    loads = [json.loads(line) for line in (run / "trace" / "rank1.jsonl").read_text().splitlines()]
    assert sum(record["images"] for record in loads if record["k"] == "loader") == 2 * 4  # its half of the set
