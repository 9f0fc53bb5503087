"""A foreign model file never reaches Ultralytics unless its maker is trusted."""

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest

from diag.child import Stopper
from diag.errors import InputError
from diag.screen import Screen
from diag.stages.context import Context, begin
from diag.stages.environment import child_env


class Runs:
    """Pickled as a call of os.system."""

    def __reduce__(self) -> Any:
        return os.system, ("touch RAN",)


def start(tmp_path: Path, *words: str) -> Context:
    return begin(list(words), tmp_path / "workspace", Screen(io.StringIO()), Stopper(), cwd=tmp_path)


@pytest.mark.parametrize("words", [("model=foreign.pt",), ("model=yolo11n.yaml", "pretrained=foreign.pt")])
@pytest.mark.parametrize("place", ["", "workspace/weights"])
def test_a_file_that_would_run_code_is_one_clear_line(
    words: tuple[str, ...], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRUST_CHECKPOINT", raising=False)
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(tmp_path / place / "foreign.pt", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"model": Runs()}, protocol=2))
    with pytest.raises(
        InputError, match=r"foreign\.pt: loading it would run or build posix\.system.*TRUST_CHECKPOINT=1"
    ):
        start(tmp_path, *words)
    assert not (tmp_path / "workspace/runs").exists()
    monkeypatch.setenv("TRUST_CHECKPOINT", "1")
    assert start(tmp_path, *words).run_dir.exists()


def test_ultralytics_own_guard_is_on_unless_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YOLO_CONFIG_DIR", str(tmp_path))
    monkeypatch.delenv("TRUST_CHECKPOINT", raising=False)
    assert child_env(tmp_path, Stopper())["ULTRALYTICS_SAFE_LOAD"] == "true"
    monkeypatch.setenv("TRUST_CHECKPOINT", "1")
    assert "ULTRALYTICS_SAFE_LOAD" not in child_env(tmp_path, Stopper())
