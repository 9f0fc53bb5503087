"""Logs of learning rates beside, or instead of, a results.csv."""

from pathlib import Path

import pytest

from diag.engine import evaluate
from diag.load import load_run
from diag.load.rates import with_rates
from diag.load.tables import parse_table
from diag.model.foreign import Tables
from diag.model.run import Epoch, Epochs

ARGS = "model: yolov8s.pt\nepochs: 100\noptimizer: SGD\nlr0: 0.01\nlrf: 0.01\nwarmup_epochs: 3.0\n"


def _tables(text: str) -> Tables:
    table = parse_table(text, name="lr.csv")
    assert table is not None
    return Tables((table,))


def _said(folder: Path, rates: str) -> set[str]:
    (folder / "args.yaml").write_text(ARGS)
    (folder / "lr_log.csv").write_text(rates)
    report = evaluate(load_run(folder))
    assert not report.crashed
    return {f.id for f in report.findings}


def test_a_rate_that_never_moves(tmp_path: Path) -> None:
    assert "train.lr_stuck" in _said(tmp_path, "epoch,lr\n" + "".join(f"{k},0.01\n" for k in range(60)))


def test_a_rate_near_zero_is_no_high_one(tmp_path: Path) -> None:
    said = _said(tmp_path, "epoch,step,learning_rate\n" + "".join(f"{k // 5},{k},1e-12\n" for k in range(300)))
    assert "train.lr_stuck" in said
    assert "num.lr_too_high" not in said


def test_a_rate_that_jumps_back(tmp_path: Path) -> None:
    rates = [0.01 * (1 - k / 50) + 1e-4 for k in range(40)] * 2
    assert "train.lr_restart" in _said(
        tmp_path, "epoch,pg0\n" + "".join(f"{k},{v:.6f}\n" for k, v in enumerate(rates, 1))
    )


def test_a_schedule_as_planned_is_no_fault_and_no_unfinished_run(tmp_path: Path) -> None:
    text = "epoch,lr\n" + "".join(f"{k},{0.01 * (1 - k / 100) + 1e-4:.6f}\n" for k in range(96))
    report_said = _said(tmp_path, text)
    assert report_said <= {"train.lr_schedule_ok"}


def test_rates_join_the_epochs_that_have_none() -> None:
    rows = tuple(Epoch(k, float(k), {"train/box_loss": 1.0}) for k in (1, 2, 3))
    made = with_rates(Epochs(rows, ("train/box_loss",)), _tables("epoch,lr/pg0,lr/pg1\n1,.1,.2\n2,.3,.4\n"))
    assert made is not None
    assert made.column("lr/pg0")[:2] == (0.1, 0.3)
    assert made.column("lr/pg0")[2] != made.column("lr/pg0")[2]
    assert made.column("lr/pg1")[:2] == (0.2, 0.4)


@pytest.mark.parametrize(
    "text",
    [
        "epoch,gpu_util,lr\n1,50,.1\n2,50,.1\n3,50,.1\n",
        "epoch,loss,lr\n1,2,.1\n2,2,.1\n3,2,.1\n",
        "step,lr\n1,.1\n2,.1\n3,.1\n",
        "epoch,clr_rate_of_return\n1,.1\n2,.1\n3,.1\n",
        "epoch,lr\n1,.1\n2,.1\n",
    ],
)
def test_other_tables_are_no_log_of_rates(text: str) -> None:
    assert with_rates(None, _tables(text)) is None


def test_known_rates_stay() -> None:
    epochs = Epochs((Epoch(1, 1.0, {"lr/pg0": 0.5}),), ("lr/pg0",))
    assert with_rates(epochs, _tables("epoch,lr\n1,.1\n2,.1\n3,.1\n")) is epochs
