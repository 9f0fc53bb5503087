"""Bundles of pasted files: logs of one training in two pieces, numbered run folders, listings, cards in plain words."""

from pathlib import Path

import pytest

from diag.engine import evaluate
from diag.load import load_run
from diag.load.label_shapes import crosses, far_from_box, filled, outline_fault, starts_with_box
from diag.load.labels import parse_labels
from diag.load.notes import parse_notes
from diag.rules.facts import gpu_name
from diag.rules.listing_facts import class_folders, listing, sizes

CSV = "epoch,train/box_loss,metrics/mAP50(B),metrics/mAP50-95(B)\n" + "".join(f"{k},1,.5,.3\n" for k in range(1, 6))


def _epochs(*numbers: int, planned: int = 300) -> str:
    bars = "100%|██████████| 9/9 [00:04<00:00,  2.20it/s]"
    return "".join(f"  {n}/{planned}  6.9G  1.1  0.8  1.1  44  640: {bars}\n  all 24 91 .7 .6 .7 .4\n" for n in numbers)


def test_logs_of_one_training_are_joined(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(_epochs(50, 51))
    (tmp_path / "b.log").write_text(_epochs(52, 53).replace("1.1  0.8", "nan  nan"))
    evidence = load_run(tmp_path)
    assert evidence.log is not None
    assert [e.epoch for e in evidence.log.epochs] == [50, 51, 52, 53]
    assert evidence.log.file == "a.log, b.log"
    assert evidence.curves is not None
    assert evidence.curves.rows == 4
    broken = next(f for f in evaluate(evidence).findings if f.id == "num.nan_loss")
    assert [(s.file, s.line) for s in broken.evidence] == [("b.log", 1)]
    assert [evidence.log.place(n) for n in (None, 3, 4, 5, 7)] == [
        ("a.log", None), ("a.log", 3), ("a.log", 4), ("b.log", 1), ("b.log", 3),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [_epochs(1, 2), _epochs(52, 53, planned=100), _epochs(60, 61)],
    ids=["another training", "another plan", "a gap"],
)
def test_other_logs_are_not_joined(tmp_path: Path, other: str) -> None:
    (tmp_path / "a.log").write_text(_epochs(50, 51))
    (tmp_path / "b.log").write_text(other)
    evidence = load_run(tmp_path)
    assert evidence.log is not None
    assert [e.epoch for e in evidence.log.epochs] == [50, 51]


def test_two_numbered_folders_are_compared_and_five_are_an_archive(tmp_path: Path) -> None:
    for name in ("train", "train2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.csv").write_text(CSV)
    peers = load_run(tmp_path).peers
    assert peers is not None
    assert list(peers.runs) == ["train", "train2"]
    for name in ("train3", "train4", "train5"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.csv").write_text(CSV)
    with pytest.raises(Exception, match="give one of them"):
        load_run(tmp_path)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("GPU GeForce GTX 1650, 4 GB", "GeForce GTX 1650"),
        ("my card: RTX 3060 Ti, driver 531", "RTX 3060 Ti"),
        ("显卡 GTX1660Ti 6G", "GTX1660Ti"),
        ("Tesla T4 (Colab)", "Tesla T4"),
        ("trained 1650 images for 30 epochs", ""),
        ("torch 2.0.1 on a CPU", ""),
    ],
)
def test_a_card_in_plain_words(text: str, name: str) -> None:
    assert gpu_name(None, parse_notes([("env.txt", text)]), None) == name


BOW = [(0.1, 0.1), (0.5, 0.5), (0.5, 0.1), (0.1, 0.5)]
SQUARE = [(0.1, 0.1), (0.5, 0.1), (0.5, 0.5), (0.1, 0.5)]


def test_outlines() -> None:
    assert crosses(BOW)
    assert not crosses(SQUARE)
    assert not crosses([(0.1, 0.1), (0.5, 0.5), (0.9, 0.1)])
    assert filled(SQUARE) == pytest.approx(0.16, rel=0.02)
    assert outline_fault(BOW) == "crossed"
    assert outline_fault(SQUARE) == ""
    assert outline_fault([(0.1, 0.1), (0.3, 0.3), (0.5, 0.5)]) == "collapsed"
    assert outline_fault([(0.1, 0.1)] * 5000) == ""


def test_a_box_before_the_points() -> None:
    corners = [v for p in SQUARE for v in p]
    assert starts_with_box([0.3, 0.3, 0.4, 0.4, *corners])
    assert not starts_with_box([0.3, 0.3, 0.2, 0.4, *corners])
    assert not starts_with_box(corners)


def test_far_is_further_than_the_box_is_large() -> None:
    box = (0.5, 0.5, 0.2, 0.2)
    assert far_from_box((0.9, 0.5), box)
    assert not far_from_box((0.75, 0.5), box)
    assert not far_from_box((0.0, 0.0), (0.5, 0.5, 0.0, 0.0))


def test_listings_of_many_programs() -> None:
    forms = {
        "find.txt": "\n".join(f"./images/train/{k}.jpg" for k in range(6)),
        "ls.txt": "images/train:\n" + "\n".join(f"{k}.jpg" for k in range(6)),
        "dir.txt": "\n".join(f"D:\\ds\\images\\train\\{k}.jpg" for k in range(6)),
        "wide.txt": "images/train:\n0.jpg  1.jpg  2.jpg\n3.jpg  4.jpg  5.jpg",
        "long.txt": "images/train:\n" + "\n".join(f"-rw-r--r-- 1 u u 9214 Jan 2 03:04 {k}.jpg" for k in range(6)),
    }
    for file, text in forms.items():
        found = listing(parse_notes([(file, text)]))
        assert [e.stem for e in found.images] == list("012345"), file
        assert {e.split for e in found.images} == {"train"}, file
    assert listing(parse_notes([("console.txt", "train: Scanning a.jpg\n" * 3 + "epoch\n" * 9)])).images == []
    assert listing(None).images == []


def test_sizes_of_many_programs() -> None:
    text = (
        "a.png PNG 1024x768 1024x768+0+0 8-bit sRGB\n"
        "b.jpg: JPEG image data, baseline, precision 8, 640x480, components 3\n"
        "c.jpg 1920 1080\nd.jpg,30,20\nloss.png 3.5 2"
    )
    assert [(w, h) for w, h, _ in sizes(parse_notes([("s.txt", text)]))] == [
        (1024, 768), (640, 480), (1920, 1080), (30, 20),
    ]  # fmt: skip


def test_class_folders_are_no_folders_of_a_detection_set() -> None:
    tree = "ds\n├── train\n│   ├── images\n│   ├── labels\n└── val\n    ├── images\n    └── labels"
    assert class_folders(parse_notes([("tree.txt", tree)])) == {}
    names = "ds/train/cat/1.jpg\nds/train/dog/1.jpg\nds/val/cat/9.jpg\nds/val/dog/8.jpg"
    assert class_folders(parse_notes([("find.txt", names)])) == {
        "train": frozenset({"cat", "dog"}), "val": frozenset({"cat", "dog"}),
    }  # fmt: skip


def test_each_kind_of_label_fault_has_its_own_places() -> None:
    tiny = "0 0.5 0.5 0.001 0.001\n" + "".join(f"0 0.{k} 0.5 0.002 0.002\n" for k in range(10, 70))
    made = parse_labels([("l/a.txt", tiny), ("l/b.txt", "1 .5 .5 .2 .2\n1 .5 .5 1 1\n1 .501 .5 .2 .2\n")])
    assert made is not None
    assert (made.tiny, made.full_boxes, made.doubles) == (61, 1, 1)
    assert made.problems[0] == "l/a.txt:1: tiny: 0 0.5 0.5 0.001 0.001"
    assert made.problems[10:] == (
        "l/b.txt:2: the whole image: 1 .5 .5 1 1",
        "l/b.txt:3: annotated twice: 1 .501 .5 .2 .2",
    )
