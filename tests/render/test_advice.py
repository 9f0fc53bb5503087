"""Advice can be typed: for Ultralytics, for YOLOv5, and as a whole command."""

from typing import Any

import pytest

from diag.model.evidence import Evidence
from diag.model.finding import Confidence, Finding, Fix, Report, Severity
from diag.model.run import TrainArgs
from diag.render import advice, console, markdown

V5 = {"weights": "yolov5s.pt", "model": "yolov5s.pt", "data": "my data.yaml", "epochs": 300, "batch": 16, "imgsz": 640,
      "hyp": "hyp.yaml", "noautoanchor": False}  # fmt: skip
NEW = {
    "task": "detect",
    "model": "yolo11n.pt",
    "data": "my data.yaml",
    "epochs": 100,
    "batch": 8,
    "imgsz": 640,
    "lr0": 0.01,
}


def finding(**change: Any) -> Finding:
    return Finding("train.rect_no_shuffle", Severity.HIGH, Confidence.HIGH, {}, (), (Fix("off", change),))


def test_ultralytics_takes_pairs() -> None:
    evidence = Evidence(args=TrainArgs(NEW), path="run")
    assert not advice.is_old(evidence)
    assert advice.typed({"rect": False, "cache": "disk"}, "en") == "rect=False cache=disk"
    command = advice.command(evidence, finding(rect=False))
    assert command == "yolo train model=yolo11n.pt data='my data.yaml' epochs=100 batch=8 rect=False"
    assert command in console.report(Report((finding(rect=False),), (), (), ()), evidence, width=120)
    assert command in markdown.report(Report((finding(rect=False),), (), (), ()), evidence)


def test_a_run_that_was_cut_goes_on_from_its_own_weights() -> None:
    evidence = Evidence(args=TrainArgs({**NEW, "save_dir": "runs/detect/my run"}))
    assert (
        advice.command(evidence, finding(resume=True)) == "yolo train resume model='runs/detect/my run/weights/last.pt'"
    )


@pytest.mark.parametrize(
    ("change", "typed"),
    [
        ({"rect": False}, "without --rect"),
        ({"batch": 4, "imgsz": 320}, "--batch-size 4, --img 320"),
        ({"lr0": 0.001, "optimizer": "SGD"}, "lr0: 0.001 (hyp.yaml), --optimizer SGD"),
        ({"optimizer": "auto"}, ""),
        ({"amp": False}, ""),
        ({"resume": True}, "--resume"),
        ({"cache": "disk"}, "--cache disk"),
        ({"freeze": None}, "without --freeze"),
    ],
)
def test_yolov5_takes_flags_or_nothing(change: dict[str, Any], typed: str) -> None:
    assert advice.is_old(Evidence(args=TrainArgs(V5)))
    assert advice.typed(change, "en", old=True) == typed


def test_yolov9_is_old_and_the_first_yolov8_is_not() -> None:
    assert advice.is_old(Evidence(args=TrainArgs({"hyp": "hyp.scratch-high.yaml", "close_mosaic": 15, "epochs": 100})))
    assert not advice.is_old(Evidence(args=TrainArgs({"task": "detect", "mode": "train", "image_weights": False})))


def test_a_command_of_yolov5_is_whole_or_not_there() -> None:
    evidence = Evidence(args=TrainArgs(V5))
    command = "python train.py --weights yolov5s.pt --data 'my data.yaml' --epochs 300 --img 640 --batch-size 4"
    assert advice.command(evidence, finding(batch=4)) == command
    assert advice.command(evidence, finding(rect=False)) == ""
    assert advice.command(evidence, finding(lr0=0.001)) == ""


def test_without_model_and_data_there_is_no_command() -> None:
    assert advice.command(Evidence(args=TrainArgs({"epochs": 3})), finding(amp=False)) == ""
    assert advice.command(Evidence(), finding(amp=False)) == ""


def test_an_odd_value_can_not_leave_its_word() -> None:
    evidence = Evidence(args=TrainArgs({**NEW, "data": "a.yaml; rm -rf ~\n"}))
    assert "data='a.yaml; rm -rf ~'" in advice.command(evidence, finding(amp=False))
