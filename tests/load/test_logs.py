"""Console logs of all styles, foreign tables, captures and label files; and noise, which never ends in a traceback."""
# ruff: noqa: E501

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diag.engine import evaluate
from diag.load.bars import bar
from diag.load.console import parse_log
from diag.load.foreign import assemble
from diag.load.kinds import _WORDS, KINDS
from diag.load.labels import parse_labels
from diag.load.notes import parse_notes
from diag.load.tables import parse_results_txt, parse_table
from diag.model.evidence import Evidence
from tests.fuzzing import examples

TQDM = (
    "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
    "\r      1/3      4.86G       1.39       1.57       1.22        122        640:  50%|█████     | 9/18 [00:15<00:15,  6.10it/s]"
    "\r      1/3      4.86G       1.35       1.50       1.20        122        640: 100%|██████████| 18/18 [00:30<00:00,  6.10it/s]\n"
    "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|███| 2/2 [00:09<00:00,  1.3it/s]\n"
    "                   all        366       1180       0.56       0.47       0.49       0.28\n"
)
RICH = (
    "\x1b[K        1/6      13.9G       2.22      3.134      1.061          7        640: 100% ━━━━━━━━━━━━ 203/203 1.0it/s 3:20\n"
    "\x1b[K                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100% ━━━━━━━━━━━━ 9/9 1.5s/it 13.3s\n"
    "                   all        548      38759      0.317      0.159     0.0732     0.0361\n"
)


def test_a_redrawn_bar_is_one_epoch() -> None:
    (epoch,) = parse_log(TQDM)[1].epochs
    assert dict(epoch.losses) == {"box_loss": 1.35, "cls_loss": 1.5, "dfl_loss": 1.2}
    assert (epoch.train_s, epoch.val_s, epoch.done, epoch.instances) == (30.0, 9.0, 18, 122)
    assert epoch.metrics["metrics/mAP50-95(B)"] == 0.28


def test_the_newer_bars_are_read() -> None:
    (epoch,) = parse_log(RICH)[1].epochs
    assert (epoch.train_s, epoch.val_s, epoch.val_images, epoch.gpu_mem_g) == (200.0, 13.3, 548, 13.9)


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ("240/240 125.8Mit/s 0.0s", (240, 0.0, 1 / 125.8e6)),
        ("2700/2700 6.6Kit/s 0.4s", (2700, 0.4, 1 / 6600)),
        ("9/9 1.5s/it 13.3s", (9, 13.3, 1.5)),
        ("203/203 1.0it/s 3:20", (203, 200.0, 1.0)),
        ("5/5 12.0MB/s", (5, None, None)),
        ("9/9", (9, None, None)),
    ],
)
def test_rates_with_a_prefix_are_no_seconds(tail: str, expected: tuple[int, float | None, float | None]) -> None:
    drawn = bar(f"val: Scanning /d/val.cache... 240 images, 22 backgrounds, 0 corrupt: 100% ━━━━━━━━━━━━ {tail}")
    assert drawn is not None
    assert (drawn.done, drawn.seconds, drawn.step_s) == expected


def test_masks_have_four_more_columns_and_classification_two() -> None:
    seg = parse_log(" 1/3 4.8G 1 2 3 4 12 640: \n all 200 5210 .5 .4 .45 .26 .5 .42 .41 .22\n")[1].epochs[0]
    assert seg.metrics["metrics/mAP50-95(M)"] == 0.22
    cls = parse_log(
        "      Epoch    GPU_mem       loss  Instances       Size\n 1/3 0.5G 1.2 16 224: \n   all 0.91 0.99\n"
    )[1]
    assert dict(cls.epochs[0].metrics) == {"metrics/accuracy_top1": 0.91, "metrics/accuracy_top5": 0.99}


def test_a_class_with_a_precision_of_1_keeps_its_counts() -> None:
    table = (
        "                   all        410        819       0.94      0.868      0.959      0.809      0.941      0.867      0.959      0.784\n"
        "                     0          3          3          1      0.658      0.913       0.83          1      0.655      0.913       0.78\n"
        "                zone 1        355        747        1          0.96      0.982      0.851      0.901      0.961      0.982      0.821\n"
    )
    log = parse_log(" 1/3 4.8G 1 2 3 4 12 640: \n" + table)[1]
    assert dict(log.class_instances) == {"0": 3, "zone 1": 747}
    boxes = "\n".join(line[:88] for line in table.splitlines())
    log = parse_log(" 1/3 4.8G 1 2 3 12 640: \n" + boxes)[1]
    assert dict(log.class_instances) == {"0": 3, "zone 1": 747}


def test_a_new_training_in_the_same_file_is_another_run() -> None:
    log = parse_log("Starting training for 3 epochs...\n" + TQDM + "Starting training for 6 epochs...\n" + RICH * 1)[1]
    assert log.runs == 2
    assert len(log.epochs) == 1


def test_the_banner_tells_versions_and_card() -> None:
    log = parse_log(
        "Ultralytics YOLOv8.0.45 🚀 Python-3.9.16 torch-1.13.1+cu116 CUDA:0 (NVIDIA GeForce GTX 1660Ti, 6144MiB)\n"
    )[1]
    assert (log.versions, log.torch, log.gpu, log.gpu_mib) == (
        ("8.0.45",), "1.13.1+cu116", "NVIDIA GeForce GTX 1660Ti", 6144.0,
    )  # fmt: skip


def test_chinese_around_a_log_does_no_harm() -> None:
    log = parse_log("开始训练\n" + TQDM + "训练完成\n")[1]
    assert len(log.epochs) == 1


def test_a_scan_is_read_in_both_wordings() -> None:
    new = "train: Scanning /d/labels... 1200 images, 300 backgrounds, 7 corrupt: 100%|██| 1500/1500 [00:03<00:00, 500.0it/s]"
    old = (
        "Scanning 'd/train.cache' for images and labels... 203 found, 50 missing, 0 empty, 0 corrupted: 100%|█| 253/253"
    )
    one, two = parse_log(new)[1].scans[0], parse_log(old)[1].scans[0]
    assert (one.split, one.total, one.labelled, one.background, one.corrupt) == ("train", 1500, 1200, 300, 7)
    assert (two.total, two.labelled, two.missing) == (253, 203, 50)


def test_results_txt_without_a_header_is_read() -> None:
    row = "0/19 11.8G 0.035 0.019 0.011 0.067 132 640 0.94 0.90 0.95 0.72 0.021 0.0099 0.0069\n"
    epochs = parse_results_txt(row * 3)
    assert epochs is not None
    assert epochs.rows[0].values["metrics/mAP_0.5:0.95"] == 0.72
    assert parse_results_txt("hello world\n" * 3) is None
    assert parse_results_txt("0/") is None


def test_a_listing_of_gpus_and_disks_is_read() -> None:
    notes = parse_notes(
        [
            ("smi.txt", "GPU 0: Tesla T4  util 0%  mem 4MiB / 15360MiB\n"),
            ("df.txt", "/dev/sda1 234G 234G 0 100% /data\n"),
        ]
    )
    assert notes is not None
    assert (notes.gpus[0].name, notes.gpus[0].memory_mib) == ("Tesla T4", 15360.0)
    assert (notes.disks[0].mount, notes.disks[0].used_share) == ("/data", 1.0)


def test_every_kind_has_a_word_that_opens_it() -> None:
    assert set(_WORDS) == set(KINDS)


def test_a_long_sentence_with_new_numbers_is_still_counted() -> None:
    lines = "".join(f"WARNING images/{i}.jpg: ignoring corrupt image/label: negative label values\n" for i in range(50))
    assert len(parse_log(lines)[0].of("ignored_label")) == 20


NOISE = st.text(
    alphabet=st.sampled_from(list("0123456789/.:%|█━[]<> \n\r\tGMalEpochClassImageITs,-+enaf\x1b\x00")), max_size=400
)


@settings(max_examples=examples(200), deadline=None)
@given(NOISE)
def test_noise_never_ends_in_a_traceback(text: str) -> None:
    for made in (TQDM + text, text + RICH, text):
        evidence = assemble(
            Evidence(),
            logs=[parse_log(made)],
            texts=[("env.txt", made)],
            tables={"t.csv": "t_s,gpu_util_pct\n" + made, "r.csv": "epoch,train/box_loss\n" + made},
            labels=[("labels/a.txt", made)],
            yamls={"data.yaml": made, "d.yaml": "names: [a]\n"},
        )
        assert not evaluate(evidence).crashed


@settings(max_examples=examples(100), deadline=None)
@given(st.binary(max_size=300))
def test_bytes_never_end_in_a_traceback(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    parse_log(text)
    parse_table(text, name="t.csv")
    parse_results_txt(text)
    parse_labels([("a.txt", text)])
    parse_notes([("a.txt", text)])


def test_a_cell_that_is_no_number_is_nan() -> None:
    table = parse_table("t_s,util\n0,[N/A]\n1,50 %\n", name="t.csv")
    assert table is not None
    assert math.isnan(table.numbers("util")[0])
