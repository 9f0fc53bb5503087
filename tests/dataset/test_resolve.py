"""Where the files of a data set are looked for, and what is said when they are not there."""

from pathlib import Path

import pytest

from diag.dataset.resolve import DataSpec, label_of, resolve
from diag.errors import InputError
from tests.dataset.conftest import Maker

ROWS: dict[str, list[str | None]] = {"train": ["0 .5 .5 .1 .1", ""], "val": ["1 .5 .5 .1 .1"]}


def load(yaml: Path, task: str = "detect") -> DataSpec:
    return resolve(str(yaml), task, cwd=Path.cwd(), datasets_dir=Path("/nowhere"))


def test_path_dot_means_beside_the_yaml(make_set: Maker) -> None:
    spec = load(make_set(ROWS))
    assert {name: len(images) for name, images in spec.splits.items()} == {"train": 2, "val": 1}
    assert spec.names == {0: "cat", 1: "dog"}


def test_a_folder_with_one_yaml_will_do(make_set: Maker) -> None:
    assert len(load(make_set(ROWS).parent).images) == 3


def test_lists_and_several_folders(make_set: Maker, tmp_path: Path) -> None:
    yaml = make_set(ROWS, "train: [images/train, images/val]\nval: val.txt\nnames: {0: a, 1: b}\n")
    (yaml.parent / "val.txt").write_text("./images/val/0.jpg\n\n")
    spec = load(yaml)
    assert {name: len(images) for name, images in spec.splits.items()} == {"train": 3, "val": 1}


def test_a_roboflow_export_is_found(make_set: Maker) -> None:
    spec = load(make_set(ROWS, "train: ../images/train\nval: ../images/val\nnc: 2\n"))
    assert len(spec.images) == 3
    assert spec.names == {0: "class_0", 1: "class_1"}


def test_a_link_that_a_checkout_turned_into_text_is_followed(make_set: Maker, tmp_path: Path) -> None:
    make_set(ROWS, root=tmp_path / "other")
    yaml = make_set(ROWS)
    for image in (yaml.parent / "images").rglob("*.jpg"):
        image.unlink()
    for folder in sorted((yaml.parent / "images").glob("*")):
        folder.rmdir()
    (yaml.parent / "images").rmdir()
    (yaml.parent / "images").write_text("../other/images\n")
    spec = load(yaml)
    image = spec.splits["val"][0]
    assert spec.real(image) == tmp_path / "other" / "images" / "val" / "0.jpg"
    assert label_of(image) == yaml.parent / "labels" / "val" / "0.txt"


@pytest.mark.parametrize(
    ("yaml", "said"),
    [
        ("train: images/train\nval: images/val\n", "no 'names:'"),
        ("val: images/val\nnames: [a]\n", "no 'train:'"),
        ("train: images/nope\nval: images/val\nnames: [a]\n", "train: images/nope does not exist"),
        ("train: images/train\nval: images/val\nnames: 3\n", "must be a list"),
        ("train: images/train\nval: images/val\nnames: {a: b}\n", "class id that is no number"),
        ("just text", "not a data set description"),
        ("a: [1\n", "not valid YAML"),
        ("!!python/object/apply:os.system ['true']", "not valid YAML"),
    ],
)
def test_a_wrong_yaml_is_one_clear_line(make_set: Maker, yaml: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        load(make_set(ROWS, yaml))
    assert "\n" not in str(error.value)


def test_a_missing_yaml_names_the_place(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load(tmp_path / "nope.yaml")


def test_classification_needs_class_folders(tmp_path: Path) -> None:
    for split in ("train", "val"):
        (tmp_path / split / "cat").mkdir(parents=True)
        (tmp_path / split / "cat" / "1.JPG").write_bytes(b"")
    spec = load(tmp_path, "classify")
    assert (spec.names, len(spec.images)) == ({0: "cat"}, 2)
    with pytest.raises(InputError, match="no folder 'train/'"):
        load(tmp_path / "train", "classify")


@pytest.mark.parametrize(
    ("image", "label"),
    [
        ("/d/images/train/a.jpg", "/d/labels/train/a.txt"),
        ("/images/x/images/a.b.png", "/images/x/labels/a.b.txt"),
        ("/flat/a.jpg", "/flat/a.txt"),
    ],
)
def test_labels_are_where_ultralytics_looks(image: str, label: str) -> None:
    from ultralytics.data.utils import img2label_paths

    assert str(label_of(Path(image))) == label
    assert img2label_paths([image]) == [label]
