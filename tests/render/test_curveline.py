"""The curves in a few lines: band, losses, learning rate; nothing where nothing is known."""

from typing import Any

import pytest

from diag.render.curveline import curve_lines
from tests.rules.building import evidence


def lines(curves: dict[str, Any], lang: str = "en") -> list[str]:
    return curve_lines(evidence({"curves": curves}), lang)


@pytest.mark.parametrize(
    ("fifty", "band"), [("0.95", "excellent"), ("0.9", "good"), ("0.85", "good"), ("0.7", "fair"), ("0.6", "weak")]
)
def test_bands(fifty: str, band: str) -> None:
    told = lines({"metrics/mAP50-95(B)": "0.1>0.5 x20", "metrics/mAP50(B)": f"{fifty} x20"})
    assert told == [f"Best mAP50-95 0.500 (mAP50 {float(fifty):.3f}, {band}) in epoch 20, 20 epochs in the file"]


def test_a_score_that_is_zero_throughout_has_no_best_epoch() -> None:
    zero = {"metrics/mAP50-95(B)": "0 x3", "metrics/mAP50(B)": "0 x3"}
    assert lines(zero) == ["No mAP50-95 above 0 in 3 epochs of the file"]
    assert lines(zero, "zh")[0].endswith("mAP50-95 始终为 0")


def test_losses_and_rate() -> None:
    told = lines({
        "metrics/mAP50-95(B)": "0.1>0.5 x20", "train/box_loss": "2 x10, 1 x10", "train/cls_loss": "0 x20",
        "train/dfl_loss": "nan x20", "lr/pg0": "0.001>0.01 x5, 0.01>0.0001 x15",
    })  # fmt: skip
    assert told[1:] == [
        "Training losses: box 2 → 1 (-50%), cls 0 → 0",
        "Learning rate: 0.01 at most, 0.0001 at the end",
    ]


def test_a_classifier_has_no_band_and_an_empty_file_no_lines() -> None:
    assert "mAP50" not in lines({"metrics/accuracy_top1": "0.5>0.9 x10", "metrics/accuracy_top5": "1 x10"})[0]
    assert lines({"train/box_loss": "1 x10"}) == []
    assert lines({"metrics/mAP50-95(B)": "nan x10"}) == []


def test_chinese_and_names_that_are_not_ours() -> None:
    told = curve_lines(
        evidence({"curves": {"metrics/mAP50-95(B)": "0.1>0.5 x20", "train/<b>_loss": "2 x20"}}), "zh", escape=str.upper
    )
    assert "最好" in told[0]
    assert "<B>" in told[1]
