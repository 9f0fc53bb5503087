"""Writable copies of the real sets, and pose, obb and classify sets made of bccd."""

import math
import shutil
from pathlib import Path

import yaml
from PIL import Image

SPLITS = ("train", "val")


def copy_set(source: Path, target: Path) -> Path:
    """A writable copy of a set with its images (a lost link is followed); returns the data.yaml."""
    images = source / "images"
    if images.is_file():  # a symbolic link that became text
        images = (source / images.read_text().strip()).resolve()
    shutil.copytree(images, target / "images")
    shutil.copytree(source / "labels", target / "labels")
    shutil.copy(source / "data.yaml", target / "data.yaml")
    for path in target.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target / "data.yaml"


def rows_of(source: Path, split: str) -> list[tuple[Path, list[list[float]]]]:
    """Images of a split with their rows, zero-size boxes left out."""
    found = []
    for image in sorted((source / "images" / split).glob("*.jpg")):
        text = (source / "labels" / split / f"{image.stem}.txt").read_text()
        rows = [[float(v) for v in line.split()] for line in text.splitlines()]
        found.append((image, [r for r in rows if r[3] > 0.02 and r[4] > 0.02]))
    return found


def pose_set(source: Path, target: Path) -> Path:
    """Three points a cell: middle, left, right."""
    for split in SPLITS:
        for image, rows in rows_of(source, split):
            lines = []
            for c, x, y, w, h in rows:
                points = [(x, y), (x - w / 4, y), (x + w / 4, y)]
                lines.append(f"{c:g} {x:g} {y:g} {w:g} {h:g} " + " ".join(f"{a:.6f} {b:.6f} 2" for a, b in points))
            put(target, split, image, lines)
    return finish(target, {"kpt_shape": [3, 3], "flip_idx": [0, 2, 1]})


def obb_set(source: Path, target: Path) -> Path:
    """Boxes turned by an angle that differs from row to row, shrunk so that they stay inside the image."""
    for split in SPLITS:
        for image, rows in rows_of(source, split):
            width, height = Image.open(image).size
            lines = []
            for k, (c, x, y, w, h) in enumerate(rows):
                angle, a, b = math.radians(7 * k % 40), 0.3 * w * width, 0.3 * h * height
                cos, sin = math.cos(angle), math.sin(angle)
                ring = [(u * cos - v * sin, u * sin + v * cos) for u, v in ((-a, -b), (a, -b), (a, b), (-a, b))]
                corners = [(x + u / width, y + v / height) for u, v in ring]
                if all(0 <= v <= 1 for point in corners for v in point):
                    lines.append(f"{c:g} " + " ".join(f"{p:.6f} {q:.6f}" for p, q in corners))
            put(target, split, image, lines)
    return finish(target, {})


def classify_set(source: Path, target: Path) -> Path:
    """Crops of single cells, one a class and image."""
    names = ("RBC", "WBC", "Platelets")
    for split, count in (("train", 60), ("val", 20)):
        done = dict.fromkeys(range(3), 0)
        for image, rows in rows_of(source, split):
            picture = Image.open(image)
            width, height = picture.size
            for c in range(3):
                row = next((r for r in rows if r[0] == c), None)
                if row is None or done[c] >= count:
                    continue
                done[c] += 1
                _, x, y, w, h = row
                box = ((x - w / 2) * width, (y - h / 2) * height, (x + w / 2) * width, (y + h / 2) * height)
                folder = target / split / names[c]
                folder.mkdir(parents=True, exist_ok=True)
                picture.crop(tuple(map(round, box))).save(folder / f"{image.stem}.jpg", quality=92)
    return target


def put(target: Path, split: str, image: Path, lines: list[str]) -> None:
    """One image with its rows."""
    for kind in ("images", "labels"):
        (target / kind / split).mkdir(parents=True, exist_ok=True)
    shutil.copyfile(image, target / "images" / split / image.name)
    (target / "labels" / split / f"{image.stem}.txt").write_text("\n".join(lines) + "\n")


def finish(target: Path, more: dict[str, object]) -> Path:
    """The data.yaml of a set made of bccd."""
    content = {"path": ".", "train": "images/train", "val": "images/val", "names": {0: "RBC", 1: "WBC", 2: "Platelets"}}
    (target / "data.yaml").write_text(yaml.safe_dump(content | more, sort_keys=False))
    return target / "data.yaml"
