"""Whole runs and cases, changed as files change between people: `diag analyze` answers in its form, and soon.

Eighty inputs here; `HYPOTHESIS_PROFILE=full scripts/test --timeout 0 tests/load/test_fuzz_structure.py` tries 10,000.
"""

import io
import json
import random
import shutil
import tarfile
import time
import zipfile
from pathlib import Path
from typing import NoReturn

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diag.cli import main
from diag.settings import CONFIGS
from tests.fuzzing import QUICK_OR_FULL, examples
from tests.load.structure import changed, folders
from tests.wrappings import Files, write

VALIDATOR = jsonschema.Draft202012Validator(json.loads((CONFIGS / "report.schema.json").read_text()))
LIMIT_S = 20.0
"""CPU seconds for one input; the slowest of a thousand took under four."""


def _refuse(word: str) -> NoReturn:
    raise AssertionError(f"{word} is no JSON")


def _pack(files: Files, path: Path, kind: str) -> None:
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)
        return
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def check(path: Path, capsys: pytest.CaptureFixture[str], *, page: bool) -> None:
    """One analysis: 0 and a valid report, or 2 and one clear line. DIAG_DEBUG lets a fault of ours through as it is."""
    began = time.process_time()
    code = main(["analyze", str(path), "--format", "json"])
    took = time.process_time() - began
    told = capsys.readouterr()
    assert "Traceback (most recent call last)" not in told.err
    assert code in {0, 2}  # 1 is for --fail-on, 3 for a fault of ours
    if code == 0:
        report = json.loads(told.out, parse_constant=_refuse)
        VALIDATOR.validate(report)
        assert report["crashed"] == []
    else:
        assert told.err.startswith("diag analyze: ")
        assert not told.out
    assert took < LIMIT_S
    if page:
        for form, lang in (("text", "zh"), ("markdown", "en")):
            assert main(["analyze", str(path), "--format", form, "--lang", lang]) == code
            capsys.readouterr()


def test_a_changed_run_gets_an_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIAG_DEBUG", "1")

    @settings(QUICK_OR_FULL, max_examples=examples(80))
    @given(which=st.integers(0, len(folders()) - 1), number=st.integers(0, 2**32))
    def one(which: int, number: int) -> None:
        rng = random.Random(number)
        files, pack = changed(folders()[which], rng)
        path = tmp_path / "run"
        if pack:
            path = tmp_path / f"run.{pack}"
            _pack(files, path, pack)
        else:
            path.mkdir()
            write(files, path)
        try:
            check(path, capsys, page=rng.random() < 0.1)
        finally:
            path.unlink() if pack else shutil.rmtree(path)

    one()


ROWS = "epoch,train/box_loss,metrics/mAP50-95(B),val/box_loss\n" + "".join(
    f"{n},{2 / n},0.{n}1,{2 / n}\n" for n in range(1, 9)
)
LOG = b"".join(b"        %d/8         0G      1.5      1.2      0.9         12        640\n" % n for n in range(1, 9))
FOUND = {
    "an argument that is a mapping": {
        "args.yaml": b"epochs: 9\nrect: {a: 1}\nlrf: [0.1]\nresume: {}\nmosaic: {}\nfliplr: []\nscale: {b: 2}\n"
    },
    "one of two runs is unreadable": {"run_a/console.log": LOG, "run_b/console.log": b"{}"},
}
"""What the fuzz has found, by its kind."""


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_stays_mended(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIAG_DEBUG", "1")
    write({"results.csv": ROWS.encode(), **FOUND[name]} if "args.yaml" in FOUND[name] else FOUND[name], tmp_path)
    check(tmp_path, capsys, page=True)
