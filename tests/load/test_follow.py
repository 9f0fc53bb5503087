"""Reading what grows: piece by piece the same comes out as in one go."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from diag.load import load_run
from diag.load.console import parse_log
from diag.load.follow import Files, Follower
from diag.load.read import UnreadableError
from tests.load.conftest import laps

BAR = "\r 1/3 2.1G 1.31 1.52 1.28 60 640:  {p}%|####      | {n}/9 [00:01<00:03, 3.1it/s]"
LOG = (
    "Ultralytics 8.3.0 Python-3.11.9 torch-2.5.0 CUDA:0 (NVIDIA L4, 22491MiB)\nStarting training for 3 epochs...\n"
    "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
    + "".join(BAR.format(p=n * 11, n=n) for n in range(10))
    + "\n                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|##| 1/1\n"
    "                   all         10         20      0.500      0.400      0.300      0.200\n"
    + "".join(BAR.format(p=n * 11, n=n).replace(" 1/3", " 2/3").replace("1.31", "1.11") for n in range(10))
    + "\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
)  # fmt: skip


def test_a_log_in_pieces_is_the_log(tmp_path: Path) -> None:
    path, follower, whole = tmp_path / "console.log", Follower(), LOG.encode()
    for end in range(40, len(whole) + 40, 97):
        path.write_bytes(whole[: min(end, len(whole))])
        assert follower.log(path, "console.log") == Files().log(path, "console.log")
    assert follower.log(path, "console.log")[0] == parse_log(LOG)[0]
    assert [e.losses["box_loss"] for e in follower.log(path, "console.log")[1].epochs] == [1.31, 1.11]


def test_a_log_that_begins_again_is_read_again(tmp_path: Path) -> None:
    path, follower = tmp_path / "console.log", Follower()
    path.write_text(LOG)
    follower.log(path, "console.log")
    path.write_text("Starting training for 7 epochs...\n")
    console, log = follower.log(path, "console.log")
    assert [line.kind for line in console.lines] == ["train_start"]
    assert log.epochs == ()


def test_a_trace_and_counters_in_pieces(tmp_path: Path) -> None:
    trace, counters, follower = tmp_path / "rank0.jsonl", tmp_path / "counters.jsonl", Follower()
    whole = laps(60).encode()
    samples = "".join(
        json.dumps({"k": "c", "t": n * 10**9, "v": {"rss_main_bytes": 1e9 + n * 1e6, "read_bytes_total": n * 5}}) + "\n"
        for n in range(200)
    ).encode()
    for end in (10, 500, 501, 3000, len(whole)):
        trace.write_bytes(whole[:end])
        counters.write_bytes(samples[:end])
        if end == 10:
            with pytest.raises(UnreadableError):
                follower.trace(trace, "t")
            continue
        assert follower.trace(trace, "t").steps() == Files().trace(trace, "t").steps()
        assert follower.trace(trace, "t").lost_lines == 0  # the half line is not lost, it comes
        assert follower.counters(counters, None).series == Files().counters(counters, None).series
        assert follower.counters(counters, None).lost_lines == 0
    counters.unlink()
    with pytest.raises(UnreadableError):
        follower.counters(counters, None)


def test_a_run_with_a_follower_is_the_run(run_dir: Callable[..., Path]) -> None:
    base, follower = run_dir(), Follower()
    for _ in range(2):  # the second time nothing is new
        assert load_run(base, follower) == load_run(base)


def _sample(t: int, **values: float) -> str:
    return json.dumps({"k": "c", "t": t * 10**9, "v": values}) + "\n"


def _twice(second_from: int) -> bytes:
    """Counters of a run that was killed in the middle of a line and went on, by the clock of this or another boot."""
    first = [
        _sample(1000 + n, rss_main_bytes=1e9 + n * 1e6, cpu_tree_s_total=n, read_bytes_total=7e9 + n) for n in range(90)
    ]
    again = [
        _sample(second_from + n, rss_main_bytes=2e9 + n * 1e6, cpu_tree_s_total=n, read_bytes_total=n)
        for n in range(90)
    ]
    start = '{"k": "start", "t": %d, "pid": 1}\n'
    half = '{"k": "c", "t": 10899999'
    return "".join([start % (999 * 10**9), *first, half, "\n", start % ((second_from - 1) * 10**9), *again]).encode()


@pytest.mark.parametrize("second_from", [5000, 10], ids=["same boot", "another boot"])
@pytest.mark.parametrize("piece", [4000, 911])
def test_counters_of_a_run_that_goes_on_while_it_is_watched(tmp_path: Path, second_from: int, piece: int) -> None:
    path, follower, whole = tmp_path / "counters.jsonl", Follower(), _twice(second_from)
    steady = (1010.0, 1080.0)
    for end in range(piece, len(whole) + piece, piece):
        path.write_bytes(whole[:end])
        seen, all_of_it = follower.counters(path, steady), Files().counters(path, steady)
        # the half line that a whole reading calls lost is only waited for
        assert (seen.series, seen.grew, seen.marks) == (all_of_it.series, all_of_it.grew, all_of_it.marks)
        assert seen.steady == all_of_it.steady
    assert (seen.seconds, seen.lost_lines) == (all_of_it.seconds, 1)
    assert seen.seconds == 90 + 89  # the pause between is nobody's
    assert seen.grew["cpu_tree_s"] == 89 + 89
    assert seen.grew["read_bytes"] == 89 + 89
    assert not seen.steady


def test_a_trace_that_goes_on_while_it_is_watched(tmp_path: Path) -> None:
    path, follower = tmp_path / "rank0.jsonl", Follower()
    start = '{"k":"start","t":%d,"wall":"2026-01-02T03:04:05+00:00","pid":1,"rank":0,"version":1}\n'
    mark = '{"k":"mark","m":"resume","t":5,"v":{"epoch":1,"how":"exact","exact":true,"why_not":""}}\n'
    whole = (start % 1 + laps(60) + '{"k":"laps","e":1,"n":60' + "\n" + start % 5 + mark + laps(60)).encode()
    for end in (*range(700, len(whole), 700), len(whole)):
        path.write_bytes(whole[:end])
        seen, all_of_it = follower.trace(path, "t"), Files().trace(path, "t")
        assert (seen.steps(), seen.ledger(), seen.steady_part()) == (
            all_of_it.steps(), all_of_it.ledger(), all_of_it.steady_part()
        )  # fmt: skip
    steps = seen.steps()
    assert steps is not None
    assert (steps.steps, seen.lost_lines) == (120, 1)
