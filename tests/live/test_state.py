"""Alive or not, and how far: by the lock, the cause, the files' pace."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from diag.cli import main
from diag.live.look import how_far, take_look
from diag.live.state import run_state
from diag.load import load_run
from diag.load.follow import Follower
from tests.live.conftest import HEAD, Growing, row, step


def _age(path: Path, seconds: float) -> None:
    for file in [path, *path.rglob("*")]:
        os.utime(file, (time.time() - seconds,) * 2)


def test_our_run_lives_as_long_as_its_lock(growing: Callable[..., Growing]) -> None:
    run = growing()
    assert (run_state(run.path).living, run_state(run.path).why) == (True, "lock")
    run.let_go()
    assert run_state(run.path).why == "fresh"  # no locks on this file system, perhaps: it just wrote
    _age(run.path, 60)
    state = run_state(run.path)
    assert (state.living, state.why) == (False, "vanished")
    assert state.cause is not None
    assert state.cause.kind == "killed"
    run.end("ram_oom")
    state = run_state(run.path)
    assert (state.living, state.why) == (False, "cause")


def _foreign(path: Path, rows: int, *, epochs: int = 50) -> Path:
    path.mkdir()
    (path / "args.yaml").write_text(f"epochs: {epochs}\npatience: 0\n")
    lines = [HEAD, *(row(n, score=0.01 * n) for n in range(1, rows + 1))]
    (path / "results.csv").write_text("\n".join(lines) + "\n")
    return path


def test_a_foreign_run_lives_by_the_pace_of_its_files(tmp_path: Path) -> None:
    path = _foreign(tmp_path / "train", 5)
    assert run_state(path, load_run(path)).why == "fresh"
    _age(path, 200)
    assert run_state(path, load_run(path)).living
    _age(path, 400)
    assert run_state(path, load_run(path)).why == "quiet"
    assert run_state(path, load_run(path), patience_s=500).living


def test_a_foreign_run_with_all_its_epochs_is_over(tmp_path: Path) -> None:
    path = _foreign(tmp_path / "train", 12, epochs=12)
    assert run_state(path, load_run(path)).why == "complete"


def test_an_error_in_the_log_is_the_end_only_when_nothing_follows(tmp_path: Path) -> None:
    path = _foreign(tmp_path / "train", 5)
    log = "Starting training for 50 epochs...\nValueError: caught somewhere\n"
    (path / "console.log").write_text(log)
    assert run_state(path, load_run(path)).living
    _age(path, 40)
    assert run_state(path, load_run(path)).why == "complete"


def test_what_only_the_end_shows_is_not_said_of_a_living_run(tmp_path: Path) -> None:
    path = _foreign(tmp_path / "train", 12)
    ids = {f.id for f in take_look(path, Follower()).report.findings}
    assert not ids & {"train.incomplete", "train.undertrained", "train.lr_not_annealed"}
    _age(path, 4000)
    ids = {f.id for f in take_look(path, Follower()).report.findings}
    assert "train.incomplete" in ids


def test_analyze_leaves_that_out_while_the_run_is_held(
    growing: Callable[..., Growing], capsys: pytest.CaptureFixture[str]
) -> None:
    run = growing(epochs=40)
    run.rows(*[row(n, score=0.01 * n) for n in range(1, 41)])

    def ids() -> set[str]:
        assert main(["analyze", str(run.path), "--format", "json"]) == 0
        return {f["id"] for f in json.loads(capsys.readouterr().out)["findings"]}

    assert "train.undertrained" not in ids()
    run.end("finished")
    assert "train.undertrained" in ids()


def test_progress_and_eta_of_our_run(growing: Callable[..., Growing]) -> None:
    run = growing(epochs=10)
    look = take_look(run.path, Follower())
    assert (look.progress, look.eta_s) == (None, None)
    stamp = "2026-01-02 03:04:05.678 | INFO | diag.record |"
    run.add("train.log", f"{stamp} epoch 1/10 batch 3/6 | dataloader: 0.01s, model: 0.09s, optimizer: 0.0s")
    run.add("trace/rank0.jsonl", *(step(n) for n in range(3)))
    look = take_look(run.path, Follower())
    assert look.progress is not None
    assert (look.progress.epoch, look.progress.batch) == (1, 3)
    assert look.eta_s == pytest.approx(9.5 * 6 * 0.1)  # 57 batches of 0.1 s
    run.rows(row(1), row(2))
    run.add("train.log", f"{stamp} epoch 3/10 batch 3/6 | dataloader: 0.01s, model: 0.09s, optimizer: 0.0s")
    look = take_look(run.path, Follower())
    assert look.eta_s == pytest.approx(7.5 * 10)  # epochs of ten seconds
    assert look.metrics["mAP50-95"] == pytest.approx(0.1)
    assert look.metrics["lr"] == pytest.approx(0.01)


def test_progress_of_a_console_log_with_an_open_bar(tmp_path: Path) -> None:
    path = tmp_path / "train"
    path.mkdir()
    head = "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
    bars = "".join(
        f"\r        2/9       2.1G       1.31       1.52       1.28         60        640:  {n}0%|#   | {n}/10 "
        f"[00:0{n}<00:03,  1.0it/s]"
        for n in range(1, 5)
    )
    (path / "console.log").write_text(f"Starting training for 9 epochs...\n{head}{bars}")
    progress = how_far(path, load_run(path, Follower()))
    assert progress is not None
    assert (progress.epoch, progress.epochs, progress.batch, progress.batches) == (2, 9, 4, 10)
