"""What a reader of the console is told of findings that belong together, and that no two sentences contradict."""

import re

import pytest

from diag.engine import evaluate
from diag.model.finding import Report
from diag.render import console, markdown
from tests.rules.building import evidence

RISING = {"metrics/mAP50-95(B)": "0.01>0.3 x37", "metrics/mAP50(B)": "0.02>0.5 x37", "train/box_loss": "2>1.4 x37"}


def told(raw: dict[str, object], lang: str = "en") -> tuple[Report, str]:
    known = evidence(raw)
    report = evaluate(known)
    return report, re.sub(r"\s+", " ", console.report(report, known, lang=lang))


def test_a_verdict_that_comes_from_a_symptom_is_said_with_the_cause() -> None:
    raw: dict[str, object] = {
        "notes": {"kernel.txt": "Memory cgroup out of memory: Killed process 629 (python) total-vm:91kB"},
        "log": "  1/100  2.1G  1.2  1.9  1.1  22  640: 100%|###| 9/9 [00:03<00:00, 3it/s]\nKilled",
    }
    report, words = told(raw)
    assert (report.findings[0].id, str(report.findings[0].severity), report.verdict) == (
        "hw.mem_limit",
        "medium",
        "fail",
    )
    assert "medium (its symptoms: critical) · hw.mem_limit" in words
    zh = told(raw, "zh")[1]
    assert "其症状" in zh and "its symptoms" not in zh
    assert "**medium (its symptoms: critical)**" in markdown.report(report, evidence(raw))


def test_nothing_is_added_where_the_cause_is_as_grave() -> None:
    report, words = told({"curves": {**RISING, "train/box_loss": "nan x37"}, "args": {"task": "detect", "epochs": 100}})
    assert report.findings[0].id == "num.nan_loss" and "its symptoms" not in words


def test_a_symptom_of_two_causes_counts_with_the_one_that_names_it() -> None:
    curves = {"train/box_loss": "nan x41", "metrics/mAP50-95(B)": "0 x41", "metrics/mAP50(B)": "0 x41"}
    rates = {"lr/pg0": "0.00001>0.0005 x26, 0.0005>0.0003 x15"}
    args = {"task": "detect", "epochs": 50, "batch": 16, "warmup_epochs": 3.0, "model": "yolo11n.pt"}
    report, words = told({"curves": {**curves, **rates}, "args": args})
    graver = {f.id for f in report.findings if "train.not_learning" in f.explains}
    assert graver >= {"num.nan_loss", "train.warmup_too_long"}
    assert "medium · train.warmup_too_long" in words


def test_nobody_is_told_to_go_on_with_weights_that_learned_nothing() -> None:
    """Losses of exactly 0 on MPS: the weights are worth nothing, so the end of the run is a symptom."""
    log = "Ultralytics 8.3.0 Python-3.11.5 torch-2.3.0 MPS (Apple M2)"
    curves = {
        "metrics/mAP50-95(B)": "0 x2",
        "metrics/mAP50(B)": "0 x2",
        "train/box_loss": "0 x2",
        "train/cls_loss": "9 x2",
    }
    report, words = told({"log": log, "curves": curves, "args": {"task": "detect", "device": "mps", "epochs": 100}})
    assert report.findings[0].id == "num.mps_bad_loss" and "train.incomplete" in report.findings[0].explains
    assert "resume" not in words


@pytest.mark.parametrize(
    ("args", "place"),
    [
        ({"task": "detect", "project": None, "name": "train"}, "runs/detect/train"),
        ({"task": "segment", "project": None, "name": "train3"}, "runs/segment/train3"),
        ({"task": "pose", "project": "mine", "name": None}, "mine/train"),
        ({"task": "detect", "save_dir": "/x/train7", "name": "train"}, "/x/train7"),
    ],
)
def test_the_command_that_resumes_names_the_folder_of_ultralytics(args: dict[str, object], place: str) -> None:
    known = {"curves": RISING, "args": {"model": "yolo11n.pt", "data": "d.yaml", "epochs": 150, **args}}
    assert f"try: yolo train resume model={place}/weights/last.pt" in told(known)[1]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_collapse_after_rising_losses_is_one_story(lang: str) -> None:
    up = {
        "metrics/mAP50-95(B)": "0.1>0.4 x40, 0.38>0.01 x40",
        "train/box_loss": "2>1 x40, 1>3 x40",
        "val/box_loss": "2>1 x40, 1>3 x40",
    }
    report, words = told({"curves": up, "args": {"task": "detect", "epochs": 80}}, lang)
    assert report.findings[0].id == "num.collapse" and "num.diverged" in report.findings[0].explains
    assert "only" not in words.split("num.collapse")[0] and "amp=False" not in words
