"""Every task and RT-DETR trains through the recorder, on tiny data drawn here; its laps are complete."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.e2e.conftest import Diag, summary

ROWS = {
    "detect": "0 .5 .5 .4 .4",
    "segment": "0 .3 .3 .7 .3 .7 .7 .3 .7",
    "pose": "0 .5 .5 .4 .4 .4 .4 2 .6 .6 2",
    "obb": "0 .3 .3 .7 .3 .7 .7 .3 .7",
}


def draw(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    pixels[20:44, 20:44] = 255
    Image.fromarray(pixels).save(path)


def make(root: Path, task: str) -> Path:
    """A set of 8 + 4 images; returns what to pass as data=."""
    for split, count in (("train", 8), ("val", 4)):
        for number in range(count):
            if task == "classify":
                draw(root / split / ("even", "odd")[number % 2] / f"{number}.png", number)
                continue
            draw(root / "images" / split / f"{number}.png", number)
            label = root / "labels" / split / f"{number}.txt"
            label.parent.mkdir(parents=True, exist_ok=True)
            label.write_text(ROWS[task] + "\n")
    if task == "classify":
        return root
    extra = "kpt_shape: [2, 3]\nflip_idx: [0, 1]\n" if task == "pose" else ""
    (root / "data.yaml").write_text(f"train: images/train\nval: images/val\nnames: [box]\n{extra}")
    return root / "data.yaml"


@pytest.mark.parametrize(
    ("task", "model"),
    [
        ("segment", "yolo11n-seg.yaml"),
        ("pose", "yolo11n-pose.yaml"),
        ("obb", "yolo11n-obb.yaml"),
        ("classify", "yolo11n-cls.yaml"),
        ("detect", "rtdetr-resnet50.yaml"),
    ],
)
def test_a_task_trains_and_is_recorded(tmp_path: Path, workspace: Path, diag: Diag, task: str, model: str) -> None:
    data = make(tmp_path / "set", task)
    words = [f"data={data}", f"model={model}", "imgsz=64", "epochs=1", "batch=4", "device=cpu", "plots=False"]
    done = diag("train", *words)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    document = summary(workspace)
    assert (document["data"]["task"], document["train"]["epochs_done"]) == (task, 1)
    run = Path(document["run"]["dir"])
    steps = [json.loads(line) for line in (run / "trace" / "rank0.jsonl").read_text().splitlines()]
    first = next(record for record in steps if record["k"] == "laps" and record["n"] == 0)
    assert [stage for stage, _ in first["l"]][:4] == ["data_wait", "transfer", "forward", "backward"]
    assert len((run / "train.log").read_text().splitlines()) == 2
    # what it has learned is asked for its opinion of the labels: the weights of every task can be read and used
    asked = diag("data", str(data), "--task", task, "--with", str(run), "--quick", "--format", "json")
    assert asked.returncode == 0, asked.stderr[-2000:]
    hints = json.loads(asked.stdout)["hints"]
    assert (hints.get("skipped"), hints["loaded"], hints["images"], hints["imgsz"]) == (None, "weights_only", 12, 64)
