"""Texts and documents, each put back to the file that it was; and what looks like a wrapping and is none."""

import gzip
import io
import json
import zipfile
from pathlib import Path

import pytest

from diag.errors import InputError
from diag.load import load_run
from diag.load.parts import split
from diag.load.plain import decode, plain, unfolded
from diag.load.prefix import prefixes_of, stripped
from diag.load.restored import MAX_LOG, restored
from diag.load.sniff import kind_of
from tests.load.conftest import CSV

BANNER = "Ultralytics 8.3.40 🚀 Python-3.10.12 torch-2.5.1+cu121 CUDA:0 (Tesla T4, 15102MiB)"
HEAD = "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size"
ROW = "       1/50       2.9G      1.423       2.05      1.339   35        640: 100%|█| 120/120 [00:31<00:00,  3.8it/s]"
ALL = "                   all        240        611       0.51       0.44       0.49      0.313"
LOG = [BANNER, "Starting training for 50 epochs...", HEAD, ROW, ALL]
ARGS = "epochs: 100\nbatch: 16\nimgsz: 640\nlr0: 0.01\n"


def strip(lines: list[str]) -> list[str]:
    return list(stripped(lines, prefixes_of(lines)))


def flush(lines: list[str]) -> list[str]:
    """A blank that may belong to a prefix does not count."""
    return [line.lstrip() for line in lines]


@pytest.mark.parametrize(
    "prefix",
    [
        "train-1  | ",
        "[pod/yolo-0/main] ",
        "2024-05-01T12:00:00.123456789Z ",
        "<14>1 2024-05-01T12:00:00Z gpu train 42 - - ",
        "May  1 12:00:00 gpu-01 python[42]: ",
        "2024-05-01T12:00:00+0200 gpu-01 python[42]: ",
        "2024-05-01 12:00:00,123 - ultralytics - INFO - ",
        "2024-05-01 12:00:00.123 | INFO     | __main__:main:12 - ",
        "[2024-05-01 12:00:00] ",
        "[rank0]: ",
        "[default0]:",
        "[1,0]<stdout>:",
        "(RayTrainWorker pid=42, ip=10.0.0.1) ",
        "INFO:ultralytics:",
        "> > ",
        "+",
        "C:\\logs\\out.log:",
        "train-1  | 2024-05-01T12:00:00Z [rank0]: ",
    ],
)
def test_a_prefix_of_every_line_is_taken_off(prefix: str) -> None:
    assert flush(strip([prefix + line for line in LOG])) == flush(LOG)


def test_line_numbers_are_taken_off() -> None:
    assert flush(strip([f"{i}:{line}" for i, line in enumerate(LOG, 1)])) == flush(LOG)
    assert flush(strip([f"{i:6d}\t{line}" for i, line in enumerate(LOG, 1)])) == flush(LOG)
    assert flush(strip([f"0: {line}" for line in LOG])) == flush(LOG)


@pytest.mark.parametrize(
    "lines",
    [
        LOG,
        ["| 0  Tesla T4   Off | 00000000:00:04.0 Off |", "| N/A 45C  P8  9W / 70W | 0MiB / 15360MiB |"] * 3,
        [">>> import torch", ">>> torch.cuda.is_available()", "False"],
        ["12:00:05 epoch 1", "12:00:09 epoch 2", "12:00:13 epoch 3", "12:00:17 epoch 4", "12:00:21 epoch 5"],
        ["640: 1", "12: 3", "7: 4", "9000: 2", "11: 2"],
        [
            "epoch 1/9 batch 1/99 | dataloader: 0.2s, model: 0.1s",
            "epoch 1/9 batch 2/99 | dataloader: 0.2s, model: 0.1s",
        ],
        ["/a/b.jpg: corrupt", "/a/c.jpg: corrupt", "/a/d.jpg: corrupt"],
        ["[Tue Mar  4 11:02:17 2025] Memory cgroup out of memory: Killed process 629 (python3)"],
        ["Mar  4 11:02:17 gpu kernel: oom-kill:constraint", "Mar  4 11:02:18 gpu kernel: Killed process 3"],
    ],
)
def test_what_looks_like_a_prefix_stays(lines: list[str]) -> None:
    made = strip(lines)
    assert all("kernel:" in m or m == line for m, line in zip(made, lines, strict=True)), made


def test_folds_of_a_terminal_are_joined_and_lines_keep_their_count() -> None:
    long = [
        "train: weights=, cfg=yolov5s.yaml, data=/data/some/where/far/off/the/dataset.yaml, epochs=50, batch=16"
    ] * 4
    folded = [part for line in long for part in (line[:80], line[80:])]
    made = unfolded(folded)
    assert [line for line in made if line] == long
    assert len(made) == len(folded)


def test_rows_as_wide_as_a_terminal_are_no_folds() -> None:
    row = "epoch 1/50 batch {}/1180 | dataloader: 0.004s, model: 0.120s, optimizer: 0.012s"
    rows = [row.format(n) for n in range(100, 140)]
    assert {len(r) for r in rows} == {80}
    assert unfolded(rows) == rows
    bars = ["x" * 20 + " 640: 100%|████████████████████████████| 120/120 [00:31<00:00,  3.86it/s]".rjust(60), ALL[:70]]
    assert unfolded(bars * 5) == bars * 5


def test_blanks_quotes_and_entities_are_those_of_the_program() -> None:
    assert plain("optimizer:\u00a0\u2018auto\u2019 \u200bfound\u2026") == "optimizer: 'auto' found..."
    assert plain("size &gt; 640 &amp; &#39;rect&#39;") == "size > 640 & 'rect'"
    assert plain("50% ???????? 12/24 1.8it/s 7:31<23:24") == "50% ━━━━━━━━ 12/24 1.8it/s 7:31<23:24"
    assert plain("is it on? 100% sure???") == "is it on? 100% sure???"


def test_bytes_of_other_encodings_are_read() -> None:
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"):
        assert (decode(("\n".join(LOG)).encode(encoding)) or "").lstrip("\ufeff") == "\n".join(LOG)
    assert decode("OSError: 页面文件太小，无法完成操作。".encode("gbk")) == "OSError: 页面文件太小，无法完成操作。"  # noqa: RUF001
    assert "1234" in (decode("für 1234".encode("latin-1")) or "")
    assert decode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0") is None


def test_a_document_falls_into_its_files() -> None:
    issue = (
        f"Hello, my loss is odd.\n\n**args.yaml**\n```yaml\n{ARGS}```\nand\n```\n" + "\n".join(LOG) + "\n```\nThanks\n"
    )
    parts = split(issue) or []
    assert [p.name for p in parts] == ["args.yaml", "", ""]
    assert parts[0].text.strip() == ARGS.strip()
    assert issue.split("\n")[parts[1].line] == BANNER
    assert parts[2].prose
    assert BANNER not in parts[2].text


@pytest.mark.parametrize("head", ["==> {} <==", "$ cat {}", "===== {} =====", "## {}", "me@gpu:~$ cat {}", "{}:"])
def test_files_under_each_other_are_told_apart(head: str) -> None:
    text = f"{head.format('args.yaml')}\n{ARGS}\n{head.format('results.csv')}\n{CSV}"
    parts = {p.name: p.text.strip() for p in split(text) or []}
    assert parts == {"args.yaml": ARGS.strip(), "results.csv": CSV.strip()}


def test_a_log_is_no_document() -> None:
    log = "\n".join([*LOG, "", HEAD, ROW, ALL, "Results saved to runs/detect/train", "", "    Class  Images", "x"])
    assert split(log) is None
    assert split("\n".join(["    " + line.strip() for line in LOG] + ["ValueError: x"])) is None
    assert split(CSV) is None


def test_a_recording_and_a_log_of_docker_give_what_was_printed() -> None:
    told = "\n".join(LOG) + "\n"
    lines = told.splitlines(keepends=True)
    cast = '{"version": 2, "width": 80}\n' + "".join(
        json.dumps([0.1, "o", told[i : i + 50]]) + "\n" for i in range(0, len(told), 50)
    )
    docker = "".join(json.dumps({"log": line, "stream": "stdout"}) + "\n" for line in lines)
    for text in (cast, docker):
        (part,) = split(text) or []
        assert part.text == told
    assert split('{"cells": ' + "[" * 100_000) is None
    assert split('{"cells": 7, "nbformat": 4}') is None


def test_a_notebook_under_another_name_is_read_as_one(tmp_path: Path) -> None:
    lines = ("\n".join(LOG) + "\n").splitlines(keepends=True)
    cell = {"cell_type": "code", "source": ["!yolo train"], "outputs": [{"output_type": "stream", "text": lines}]}
    text = json.dumps({"cells": [cell], "nbformat": 4}, indent=1)
    for name in ("a.ipynb", "a.txt", "a.json"):
        folder = tmp_path / name.replace(".", "_")
        folder.mkdir()
        (folder / name).write_text(text)
        evidence = load_run(folder)
        assert evidence.console is not None and evidence.console.file == name
        assert evidence.console.lines and all(
            text.split("\n")[k.line - 1].strip()[:1] == '"' for k in evidence.console.lines
        )


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (ARGS, "args"),
        (ARGS.replace("batch", "batch_size"), "opt"),
        ("lr0: 0.01\nlrf: 0.01\nmomentum: 0.937\n", "hyp"),
        ('{"epochs": 3, "batch": 2, "imgsz": 640}', "args"),
        ("train: a\nval: b\nnames: [x]\n", "data"),
        (CSV, "results"),
        ("t_s,gpu_util\n0,1\n1,2\n", "table"),
        ("\n".join(LOG), "text"),
        ("name: my env\nversion: 3\nauthor: me\n", "text"),
        ("services:\n  train:\n    image: x\n", "text"),
        ("Dear all, I train, and it fails, sadly.\nBest, me\n", "text"),
    ],
)
def test_a_text_is_known_by_what_stands_in_it(text: str, kind: str) -> None:
    assert kind_of(text) == kind


def test_evidence_names_the_file_that_was_given(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(
        "\n".join(f"train-1  | {line}" for line in [*LOG, "RuntimeError: CUDA out of memory"])
    )
    console = load_run(tmp_path).console
    assert console is not None
    assert console.file == "log.txt"
    assert console.of("gpu_oom")[0].line == 6


def test_lines_of_a_document_keep_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "issue.md").write_text(
        "Hi\n\n```\n" + "\n".join([*LOG, "RuntimeError: CUDA out of memory"]) + "\n```\n"
    )
    console = load_run(tmp_path / "issue.md").console
    assert console is not None
    assert console.of("gpu_oom")[0].line == 9


def test_a_plain_folder_is_read_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "console.log").write_text("\n".join(LOG))
    (tmp_path / "results.csv").write_text(CSV)
    (tmp_path / "args.yaml").write_text(ARGS)
    with restored(tmp_path) as made:
        assert (made.path, made.changed) == (tmp_path, False)


def test_a_large_log_loses_its_prefix_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    path.write_text("\n".join(["train-1  | " + line for line in LOG] * (MAX_LOG // 400)))
    assert path.stat().st_size > MAX_LOG
    log = load_run(path).log
    assert log is not None
    assert log.epochs


def test_archives_are_opened_to_the_third_layer(tmp_path: Path) -> None:
    def packed(name: str, data: bytes) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(name, data)
        return out.getvalue()

    data, layers = CSV.encode(), 0
    name = "results.csv"
    while layers < 6:
        data, name, layers = packed(name, data), f"{layers}.zip", layers + 1
        (tmp_path / f"{layers}.zip").write_bytes(data)
    assert load_run(tmp_path / "4.zip").epochs is not None
    with pytest.raises(InputError):
        load_run(tmp_path / "6.zip")


def test_a_compressed_file_and_a_folder_with_an_archive_are_opened(tmp_path: Path) -> None:
    (tmp_path / "results.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    assert load_run(tmp_path / "results.csv.gz").epochs is not None
    assert load_run(tmp_path).epochs is not None
    (tmp_path / "console.log").write_text("\n".join(LOG))
    beside = load_run(tmp_path)
    assert beside.epochs is None or beside.log is not None
    assert any("an archive; give it by itself" in s for s in beside.skipped_files)


def test_a_screenshot_is_named(tmp_path: Path) -> None:
    (tmp_path / "console.log").write_text("\n".join(LOG))
    for name in ("Screenshot 1.png", "F1_curve.png", "截图.jpg"):
        (tmp_path / name).write_bytes(b"\x89PNG")
    named = [s for s in load_run(tmp_path).skipped_files if "picture" in s]
    assert len(named) == 2
