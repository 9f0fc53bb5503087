# ruff: noqa: E501  (real layouts have long lines)
"""Notebooks: the cells that train count, with the lines of the file; what is none says so."""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diag.errors import InputError
from diag.load.notebook import looks_like_notebook, read_notebook
from diag.load.read import UnreadableError
from diag.load.run import load_run
from tests.fuzzing import examples

HEAD = "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
BANNER = "Ultralytics 8.3.40 🚀 Python-3.11.11 torch-2.6.0+cu124 CUDA:0 (Tesla T4, 15095MiB)\n"


def training(epochs: int = 6, planned: int = 6, *, version: str = "8.3.40") -> list[str]:
    """What a training of so many epochs prints, as Jupyter keeps it: a text a line, bars with carriage returns."""
    lines = [
        BANNER.replace("8.3.40", version),
        f"engine/trainer: task=detect, mode=train, model=yolo11n.pt, epochs={planned}, batch=16, imgsz=640\n",
        f"Starting training for {planned} epochs...\n",
        "\n",
    ]
    for i in range(1, epochs + 1):
        bars = "\r".join(
            f"      {i}/{planned}      2.5G      {2 - i / 10:.3g}      {3 - i / 5:.3g}      1.{i}         17        640:"
            f" {100 * k // 4:3d}%|█████     | {k}/4 [00:0{k}<00:00,  1.23it/s]"
            for k in range(1, 5)
        )
        lines += [
            HEAD,
            f"{bars}\n",
            "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|███| 2/2\n",
            f"                   all         64        412      0.{50 + i}      0.4{i}      0.{40 + i}      0.{20 + i}\n",
            "\n",
        ]
    if epochs == planned:
        lines.append(f"{epochs} epochs completed in 0.185 hours.\n")
    return lines


def stream(texts: list[str] | str, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": texts}


def failed(name: str, value: str) -> dict[str, Any]:
    trace = [
        f"\x1b[0;31m{name}\x1b[0m   Traceback (most recent call last)",
        '   12 raise X("CUDA out of memory. Tried")',
    ]
    return {"output_type": "error", "ename": name, "evalue": value, "traceback": trace}


def cell(source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "source": [source], "outputs": list(outputs), "metadata": {}, "execution_count": 1}


def write(path: Path, *cells: dict[str, Any], indent: int | None = 1) -> Path:
    book = {"cells": list(cells), "nbformat": 4, "nbformat_minor": 5, "metadata": {}}
    path.write_text(json.dumps(book, indent=indent, ensure_ascii=False), encoding="utf-8")
    return path


def test_the_training_of_a_notebook_is_read(tmp_path: Path) -> None:
    path = write(
        tmp_path / "train.ipynb",
        {"cell_type": "markdown", "source": ["# CUDA out of memory"]},
        cell("!pip install ultralytics", stream("ERROR: No matching distribution\n")),
        cell("model.train(data='d.yaml')", stream(training())),
    )
    evidence = load_run(path)
    assert evidence.log is not None and evidence.curves is not None
    assert [e.epoch for e in evidence.log.epochs] == [1, 2, 3, 4, 5, 6]
    assert evidence.log.epochs[-1].losses == {"box_loss": 1.4, "cls_loss": 1.8, "dfl_loss": 1.6}
    assert evidence.log.epochs[-1].metrics["metrics/mAP50-95(B)"] == 0.26
    assert (evidence.log.ended, evidence.log.gpu, evidence.log.torch) == ("completed", "Tesla T4", "2.6.0+cu124")
    assert evidence.args is not None and evidence.args.get("batch") == 16


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ipynb", cell("x.train()", stream(training())))
    evidence = load_run(path)
    assert evidence.log is not None
    lines = path.read_text(encoding="utf-8").split("\n")
    for row in evidence.log.epochs:
        assert f"{row.epoch}/6 " in lines[row.line - 1]


@pytest.mark.parametrize("source", ["!yolo task=detect mode=train data=d.yaml", "model.train()", "!python train.py"])
def test_an_error_of_the_training_cell_counts(tmp_path: Path, source: str) -> None:
    path = write(
        tmp_path / "a.ipynb", cell(source, failed("OutOfMemoryError", "CUDA out of memory. Tried to allocate 2 MiB"))
    )
    evidence = load_run(path)
    assert evidence.console is not None and evidence.console.of("gpu_oom")


def test_an_error_of_another_cell_does_not(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.ipynb",
        cell("model.train()", stream(training())),
        cell("model.predict('x.jpg')", failed("OutOfMemoryError", "CUDA out of memory. Tried to allocate 9 GiB")),
        cell("# model.train() again", failed("KeyboardInterrupt", "")),
    )
    evidence = load_run(path)
    assert evidence.console is not None and evidence.log is not None
    assert not any(evidence.console.of(kind) for kind in ("gpu_oom", "interrupted", "traceback"))
    assert evidence.log.ended == "completed"


def test_quoted_source_of_a_traceback_is_no_message(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ipynb", cell("model.train()", stream(training(3)), failed("TypeError", "bad")))
    evidence = load_run(path)
    assert evidence.console is not None and not evidence.console.of("gpu_oom")


def test_a_notebook_without_training_is_read_as_it_is(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.ipynb",
        cell("model.val()", failed("OutOfMemoryError", "CUDA out of memory. Tried to allocate 9 GiB")),
    )
    evidence = load_run(path)
    assert evidence.console is not None and evidence.console.of("gpu_oom")


def test_split_streams_are_one_console(tmp_path: Path) -> None:
    """Bars come through stderr: each piece is an output of its own."""
    pieces = [stream([text], "stderr" if "it/s" in text else "stdout") for text in training(4)]
    path = write(tmp_path / "a.ipynb", cell("model.train()", *pieces))
    evidence = load_run(path)
    assert evidence.log is not None and len(evidence.log.epochs) == 4


def test_one_text_and_one_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ipynb", cell("model.train()", stream("".join(training(4)))), indent=None)
    evidence = load_run(path)
    assert evidence.log is not None and len(evidence.log.epochs) == 4


def test_format_3(tmp_path: Path) -> None:
    code = {"cell_type": "code", "input": ["model.train()"], "outputs": [stream(training(5))]}
    path = tmp_path / "old.ipynb"
    path.write_text(json.dumps({"worksheets": [{"cells": [code]}], "nbformat": 3}), encoding="utf-8")
    evidence = load_run(path)
    assert evidence.log is not None and len(evidence.log.epochs) == 5


def test_two_trainings_keep_their_own_facts(tmp_path: Path) -> None:
    """The longer one is judged, with its arguments, its version and its end."""
    second = [t.replace("batch=16", "batch=4") for t in training(2, 6, version="8.4.1")]
    path = write(
        tmp_path / "a.ipynb",
        cell("model.train()", stream(training(6))),
        cell("model.train(batch=4)", stream(second), failed("OutOfMemoryError", "CUDA out of memory. Tried")),
    )
    evidence = load_run(path)
    assert evidence.log is not None and evidence.args is not None
    assert (len(evidence.log.epochs), evidence.log.runs, evidence.log.ended) == (6, 2, "completed")
    assert evidence.args.get("batch") == 16


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"cells": [', "no JSON"),
        ("<<<<<<< HEAD\n{}\n=======", "merge conflict"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "Git LFS"),
        ("[]", "no cells"),
        ('{"cells": 3}', "no cells"),
        ('{"cells": [{"cell_type": "code", "source": ["model.train()"], "outputs": []}]}', "without outputs"),
    ],
)
def test_what_is_no_notebook_says_so(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UnreadableError, match=reason):
        list(read_notebook(path))
    with pytest.raises(InputError, match=reason):
        load_run(path)


def test_in_an_archive_in_a_folder_and_on_standard_input(tmp_path: Path) -> None:
    path = write(tmp_path / "train.ipynb", cell("model.train()", stream(training())))
    packed = tmp_path / "p.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(path, "work/train.ipynb")
    assert (log := load_run(packed).log) is not None and len(log.epochs) == 6
    folder = tmp_path / "run"
    folder.mkdir()
    path.rename(folder / "train.ipynb")
    assert (log := load_run(folder).log) is not None and len(log.epochs) == 6
    data = (folder / "train.ipynb").read_bytes()
    assert looks_like_notebook(data[:4096]) and not looks_like_notebook(b'{"verdict": 1}')
    done = subprocess.run(
        [sys.executable, "-m", "diag", "analyze", "-", "--format", "json"], input=data, capture_output=True, check=False
    )
    assert done.returncode == 0 and json.load(io.BytesIO(done.stdout))["findings"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["cells", "outputs", "text", "output_type", "source", "ename", "evalue", "worksheets", "x"]
            ),
            inner | st.sampled_from(["stream", "error", "code"]),
            max_size=5,
        )
    ),
    max_leaves=30,
)


@settings(max_examples=examples(300), deadline=None)
@given(JSON)
def test_no_json_breaks_it(tmp_path_factory: pytest.TempPathFactory, made: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.ipynb"
    path.write_text(json.dumps(made), encoding="utf-8")
    try:
        for number, line in read_notebook(path):
            assert number > 0 and isinstance(line, bytes)
    except UnreadableError:
        pass


def test_a_repeated_text_has_the_line_of_each_time(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.ipynb",
        cell("x.train()", stream(["same\n", "other\n", "same\n"]), failed("ValueError", "no é such thing")),
    )
    lines = path.read_text(encoding="utf-8").split("\n")
    made = list(read_notebook(path))
    assert [line for _, line in made[:3]] == [b"same", b"other", b"same"]
    assert [lines[n - 1].strip().rstrip(",") for n, _ in made[:3]] == ['"same\\n"', '"other\\n"', '"same\\n"']
    assert made[0][0] < made[1][0] < made[2][0]
    assert "evalue" in lines[made[-1][0] - 1] or "text" not in lines[made[-1][0] - 1]
