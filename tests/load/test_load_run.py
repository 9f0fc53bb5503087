"""From files to Evidence: complete, partial, foreign and hostile folders."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from diag.engine import evaluate
from diag.errors import InputError
from diag.load import load_run
from diag.model.trace import Stage
from diag.render import console, jsonfile, markdown
from tests.load.conftest import CSV, laps

Make = Callable[..., Path]


def test_a_complete_run(run_dir: Make) -> None:
    evidence = load_run(run_dir())
    assert evidence.skipped_files == ()
    assert evidence.run is not None and evidence.run.exit_cause.kind == "finished"
    assert evidence.baseline is not None and evidence.baseline.host.cpus_effective == 2.0
    assert evidence.dataset is not None and evidence.dataset.names == {0: "a", 1: "b"}
    assert evidence.args is not None and evidence.args.get("device") == "cpu"
    assert evidence.curves is not None and evidence.curves.best == 0.3
    assert evidence.console is not None and evidence.console.device == "cpu"
    assert evidence.steps is not None and evidence.steps.share(Stage.DATA_WAIT) == pytest.approx(0.5)
    assert evidence.ledger is not None and evidence.ledger.wall_s == pytest.approx(9.0)
    assert evidence.epochs is not None and evidence.epochs.file == "ultralytics/results.csv"


def test_what_diag_wrote_itself_is_no_capture_of_somebody(run_dir: Make) -> None:
    folder = run_dir()
    for name in ("health.json", "check.json", "smoke.json"):
        (folder / name).write_text('"labels/train/a.txt:1: coordinate 188 outside 0..1",\n')
    (folder / "tree.txt").write_text("/ds/images/a.png\n")
    notes = load_run(folder).notes
    assert notes is not None
    assert {note.file for note in notes.find(".")} == {"tree.txt"}


def test_a_half_written_last_line_is_counted_and_named(run_dir: Make) -> None:
    evidence = load_run(run_dir(trace_rank0_jsonl=laps(60)[:-20]))
    assert evidence.steps is not None and evidence.steps.steps == 60
    assert evidence.skipped_files == ("trace/rank0.jsonl: 1 half-written or unknown lines left out",)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("run_json", b"{", "not readable"),
        ("run_json", b"[]", "not readable"),
        ("baseline_json", b"\xff\xfe\x00", "not readable"),
        ("data_json", b'{"yaml": 1}', "not readable"),
        ("run_json", b"[" * 100_000, "not readable"),
        ("run_json", b'{"id":' * 100_000, "not readable"),
        ("trace_rank0_jsonl", b"[" * 100_000, "no record"),
        ("trace_rank0_jsonl", b"", "empty"),
        ("trace_rank0_jsonl", b"\x00\x01", "no record"),
        ("ultralytics_results_csv", b"\x00\x01\x02", "binary"),
        ("ultralytics_results_csv", b"a,b\n1,2\n", "no results.csv"),
        ("ultralytics_args_yaml", b"- 1\n- 2\n", "name: value"),
        ("console_log", b"\x00" * 10, "binary"),
    ],
)
def test_a_broken_file_is_named_and_the_rest_is_judged(run_dir: Make, name: str, content: bytes, reason: str) -> None:
    evidence = load_run(run_dir(**{name: content}))
    assert len(evidence.skipped_files) == 1
    assert reason in evidence.skipped_files[0]
    report = evaluate(evidence)
    assert not report.crashed
    assert reason in console.report(report, evidence)


def test_a_plain_ultralytics_folder(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text(CSV)
    (tmp_path / "args.yaml").write_text("epochs: 10\n")
    evidence = load_run(tmp_path)
    assert evidence.curves is not None and evidence.curves.file == "results.csv"
    assert "train.incomplete" in {f.id for f in evaluate(evidence).findings}


def test_a_csv_and_a_train_log_alone(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(CSV)
    assert load_run(tmp_path / "r.csv").curves is not None
    log = tmp_path / "train.log"
    log.write_text(
        "".join(f"| INFO | epoch 1/1 batch {i}/9 | dataloader: 0.2s, model: 0.1s, optimizer: 0.01s\n" for i in range(9))
    )
    for path in (log, tmp_path / "folder"):
        if path.name == "folder":
            path.mkdir()
            (path / "train.log").write_text(log.read_text())
        steps = load_run(path).steps
        assert steps is not None
        assert (steps.steps, steps.dataloader_s, steps.model_s, steps.optimizer_s) == pytest.approx((9, 0.2, 0.1, 0.01))


@pytest.mark.parametrize("content", [b"", b"\x00\xff", b"hello\n", b"\xff\xfe"])
def test_a_file_that_says_nothing_is_an_input_error(tmp_path: Path, content: bytes) -> None:
    for name in ("x.csv", "train.log", "x.jsonl", "x.bin"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=r"results\.csv"):
            load_run(tmp_path / name)


def test_nothing_recognisable_says_what_is_accepted(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"give a run folder of diag .* train.log"):
        load_run(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        load_run(tmp_path / "nowhere")


def test_a_folder_of_runs_names_them(tmp_path: Path) -> None:
    for name in ("yolo_train", "yolo_train_b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.csv").write_text(CSV)
    with pytest.raises(InputError, match=r"give one of them: .*train"):
        load_run(tmp_path)


def test_a_folder_that_holds_but_one_run_is_that_run(tmp_path: Path) -> None:
    (tmp_path / "runs/detect/train 3").mkdir(parents=True)
    (tmp_path / "runs/detect/train 3/results.csv").write_text(CSV)
    epochs = load_run(tmp_path).epochs
    assert epochs is not None
    assert len(epochs.rows) == 3


def test_odd_things_in_place_of_files(run_dir: Make) -> None:
    folder = run_dir(ultralytics_results_csv=None, console_log=None)
    (folder / "ultralytics/results.csv").symlink_to("nowhere")
    (folder / "console.log").mkdir()
    evidence = load_run(folder)
    assert len(evidence.skipped_files) == 2
    os.mkfifo(folder / "train.log")  # must not block
    load_run(folder)


def test_hostile_text_reaches_no_report(run_dir: Make) -> None:
    evil = "\x1b[31m\x1b]0;owned\x07<script>alert(1)</script>`code` [x](javascript:1)\u202e"
    folder = run_dir(console_log=f"OSError: [Errno 28] No space left on device {evil}\n", run_json=None)
    evidence = load_run(folder)
    report = evaluate(evidence)
    assert report.findings[0].id == "disk.full"
    text = console.report(report, evidence, color=False)
    page = markdown.report(report, evidence)
    for rendered in (text, page):
        assert not any((ord(c) < 32 and c != "\n") or c == "\u202e" for c in rendered)
    assert "<script" not in page
    assert "[x]" not in page
    assert jsonfile.report_dict(report, evidence)["verdict"] == "fail"


def test_all_ranks_are_read_and_a_broken_one_is_told(run_dir: Callable[..., Path]) -> None:
    folder = run_dir()
    (folder / "trace" / "rank1.jsonl").write_text(laps(60, wait_ms=80))
    (folder / "trace" / "rank2.jsonl").write_text("{")
    (folder / "trace" / "rankx.jsonl").write_text("{")
    evidence = load_run(folder)
    assert evidence.ranks is not None
    assert {rank: s.share(Stage.DATA_WAIT) for rank, s in evidence.ranks.steps.items()} == pytest.approx(
        {0: 0.5, 1: 0.8}
    )
    assert evidence.skipped_files == ("trace/rank2.jsonl: no record in it",)
    assert evidence.ranks.slowest == 1
    assert evidence.ranks.excess_s(Stage.DATA_WAIT) == pytest.approx(0.03)


def test_one_process_has_no_ranks(run_dir: Callable[..., Path]) -> None:
    assert load_run(run_dir()).ranks is None
