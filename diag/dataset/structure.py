"""Faults of names and folders: the yaml, files without partner, class folders."""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from diag.dataset.faults import Faults
from diag.dataset.gather import Item
from diag.dataset.headers import read_header
from diag.dataset.resolve import DataSpec, is_image_name
from diag.dataset.walk import files_below, names_in

NOT_LABELS = {"classes.txt", "readme.txt", "notes.txt", "license.txt", "obj.names", "data.txt", "labels.txt"}
"""Text files that tools lay beside labels."""

NOT_IMAGES = {".txt", ".cache", ".npy", ".json", ".xml", ".yaml", ".yml", ".csv", ".md", ".db", ".ini", ".zip", ".html"}
"""Suffixes beside images that nobody takes for a picture."""

FEW_EMPTY = 0.02
"""Empty label files are named while they are so rare that they look like an accident; more are meant as background."""

MAX_SEARCH = 200_000
"""Files that are looked through for labels that are elsewhere."""


def yaml_faults(spec: DataSpec, faults: Faults) -> None:
    """`nc` against `names`, and what pose needs: kpt_shape and flip_idx."""
    if spec.nc is not None and spec.nc != len(spec.names):
        faults.add("names_invalid", "nc", spec.source, None, f"nc {spec.nc}, {len(spec.names)} names", fix="yaml")
    if spec.task != "pose":
        return
    shape = spec.extra.get("kpt_shape")
    if not (
        isinstance(shape, list) and len(shape) == 2 and all(isinstance(n, int) for n in shape) and shape[1] in (2, 3)
    ):
        faults.add("kpt_out", "kpt_shape", spec.source, None, f"kpt_shape {shape}", fix="yaml")
        return
    flip = spec.extra.get("flip_idx")
    if flip is None:
        faults.add("flip_idx_missing", "missing", spec.source, None, f"kpt_shape {shape}", fix="yaml")
    elif not isinstance(flip, list) or sorted(map(str, flip)) != sorted(map(str, range(shape[0]))):
        faults.add("flip_idx_missing", "invalid", spec.source, None, f"flip_idx {flip}", fix="yaml")
    elif any(flip[flip[k]] != k for k in range(len(flip))):
        faults.add(
            "flip_idx_missing", "invalid", spec.source, None, f"flip_idx {flip}: no exchange of pairs", fix="yaml"
        )


def partner_faults(items: Sequence[Item], spec: DataSpec, faults: Faults) -> None:
    """Images without label, labels without image, two images on one label, files of a wrong kind."""
    images: dict[Path, set[Path]] = defaultdict(set)
    for item in items:
        images[item.label].add(item.image)
    for label, shared in images.items():
        if len(shared) > 1:
            for image in sorted(shared)[1:]:
                faults.add(
                    "duplicate_stem", "stem", image, None, label.name, fix="rename", other=faults.name(min(shared))
                )
    missing = [item for item in items if item.rows.state == "missing"]
    lost = _wrong_suffix(items, spec, faults, set(images))
    _orphans(images, spec, faults, {item.label for item in missing}, lost)
    for item in missing:
        faults.add("missing_labels", "missing", item.image, None, faults.name(item.label), split=item.split)
    empty = [item for item in items if item.rows.state == "empty"]
    if len(empty) <= FEW_EMPTY * len(items):
        for item in empty:
            faults.add("missing_labels", "empty", item.label, None, "0 rows", split=item.split)
    bare = {
        s for s in spec.splits if not any(i.split == s and i.rows.state not in {"missing", "unreadable"} for i in items)
    }
    if bare and (found := _elsewhere(items, spec, bare)):
        value = ", ".join(sorted(bare))
        faults.add("path_mismatch", "elsewhere", found, None, value, fix="layout", other=faults.name(items[0].label))


def _wrong_suffix(items: Sequence[Item], spec: DataSpec, faults: Faults, labels: set[Path]) -> set[Path]:
    """Pictures whose suffix Ultralytics doesn't know; returns the label files that they would have."""
    from diag.dataset.resolve import label_of

    lost = set()
    for folder in sorted({item.image.parent for item in items}):
        for name in names_in(spec.real(folder / "x").parent):
            suffix = Path(name).suffix.lower()
            if suffix in NOT_IMAGES or is_image_name(name):
                continue
            header = read_header(spec.real(folder / name))
            label = label_of(folder / name)
            if header.format or (label not in labels and label.is_file()):
                lost.add(label)
                faults.add("image_format", "unknown_suffix", folder / name, None, suffix or name, fix="rename_image")
    return lost


def _orphans(
    images: dict[Path, set[Path]], spec: DataSpec, faults: Faults, missing: set[Path], lost: set[Path]
) -> None:
    """Files in label folders that no image asks for; a name that differs only in case or suffix is matched."""
    wanted = {str(label).lower(): label for label in missing}
    folders = sorted({label.parent for label in images})
    pictures = {image.parent for shared in images.values() for image in shared}
    for folder in folders:
        listed = names_in(folder)
        beside = spec.real(_images_beside(folder) / "x").parent
        stems = {Path(name).stem for name in names_in(beside) if is_image_name(name)}
        for name in sorted(listed):
            path = folder / name
            if path in images or path in lost:
                continue
            if is_image_name(name) and folder not in pictures:
                faults.add("orphan_label", "image", path, None, name, fix="move")
                continue
            if not name.lower().endswith(".txt") or name.lower() in NOT_LABELS:
                continue
            near = wanted.get(str(path).lower())
            if near is not None:
                kind = "suffix" if near.stem == path.stem else "case"
                faults.add("orphan_label", kind, path, None, name, fix="rename", other=near.name)
            elif path.stem not in stems:
                faults.add("orphan_label", "no_image", path, None, name, fix="drop_file")


def _images_beside(labels: Path) -> Path:
    """The image folder that belongs to a label folder; the folder itself where labels lie beside their images."""
    text = str(labels)
    if text.endswith("/labels"):
        return Path(text.removesuffix("labels") + "images")
    head, found, tail = text.rpartition("/labels/")
    return Path(f"{head}/images/{tail}") if found else labels


def _elsewhere(items: Sequence[Item], spec: DataSpec, bare: set[str]) -> Path | None:
    """A label file of a bare split's image in another folder than the one Ultralytics looks into."""
    stems = {item.image.stem for item in items if item.split in bare}
    root = spec.source.parent
    for number, name in enumerate(files_below(root)):
        if number > MAX_SEARCH:
            return None
        if name.lower().endswith(".txt") and Path(name).stem in stems and Path(name).name.lower() not in NOT_LABELS:
            return root / name
    return None


def folder_faults(spec: DataSpec, faults: Faults) -> None:
    """Classification: every split needs the same class folders, each with images, and numbers sort as text."""
    classes = {
        split: {p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")}
        for split, folder in spec.folders.items()
    }
    train = classes.get("train", set())
    for split, found in classes.items():
        for name in sorted(train ^ found):
            kind = "missing" if name in train else "extra"
            faults.add("cls_folder_mismatch", kind, spec.folders[split] / name, None, name, fix="folders", split=split)
        for name in sorted(found):
            if not any(is_image_name(f) for f in files_below(spec.folders[split] / name)):
                faults.add(
                    "cls_folder_mismatch",
                    "empty",
                    spec.folders[split] / name,
                    None,
                    "0 images",
                    fix="folders",
                    split=split,
                )
        for name in names_in(spec.folders[split]):
            if is_image_name(name):
                faults.add(
                    "cls_folder_mismatch", "loose", spec.folders[split] / name, None, name, fix="move", split=split
                )
    numbers = [n for n in train if re.fullmatch(r"\d+", n)]
    if len(numbers) == len(train) > 0 and sorted(numbers) != sorted(numbers, key=int):
        names = ", ".join(sorted(numbers)[:5])
        faults.add("cls_sort_order", "numbers", spec.folders["train"], None, names, fix="pad")
