"""When training counts as hung: by phase, by step length, by how busy its processes are."""

import json
from pathlib import Path

import pytest

from diag.counters.stall import Watchdog


class Training:
    """Writes what a recorder writes, on a clock of seconds; every second is one look."""

    def __init__(self, run_dir: Path, *, limit_s: float = 60) -> None:
        self.trace = run_dir / "trace"
        self.trace.mkdir()
        self.dog = Watchdog(run_dir, 0, limit_s=limit_s)
        self.second = 0
        self.cpu_s = 0.0
        self.moved = 0
        self.steps = 0

    def passes(self, seconds: int, *, cores: float = 1.0, bytes_per_s: int = 0) -> list[tuple[int, str]]:
        """No sign of life for a while; what the watchdog said, and after how many seconds."""
        said = []
        for n in range(1, seconds + 1):
            self.second += 1
            self.cpu_s += cores
            self.moved += bytes_per_s
            if word := self.dog.look(self.second * 10**9, self.cpu_s, self.moved):
                said.append((n, word))
        return said

    def step(self, seconds: int = 1) -> list[tuple[int, str]]:
        self._write(self.steps)
        self.steps += 1
        return self.passes(seconds)

    def between(self) -> None:
        self._write(-1)

    def _write(self, n: int) -> None:
        with (self.trace / "rank0.jsonl").open("a") as file:
            file.write(json.dumps({"k": "laps", "e": 0, "n": n, "t": 0, "l": []}, separators=(",", ":")) + "\n")


@pytest.fixture
def training(tmp_path: Path) -> Training:
    return Training(tmp_path)


def test_a_minute_without_a_step_is_a_stall_and_a_step_ends_it(training: Training) -> None:
    for _ in range(5):
        assert training.step() == []
    assert training.passes(100) == [(60, "stall")]
    assert (training.dog.in_batch, training.dog.last_step) == (True, 4)
    assert training.step() == [(1, "resumed")]


def test_long_steps_have_a_long_limit(training: Training) -> None:
    for _ in range(10):
        assert training.step(10) == []
    assert training.passes(300) == [(191, "stall")]  # 200 s after the last step was seen


def test_a_validation_with_batches_is_never_a_stall(training: Training) -> None:
    training.step()
    training.between()
    for n in range(40):
        (training.trace / "beat").write_text(str(n) * (n + 1))
        assert training.passes(59, cores=0) == []


def test_between_batches_idle_processes_have_three_minutes_and_busy_ones_an_hour(training: Training) -> None:
    training.step()
    training.between()
    training.passes(1)
    ((after, word),) = training.passes(700, cores=0.01)
    assert word == "stall"
    assert 120 <= after <= 180
    training.step()
    training.between()
    training.passes(1)
    assert training.passes(3700, cores=0.9) == [(3600, "stall")]


def test_the_first_fetch_of_an_epoch_after_a_busy_validation_is_seen_in_three_minutes(training: Training) -> None:
    for _ in range(10):
        training.step()
    training.between()
    for n in range(300):  # it advances
        (training.trace / "beat").write_text("x" * (n + 1))
        assert training.passes(1, cores=1.8) == []
    training.between()
    ((after, word),) = training.passes(400, cores=0.02)
    assert word == "stall"
    assert 120 <= after <= 180
    assert not training.dog.in_batch


def test_a_startup_that_does_nothing_is_seen_in_three_minutes(training: Training) -> None:
    ((after, _),) = training.passes(400, cores=0)
    assert 120 <= after <= 180


@pytest.mark.parametrize(
    ("what", "cores", "bytes_per_s"),
    [
        ("label scan", 1.5, 10**6),
        ("label scan on a slow share", 0.03, 40_000),
        ("cache on disk", 0.08, 3 * 10**6),
        ("weights over a slow line", 0.01, 20_000),
        ("a plot", 1.0, 0),
    ],
)
def test_long_work_between_batches_is_no_stall(training: Training, what: str, cores: float, bytes_per_s: int) -> None:
    assert training.passes(3000, cores=cores, bytes_per_s=bytes_per_s) == [], what


def test_rest_is_counted_from_the_last_work(training: Training) -> None:
    assert training.passes(900, cores=1.0) == []  # a long scan
    assert training.passes(115, cores=0) == []  # then a short wait, as for a lock or an answer
    assert training.passes(60, cores=1.0) == []
    ((after, _),) = training.passes(400, cores=0)
    assert 120 <= after <= 180


def test_time_in_which_the_watchdog_was_frozen_does_not_count(training: Training) -> None:
    training.step()
    training.second += 3600
    assert training.passes(50) == []


def test_many_short_steps_between_two_looks_are_counted_as_such(tmp_path: Path) -> None:
    training = Training(tmp_path, limit_s=3)
    for _ in range(5):
        for _ in range(20):
            training._write(training.steps)
        training.passes(1)
    assert training.dog.step_limit_s == 3
    assert training.passes(5) == [(3, "stall")]
