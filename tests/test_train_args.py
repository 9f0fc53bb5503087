"""key=value arguments: parsed as Ultralytics does, refused with a line that helps."""

import pytest

from diag.errors import InputError
from diag.train_args import default_model, is_cpu, known_args, parse_overrides, parse_value, task_of


def test_values_are_read_as_ultralytics_reads_them() -> None:
    words = ["epochs=3", "lr0=1e-3", "cache=ram", "amp=False", "freeze=[0,1]", "device=0,1", "name=42", "time=none"]
    assert parse_overrides(words) == {
        "epochs": 3,
        "lr0": 0.001,
        "cache": "ram",
        "amp": False,
        "freeze": [0, 1],
        "device": "0,1",
        "name": "42",
        "time": None,
    }


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("epoch=3", "did you mean epochs=?"),
        ("epochs=three", "epochs=three: expected int"),
        ("epochs=true", "expected int"),
        ("epochs=0", "must be at least 1"),
        ("imgsz=640.5", "expected int or list"),
        ("epochs", "key=value"),
        ("=3", "key=value"),
        ("project=x", "--workspace"),
    ],
)
def test_a_wrong_argument_is_refused_with_a_hint(word: str, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("?", r"\?")) as error:
        parse_overrides([word])
    assert error.value.exit_code == 2


def test_broken_list_stays_text() -> None:
    assert parse_value("[1,") == "[1,"


def test_every_default_of_ultralytics_fits_its_own_stated_type() -> None:
    import yaml

    from diag.train_args import check_overrides, ultralytics_dir

    folder = ultralytics_dir()
    assert folder
    defaults = yaml.safe_load((folder / "cfg" / "default.yaml").read_text())
    defaults = {k: v for k, v in defaults.items() if k in known_args() and k not in {"mode", "exist_ok", "resume"}}
    defaults = {k: v for k, v in defaults.items() if k not in {"project", "cfg", "save_dir"}}
    assert len(defaults) > 80
    check_overrides(defaults)


@pytest.mark.parametrize(
    ("args", "task"),
    [
        ({}, "detect"),
        ({"model": "yolo11n-seg.yaml"}, "segment"),
        ({"model": "/x/yolo11n-pose.pt"}, "pose"),
        ({"task": "obb"}, "obb"),
        ({"model": "yolo11n-cls.pt", "task": "classify"}, "classify"),
    ],
)
def test_the_task_comes_from_the_argument_or_the_models_name(args: dict[str, str], task: str) -> None:
    assert task_of(args) == task


def test_contradicting_task_and_model_are_refused() -> None:
    with pytest.raises(InputError, match="task=segment but model=yolo11n-cls"):
        task_of({"task": "segment", "model": "yolo11n-cls.yaml"})


def test_default_models_need_no_download() -> None:
    assert [default_model(t) for t in ("detect", "segment", "classify")] == [
        "yolo11n.yaml",
        "yolo11n-seg.yaml",
        "yolo11n-cls.yaml",
    ]


def test_cpu_on_purpose() -> None:
    assert is_cpu("cpu") and is_cpu(" CPU ") and not is_cpu(None) and not is_cpu(0)


def test_none_is_none_for_an_argument_of_text_too_as_in_ultralytics() -> None:
    assert parse_overrides(["auto_augment=None", "name=12"]) == {"auto_augment": None, "name": "12"}
