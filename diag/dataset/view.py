"""A view of a data set in the workspace: links to the user's images and labels, and a data.yaml that names them.

Ultralytics writes its label index next to the labels. Through a view it lands in the workspace, so the user's
folders are never written and may be read-only.
"""

import hashlib
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from diag import codec
from diag.dataset.resolve import DataSpec, label_of
from diag.dataset.walk import is_utf8


def make_view(spec: DataSpec, folder: Path) -> Path:
    """Create the view below `folder` and return what to pass as `data=` (a yaml; for classify a folder).

    The view's name is a digest of the data set's place and files, so the label index is found again by the next
    run. `train`, `val`, `test` become text lists of links, one linked folder per folder of the data set.
    """
    names = "\0".join([str(spec.source), spec.task, *map(str, spec.images)])
    digest = hashlib.sha256(names.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    view = folder / f"{spec.source.stem}-{digest}"
    view.mkdir(parents=True, exist_ok=True)
    if spec.task == "classify":
        for split, source in spec.folders.items():
            _link(view / split, source)
        return view
    (view / "labels").mkdir(exist_ok=True)  # the index of a set without any label is written there, too
    linked: dict[tuple[str, Path], str] = {}  # per split, so that two splits never share a label index
    content: dict[str, object] = {"path": str(view)}
    for split, images in spec.splits.items():
        lines = []
        for image in images:
            if not is_utf8(str(image)):  # Ultralytics can't read a list with such a name; the audit names the image
                continue
            key = (split, image.parent)
            if key not in linked:
                linked[key] = f"{len(linked):03d}-{image.parent.name}"
                _link(view / "images" / linked[key], spec.real(image.parent))
                _link(view / "labels" / linked[key], label_of(image).parent)
            lines.append(str(view / "images" / linked[key] / image.name))
        codec.write_text(view / f"{split}.txt", "\n".join(lines) + "\n")
        content[split] = f"{split}.txt"
    content |= {"names": dict(spec.names), **spec.extra}
    codec.write_text(view / "data.yaml", codec.to_yaml(content))
    return view / "data.yaml"


def make_subset(spec: DataSpec, folder: Path, counts: Mapping[str, int]) -> Path:
    """A view with at most `counts[split]` images a split, spread evenly; labelled images are preferred.

    Images and labels are linked one by one. Returns what to pass as `data=`.
    """
    shutil.rmtree(folder, ignore_errors=True)
    content: dict[str, object] = {"path": str(folder)}
    for split, count in counts.items():
        images = spec.splits.get(split, ())
        labelled = [i for i in images if spec.task == "classify" or _has_rows(label_of(i))] or list(images)
        chosen = [labelled[k * len(labelled) // count] for k in range(count)] if len(labelled) > count else labelled
        for number, image in enumerate(chosen):
            if spec.task == "classify":
                _link(folder / split / image.parent.name / f"{number:03d}-{image.name}", image)
                continue
            name = f"{number:03d}-{image.stem}"
            _link(folder / "images" / split / f"{name}{image.suffix}", spec.real(image))
            if label_of(image).exists():
                _link(folder / "labels" / split / f"{name}.txt", label_of(image))
        if spec.task == "classify":
            for name in spec.names.values():  # every class folder must exist in every split
                (folder / split / name).mkdir(parents=True, exist_ok=True)
        content[split] = f"images/{split}"
    if spec.task == "classify":
        return folder
    content |= {"names": dict(spec.names), **spec.extra}
    codec.write_text(folder / "data.yaml", codec.to_yaml(content))
    return folder / "data.yaml"


def _has_rows(label: Path) -> bool:
    try:
        return label.stat().st_size > 0
    except OSError:
        return False


def _link(link: Path, target: Path) -> None:
    """Make or renew a symbolic link; an equal one is left alone."""
    if link.is_symlink():
        if os.readlink(link) == str(target):  # noqa: PTH115 - Path.readlink would drop a trailing slash
            return
        if not target.exists():
            link.unlink(missing_ok=True)
    if not target.exists():
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    # Renamed over the old one: another training may make the same view now.
    fresh = link.with_name(f".{link.name}.{os.getpid()}.{secrets.token_hex(4)}")
    fresh.symlink_to(target)
    fresh.replace(link)
