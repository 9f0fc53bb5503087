"""From the user's `data=` to lists of image files: where Ultralytics would look, without importing it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diag import codec
from diag.dataset.walk import files_below
from diag.errors import InputError

IMAGE_SUFFIXES = frozenset(
    [
        ".avif",
        ".bmp",
        ".dng",
        ".heic",
        ".heif",
        ".jp2",
        ".jpeg",
        ".jpeg2000",
        ".jpg",
        ".mpo",
        ".pfm",
        ".png",
        ".tif",
        ".tiff",
        ".webp",
    ]
)
"""What Ultralytics opens as an image (data/utils.py IMG_FORMATS), in lower case."""

SPLITS = ("train", "val", "test")

MAX_YAML_BYTES = 16 << 20
MAX_LIST_BYTES = 1 << 30
MAX_NODES = 1_000_000
MAX_CLASSES = 100_000
"""Bounds of what is read as a data set; the largest public ones have some 20,000 classes (ImageNet-21k)."""


def is_image_name(name: str) -> bool:
    """True if Ultralytics opens a file of this name as an image."""
    _, dot, suffix = name.rpartition(".")
    return f".{suffix.lower()}" in IMAGE_SUFFIXES if dot and "/" not in suffix else False


@dataclass(frozen=True)
class DataSpec:
    """A resolved data set.

    `splits` maps train/val/test to image files in sorted order; for `classify` they are found below
    `folders`. `extra` are further keys of the yaml (kpt_shape, flip_idx, channels ...).
    """

    source: Path
    task: str
    names: Mapping[int, str]
    splits: Mapping[str, tuple[Path, ...]]
    folders: Mapping[str, Path] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    nc: int | None = None
    """`nc:` of the yaml, which should be the number of names."""
    lost_links: Mapping[Path, Path] = field(default_factory=dict)
    """Symbolic links that a checkout or an archive turned into small text files: {file: where it points}."""

    def real(self, path: Path) -> Path:
        """Where the content of a path of this set lies: follows `lost_links`."""
        for link, target in self.lost_links.items():
            if link in path.parents:
                return target / path.relative_to(link)
        return path

    @property
    def images(self) -> tuple[Path, ...]:
        """The images of all splits."""
        return tuple(path for paths in self.splits.values() for path in paths)


def resolve(data: str, task: str, *, cwd: Path, datasets_dir: Path) -> DataSpec:
    """Find the files of `data` (a data.yaml, or for classify a folder with train/ and val/).

    `path:` in the yaml is looked for beside the yaml first, then in `datasets_dir`, as a user expects it.
    Raises InputError that names the file, the key and what to do.
    """
    source = Path(data).expanduser()
    source = source if source.is_absolute() else cwd / source
    source = source.parent.resolve() / source.name  # no `..` in the names of files that are shown
    if task == "classify":
        return _resolve_folders(source)
    if source.is_dir():
        yamls = sorted(p for p in source.iterdir() if p.suffix in {".yaml", ".yml"})
        if len(yamls) != 1:
            raise InputError(f"data={data}: a folder with {len(yamls)} yaml files; name the yaml itself")
        source = yamls[0]
    if not source.is_file():
        raise InputError(f"data={data}: no such file (looked for {source})")
    if source.stat().st_size > MAX_YAML_BYTES:
        raise InputError(f"{source}: larger than {MAX_YAML_BYTES >> 20} MiB; not a data set description")
    content = codec.read_yaml(source)
    _bounded(content, source)
    if not isinstance(content, dict):
        raise InputError(f"{source}: not a data set description; it needs train:, val: and names:")
    names = _names(content, source)
    root = _root(content, source, datasets_dir)
    for key in ("train", "val"):
        if not content.get(key) and not (key == "val" and content.get("validation")):
            raise InputError(f"{source}: no '{key}:'; give the folder or list of its images, e.g. {key}: images/{key}")
    splits: dict[str, tuple[Path, ...]] = {}
    lost_links: dict[Path, Path] = {}
    for split in SPLITS:
        entries = content.get(split) or (content.get("validation") if split == "val" else None)
        for entry in entries if isinstance(entries, list) else [entries] if entries else []:
            found = _images_of(str(entry), root, f"{source}: {split}", lost_links)
            splits[split] = tuple(sorted({*splits.get(split, ()), *found}))
    known = {"path", "train", "val", "validation", "test", "names", "nc", "download", "yaml_file"}
    extra = {str(k): v for k, v in content.items() if k not in known}
    nc = content.get("nc") if isinstance(content.get("nc"), int) else None
    return DataSpec(source.resolve(), task, names, splits, extra=extra, nc=nc, lost_links=lost_links)


def _bounded(content: Any, source: Path) -> None:
    """Raise InputError for a yaml whose aliases stand for more than MAX_NODES values: as text it fills the memory."""
    todo, seen = [content], 0
    while todo:
        value = todo.pop()
        seen += 1
        if seen > MAX_NODES:
            raise InputError(
                f"{source}: its aliases stand for more than {MAX_NODES} values; not a data set description"
            )
        if isinstance(value, (list, dict)):
            todo.extend(value.values() if isinstance(value, dict) else value)


def _names(content: Mapping[str, Any], source: Path) -> dict[int, str]:
    """`names:` as {id: name}. Gaps and duplicates are kept: a rule judges them."""
    names = content.get("names")
    nc = content.get("nc")
    if isinstance(nc, int) and nc > MAX_CLASSES:
        raise InputError(f"{source}: nc: {nc} classes can't be right (at most {MAX_CLASSES})")
    if names is None and isinstance(nc, int):
        return {i: f"class_{i}" for i in range(content["nc"])}
    if isinstance(names, list):
        return {i: str(n) for i, n in enumerate(names)}
    if isinstance(names, dict):
        try:
            return {int(k): str(v) for k, v in names.items()}
        except (TypeError, ValueError) as error:
            raise InputError(f"{source}: names: has a class id that is no number ({error})") from error
    if names is None:
        raise InputError(f"{source}: no 'names:'; list the classes, e.g. names: {{0: cat, 1: dog}}")
    raise InputError(f"{source}: names: must be a list or {{id: name}}, not {type(names).__name__}")


def _root(content: Mapping[str, Any], source: Path, datasets_dir: Path) -> Path:
    given = content.get("path")
    if not given:
        return source.parent
    path = Path(str(given)).expanduser()
    if path.is_absolute():
        return path
    beside, central = source.parent / path, datasets_dir / path
    return central if central.exists() and not beside.exists() else beside


def _images_of(entry: str, root: Path, where: str, lost_links: dict[Path, Path]) -> Iterable[Path]:
    """The images below one entry of the yaml (folder or text list). A lost link is followed and noted."""
    path = Path(entry).expanduser()
    path = path if path.is_absolute() else root / path
    if not path.exists() and entry.startswith("../"):
        path = root / entry[3:]  # Roboflow exports write ../train/images; Ultralytics tries this too
    if path.is_file():
        return _listed(path)
    real = path
    if not path.exists() and (link := _lost_link(path)):
        lost_links[link[0]] = link[1]
        real = link[1] / path.relative_to(link[0])
    if not real.is_dir():
        raise InputError(f"{where}: {entry} does not exist (looked for {path})")
    return (path / p for p in files_below(real) if is_image_name(p))


def _lost_link(path: Path) -> tuple[Path, Path] | None:
    """A parent of `path` that is a text file naming a folder: what git and zip make of a symbolic link."""
    for parent in path.parents:
        if parent.is_file() and parent.stat().st_size < 4096:
            target = parent.parent / parent.read_text(encoding="utf-8", errors="replace").strip()
            return (parent, target.resolve()) if target.is_dir() else None
    return None


def _listed(path: Path) -> Iterable[Path]:
    """The images that a text list names; `./` is relative to the list, as in Ultralytics."""
    if path.stat().st_size > MAX_LIST_BYTES:
        raise InputError(f"{path}: larger than {MAX_LIST_BYTES >> 30} GiB; not a text list of images")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a text list of images: {error}") from error
    for line in map(str.strip, lines):
        if line:
            image = Path(line)
            yield image if image.is_absolute() else path.parent / image


def _resolve_folders(source: Path) -> DataSpec:
    if not source.is_dir():
        raise InputError(f"data={source}: classification needs a folder with train/CLASS/*.jpg and val/CLASS/*.jpg")
    folders = {s: source / s for s in SPLITS if (source / s).is_dir()}
    if "val" not in folders and (source / "validation").is_dir():
        folders["val"] = source / "validation"
    for split in ("train", "val"):
        if split not in folders:
            raise InputError(f"{source}: no folder '{split}/' with one folder per class")
    classes = sorted(p.name for p in folders["train"].iterdir() if p.is_dir())
    splits = {
        split: tuple(sorted(p for p in folder.glob("*/*") if p.suffix.lower() in IMAGE_SUFFIXES))
        for split, folder in folders.items()
    }
    return DataSpec(source.resolve(), "classify", dict(enumerate(classes)), splits, folders)


def label_of(image: Path) -> Path:
    """The label file of an image: the last `/images/` of its path becomes `/labels/`, suffix .txt (Ultralytics)."""
    head, found, tail = str(image).rpartition("/images/")
    return Path(f"{head}/labels/{tail}" if found else str(image)).with_suffix(".txt")
