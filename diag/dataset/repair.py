"""`--fix OUT`: a corrected copy of a data set with a log of every change. The source is only read."""

import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diag import codec
from diag.dataset.audit import Audit
from diag.dataset.gather import Item
from diag.dataset.repair_rows import corrected
from diag.dataset.resolve import DataSpec
from diag.dataset.walk import is_utf8, shown
from diag.errors import InputError
from diag.model.audit import Place

LOG = "changes.jsonl"
"""One object a line: fault, file, line, action, before, after."""

IMAGE_FIXES = ("drop_image", "convert", "turn")


@dataclass
class _Copy:
    out: Path
    audit: Audit
    log: list[dict[str, Any]] = field(default_factory=list)
    taken: set[Path] = field(default_factory=set)

    def note(self, place: Place, fault: str, action: str, before: str = "", after: str = "") -> None:
        entry = {"fault": f"data.{fault}", "file": place.file, "line": place.line, "action": action}
        self.log.append(entry | {"before": before or place.value, "after": after})


def write_fixed(
    spec: DataSpec, audit: Audit, out: Path, *, progress: Callable[[str], None] = lambda line: None
) -> dict[str, int]:
    """Write the copy and return how often each action was taken.

    Raises InputError if `out` is not empty or lies inside the data set.
    """
    root = spec.source if spec.task == "classify" else spec.source.parent
    out = out.resolve()
    if out == root or root in out.parents:
        raise InputError(f"--fix {out}: lies inside the data set, which is never written; choose another folder")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"--fix {out}: is not empty; choose a new folder")
    try:
        return _write(spec, audit, out, progress)
    except OSError as error:
        raise InputError(f"--fix {out}: can't be written: {error.strerror or error}") from error


def _write(spec: DataSpec, audit: Audit, out: Path, progress: Callable[[str], None]) -> dict[str, int]:
    copy = _Copy(out, audit)
    by_file: dict[str, list[tuple[str, Place]]] = defaultdict(list)
    for fault, place in audit.faults.all():
        if place.fix:
            by_file[place.file].append((fault, place))
    renamed = {p.other: p for f, p in audit.faults.all() if f == "orphan_label" and p.kind in {"case", "suffix"}}
    for number, item in enumerate(audit.items):
        if number % 500 == 0:
            progress(f"{number}/{len(audit.items)} images copied")
        _one(spec, copy, item, by_file, renamed)
    _not_copied(spec, copy)
    if spec.task != "classify":
        content: dict[str, object] = {split: f"images/{split}" for split in spec.splits}
        content |= {"names": dict(spec.names), **spec.extra}
        codec.write_text(out / "data.yaml", codec.to_yaml(content))
    lines = "".join(codec.to_json(entry, indent=0) + "\n" for entry in copy.log)
    codec.write_text(out / LOG, lines)
    actions: dict[str, int] = defaultdict(int)
    for entry in copy.log:
        actions[entry["action"]] += 1
    return dict(actions)


def _not_copied(spec: DataSpec, copy: _Copy) -> None:
    """Files that belong to no item stay behind, which is a change, too; class folders are kept even if empty."""
    for fault, place in copy.audit.faults.all():
        stays = (fault, place.kind) in {
            ("orphan_label", "no_image"),
            ("orphan_label", "image"),
            ("image_format", "unknown_suffix"),
        }
        if stays or (fault, place.kind) == ("cls_folder_mismatch", "loose"):
            copy.note(place, fault, "left out")
    for split, folder in spec.folders.items() if spec.task == "classify" else ():
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.name.startswith("."):
                (copy.out / split / entry.name).mkdir(parents=True, exist_ok=True)


def _one(
    spec: DataSpec, copy: _Copy, item: Item, by_file: dict[str, list[tuple[str, Place]]], renamed: dict[str, Place]
) -> None:
    faults = copy.audit.faults
    fixes = {p.fix: (f, p) for f, p in by_file.get(faults.name(item.image), []) if p.fix in IMAGE_FIXES}
    if "drop_image" in fixes:
        fault, place = fixes["drop_image"]
        copy.note(place, fault, "left out")
        return
    target = _target(spec, copy, item)
    label: str | None = None
    if spec.task != "classify":
        source = item.label
        if item.rows.state == "missing" and item.label.name in renamed:
            place = renamed[item.label.name]
            source = item.label.with_name(Path(place.file).name)
            copy.note(place, "orphan_label", "renamed", after=item.label.name)
        places = by_file.get(faults.name(item.label), [])
        label = None if item.rows.state == "unreadable" else corrected(source, places, item, spec, copy.note)
        if label is None and source.exists():
            copy.note(Place(faults.name(source)), "bad_rows", "left out", "label file not readable")
            return
    _image(copy, item, target, fixes)
    if label is not None:
        place_of_label = copy.out / "labels" / item.split / target.relative_to(copy.out / "images" / item.split)
        codec.write_text(place_of_label.with_suffix(".txt"), label)


def _target(spec: DataSpec, copy: _Copy, item: Item) -> Path:
    """A place for the image that no other has taken, also not with another suffix (labels go by the stem)."""
    name = item.image.name if is_utf8(item.image.name) else shown(item.image.name).replace("\\x", "_")
    folder = (
        copy.out / item.split / item.image.parent.name if spec.task == "classify" else copy.out / "images" / item.split
    )
    target, number = folder / name, 1
    while target.with_suffix("") in copy.taken:
        number += 1
        target = folder / f"{Path(name).stem}-{number}{Path(name).suffix}"
    copy.taken.add(target.with_suffix(""))
    if target.name != item.image.name:
        copy.note(Place(copy.audit.faults.name(item.image)), "duplicate_stem", "renamed", after=target.name)
    return target


def _image(copy: _Copy, item: Item, target: Path, fixes: dict[str, tuple[str, Place]]) -> None:
    """Link an untouched image; convert or turn the others."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if fixes:
        # Late: only images that are converted need Pillow.
        from PIL import Image, ImageOps

        try:
            with Image.open(item.real) as opened:
                depth16 = opened.mode.startswith("I")
                image = opened.point(lambda v: v / 256) if depth16 else ImageOps.exif_transpose(opened)
                image = image.convert("RGB")
            lossy = target.suffix.lower() in {".jpg", ".jpeg"}
            image.save(target, quality=95, subsampling=0) if lossy else image.save(target)
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            fault, place = next(iter(fixes.values()))
            copy.note(place, fault, "not converted", after=str(error))
        else:
            for fix, (fault, place) in fixes.items():
                copy.note(place, fault, {"turn": "turned"}.get(fix, "converted"), after="RGB")
            return
    os.symlink(item.real.resolve(), target)  # noqa: PTH211 - names that are no UTF-8 stay bytes
