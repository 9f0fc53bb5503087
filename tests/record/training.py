"""Real trainings of Ultralytics in this process, with and without the recorder, as small as they get."""

import csv
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_tasks import make

MS = 1_000_000


def old_release() -> bool:
    """True for 8.3.9: no retries, no recovery, and reading and decoding of an image are one call, cv2.imread."""
    from ultralytics import __version__

    return str(__version__).startswith("8.3.")


MODELS = {
    "detect": "yolo11n.yaml",
    "segment": "yolo11n-seg.yaml",
    "pose": "yolo11n-pose.yaml",
    "obb": "yolo11n-obb.yaml",
    "classify": "yolo11n-cls.yaml",
}


@dataclass(frozen=True)
class Run:
    """The files that a training left."""

    folder: Path
    trainer: Any

    def records(self, kind: str) -> list[dict[str, Any]]:
        """All records of a kind, in order."""
        lines = (self.folder / "trace" / "rank0.jsonl").read_text().splitlines()
        return [record for line in lines if (record := json.loads(line))["k"] == kind]

    @property
    def steps(self) -> list[dict[str, int]]:
        """Nanoseconds by stage of each batch."""
        found = []
        for record in self.records("laps"):
            if record["n"] >= 0:
                stages: Counter[str] = Counter()
                for stage, ns in record["l"]:
                    stages[stage] += ns
                found.append(dict(stages))
        return found

    @property
    def ledger(self) -> Counter[str]:
        """Nanoseconds by stage of the whole run."""
        total: Counter[str] = Counter()
        for record in self.records("laps"):
            for stage, ns in record["l"]:
                total[stage] += ns
        return total

    @property
    def marks(self) -> list[tuple[str, dict[str, Any]]]:
        return [(record["m"], record["v"]) for record in self.records("mark")]

    @property
    def losses(self) -> list[dict[str, str]]:
        """results.csv without the times."""
        with (self.folder / "ultralytics" / "results.csv").open() as file:
            return [{k.strip(): v for k, v in row.items() if k.strip() != "time"} for row in csv.DictReader(file)]

    def assert_gapless(self) -> None:
        """Every lap starts where the one before ended, within one process."""
        spans = [(r["t"], r["t"] + sum(ns for _, ns in r["l"])) for r in self.records("laps")]
        assert all(a[1] == b[0] for a, b in pairwise(spans))
        assert sum(b - a for a, b in spans) == spans[-1][1] - spans[0][0]


def overrides(folder: Path, task: str = "detect", **args: Any) -> dict[str, Any]:
    """Arguments of a training on eight images that are drawn when they are missing."""
    data = folder / "set" if task == "classify" else folder / "set" / "data.yaml"
    if not data.exists():
        make(folder / "set", task)
    small = {"imgsz": 32, "epochs": 2, "batch": 4, "device": "cpu", "workers": 0, "plots": False, "seed": 0}
    paths = {"data": str(data), "project": str(folder), "name": "ultralytics", "exist_ok": True}
    return {"model": MODELS[task], "task": task, **small, **paths, **args}


def fit(
    folder: Path,
    trainer: Any,
    *,
    prepare: Callable[[Any], None] = lambda trainer: None,
    expect: type[BaseException] | None = None,
    **args: Any,
) -> Run:
    """Train and return what it left; `prepare` gets the trainer before it starts."""
    made = trainer(overrides=overrides(folder, **args))
    prepare(made)
    try:
        made.train()
    except BaseException as error:
        if expect is None or not isinstance(error, expect):
            raise
    return Run(folder, made)


class Time:
    """A clock that stands still but for what a test lets pass, so that attribution is exact."""

    def __init__(self) -> None:
        self.t = 0

    def __call__(self) -> int:
        return self.t

    def before(self, monkeypatch: pytest.MonkeyPatch, place: str, ms: int, *, training: bool = False) -> None:
        """Let `ms` pass at each call of `place` (with `training`: of a model in training mode only)."""
        original = __import__("pkgutil").resolve_name(place)

        def slow(*args: Any, **kwargs: Any) -> Any:
            if not training or args[0].training:
                self.t += ms * MS
            return original(*args, **kwargs)

        monkeypatch.setattr(place, slow)
