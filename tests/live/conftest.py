"""Runs that grow while they are watched."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from diag.health import hold

HEAD = "epoch,time,train/box_loss,train/cls_loss,metrics/mAP50(B),metrics/mAP50-95(B),val/box_loss,lr/pg0"


def row(epoch: int, *, loss: float = 2.0, score: float = 0.1) -> str:
    """A row of results.csv; an epoch takes ten seconds."""
    return f"{epoch},{epoch * 10},{loss},{loss},{score + 0.2},{score},{loss},0.01"


def step(n: int, *, wait_ms: int = 10, epoch: int = 0) -> str:
    """A trace line of a 100 ms step."""
    rest = (100 - wait_ms) // 2
    parts = [("data_wait", wait_ms), ("transfer", 0), ("forward", rest), ("backward", rest), ("optimizer", 0)]
    laps = [[name, ms * 10**6] for name, ms in parts]
    return json.dumps({"k": "laps", "e": epoch, "n": n, "t": n * 10**8, "l": laps}, separators=(",", ":"))


class Growing:
    """A run of ours, held like a living one; `end` lets go of it."""

    def __init__(self, path: Path, *, epochs: int) -> None:
        self.path = path
        (path / "trace").mkdir(parents=True)
        (path / "ultralytics").mkdir()
        self.lock = hold(path)
        self._record(epochs, "running")
        (path / "ultralytics" / "args.yaml").write_text(f"epochs: {epochs}\npatience: 100\n")
        self.epochs = epochs

    def add(self, name: str, *lines: str) -> None:
        with (self.path / name).open("a") as file:
            file.writelines(line + "\n" for line in lines)

    def rows(self, *rows: str) -> None:
        name = "ultralytics/results.csv"
        self.add(name, *([] if (self.path / name).exists() else [HEAD]), *rows)

    def end(self, kind: str = "finished") -> None:
        self._record(self.epochs, kind)
        self.let_go()

    def let_go(self) -> None:
        if self.lock is not None:
            self.lock.close()
            self.lock = None

    def _record(self, epochs: int, kind: str) -> None:
        record = {
            "id": self.path.name,
            "schema_version": 1,
            "started": "2026-01-02T03:04:05Z",
            "overrides": {},
            "args": {"epochs": epochs},
            "exit_cause": {"kind": kind, "code": 0 if kind == "finished" else None},
        }
        (self.path / "run.json").write_text(json.dumps(record))


class Looks:
    """Counts the looks of a watching in this process: who writes waits for them instead of sleeping."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from diag.live import look as looking
        from diag.live import loop

        self.begun = 0
        look = looking.take_look

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.begun += 1
            return look(*args, **kwargs)

        monkeypatch.setattr(loop, "take_look", counted)
        monkeypatch.setattr(loop, "MIN_GAP_S", 0.1)
        monkeypatch.setattr(loop, "MAX_SHARE", 1.0)
        monkeypatch.setattr(loop, "_POLL_S", 0.1)

    def told(self) -> None:
        """Wait until what is written by now was looked at and told: the look after the next one has begun."""
        wanted, until = self.begun + 2, time.monotonic() + 120
        while self.begun < wanted:
            assert time.monotonic() < until, "no look in two minutes"
            time.sleep(0.02)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    """Looks that follow each other at once, and can be waited for."""
    return Looks(monkeypatch)


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[Callable[..., Growing]]:
    """Make a growing run of so many planned epochs."""
    made: list[Growing] = []

    def make(*, epochs: int = 10) -> Growing:
        made.append(Growing(tmp_path / f"run{len(made)}", epochs=epochs))
        return made[-1]

    yield make
    for run in made:
        run.let_go()
