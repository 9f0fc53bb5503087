"""key=value arguments: parsed as Ultralytics does, refused with a line that helps."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from diag.errors import InputError
from diag.train_args import default_model, is_cpu, known_args, parse_overrides, parse_value, task_of
from diag.train_tables import Tables, tables
from diag.train_values import check_value, notes


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
        # fractions
        ("lr0=1.5", "must be between 0 and 1"),
        ("lr0=-0.1", "between 0 and 1"),
        ("mosaic=50", "a fraction; 50 % is 0.5"),
        ("warmup_bias_lr=10", "between 0 and 1"),
        ("lr0=nan", "finite"),
        ("box=inf", "finite"),
        ("lr0=0,01", "lr0=0.01"),
        ("fraction=0", "a share above 0"),
        ("fraction=-3", "a share above 0"),
        ("scale=1.5", "between 0 and 1"),
        ("hsv_h=True", "expected float"),
        # whole numbers
        ("epochs=1.5", "expected int"),
        ("epochs=1e2", "write epochs=100"),
        ("epochs=1,000", "write epochs=1000"),
        ("epochs=50epochs", "epochs=50"),
        ("workers=-1", "must be at least 0"),
        ("patience=-1", "must be at least 0"),
        ("imgsz=640px", "without a unit: imgsz=640"),
        ("imgsz=0", "at least 1"),
        ("imgsz=[640,480,3]", "one number of pixels"),
        ("imgsz=640x480", "expected int or list"),
        # truth
        ("val=1", "must be True or False; write val=True"),
        ("plots=no", "write plots=False"),
        ("rect=maybe", "must be True or False"),
        ("amp=1", "write amp=True"),
        ("cache=Disc", "did you mean cache=disk?"),
        ("cache=1", "write cache=True"),
        # batch and device
        ("batch=0", "AutoBatch"),
        ("batch=-2", "AutoBatch"),
        ("batch=1.5", "AutoBatch"),
        ("batch=nan", "AutoBatch"),
        ("batch=[16]", "expected int"),
        ("device=gpu", "did you mean device=0?"),
        ("device=cuda0", "did you mean device=0?"),
        ("device=gpu:1", "did you mean device=1?"),
        ("device=auto", "leave it out"),
        ("device=0,0", "names a GPU twice"),
        ("device=0.5", "no device"),
        ("device=True", "no device"),
        # words
        ("optimizer=adamw2", "did you mean optimizer=AdamW?"),
        ("optimizer=lion", "one of SGD"),
        ("copy_paste_mode=flop", "did you mean copy_paste_mode=flip?"),
        ("auto_augment=rand", "one of randaugment"),
        ("split=validation", "one of val, test, train"),
        ("freeze=-1", "number of first layers"),
        ("lr0=None", "leave it out for the default, 0.01"),
        ("amp=None", "leave it out for the default"),
        ("quantize=4", "one of 16"),
        # names
        ("--epochs=3", "without dashes, as epochs=3"),
        ("--batch-size=3", "without dashes"),
        ("--epochs", "for example epochs=VALUE"),
        ("batch_size=16", "did you mean batch=?"),
        ("weights=yolo11n.pt", "did you mean model=?"),
        ("img=640", "did you mean imgsz=?"),
        ("lr=0.01", "did you mean lr0=?"),
        ("Epochs=3", "did you mean epochs=?"),
        ("boxes=True", "an old name; Ultralytics 8.4"),
        ("hide_labels=True", "calls it show_labels="),
        ("end2end=True", "calls it nms="),
        ("half=True", "calls it quantize="),
        ("label_smoothing=0.1", "was removed"),
    ],
)
def test_a_wrong_argument_is_refused_with_a_hint(word: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)) as error:
        parse_overrides([word])
    assert "\n" not in str(error.value)
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


@pytest.mark.parametrize(
    "word",
    [
        "lr0=0", "lr0=1", "lrf=1.0", "mosaic=0.5", "batch=-1", "batch=0.7", "batch=16", "batch=16.0", "fraction=0.5",
        "fraction=200", "fraction=[0.5,0.2]", "scale=[0.5,2.0]", "scale=0.5,1.5", "imgsz=640,480", "imgsz=[640]",
        "device=cpu", "device=0", "device=0,1", "device=[0,1]", "device=cuda", "device=cuda:0,1", "device=-1",
        "device=mps", "device=npu:0", "device=", "device=None", "optimizer=adamw", "optimizer=auto", "cache=disk",
        "cache=False", "amp=bf16", "freeze=0,1,2", "freeze=10", "freeze=['model.23']", "time=None", "auto_augment=None",
        "save_period=-1", "classes=0,2", "pretrained=False", "pretrained=a.pt", "conf=None", "resume=True",
        "degrees=-45", "box=7", "warmup_epochs=0", "close_mosaic=0", "compile=max-autotune", "quantize=fp16",
    ],
)  # fmt: skip
def test_what_ultralytics_takes_is_taken(word: str) -> None:
    parse_overrides([word])


def test_numbers_with_commas_are_a_list_where_one_is_allowed() -> None:
    said = parse_overrides(["imgsz=640,480", "freeze=0, 1,2", "device=0,1", "name=a,b"])
    assert said == {"imgsz": [640, 480], "freeze": [0, 1, 2], "device": "0,1", "name": "a,b"}


PROBED: tuple[Any, ...] = (None, True, False, 0, 1, 2, -1, 0.5, 1.5, 100, -0.1, 16.0, "true", "abc", [0, 1], [0.5, 2.0])
ASK = """
import json, sys
from ultralytics.cfg import DEFAULT_CFG_DICT, check_cfg
def takes(key, value):
    try:
        check_cfg({key: value})
    except (TypeError, ValueError):
        return False
    return True
values = json.load(sys.stdin)
print(json.dumps({key: [takes(key, value) for value in values] for key in DEFAULT_CFG_DICT}))
"""


def test_nothing_that_ultralytics_refuses_is_let_through() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK], input=json.dumps(PROBED), capture_output=True, text=True, check=True
    )
    theirs = json.loads(done.stdout.splitlines()[-1])
    let_through = [
        (key, value)
        for key, answers in theirs.items()
        for value, taken in zip(PROBED, answers, strict=True)
        if not taken and key in known_args() and _takes(key, value)
    ]
    assert let_through == []
    assert sum(not taken for answers in theirs.values() for taken in answers) > 400


def _takes(key: str, value: Any) -> bool:
    try:
        check_value(key, value, tables())
    except InputError:
        return False
    return True


OLD = """
CFG_FRACTION_KEYS = {"lr0", "fraction", "label_smoothing"}
CFG_INT_KEYS = {"epochs"}
CFG_BOOL_KEYS = {"amp", "val"}
def _handle_deprecation(custom):
    for key in custom.copy().keys():
        if key == "boxes":
            deprecation_warn(key, "show_boxes")
"""
OLD_YAML = """
epochs: 100 # (int) number
lr0: 0.01 # (float) initial
fraction: 1.0 # (float) fraction
label_smoothing: 0.0 # (float) label smoothing
amp: True # (bool) AMP
val: True # (bool) validate
optimizer: auto # (str) optimizer to use, choices=[SGD, Adam, Adamax, AdamW, NAdam, RAdam, RMSProp, auto]
device: # (int | str | list, optional) device to run on, i.e. cuda device=0 or device=0,1,2,3 or device=cpu
"""


@pytest.fixture
def old(tmp_path: Path) -> Tables:
    """Tables in the form of 8.3.9."""
    (tmp_path / "cfg").mkdir()
    (tmp_path / "cfg" / "__init__.py").write_text(OLD)
    (tmp_path / "cfg" / "default.yaml").write_text(OLD_YAML)
    (tmp_path / "__init__.py").write_text('__version__ = "8.3.9"\n')
    return tables(tmp_path)


def test_an_older_release_has_its_own_limits(old: Tables) -> None:
    assert (old.version, old.renamed, old.least) == ("8.3.9", {"boxes": "show_boxes"}, {})
    for key, value in (("label_smoothing", 0.1), ("optimizer", "AdamW"), ("lr0", None), ("fraction", 0.5)):
        check_value(key, value, old)
    for key, value, said in (
        ("amp", "bf16", "one of True, False"),
        ("optimizer", "adamw", "did you mean optimizer=AdamW"),
        ("device", -1, "no device"),
        ("fraction", 200, "a share above 0, up to 1"),
        ("label_smoothing", 2, "between 0 and 1"),
        ("epochs", 0, "at least 1"),
    ):
        with pytest.raises(InputError, match=re.escape(said)):
            check_value(key, value, old)


def test_what_ultralytics_changes_by_itself_is_said() -> None:
    assert notes({"imgsz": 640}) == []
    assert notes({"imgsz": 100}) == ["imgsz=100 is no multiple of 32; Ultralytics rounds it up to 128"]
    assert "takes 640" in notes({"imgsz": [640, 480]})[0]
    assert "all of it is warm-up" in notes({"warmup_epochs": 3, "epochs": 3})[0]


@pytest.mark.parametrize(
    ("task", "said"), [("detection", "task=detect"), ("semantic", "one of detect"), ("x", "one of")]
)
def test_an_unknown_task_is_refused(task: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        task_of({"task": task})
