"""Runs of plain Ultralytics that are watched: a NaN, an end without memory, silence; each is told once."""

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diag.cli import main
from tests.live.conftest import HEAD, Looks, row

HEADER = (
    "Ultralytics 8.3.0 Python-3.11.9 torch-2.5.0 CUDA:0 (NVIDIA L4, 22491MiB)\n"
    "engine/trainer: task=detect, mode=train, model=yolo11n.pt, data=d.yaml, epochs=8, batch=16, imgsz=640, lr0=0.01\n"
    "Starting training for 8 epochs...\n"
)
OOM = (
    "\nTraceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 21.96 GiB "
    "of which 1.10 GiB is free.\n"
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diag.live.loop.MIN_GAP_S", 0.1)
    monkeypatch.setattr("diag.live.loop.MAX_SHARE", 1.0)
    monkeypatch.setattr("diag.live.loop._POLL_S", 0.1)


def epoch(number: int, loss: str = "", *, of: int = 8) -> str:
    """What Ultralytics prints for an epoch, its bar drawn ten times over."""
    loss = loss or f"{2 - 0.1 * number:.3f}"
    score = "0" if loss == "nan" else f"{0.05 * number:.3f}"
    head = "\n      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
    bars = "".join(
        f"\r      {number}/{of}      5.2G      {loss}      {loss}      {loss}         60        640: {i}0%|###| {i}/10"
        for i in range(1, 11)
    )
    scores = f"                   all         60        120      {score}      {score}      {score}      {score}\n"
    names = "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|#| 2/2"
    return f"{head}{bars}\n{names}\n{scores}"


def _watch(
    path: Path, grow: Callable[[], None], capsys: pytest.CaptureFixture[str], *args: str
) -> tuple[int, list[dict[str, Any]]]:
    thread = threading.Thread(target=grow)
    thread.start()
    code = main(["watch", str(path), "--format", "json", "--interval", "0.2", *args])
    thread.join()
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def _age(*files: Path) -> None:
    """Nothing was written for an hour: longer than any patience."""
    for file in files:
        os.utime(file, (time.time() - 3600,) * 2)


def _found(events: list[dict[str, Any]]) -> dict[str, int]:
    ids = [e["finding"]["id"] for e in events if e["event"] == "finding" and not e["explained"]]
    return {id: ids.count(id) for id in ids}


@pytest.mark.parametrize("folder", [True, False], ids=["folder", "log alone"])
def test_a_nan_is_told_once_with_its_epoch(
    tmp_path: Path, folder: bool, looks: Looks, capsys: pytest.CaptureFixture[str]
) -> None:
    log, csv = tmp_path / "train_console.log", tmp_path / "results.csv"
    log.write_text(HEADER)
    if folder:
        (tmp_path / "args.yaml").write_text("epochs: 8\n")
        csv.write_text(HEAD + "\n")

    def grow() -> None:
        for number in range(1, 7):
            looks.told()
            with log.open("a") as file:
                file.write(epoch(number, "nan" if number >= 4 else ""))
            if folder:
                with csv.open("a") as file:
                    file.write(row(number, loss=float("nan") if number >= 4 else 2.0 - number / 10) + "\n")
        looks.told()
        _age(log, *([csv] if folder else []))

    code, events = _watch(tmp_path if folder else log, grow, capsys, "--patience", "300")
    assert code == 1
    found = _found(events)
    assert found["num.nan_loss"] == 1
    nan = next(e for e in events if e["event"] == "finding" and e["finding"]["id"] == "num.nan_loss")
    assert nan["first_seen"]["epoch"] in {4, 5}
    assert "from epoch 4" in nan["finding"]["title"]
    assert not {id for id in found if id.startswith("num.")} - {"num.nan_loss"}


def test_an_end_without_memory_is_told_once(tmp_path: Path, looks: Looks, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "run.log"
    log.write_text(HEADER)

    def grow() -> None:
        for number in range(1, 4):
            looks.told()
            with log.open("a") as file:
                file.write(epoch(number))
        looks.told()
        with log.open("a") as file:
            file.write(epoch(4)[:300] + OOM)
        looks.told()
        _age(log)

    code, events = _watch(log, grow, capsys, "--patience", "300")
    found = _found(events)
    assert code == 1
    assert sum(count for id, count in found.items() if id.startswith("mem.gpu_oom")) == 1
    assert found["mem.gpu_oom_late"] == 1


def test_silence_is_told_once_before_patience_ends(
    tmp_path: Path, looks: Looks, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diag.live.state.SILENT_S", 1.0)
    log = tmp_path / "run.log"
    log.write_text(HEADER + epoch(1) + epoch(2))
    os.utime(log, (time.time() - 2,) * 2)

    def later() -> None:
        looks.told()
        looks.told()
        _age(log)

    code, events = _watch(log, later, capsys, "--patience", "300")
    assert code == 0
    assert [e["event"] for e in events].count("silent") == 1
    assert next(e for e in events if e["event"] == "silent")["quiet_s"] >= 1.0
    assert (events[-1]["event"], events[-1]["why"]) == ("end", "quiet")


def test_a_long_epoch_is_no_silence(tmp_path: Path) -> None:
    from diag.live.state import run_state
    from diag.load import load_run

    csv = tmp_path / "results.csv"
    csv.write_text("\n".join([HEAD, *(f"{n},{n * 600},2,2,0.3,0.1,2,0.01" for n in range(1, 4))]) + "\n")
    for quiet_s, silent in ((30, False), (1500, False), (2000, True)):
        os.utime(csv, (time.time() - quiet_s,) * 2)
        state = run_state(tmp_path, load_run(tmp_path))
        assert (state.living, state.silent) == (True, silent)


def test_plain_lines_tell_the_cause_and_not_its_symptoms(
    tmp_path: Path, looks: Looks, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "run.log"
    log.write_text(HEADER + "".join(epoch(n, "nan" if n > 4 else "") for n in range(1, 8)))

    def grow() -> None:
        looks.told()
        with log.open("a") as file:
            file.write(epoch(8, "nan") + "\n8 epochs completed in 0.1 hours.\n")

    thread = threading.Thread(target=grow)
    thread.start()
    main(["watch", str(log), "--interval", "0.2", "--patience", "300"])
    thread.join()
    said = capsys.readouterr().out.partition("Findings")[0]
    assert said.count("(num.nan_loss)") == 1
    assert "(num.collapse)" not in said
    assert "(num.diverged)" not in said
