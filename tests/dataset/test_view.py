"""Views keep the user's folders untouched and read the same files through Ultralytics."""

import os
from pathlib import Path

import yaml as pyyaml

from diag.dataset.resolve import DataSpec, label_of, resolve
from diag.dataset.view import make_subset, make_view
from tests.dataset.conftest import Maker

ROWS: dict[str, list[str | None]] = {
    "train": ["0 .5 .5 .1 .1", "", None, "1 .5 .5 .1 .1", "1 .4 .4 .1 .1"],
    "val": ["1 .5 .5 .1 .1"],
}


def load(yaml: Path, task: str = "detect") -> DataSpec:
    return resolve(str(yaml), task, cwd=Path.cwd(), datasets_dir=Path("/nowhere"))


def listed(view: Path, split: str) -> list[Path]:
    return [Path(line) for line in (view.parent / f"{split}.txt").read_text().splitlines()]


def test_a_view_lists_every_image_and_finds_its_label(make_set: Maker, tmp_path: Path) -> None:
    spec = load(make_set(ROWS))
    view = make_view(spec, tmp_path / "views")
    assert [p.resolve() for p in listed(view, "train")] == list(spec.splits["train"])
    labels = [label_of(p) for p in listed(view, "train")]
    assert [p.exists() for p in labels] == [True, True, False, True, True]
    content = pyyaml.safe_load(view.read_text())
    assert content["names"] == {0: "cat", 1: "dog"}
    assert make_view(spec, tmp_path / "views") == view


def test_the_label_index_lands_in_the_view(make_set: Maker, tmp_path: Path) -> None:
    spec = load(make_set(ROWS))
    view = make_view(spec, tmp_path / "views")
    for split in ("train", "val"):
        index = label_of(listed(view, split)[0]).parent.with_suffix(".cache")
        assert index.parent.resolve().is_relative_to(tmp_path / "views")
        assert not index.parent.is_symlink()


def test_splits_in_one_folder_do_not_share_a_label_index(make_set: Maker, tmp_path: Path) -> None:
    yaml = make_set(ROWS, "train: train.txt\nval: val.txt\nnames: [a, b]\n")
    (yaml.parent / "train.txt").write_text("./images/train/0.jpg\n")
    (yaml.parent / "val.txt").write_text("./images/train/3.jpg\n")
    view = make_view(load(yaml), tmp_path / "views")
    assert listed(view, "train")[0].parent != listed(view, "val")[0].parent


def test_a_subset_takes_labelled_images_spread_over_the_set(make_set: Maker, tmp_path: Path) -> None:
    spec = load(make_set(ROWS))
    data = make_subset(spec, tmp_path / "subset", {"train": 2, "val": 16})
    images = sorted((data.parent / "images" / "train").iterdir())
    assert [p.resolve().name for p in images] == ["0.jpg", "3.jpg"]
    assert len(list((data.parent / "labels" / "train").iterdir())) == 2
    assert len(list((data.parent / "images" / "val").iterdir())) == 1


def test_a_classify_subset_keeps_every_class_folder(tmp_path: Path) -> None:
    for split in ("train", "val"):
        for name in ("cat", "dog"):
            (tmp_path / "d" / split / name).mkdir(parents=True)
            (tmp_path / "d" / split / name / "1.jpg").write_bytes(b"")
    data = make_subset(load(tmp_path / "d", "classify"), tmp_path / "subset", {"train": 1, "val": 4})
    assert sorted(p.name for p in (data / "train").iterdir()) == ["cat", "dog"]
    assert sum(1 for _ in data.rglob("*.jpg")) == 3


def test_a_name_that_is_no_utf8_is_left_out_of_the_lists(make_set: Maker, tmp_path: Path) -> None:
    yaml = make_set(ROWS)
    image = yaml.parent / "images" / "train" / "0.jpg"
    image.rename(image.with_name(os.fsdecode(b"caf\xe9.jpg")))
    view = make_view(load(yaml), tmp_path / "views")
    assert [p.name for p in listed(view, "train")] == ["1.jpg", "2.jpg", "3.jpg", "4.jpg"]
