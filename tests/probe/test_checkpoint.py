"""Model files that would run code are refused without being loaded; those of Ultralytics pass."""

import collections
import functools
import io
import os
import pickle
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from diag.probe.checkpoint import why_refuse

CANARY = "CHECKPOINT_RAN"


class Calls:
    """Pickled as a call."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


def archive(path: Path, data: bytes, *, name: str = "archive/data.pkl", more: tuple[str, ...] = ()) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(name, data)
        for other in more:
            file.writestr(other, b"")
    return path


def opcodes(*parts: bytes) -> bytes:
    return pickle.PROTO + b"\x02" + b"".join(parts) + pickle.STOP


def name(module: str, attribute: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{attribute}\n".encode()


def text(words: str) -> bytes:
    return pickle.BINUNICODE + len(words.encode()).to_bytes(4, "little") + words.encode()


def call(function: bytes, *args: bytes) -> bytes:
    return function + pickle.MARK + b"".join(args) + pickle.TUPLE + pickle.REDUCE


DETECT = name("ultralytics.nn.modules.head", "Detect")
GETATTR = name("__builtin__", "getattr")

BAD = {
    "os.system": pickle.dumps({"model": Calls(os.system, f"touch {CANARY}")}, protocol=2),
    "os.system, protocol 4": pickle.dumps([Calls(os.system, f"touch {CANARY}")], protocol=4),
    "eval": pickle.dumps(Calls(eval, f"open('{CANARY}', 'w')"), protocol=2),
    "partial": pickle.dumps(functools.partial(os.system, f"touch {CANARY}"), protocol=2),
    "a function of Ultralytics": opcodes(call(name("ultralytics.utils.downloads", "safe_download"), text("http://x"))),
    "a module of a model class": opcodes(name("ultralytics.nn.tasks", "os")),
    "a name with dots": pickle.dumps(0, protocol=4)[:2]
    + pickle.SHORT_BINUNICODE + b"\x14ultralytics.nn.tasks" + pickle.SHORT_BINUNICODE + b"\x09os.system"
    + pickle.STACK_GLOBAL + pickle.STOP,
    "__globals__ by getattr": opcodes(call(GETATTR, DETECT, text("__init__"))),
    "a looked-up method is called": opcodes(call(call(GETATTR, DETECT, text("forward")), text("x"))),
    "a model is constructed": opcodes(call(name("ultralytics.nn.tasks", "DetectionModel"), text("evil.yaml"))),
    "a foreign model": opcodes(name("models.yolo", "Model"), pickle.EMPTY_TUPLE, pickle.NEWOBJ),
    "a class is changed": opcodes(
        DETECT, pickle.NONE, pickle.EMPTY_DICT, text("x"), DETECT, pickle.SETITEM, pickle.TUPLE2, pickle.BUILD
    ),
    "extension registry": opcodes(pickle.EXT1 + b"\x01"),
    "a text that is evaluated": pickle.dumps({"yaml": {"activation": f"open('{CANARY}', 'w')"}}, protocol=2),
    "bytes that are evaluated": pickle.dumps([b"__import__('os').getpid()", "activation"], protocol=4),
}  # fmt: skip

GOOD = {
    "plain values": pickle.dumps({"epoch": 3, "date": "2026", "train_metrics": {"metrics/mAP50(B)": 0.5}}, protocol=2),
    "dictionary": pickle.dumps(collections.OrderedDict(a=1), protocol=2),
    "a layer": opcodes(DETECT, pickle.EMPTY_TUPLE, pickle.NEWOBJ, pickle.EMPTY_DICT, pickle.BUILD),
    "a bound forward, as yolo11n.pt has it": opcodes(call(GETATTR, DETECT, text("forward"))),
    "an interpolation mode": opcodes(
        call(GETATTR, name("torchvision.transforms.functional", "InterpolationMode"), text("BILINEAR"))
    ),
    "an activation": pickle.dumps(
        {"yaml": {"activation": "torch.nn.ReLU()"}, "license": "AGPL-3.0 License (https://ultralytics.com/license)"},
        protocol=2,
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_refused(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (archive(tmp_path / "zip.pt", BAD[case]), tmp_path / "raw.pt"):
        if path.name == "raw.pt":
            path.write_bytes(BAD[case])
        assert why_refuse(path), case
    assert not (tmp_path / CANARY).exists()


@pytest.mark.parametrize("case", GOOD)
def test_passes(case: str, tmp_path: Path) -> None:
    assert why_refuse(archive(tmp_path / "zip.pt", GOOD[case])) == ""


def test_what_it_says(tmp_path: Path) -> None:
    assert why_refuse(archive(tmp_path / "a.pt", BAD["os.system"])) == (
        "loading it would run or build posix.system, which is no part of a model of Ultralytics"
    )


def test_archives_that_readers_could_differ_about(tmp_path: Path) -> None:
    good = GOOD["plain values"]
    assert "TorchScript" in why_refuse(archive(tmp_path / "a.pt", good, more=("archive/code/x.py",)))
    assert "same name" in why_refuse(archive(tmp_path / "b.pt", good, more=("archive/DATA.pkl",)))
    assert "2 pickles" in why_refuse(archive(tmp_path / "c.pt", good, more=("archive/other.pkl",)))
    with tarfile.open(tmp_path / "d.pt", "w") as file:
        file.addfile(tarfile.TarInfo("pickle"), io.BytesIO())
    assert "tar archive" in why_refuse(tmp_path / "d.pt")
    whole = archive(tmp_path / "e.pt", good).read_bytes()
    (tmp_path / "e.pt").write_bytes(whole[:-10])
    assert "not copied completely" in why_refuse(tmp_path / "e.pt")
    (tmp_path / "f.pt").write_text("version https://git-lfs.github.com/spec/v1\n")
    assert "no PyTorch checkpoint" in why_refuse(tmp_path / "f.pt")


def test_the_format_before_pytorch_1_6(tmp_path: Path) -> None:
    head = [pickle.dumps(value, protocol=2) for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    for number, (obj, refused) in enumerate([(GOOD["a layer"], False), (BAD["os.system"], True)]):
        path = tmp_path / f"{number}.pt"
        path.write_bytes(b"".join([*head, obj, pickle.dumps(["0"], protocol=2), b"\x00" * 64]))
        assert bool(why_refuse(path)) == refused, why_refuse(path)
