"""The time that a checkpoint takes to be written, and nothing else."""

import time
from pathlib import Path

import pytest

from diag.load.summary import TraceSummary
from diag.record.files import AtomicPath, take_written


def test_only_what_went_to_the_disk_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take_written()
    clock = iter([0, 3_000, 10_000, 15_000])
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(clock))
    for name in ("last.pt", "best.pt"):
        AtomicPath(tmp_path / name).write_bytes(b"x" * 100)
    assert take_written() == (8_000, 200)
    assert take_written() == (0, 0)
    assert (tmp_path / "best.pt").read_bytes() == b"x" * 100


def test_a_write_that_fails_is_not_counted(tmp_path: Path) -> None:
    take_written()
    with pytest.raises(FileNotFoundError):
        AtomicPath(tmp_path / "missing" / "last.pt").write_bytes(b"x")
    assert take_written() == (0, 0)


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
