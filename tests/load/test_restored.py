"""Texts and documents, each put back to the file that it was; and what looks like a wrapping and is none."""

import contextlib
import gzip
import io
import json
import zipfile
from pathlib import Path

import pytest

from diag.errors import InputError
from diag.load import load_run
from diag.load.dialect import canonical, grid
from diag.load.exports import column, merged, records
from diag.load.follow import Follower
from diag.load.listings import is_listing, listing_tables
from diag.load.parts import split
from diag.load.plain import decode, plain, unfolded
from diag.load.prefix import prefixes_of, stripped
from diag.load.restored import MAX_LOG, restored
from diag.load.sniff import kind_of
from diag.load.staging import Made
from diag.load.tables import parse_table
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


@pytest.mark.parametrize(
    "text",
    [
        "a;b\n1,5;2,5\n3,5;4,5\n",
        "a\tb\n1.5\t2.5\n3.5\t4.5\n",
        "| a | b |\n|---|---|\n| 1.5 | 2.5 |\n| 3.5 | 4.5 |\n",
        "sep=,\na,b\n1.5,2.5\n3.5,4.5\n",
    ],
)
def test_dialects_of_tables_are_one(text: str) -> None:
    assert grid(text) == [["a", "b"], ["1.5", "2.5"], ["3.5", "4.5"]]
    assert canonical(text) == "a,b\n1.5,2.5\n3.5,4.5\n"


def test_nvidia_smi_is_no_table_and_plain_csv_stays() -> None:
    assert canonical(CSV) is None
    assert grid("| 0  Tesla T4  Off | 0 |\n| N/A  45C | 0MiB |\n") is None


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("GPU-Util", ("gpu_util_pct", "50")),
        ("gpu_utilization", ("gpu_util_pct", "50")),
        ("system.gpu.0.gpu", ("gpu_util_pct", "50")),
        ("DCGM_FI_DEV_GPU_UTIL", ("gpu_util_pct", "50")),
        ("system.gpu.0.memoryAllocatedBytes", ("gpu_mem_mib", "4.76837e-05")),
        ("gpu_mem_gb", ("gpu_mem_mib", "51200")),
        ("Power Draw (W)", ("power_w", "50")),
        ("system.gpu.0.enforcedPowerLimitWatts", ("power_limit_w", "50")),
        ("clocks.current.graphics", ("sm_clock_mhz", "50")),
        ("IO Wait (%)", ("iowait_pct", "50")),
        ("ram_used_mib", ("ram_used_gb", "0.048828125")),
        ("node_memory_MemTotal_bytes", ("ram_total_gb", "4.65661e-08")),
        ("nvidia_smi_utilization_gpu_ratio", ("gpu_util_pct", "5000")),
        ("MEMUSED_GIB", ("ram_used_gb", "50")),
        ("kbmemused", ("ram_used_gb", "4.76837e-05")),
        ("cpu_percent", ("cpu_util_pct", "50")),
        ("gpu_mem_g", ("gpu_mem_mib", "51200")),
        ("gpu", ("gpu", "50")),
        ("gpu_power_pct", ("gpu_power_pct", "50")),
        ("lr/pg0", ("lr/pg0", "50")),
    ],
)
def test_a_column_has_one_name_and_unit(name: str, told: tuple[str, str]) -> None:
    table = parse_table(f"other,{name}\n1,50\n2,60\n", name="t.csv")
    assert table is not None
    assert table.columns[1] == told[0]
    assert float(table.rows[0][1]) == pytest.approx(float(told[1]), rel=1e-5)


def _cells(text: str) -> tuple[tuple[str, ...], ...]:
    table = parse_table(text, name="t.csv")
    assert table is not None
    return table.rows


def test_shares_become_percent_only_where_they_are_shares() -> None:
    assert _cells("gpu_util,iowait\n0.95,0.02\n0.4,0.5\n") == (("95", "2"), ("40", "50"))
    assert _cells("gpu_util,iowait\n1,0.5\n0,0.1\n90,0.4\n")[0] == ("1", "0.5")
    assert _cells("gpu_util,iowait\n0,0.5\n1,0.1\n")[1] == ("1", "0.1")


def test_memory_without_a_unit_is_bytes_only_where_it_must_be() -> None:
    table = parse_table("ram_used,x\n17179869184,1\n", name="t.csv")
    assert table is not None
    assert (table.columns[0], table.rows[0][0]) == ("ram_used_gb", "16")
    assert _cells("ram_used,x\n60.5,1\n") == (("60.5", "1"),)


def test_charts_of_trackers_become_one_table() -> None:
    chart = "Wall time,Step,Value\n1.0,1,{}\n2.0,2,{}\n"
    files = {
        "run-.-tag-train_box_loss.csv": chart.format(1.5, 1.2),
        "run-.-tag-metrics_mAP50-95_B_.csv": chart.format(0.1, 0.2),
        "run-.-tag-something.csv": chart.format(7, 8),
    }
    made = merged(files)
    assert made is not None
    assert made.text == "epoch,train/box_loss,metrics/mAP50-95(B)\n1,1.5,0.1\n2,1.2,0.2\n"
    assert made.used == {"run-.-tag-train_box_loss.csv", "run-.-tag-metrics_mAP50-95_B_.csv"}
    assert merged({"a.csv": "Wall time,Step,Value\n1,1,2\n"}) is None


def test_values_that_have_no_place_are_named(tmp_path: Path) -> None:
    rows = "".join(
        f"{k},{v},{s},0\n" for k in ("train/box_loss", "val/box_loss") for s in (1, 2, 3, 2) for v in (s / 7,)
    )
    (tmp_path / "mlflow.csv").write_text("key,value,step,timestamp\n" + rows)
    evidence = load_run(tmp_path)
    assert evidence.epochs is not None
    assert len(evidence.epochs.rows) == 3
    assert any("1 values for steps" in s for s in evidence.skipped_files)


def test_names_of_charts_are_those_of_results() -> None:
    assert column("glad-sun-7 - val/dfl_loss") == "val/dfl_loss"
    assert column("metrics/mAP50B") == "metrics/mAP50(B)"
    assert column("train/new_loss") == "train/new_loss"
    assert column("system/gpu") == ""


def test_records_are_tables_and_settings_are_none() -> None:
    assert records('[{"a": 1, "b": 2}, {"a": 3, "b": null}]') == "a,b\n1,2\n3,nan\n"
    assert records('{"a": 1, "b": 2, "c": 3}\n{"a": 1, "b": 2, "c": 4}\n') == "a,b,c\n1,2,3\n1,2,4\n"
    assert records('{"tensorboard": false, "wandb": true}') is None
    assert records("[" * 100_000) is None


def test_samples_of_system_tools_are_tables() -> None:
    sar = (
        "Linux 6.8 (gpu) \t05/01/2024\n\n12:00:00 PM     CPU     %user  %nice  %system  %iowait  %steal  %idle\n"
        "12:00:05 PM     all      5.00   0.00     0.00    48.00     0.00   47.00\n"
        "12:00:10 PM     all      6.00   0.00     0.00    40.00     0.00   54.00\n"
        "Average:        all      5.50   0.00     0.00    44.00     0.00   50.50\n"
    )
    (table,) = listing_tables([("sar.txt", sar)])
    assert table.numbers("iowait_pct") == (48.0, 40.0)
    assert table.numbers("cpu_util_pct") == (5.0, 6.0)
    dmon = (
        "# gpu    pwr  gtemp     sm    mem\n# Idx      W      C      %      %\n"
        "    0    120     71     99     40\n    0      -     72     98      4\n"
    )
    (table,) = listing_tables([("dmon.txt", dmon)])
    assert table.numbers("gpu_util_pct") == (99.0, 98.0)
    assert table.numbers("power_w")[0] == 120.0
    assert is_listing(sar) and is_listing(dmon)
    assert not is_listing("\n".join(LOG)) and not listing_tables([("a.log", "\n".join(LOG))])


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


@pytest.mark.parametrize(
    "data",
    [
        b"> " * 250_000,
        b"```\n" * 20_000,
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"&gt;" * 200_000,
        b"<pre" * 100_000,
        b"| a " * 100_000 + b"|\n" + b"| a " * 100_000 + b"|",
        b"a.log:1:" * 100_000,
        b"==> a.txt <==\nx\n" * 5000,
        b"x" * 3_000_000,
        b"\xff\xfe" + b"\0\xd8" * 10_000,
        b"\n".join(b"x" * 80 for _ in range(20_000)),
        b" " * 2_000_000 + b"a",
        b"100% " + b"?" * 500_000,
        b"a,b\n" + b"1" * 200_000 + b"x,2\n3,4\n5,6\n7,8\n9,1\n2,3\n",
        b"Epoch gpu_mem\n" + b"x" * 80 + b"\n" + b"1" * 100_000 + b"x\n",
        b"| " + b"a" * 200_000 + b" | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n",
        b"a" * 200_000 + b";b\n1;2\n3;4\n",
        b"$ cat " + b"a/" * 100_000 + b"b.txt",
        b"-----" * 100_000 + b" a.txt",
    ],
)
def test_hostile_texts_stay_bounded(tmp_path: Path, data: bytes) -> None:
    import time

    for name in ("a.txt", "a.csv", "a.md", "a.yaml"):
        (tmp_path / name).write_bytes(data)
    began = time.process_time()
    with contextlib.suppress(InputError):
        load_run(tmp_path)
    assert time.process_time() - began < 20


def test_a_growing_log_with_a_prefix_is_read_on_from_where_it_was(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    follower = Follower()
    told = [BANNER, "Starting training for 900 epochs..."]
    for i in range(1, 500):
        told += [HEAD, ROW.replace("1/50", f"{i}/900"), ALL]
    lines = [f"trainer  | {line}\n" for line in told]
    seen = []
    for start, end in ((0, 2), (2, 100), (100, 700), (700, len(lines))):
        with log.open("a") as out:
            out.writelines(lines[start:end])
        found = load_run(log, follower).log
        seen.append(len(found.epochs) if found else 0)
    assert log.stat().st_size > 65536
    assert follower.seen is not None and log in follower.seen.plain  # it is not written anew at every look
    assert seen == [0, 33, 233, 499]


@pytest.mark.parametrize("folder", [False, True])
def test_a_wrapped_log_is_restored_again_only_when_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: bool
) -> None:
    from diag.load import restored as module

    asked: list[str] = []
    before = module._restore

    def counted(path: Path, shown: str) -> list[Made] | None:
        asked.append(shown)
        return before(path, shown)

    monkeypatch.setattr(module, "_restore", counted)
    told = [BANNER, "Starting training for 50 epochs...", HEAD, ROW, ALL]
    paste, note = tmp_path / "paste.md", tmp_path / "other.md"
    paste.write_text("My run:\n\n```\n" + "\n".join(told) + "\n```\n")
    if folder:
        note.write_text(
            "```yaml\n# args.yaml\ntask: detect\nmode: train\nepochs: 50\nmodel: yolo11n.pt\nimgsz: 640\n```\n"
        )
    follower, source = Follower(), tmp_path if folder else paste
    first = load_run(source, follower)
    assert first.log is not None and len(first.log.epochs) == 1
    looked = len(asked)
    assert load_run(source, follower) is first
    assert len(asked) == looked, "nothing changed, nothing is restored"
    paste.write_text(paste.read_text() + "```\n" + "\n".join((HEAD, ROW.replace("1/50", "2/50"), ALL)) + "\n```\n")
    again = load_run(source, follower)
    assert asked[looked:] == ["paste.md"], "only what changed is restored"
    assert again == load_run(source, Follower()), "a look that remembers sees what a first look sees"
    assert again != first
    if folder:
        note.unlink()
        assert load_run(source, follower) == load_run(source)


def document(size: int) -> str:
    """A paste of this many bytes: arguments, and a log whose bars fill the rest."""
    bar = "      1/50      2.1G      1.234      1.9        640:  50%|#####     | 10/20 [00:03<00:10, 99it/s]"
    told = [BANNER, "Starting training for 50 epochs...", HEAD, "\r".join([bar] * (size // len(bar))), ROW, ALL]
    args = "task: detect\nmode: train\nepochs: 50\nmodel: yolo11n.pt\nimgsz: 640\n"
    return f"args.yaml:\n```yaml\n{args}```\n\nconsole.log:\n```\n" + "\n".join(told) + "\n```\n"


def test_a_large_document_is_taken_apart_and_a_larger_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from diag.load import restored as module

    paste = tmp_path / "paste.md"
    paste.write_text(document(MAX_LOG))
    assert paste.stat().st_size > MAX_LOG
    found = load_run(paste)
    assert found.args is not None and found.args.get("epochs") == 50
    assert found.log is not None and len(found.log.epochs) == 1 and not found.skipped_files
    monkeypatch.setattr(module, "MAX_WHOLE", MAX_LOG)
    found = load_run(paste)
    assert found.args is None and found.log is not None and len(found.log.epochs) == 1
    assert found.skipped_files == (
        "paste.md: a document of 4 MiB is read as one text; give the files in it one by one",
    )


def test_large_documents_of_a_folder_have_one_limit_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from diag.load import restored as module

    monkeypatch.setattr(module, "MAX_LOG", 20_000)
    monkeypatch.setattr(module, "MAX_DOCUMENTS", 90_000)
    for name in ("a.md", "b.md", "c.md"):
        (tmp_path / name).write_text(document(40_000))
    (tmp_path / "small.md").write_text(document(4_000))
    with restored(tmp_path) as plain:
        whole = {name for name in plain.names.values() if name.endswith("args.yaml")}
        assert whole == {"a.md/args.yaml", "b.md/args.yaml", "small.md/args.yaml"}
        assert [line.split(":")[0] for line in plain.skipped] == ["c.md"]


def test_a_large_log_or_table_is_no_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from diag.load import restored as module

    monkeypatch.setattr(module, "MAX_LOG", 10_000)
    log = [BANNER, "Starting training for 900 epochs...", *(line for _ in range(90) for line in (HEAD, ROW, ALL))]
    (tmp_path / "console.log").write_text("\n".join(log))
    (tmp_path / "prefixed.txt").write_text("\n".join(f"trainer-1  | {line}" for line in log))
    (tmp_path / "telemetry.csv").write_text("time,gpu_util\n" + "".join(f"{i},{i % 100}\n" for i in range(5000)))
    with restored(tmp_path) as plain:
        assert not plain.changed and not plain.skipped


def test_an_archive_that_did_not_change_is_not_unpacked_again(tmp_path: Path) -> None:
    import zipfile

    path, follower = tmp_path / "run.zip", Follower()
    for epochs in (50, 60):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(
                "console.log", "\n".join((BANNER, f"Starting training for {epochs} epochs...", HEAD, ROW, ALL))
            )
        first = load_run(path, follower)
        assert load_run(path, follower) is first
        assert first == load_run(path)


def test_what_is_kept_between_looks_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from diag.load import seen as module

    monkeypatch.setattr(module, "MAX_KEPT", 100)
    kept = module.Seen()
    for name, size in (("a", 60), ("b", 60), ("c", 30)):
        (tmp_path / name).write_text("x")
        kept.keep(tmp_path / name, module.stamp(tmp_path / name), [Made(name, name, "x" * size)])
    assert [kept.known(tmp_path / name)[0] for name in "abc"] == [True, False, True]
    (tmp_path / "a").write_text("xy")
    assert kept.known(tmp_path / "a") == (False, None)
    monkeypatch.setattr(module, "MAX_FILES", 2)
    assert module.stamps(tmp_path) is None


def test_a_prefix_with_a_bar_makes_no_table() -> None:
    told = "".join(f"trainer-1  | {i}0:21:01 all 4.1 58.1\n" for i in range(1, 5))
    assert grid(told) is None
    assert grid("a|b\n1|2\n3|4\n") is not None


def test_milliseconds_of_stages_are_seconds() -> None:
    assert _cells("epoch,phase,iters,data_wait_ms,wall_ms\n1,train,9,291000,352000\n")[0][3:] == ("291", "352")
    table = parse_table("epoch,phase,iters,data_wait_ms,wall_ms\n1,train,9,291000,352000\n", name="t.csv")
    assert table is not None and table.columns[3:] == ("data_wait_s", "wall_s")


def test_the_memory_in_the_box_of_nvidia_smi_is_the_gpus() -> None:
    table = parse_table("GPU-Util,Memory-Usage,RAM Used (GB)\n91%,11020MiB,148\n92%,11120MiB,149\n", name="t.csv")
    assert table is not None
    assert table.columns == ("gpu_util_pct", "gpu_mem_mib", "ram_used_gb")
