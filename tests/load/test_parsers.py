"""Each parser against the files that are really out there, and against noise."""

import contextlib
import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diag.load.args import parse_args
from diag.load.console import parse_console
from diag.load.curves import curves, split_chains
from diag.load.kinds import KINDS
from diag.load.read import UnreadableError
from diag.load.results import parse_results
from diag.load.summary import TraceSummary
from diag.load.trace import parse_trace
from diag.load.trace_lines import StageName
from diag.load.trainlog import parse_trainlog
from diag.model.run import Epoch, Epochs
from diag.model.trace import Stage

HEADER = "epoch,train/box_loss,metrics/mAP50-95(B)\n"


def test_padded_crlf_cells_and_names() -> None:
    epochs = parse_results("   epoch,  train/box_loss,metrics/mAP_0.5:0.95,   val/box_loss\r\n  0,  8e-05,  0, nan\r\n")
    assert epochs is not None
    assert epochs.columns == ("epoch", "train/box_loss", "metrics/mAP_0.5:0.95", "val/box_loss")
    assert epochs.rows[0].values["train/box_loss"] == 8e-05
    assert math.isnan(epochs.rows[0].values["val/box_loss"])


def test_dirty_epoch_short_row_inf_and_a_repeated_header() -> None:
    epochs = parse_results(HEADER + "1,2,0.1\n`2,inf,0.2\nx,1,0.3\n4,1\n" + HEADER + "1,1,0.4\n")
    assert epochs is not None
    assert [row.epoch for row in epochs.rows] == [1, 2, 3, 1]
    assert epochs.rows[1].values["train/box_loss"] == math.inf
    assert epochs.dropped == 2


def test_semicolons_and_decimal_commas_of_a_spreadsheet() -> None:
    epochs = parse_results("epoch;train/box_loss;metrics/mAP50-95(B)\n1;1,25;0,5\n2;1e-05;,75\n")
    assert epochs is not None
    assert [row.values["metrics/mAP50-95(B)"] for row in epochs.rows] == [0.5, 0.75]
    assert [row.values["train/box_loss"] for row in epochs.rows] == [1.25, 1e-05]
    # in a file with commas a comma is no decimal point: such a row is too wide
    assert parse_results(HEADER + "1,1,25,0,5\n").dropped == 1  # type: ignore[union-attr]


def test_a_resume_continues_and_an_append_is_another_run() -> None:
    def rows(*numbers: int) -> list[Epoch]:
        return [Epoch(i, float(n), {}) for i, n in enumerate(numbers, 1)]

    assert [[r.epoch for r in c] for c in split_chains(rows(1, 2, 3, 4, 5, 5, 6))] == [[1, 2, 3, 4, 5, 6]]
    assert [len(c) for c in split_chains(rows(1, 2, 3, 1, 2, 3))] == [3, 3]
    made = curves(Epochs(tuple(rows(1, 2, 3, 4, 5, 1)), ("epoch",)))
    assert made is not None
    assert (made.rows, made.chains) == (5, 2)


def test_the_learning_rate_is_not_that_of_the_biases() -> None:
    text = "epoch,lr/pg0,lr/pg1,train/loss\n1,0.07,0.003,1\n2,0.04,0.006,1\n"
    made = curves(parse_results(text))
    assert made is not None
    assert made.lr == (0.003, 0.006)


def test_early_stopping_counts_from_the_first_of_equal_rows_or_the_last() -> None:
    text = "epoch,metrics/mAP50(B),metrics/mAP50-95(B)\n1,0.5,0.2\n2,0.5,0.3\n3,0.5,0.3\n4,0.1,0.1\n"
    made = curves(parse_results(text))
    assert made is not None
    assert made.stop_at["weighted"] == (2, 3)


@pytest.mark.parametrize(
    "line",
    [
        "2026-01-02 03:04:05.678 | INFO | diag.record | epoch 1/10 batch 3/38 | "
        "dataloader: 0.214s, model: 0.189s, optimizer: 0.012s",
        "epoch=1 dataloader=0.214 model=0.189 optimizer=0.012",
        "Epoch: 1, dataloader time: 0.214, model time: 0.189, optimizer time: 0.012",
        '{"epoch": 1, "dataloader": 0.214, "model": 0.189, "optimizer": 0.012}',
        "[1] dataloader: 214ms, model: 189 ms, optimizer: 12ms",
    ],
)
def test_train_log_lines_of_several_scripts(line: str) -> None:
    laps = parse_trainlog(f"noise\n{line}\n")
    assert [lap.stage for lap in laps] == [Stage.DATA_WAIT, Stage.FORWARD, Stage.OPTIMIZER]
    assert [lap.ns / 1e9 for lap in laps] == pytest.approx([0.214, 0.189, 0.012])


def test_args_with_a_broken_tail_are_read_line_by_line() -> None:
    assert parse_args("epochs: 100\nimgsz: [640, 480]\n lr0: 1e-3\non\\runs\\detect\\train26\n")["epochs"] == 100
    assert parse_args("batch_size: 8\nimg_size: [320]\n") == {"batch": 8, "imgsz": [320]}
    # a fork's opt.yaml has an unused `batch` beside the real one, before or after it
    assert parse_args("batch_size: 16\nbatch: -1\n") == {"batch": 16}
    assert parse_args("batch: -1\nbatch_size: 16\n") == {"batch": 16}
    assert parse_args("lr0: 1e-3\nname: 1e\n") == {"lr0": 0.001, "name": "1e"}
    with pytest.raises(UnreadableError):
        parse_args("a: " + "*x " * 200)


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("gpu_oom", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB"),
        (
            "shm_small",
            "Unexpected bus error encountered in worker, caused by insufficient shared memory (shm).",
        ),
        ("port_in_use", "[W socket.cpp] errno: 98 - Address already in use"),
        ("early_stop", "EarlyStopping: Training stopped early as no improvement observed in last 20 epochs."),
        ("completed", "\x1b[34m10 epochs completed in 0.021 hours.\x1b[0m"),
        ("autoinstall", "requirements: Ultralytics requirement ['lap'] not found, attempting AutoUpdate..."),
    ],
)
def test_console_lines(kind: str, line: str) -> None:
    found = parse_console(f"  0%|   | 0/9\r 50%|#  | 4/9\r{line}\n")
    assert [(item.kind, item.line) for item in found.of(kind)] == [(kind, 1)]
    assert "\x1b" not in found.of(kind)[0].text
    assert kind in KINDS


def test_a_trace_keeps_time_of_stages_from_a_newer_recorder() -> None:
    trace = parse_trace(b'{"k":"laps","e":0,"n":0,"t":5,"l":[["data_wait",10],["warp",20,7],["log",1]]}\n{"k":"ne')
    assert [(lap.stage, lap.start_ns, lap.end_ns) for lap in trace.laps] == [
        (Stage.DATA_WAIT, 5, 15),
        (Stage.OTHER, 15, 35),
        (Stage.LOG, 35, 36),
    ]
    assert trace.lost_lines == 1


def test_a_summary_is_what_the_laps_add_up_to() -> None:
    lines = [
        b'{"k":"start","t":0}',
        b'{"k":"laps","e":-1,"n":-1,"t":0,"l":[["startup",5]]}',
        b'{"k":"laps","e":0,"n":0,"t":5,"l":[["data_wait",10],["forward",20],["log",1]]}',
        b'{"k":"laps","e":0,"n":1,"t":36,"l":[["data_wait",10],["forward",20,{"new":1}],["warp",7]]}',
        b'{"k":"laps","e":0,"n":2,"t":73,"l":[["data_wait",10],["other",9]]}',
        b'{"k":"laps","e":0,"n":3,"t":73,"l":[["data_wait",-10]]}',
        b'{"k":"ne',
    ]
    summary = TraceSummary("t").feed(lines)
    ledger, steps = summary.ledger(), summary.steps()
    assert ledger is not None
    assert {s: round(v * 1e9) for s, v in ledger.seconds.items()} == {
        Stage.STARTUP: 5, Stage.DATA_WAIT: 30, Stage.FORWARD: 40, Stage.LOG: 1, Stage.OTHER: 16,
    }  # fmt: skip
    assert steps is not None
    assert (steps.steps, summary.lost_lines) == (2, 2)


LINES = st.sampled_from(
    [
        b'{"k":"laps","e":0,"n":1,"t":5,"l":[["data_wait",10],["forward",20],["log",1]]}',
        b'{"k":"laps","e":0,"n":2,"t":50,"l":[["data_wait",11],["forward",22],["optimizer",7],["log",1]]}',
        b'{"k":"laps","e":1,"n":3,"t":90,"l":[["data_wait",12],["forward",23],["log",2]]}',
        b'{"k":"laps","e":1,"n":4,"t":99,"l":[["forward",23],["data_wait",12],["log",2]]}',
        b'{"k":"laps","e":2,"n":5,"t":130,"l":[["data_wait",13]]}',
        b'{"k":"laps","e":2,"n":6,"t":130,"l":[]}',
        b'{"k":"laps","e":2,"n":7,"t":130,"l":[["warp",13],["forward",5,6]]}',
        b'{"k":"laps","e":-1,"n":-1,"t":150,"l":[["validate",1000]]}',
        b'{"k":"laps","e":0,"n":8,"t":5,"l":[["forward",-1]]}',
        b'{"k":"laps","e":0,"n":9,"t":5,"l":[["forward",1]]}{"k":"laps","e":0,"n":10,"t":6,"l":[["forward",2]]}',
        b'{"k":"laps","e":0,"n":11,"t":5,"l":[["forw',
        b'{"k":"laps","e":0,"n":12,"t":5,"l":[["data_wait",1]],',
        b'{"k":"mark","m":"end","t":1,"v":{}}',
        b"",
    ]
)


@given(st.lists(LINES, max_size=30), st.integers(0, 3))
def test_lines_taken_together_give_what_they_give_one_by_one(lines: list[bytes], repeat: int) -> None:
    lines = lines * 10**repeat if len(lines) < 4 else lines
    together, each = TraceSummary("t").feed(lines), TraceSummary("t")
    each._each(lines)
    for what in ("steps", "ledger", "steady_part"):
        assert getattr(together, what)() == getattr(each, what)(), what
    assert (together.records, together.lost_lines) == (each.records, each.lost_lines)


def test_the_quick_way_knows_every_stage() -> None:
    assert set(get_args(StageName)) == set(Stage)


def test_the_quick_way_is_taken_for_what_the_recorder_writes() -> None:
    line = b'{"k":"laps","e":%d,"n":%d,"t":%d,"l":[["data_wait",10],["forward",20],["log",1]]}\n'
    summary = TraceSummary("t")
    summary._each = None  # type: ignore[method-assign,assignment]  # the slow way
    summary.feed(line % (n // 1500, n, n * 31) for n in range(5000))
    steps = summary.steps()
    assert steps is not None
    assert (steps.steps, summary.records, summary.lost_lines) == (5000, 5000, 0)
    assert summary.steady_part() == (1500 * 31 / 1e9, (4999 * 31 + 31) / 1e9)


def test_the_loaders_lines_add_up() -> None:
    line = (
        b'{"k":"loader","e":0,"n":2,"b":2,"ns":{"read":4000,"decode":8000,"augment":3000,"collate":1000},"images":8,'
        b'"loads":8,"hits":6,"opened":2,"bytes":100,"pixels":50,"workers":{"0":[4,8000],"1":[4,8000]},"slow":[["a",%d],["b",9]]}'
    )
    loader = TraceSummary("t").feed([line % 7, line % 70, line.replace(b"8000", b"-1") % 5]).loader()
    assert loader is not None
    assert (loader.images, loader.batches, loader.workers, loader.hit_share) == (16, 4, 2, 0.75)
    assert loader.mean_s == pytest.approx({"read": 5e-7, "decode": 1e-6, "augment": 3.75e-7, "collate": 1.25e-7})
    assert (loader.bytes_per_file, loader.pixels_per_image) == (50, 25)
    assert loader.images_per_s == {0: pytest.approx(5e5), 1: pytest.approx(5e5)}
    assert loader.slowest == (("a", 7e-8), ("b", 9e-9))
    assert loader.share("decode") == pytest.approx(0.5)


@given(st.binary(max_size=400))
def test_trace_survives_any_bytes(data: bytes) -> None:
    parse_trace(data)
    TraceSummary("t").feed(data.split(b"\n"))


@given(st.lists(st.recursive(st.none() | st.integers() | st.floats() | st.text(max_size=5), st.lists, max_leaves=5)))
def test_trace_survives_any_laps(parts: list[object]) -> None:
    import msgspec

    loader = {"k": "loader", "b": 1, "images": 1, "loads": 1, "hits": 1, "opened": 1, "bytes": 1, "pixels": 1}
    loader |= {"ns": dict.fromkeys(("read", "decode", "augment", "collate"), 1), "workers": {"0": parts}, "slow": parts}
    laps = {"k": "laps", "t": 0, "l": parts}
    for record in (laps, loader, {"k": "mark", "m": parts, "t": parts}, parts):
        line = msgspec.json.encode(record)
        trace = parse_trace(line)
        TraceSummary("t").feed([line])
        assert all(lap.ns >= 0 for lap in trace.laps)


CELL = st.sampled_from(["1", "0", "nan", "inf", "-inf", "`25", "", "x", "1e-5", " 0.5 ", '"', "1e999", "9" * 400])


@given(st.lists(st.lists(CELL, min_size=0, max_size=5), max_size=12))
def test_results_and_curves_survive_any_table(rows: list[list[str]]) -> None:
    header = "epoch,train/box_loss,metrics/mAP50(B),metrics/mAP50-95(B),lr/pg0\n"
    epochs = parse_results(header + "\n".join(",".join(row) for row in rows))
    if epochs is not None and (made := curves(epochs)) is not None:
        assert made.rows <= len(epochs.rows)
        assert 0 <= made.best_at <= made.rows


@given(st.text(max_size=300))
def test_text_parsers_survive_any_text(text: str) -> None:
    parse_results("epoch,train/loss\n" + text)
    parse_console(text)
    parse_trainlog(text + "\nepoch 1 dataloader: " + text)
    with contextlib.suppress(UnreadableError):
        parse_args(text)
