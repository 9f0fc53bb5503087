"""What Ultralytics saves, for every task, passes both looks at foreign model files: ours, and its own."""

from pathlib import Path

import pytest

from diag.probe.checkpoint import why_refuse

MODELS = ("yolo11n-seg", "yolo11n-pose", "yolo11n-obb", "yolo11n-cls", "yolov10n", "yolo26n")


@pytest.mark.parametrize("name", MODELS)
def test_a_checkpoint_of_ultralytics_passes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The document that the trainer saves: model, optimizer, arguments, results; classification adds its transforms."""
    import torch
    from ultralytics import YOLO
    from ultralytics.data.augment import classify_transforms
    from ultralytics.nn.tasks import torch_safe_load

    model = YOLO(f"{name}.yaml").model
    if name.endswith("-cls"):
        model.transforms = classify_transforms()
    optimizer = torch.optim.AdamW(list(model.parameters())[:4])
    sum(p.sum() for p in list(model.parameters())[:4]).backward()
    optimizer.step()
    document = {
        "epoch": 3,
        "best_fitness": 0.5,
        "model": None,
        "ema": model.half(),
        "updates": 10,
        "optimizer": optimizer.state_dict(),
        "scaler": {},
        "train_args": {"model": f"{name}.yaml", "data": Path("data.yaml")},
        "train_metrics": {"metrics/mAP50(B)": 0.5},
        "train_results": {"epoch": [1, 2]},
        "date": "2026-01-01",
        "license": "AGPL-3.0 License (https://ultralytics.com/license)",
    }
    path = tmp_path / f"{name}.pt"
    torch.save(document, path)
    assert why_refuse(path) == ""
    loaded, _ = torch_safe_load(path, safe_only=True)
    assert loaded["epoch"] == 3
