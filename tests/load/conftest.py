"""A run folder as the recorder leaves it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CSV = """epoch,time,train/box_loss,train/cls_loss,metrics/mAP50(B),metrics/mAP50-95(B),val/box_loss,lr/pg0
1,1.5,2.0,3.0,0.2,0.1,2.1,0.001
2,3.0,1.8,2.5,0.3,0.2,1.9,0.002
3,4.5,1.6,2.1,0.4,0.3,1.8,0.001
"""


def laps(steps: int, *, wait_ms: int = 50) -> str:
    """Trace lines of so many steps of 100 ms and a validation."""
    lines: list[dict[str, Any]] = [
        {"k": "start", "t": 0, "wall": "2026-01-02T03:04:05Z", "pid": 1, "rank": 0, "version": 1}
    ]
    lines.append({"k": "laps", "e": -1, "n": -1, "t": 0, "l": [["startup", 10**9]]})
    clock = 10**9
    rest = 100 - wait_ms
    for n in range(steps):
        parts = [("data_wait", wait_ms), ("transfer", 0), ("forward", rest // 2), ("backward", rest - rest // 2)]
        lines.append({"k": "laps", "e": 0, "n": n, "t": clock, "l": [[s, ms * 10**6] for s, ms in parts]})
        clock += 100 * 10**6
    lines.append({"k": "laps", "e": 0, "n": -1, "t": clock, "l": [["validate", 2 * 10**9]]})
    lines.append({"k": "mark", "m": "end", "t": clock, "v": {"ok": True}})
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.fixture
def run_dir(tmp_path: Path) -> Callable[..., Path]:
    """Make a run folder; keyword arguments replace files (`results_csv=b"..."`), None leaves one out."""

    def make(**files: str | bytes | None) -> Path:
        run = {
            "id": "20260102-030405",
            "schema_version": 1,
            "started": "2026-01-02T03:04:05Z",
            "ended": "2026-01-02T03:05:05Z",
            "overrides": {"data": "d.yaml", "epochs": 3},
            "args": {"epochs": 3},
            "exit_cause": {"kind": "finished", "code": 0},
            "from_the_future": 1,
        }
        baseline = {"host": {"cpus_effective": 2.0}, "gpu_triage": "none", "cuda_usable": False}
        split = {"images": 240, "labelled": 240, "instances": 500}
        data = {
            "yaml": "d.yaml", "task": "detect", "names": {"0": "a", "1": "b"},
            "splits": {"train": split, "val": split}, "class_counts": {"0": 500},
        }  # fmt: skip
        content: dict[str, str | bytes | None] = {
            "run.json": json.dumps(run),
            "baseline.json": json.dumps(baseline),
            "data.json": json.dumps(data),
            "console.log": "Ultralytics 8.4.190 Python-3.11.9 torch-2.9.0 CPU (Xeon)\n"
            "Starting training for 3 epochs...\n",
            "trace/rank0.jsonl": laps(60),
            "ultralytics/results.csv": CSV,
            "ultralytics/args.yaml": "epochs: 3\ndevice: cpu\nworkers: 0\nbatch: 8\nimgsz: 320\n",
        }
        names = {name.replace("/", "_").replace(".", "_"): name for name in content}
        for key, value in files.items():
            content[names[key]] = value
        for name, value in content.items():
            path = tmp_path / "run" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if value is not None:
                path.write_bytes(value.encode() if isinstance(value, str) else value)
        return tmp_path / "run"

    return make
