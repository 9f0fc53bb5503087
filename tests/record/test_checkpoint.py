"""The time that a checkpoint takes to be written, and nothing else."""

import time
from pathlib import Path

import pytest

from diag.load.summary import TraceSummary
from diag.record.checkpoint import timed


def test_only_the_writing_counts_and_the_method_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0, 3_000, 10_000, 15_000])
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(clock))
    seen: list[tuple[int, int]] = []
    original = Path.write_bytes
    with timed(lambda ns, size: seen.append((ns, size))):
        (tmp_path / "last.pt").write_bytes(b"x" * 100)
        (tmp_path / "best.pt").write_bytes(b"x" * 100)
    assert seen == [(8_000, 200)]
    assert Path.write_bytes is original
    assert (tmp_path / "best.pt").read_bytes() == b"x" * 100


def test_a_save_that_fails_is_no_record_and_the_method_is_put_back(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    original = Path.write_bytes

    def save() -> None:
        with timed(lambda ns, size: seen.append((ns, size))):
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        save()
    assert not seen
    assert Path.write_bytes is original


def test_a_trace_sums_its_saves_and_counts_broken_ones() -> None:
    lines = [
        b'{"k":"save","e":0,"ns":2000000000,"bytes":8000000}',
        b'{"k":"save","e":1,"ns":1000000000,"bytes":4000000}',
        b'{"k":"save","e":1,"ns":-1,"bytes":4}',
    ]
    summary = TraceSummary("trace/rank0.jsonl").feed(lines)
    saves = summary.saves()
    assert saves is not None
    assert (saves.saves, saves.write_s, saves.bytes) == (2, 3.0, 12_000_000)
    assert summary.lost_lines == 1
