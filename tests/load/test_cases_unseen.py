"""Cases written without knowledge of the rules (tests/cases_unseen), and what they showed of the loaders."""

from pathlib import Path

import pytest

from diag.errors import InputError
from diag.load import load_run
from diag.load.console import parse_log
from diag.load.tables import parse_table
from scripts.bench_diagnosis import UNSEEN, UNSEEN_ROWS, Score, cases


@pytest.fixture(scope="module")
def scores() -> dict[str, Score]:
    return {name: cases(UNSEEN, pattern) for name, pattern in UNSEEN_ROWS}


def test_nearly_all_unseen_causes_are_found(scores: dict[str, Score]) -> None:
    total, found = sum(s.total for s in scores.values()), sum(s.found for s in scores.values())
    assert total >= 125
    assert found >= 0.95 * total, [m for s in scores.values() for m in s.missed]


def test_nothing_that_they_refute_is_claimed(scores: dict[str, Score]) -> None:
    assert {name: s.wrong for name, s in scores.items() if s.wrong} == {}


def test_a_console_log_may_be_called_train_log(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("x\nRuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly\n")
    evidence = load_run(tmp_path)
    assert evidence.console is not None
    assert evidence.console.of("worker_died")
    assert evidence.skipped_files == ()


def test_a_classic_train_log_is_no_console_log(tmp_path: Path) -> None:
    line = "epoch 1/1 batch 1/9 | dataloader: 0.214s, model: 0.189s, optimizer: 0.012s\n"
    (tmp_path / "train.log").write_text(line * 9)
    evidence = load_run(tmp_path)
    assert evidence.steps is not None
    assert evidence.console is None


def test_a_results_txt_alone_is_a_table(tmp_path: Path) -> None:
    row = " 3.1G 0.08 0.02 0.01 0.11 12 640 0.5 0.4 0.45 0.2 0.07 0.03 0.01\n"
    (tmp_path / "results.txt").write_text("".join(f"{e}/9{row}" for e in range(10)))
    epochs = load_run(tmp_path / "results.txt").epochs
    assert epochs is not None
    assert "val/box_loss" in epochs.columns


def test_a_capture_alone_is_read_and_a_poem_is_not(tmp_path: Path) -> None:
    (tmp_path / "smi.txt").write_text("Driver Version : 560.35.03\nHW Power Brake Slowdown : Active\n")
    (tmp_path / "poem.txt").write_text("The sea is calm tonight.\n")
    notes = load_run(tmp_path / "smi.txt").notes
    assert notes is not None
    assert notes.driver == "560.35.03"
    with pytest.raises(InputError):
        load_run(tmp_path / "poem.txt")


def test_a_table_of_nvidia_smi_has_the_usual_names_and_no_units() -> None:
    table = parse_table("index, utilization.gpu [%], power.draw [W]\n0, 91 %, 88.20 W\n1, [N/A], 9 W", name="q.csv")
    assert table is not None
    assert table.columns == ("index", "gpu_util_pct", "power_w")
    assert table.numbers("power_w") == (88.2, 9.0)
    assert table.numbers("gpu_util")[0] == 91.0


def test_instances_of_classes_come_from_the_last_table_that_lists_them() -> None:
    table = (
        "  all  402  5711  0.7  0.5  0.5  0.3\n"
        "  police car  402  4512  0.9  0.9  0.9  0.7\n"
        "  tram  3  3  0  0  0.02  0.01\n"
    )
    log = parse_log(table + "Speed: 0.2ms preprocess\n  all  402  5711  0.7  0.5  0.5  0.3\n")[1]
    assert log.class_instances == {"police car": 4512, "tram": 3}


def test_times_of_batches_are_read_from_a_log_of_any_name(tmp_path: Path) -> None:
    line = "epoch 1/9 batch 1/99 | dataloader: 0.004s, model: 0.189s, optimizer: 0.012s\n"
    (tmp_path / "step.log").write_text(line * 40)
    (tmp_path / "notes.txt").write_text("model: 0.2 and data: 0.1\n" + "hello\n" * 40)
    steps = load_run(tmp_path).steps
    assert steps is not None
    assert steps.file == "step.log"
