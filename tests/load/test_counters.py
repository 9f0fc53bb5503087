"""trace/counters.jsonl: series, growth, rates, the steady part; broken lines are counted."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diag.engine import evaluate
from diag.load import load_run
from diag.load.counters import parse_counters, read_counters, summarize
from diag.load.read import UnreadableError
from diag.load.stall import read_stalls
from diag.load.summary import TraceSummary
from diag.render import console, jsonfile, markdown

Make = Callable[..., Path]


def sample(second: float, **values: Any) -> str:
    return json.dumps({"k": "c", "t": round(second * 1e9), "v": values})


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_gauge_is_summed_up_and_a_total_becomes_growth_and_rate(tmp_path: Path) -> None:
    lines = [sample(s, rss_main_bytes=s * 10, cpu_tree_s_total=5 + 2 * s) for s in range(11)]
    counters = read_counters(write(tmp_path / "c.jsonl", *lines))
    memory, cores = counters.series["rss_main_bytes"], counters.series["cpu_tree_s_per_s"]
    assert counters.seconds == 10
    assert (memory.mean, memory.p50, memory.max, memory.first, memory.last) == (50, 50, 100, 0, 100)
    assert memory.slope_per_h == pytest.approx(36_000, rel=0.02)
    assert (cores.mean, cores.count) == (2.0, 10)
    assert counters.grew == {"cpu_tree_s": 20.0}


def test_a_counter_that_was_reset_neither_falls_nor_jumps(tmp_path: Path) -> None:
    totals = [100, 110, 3, 13]
    counters = read_counters(write(tmp_path / "c", *(sample(s, x_total=t) for s, t in enumerate(totals))))
    assert counters.grew == {"x": 20}
    assert counters.series["x_per_s"].max == 10


def test_the_steady_part_leaves_out_the_first_epoch_and_the_final_evaluation() -> None:
    lines = [
        b'{"k":"laps","e":-1,"n":-1,"t":0,"l":[["startup",1000000000]]}',
        b'{"k":"laps","e":0,"n":0,"t":1000000000,"l":[["forward",1000000000]]}',
        b'{"k":"laps","e":-1,"n":-1,"t":2000000000,"l":[["validate",3000000000]]}',
        b'{"k":"laps","e":1,"n":1,"t":5000000000,"l":[["forward",4000000000]]}',
        b'{"k":"laps","e":-1,"n":-1,"t":9000000000,"l":[["final_eval",90000000000]]}',
    ]
    assert TraceSummary("t").feed(lines).steady_part() == (5.0, 9.0)
    assert TraceSummary("t").feed(lines[:3]).steady_part() is None
    columns, *_ = parse_counters("\n".join(sample(s, m=1000 - s) for s in range(100)).encode())
    points = summarize(columns, steady=(50, 90)).series["m"].points
    assert [points[0][1] <= 950, points[-1][1] >= 910, len(points) <= 60] == [True, True, True]


def test_half_written_hostile_and_unknown_lines_are_counted(tmp_path: Path) -> None:
    odd = [
        '{"k":"c","t":1,"v":{"a":"x"}}',
        '{"k":"c"',
        "[]",
        '{"k":"c","t":1,"v":3}',
        '{"k":"gpus","gpus":[1]}',
        "[" * 9999,
    ]
    good = [sample(1, a=1), '{"k":"new"}', sample(2, a=2), '{"k":"mark","m":"end","t":5,"v":{"how":"gone"}}']
    counters = read_counters(write(tmp_path / "c", *odd, *good))
    assert counters.lost_lines == len(odd)
    assert list(counters.series) == ["a"]
    assert [(mark.name, mark.values) for mark in counters.marks] == [("end", {"how": "gone"})]
    with pytest.raises(UnreadableError, match="no sample"):
        read_counters(write(tmp_path / "d", *odd))


def test_the_report_shows_the_machine_in_every_format_and_language(run_dir: Make) -> None:
    run = run_dir()
    gpus = json.dumps({"k": "gpus", "t": 0, "gpus": [{"index": 0, "name": "A100", "memory_total_bytes": 10**9}]})
    values = {"rss_main_bytes": 2**31, "cpu_tree_s_total": 3, "gpu0_util": 0.5, "read_bytes_total": 7, "swap_bytes": 0}
    lines = [sample(s, **{**values, "cpu_tree_s_total": 1.5 * s}) for s in range(5)]
    write(run / "trace/counters.jsonl", gpus, *lines, '{"k":')
    evidence = load_run(run)
    assert evidence.skipped_files == ("trace/counters.jsonl: 1 half-written or unknown lines left out",)
    report = evaluate(evidence)
    for lang, title, label in (
        ("en", "The machine during training", "GPU 0 has work"),
        ("zh", "训练期间的机器状态", "GPU 0 有任务"),
    ):
        for page in (console.report(report, evidence, lang=lang), markdown.report(report, evidence, lang=lang)):
            assert title in page
            assert label in page
            assert "1.50" in page
            assert "2.00 GiB" in page
    assert "swapped out" not in console.report(report, evidence)  # nothing was
    document = jsonfile.report_dict(report, evidence)
    assert document["counters"]["series"]["cpu_tree_s_per_s"]["mean"] == 1.5


def test_an_unreadable_counters_file_is_named_and_the_rest_is_judged(run_dir: Make) -> None:
    run = run_dir()
    write(run / "trace/counters.jsonl", "\x00")
    evidence = load_run(run)
    assert evidence.counters is None
    assert evidence.skipped_files == ("trace/counters.jsonl: no sample in it",)
    assert evidence.steps is not None


def test_the_time_between_two_starts_of_a_run_is_not_the_trainings(tmp_path: Path) -> None:
    def start(second: float) -> str:
        return json.dumps({"k": "start", "t": round(second * 1e9)})

    # A night and a boot lie between: the clock and the trainer's own totals begin again, the machine's went on.
    first = [start(1000)] + [sample(1001 + s, cpu_tree_s_total=2 * s, net_received_bytes_total=s) for s in range(5)]
    second = [start(3)] + [sample(4 + s, cpu_tree_s_total=2 * s, net_received_bytes_total=10**9 + s) for s in range(5)]
    counters = read_counters(write(tmp_path / "c.jsonl", *first, *second), (1001.0, 1005.0))
    assert counters.seconds == 9
    assert counters.grew == {"cpu_tree_s": 16.0, "net_received_bytes": 8.0}
    assert counters.series["net_received_bytes_per_s"].max == 1.0


def test_a_stall_of_an_earlier_start_does_not_explain_the_end_of_a_later_one(tmp_path: Path) -> None:
    def mark(name: str, second: float, **values: Any) -> str:
        return json.dumps({"k": "mark", "m": name, "t": round(second * 1e9), "v": values}, separators=(",", ":"))

    start = '{"k":"start","t":0}'
    lines = [start, mark("stall", 100, idle_s=60, step=7), mark("stall_abort", 100, idle_s=60, step=7), start]
    once = read_stalls(write(tmp_path / "c.jsonl", *lines[:3]))
    again = read_stalls(write(tmp_path / "c.jsonl", *lines))
    assert once is not None
    assert again is not None
    assert (once.aborted, again.aborted, again.count, again.longest_s) == (True, False, 1, 60.0)
