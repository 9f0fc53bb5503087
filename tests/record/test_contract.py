"""What the recorder needs of Ultralytics, for each task and RT-DETR: one epoch through every seam.

An upgrade that breaks a seam fails here. .ci/run runs it against both releases (see tests/e2e/test_old_stack.py).
"""

from pathlib import Path
from typing import Any

import pytest

from tests.record.training import fit

pytest.importorskip("torch")

STEP = ["data_wait", "transfer", "forward", "backward", "optimizer", "log"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ultralytics: Any) -> None:
    monkeypatch.setenv("DIAG_RUN_DIR", str(tmp_path))
    monkeypatch.delenv("DIAG_T0_NS", raising=False)


@pytest.mark.parametrize("task", ["detect", "segment", "pose", "obb", "classify", "rtdetr"])
def test_every_seam_of_one_epoch_is_hit(tmp_path: Path, task: str) -> None:
    from diag.record.trainer import _TRAINERS, ProfiledRTDETRTrainer

    args: dict[str, Any] = {"task": task, "nbs": 4, "epochs": 1}
    trainer = _TRAINERS.get(task, ProfiledRTDETRTrainer)
    if task == "rtdetr":
        args |= {
            "task": "detect",
            "model": "rtdetr-resnet50.yaml",
            "imgsz": 128,
        }  # smaller has fewer cells than RT-DETR has queries
    run = fit(tmp_path, trainer, **args)
    assert [record["e"] for record in run.records("laps") if record["n"] >= 0] == [0, 0]
    assert [[stage for stage, _ in r["l"]] for r in run.records("laps") if r["n"] >= 0] == [STEP, STEP]
    assert all(ns > 0 for step in run.steps for ns in step.values())
    run.assert_gapless()
    assert {"startup", "validate", "checkpoint", "epoch_gap", "final_eval"} <= run.ledger.keys()
    assert run.ledger["other"] < 0.005 * run.ledger.total()
    first, end = (run.marks[0], run.marks[-1])
    assert first[0] == "train_start"
    facts = {"batches": 2, "images": 8, "workers": 0, "batch": 4, "device": "cpu", "amp": False, "accumulate": 1}
    assert first[1] == facts
    assert end == ("end", {"reason": "finished"})
    sums = run.records("loader")
    assert sum(record["images"] for record in sums) == 8
    assert sum(record["opened"] for record in sums) >= 8
    assert all(sum(record["ns"][part] for record in sums) > 0 for part in ("decode", "augment", "collate"))
    validations = run.records("val")
    assert [(record["final"], record["images"]) for record in validations] == [(False, 4), (True, 4)]
    parts = validations[0]["ns"]
    assert run.ledger["validate"] * 0.9 <= sum(parts.values()) <= run.ledger["validate"]
    assert all(parts[part] > 0 for part in ("wait", "preprocess", "inference", "postprocess", "metrics"))
    assert len(run.losses) == 1
    assert len((tmp_path / "train.log").read_text().splitlines()) == 2
