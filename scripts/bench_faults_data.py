"""The data sets of scripts/bench-faults, made from the demo set; each is drawn once."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from diag.dataset.demo import make_demo

NAMES = "names: [circle, square, triangle]\n"


def dataset(name: str, folder: Path) -> Path:
    """What to give as data= for a set of SETS."""
    done, target = folder / f"{name}.done", folder / name
    if not done.exists():
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        SETS[name](target)
        done.touch()
    return target if name == "classify" else target / "data.yaml"


def subset(target: Path, train: int, val: int, *, task: str = "detect") -> None:
    """The first images of the demo set."""
    source = make_demo(target.parent / f"source-{task}", task).parent
    for split, count in (("train", train), ("val", val)):
        for kind, suffix in (("images", "jpg"), ("labels", "txt")):
            (target / kind / split).mkdir(parents=True)
            for path in sorted((source / kind / split).glob(f"*.{suffix}"))[:count]:
                shutil.copy(path, target / kind / split / path.name)
    (target / "data.yaml").write_text("train: images/train\nval: images/val\n" + NAMES)


def changed(change: Callable[[int, list[str]], list[str]]) -> Callable[[Path], None]:
    """The small set with `change(number, words of the row)` applied to every label row."""

    def make(target: Path) -> None:
        subset(target, 120, 40)
        number = 0
        for path in sorted((target / "labels").rglob("*.txt")):
            rows = []
            for line in path.read_text().splitlines():
                rows.append(" ".join(change(number, line.split())))
                number += 1
            path.write_text("".join(f"{row}\n" for row in rows if row))

    return make


def pixels(_: int, row: list[str]) -> list[str]:
    """Coordinates times the size of the image."""
    return [row[0], *(f"{float(v) * (320, 240)[i % 2]:.1f}" for i, v in enumerate(row[1:]))]


def backgrounds(target: Path) -> None:
    """The small set; the label file of every tenth image is empty, and so is the image: one colour with noise."""
    subset(target, 120, 40)
    for number, path in enumerate(sorted((target / "images").rglob("*.jpg"))):
        if number % 10 == 0:
            noise = np.random.default_rng(number).integers(90, 110, (240, 320, 3), dtype=np.uint8)
            Image.fromarray(noise).resize((320, 240)).save(path, quality=92)
            (target / "labels" / path.parent.name / f"{path.stem}.txt").write_text("")


def two_classes(target: Path) -> None:
    """The small set without triangles: images that hold one are left out."""
    subset(target, 200, 60)
    for label in sorted((target / "labels").rglob("*.txt")):
        if any(line.startswith("2 ") for line in label.read_text().splitlines()):
            (target / "images" / label.parent.name / f"{label.stem}.jpg").unlink()
            label.unlink()
    (target / "data.yaml").write_text("train: images/train\nval: images/val\nnames: [circle, square]\n")


def rounded(target: Path) -> None:
    """The small set, each image cut where its rightmost box ends; rounded figures let that edge lie 2e-6 beyond 1."""
    subset(target, 120, 40)
    for path in sorted((target / "images").rglob("*.jpg")):
        label = target / "labels" / path.parent.name / f"{path.stem}.txt"
        rows = [[float(v) for v in line.split()] for line in label.read_text().splitlines()]
        if not rows:
            continue
        with Image.open(path) as image:
            right = round(max(r[1] + r[3] / 2 for r in rows) * image.width)
            image.crop((0, 0, right, image.height)).save(path, quality=92)
            cut = right / image.width
        texts = []
        for kind, x, y, w, h in rows:
            left, end = (x - w / 2) / cut, min((x + w / 2) / cut, 1.0)
            end = 1 + 2e-6 if end > 1 - 3e-3 else end
            texts.append(f"{kind:.0f} {(left + end) / 2:.6f} {y:.6f} {end - left:.6f} {h:.6f}\n")
        label.write_text("".join(texts))


def enlarged(width: int, height: int, train: int, val: int) -> Callable[[Path], None]:
    """Images of another size; their labels are relative and stay."""

    def make(target: Path) -> None:
        subset(target, train, val)
        for path in sorted((target / "images").rglob("*.jpg")):
            with Image.open(path) as image:
                image.resize((width, height), Image.Resampling.BILINEAR).save(path, quality=92)

    return make


def train_is_val(target: Path) -> None:
    """One split for both."""
    subset(target, 120, 0)
    (target / "data.yaml").write_text("train: images/train\nval: images/train\n" + NAMES)


def _scene(rng: np.random.Generator, side: int) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    pixels = rng.integers(30, 90, (side // 8, side // 8, 3), dtype=np.uint8)
    image = Image.fromarray(pixels).resize((side, side), Image.Resampling.BILINEAR)
    return image, ImageDraw.Draw(image)


def _bars(target: Path, row: Callable[[Sequence[tuple[float, float]]], str], extra: str) -> None:
    """Bright turned bars with a dark tip on a texture; `row` tells corners (tip first) as a label."""
    for split, count in (("train", 240), ("val", 60)):
        (target / "images" / split).mkdir(parents=True)
        (target / "labels" / split).mkdir(parents=True)
        for number in range(count):
            rng = np.random.default_rng([split == "val", number])
            image, draw = _scene(rng, 160)
            rows = []
            for quarter in rng.permutation(4)[: rng.integers(1, 4)]:
                middle = np.array([40 + 80 * (quarter % 2), 40 + 80 * (quarter // 2)]) + rng.integers(-6, 7, 2)
                angle, length, width = rng.uniform(-np.pi, np.pi), rng.uniform(24, 32), rng.uniform(9, 13)
                along, across = (np.array([np.cos(a), np.sin(a)]) for a in (angle, angle + np.pi / 2))
                corners = [
                    middle + s * length * along + t * width * across for s, t in ((1, 1), (1, -1), (-1, -1), (-1, 1))
                ]
                draw.polygon([tuple(c) for c in corners], fill=tuple(int(c) for c in rng.integers(170, 256, 3)))
                tip = middle + 0.7 * length * along
                draw.ellipse([*(tip - 6), *(tip + 6)], fill=(10, 10, 10))
                tail = middle - 0.7 * length * along
                rows.append(row([(float(x) / 160, float(y) / 160) for x, y in (*corners, tip, tail)]))
            image.save(target / "images" / split / f"{split}_{number:04d}.jpg", quality=92)
            (target / "labels" / split / f"{split}_{number:04d}.txt").write_text("\n".join(rows) + "\n")
    (target / "data.yaml").write_text(f"train: images/train\nval: images/val\nnames: [bar]\n{extra}")


def _obb(points: Sequence[tuple[float, float]]) -> str:
    return "0 " + " ".join(f"{v:.6f}" for point in points[:4] for v in point)


def _pose(points: Sequence[tuple[float, float]]) -> str:
    xs, ys = [p[0] for p in points[:4]], [p[1] for p in points[:4]]
    box = ((min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2, max(xs) - min(xs), max(ys) - min(ys))
    return "0 " + " ".join(f"{v:.6f}" for v in box) + "".join(f" {x:.6f} {y:.6f} 2" for x, y in points[4:])


def classify(target: Path) -> None:
    """One shape an image, in a folder of its name."""
    for split, count in (("train", 300), ("val", 90)):
        for number in range(count):
            rng = np.random.default_rng([2 + (split == "val"), number])
            image, draw = _scene(rng, 64)
            kind = number % 3
            x, y, radius = rng.integers(24, 40), rng.integers(24, 40), rng.integers(14, 22)
            corners, turn = ((24, 0.0), (4, np.pi / 4), (3, -np.pi / 2))[kind]
            angles = turn + 2 * np.pi * np.arange(corners) / corners
            points = [(float(x + radius * np.cos(a)), float(y + radius * np.sin(a))) for a in angles]
            draw.polygon(points, fill=tuple(int(c) for c in rng.integers(150, 256, 3)))
            folder = target / split / ("circle", "square", "triangle")[kind]
            folder.mkdir(parents=True, exist_ok=True)
            image.save(folder / f"{number:04d}.png")


def heavy_val(target: Path) -> None:
    """Far more images to validate on than to train on; 104 training images, so that their number is no fault."""
    subset(target, 240, 60)
    for number, path in enumerate(sorted((target / "images" / "train").glob("*.jpg"))):
        if number >= 104:  # the rest validates
            path.rename(target / "images" / "val" / path.name)
            label = target / "labels" / "train" / f"{path.stem}.txt"
            label.rename(target / "labels" / "val" / label.name)
    for split in ("images", "labels"):
        for path in sorted((target / split / "val").iterdir()):
            with_flip(path)


def with_flip(path: Path) -> None:
    """A mirrored copy beside an image or a label file."""
    copy = path.with_name(f"{path.stem}_flip{path.suffix}")
    if path.suffix == ".txt":
        rows = [line.split() for line in path.read_text().splitlines()]
        copy.write_text("".join(f"{r[0]} {1 - float(r[1]):.6f} {' '.join(r[2:])}\n" for r in rows))
        return
    with Image.open(path) as image:
        image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(copy, quality=92)


SETS: dict[str, Callable[[Path], None]] = {
    "demo": lambda target: subset(target, 240, 60),
    "demo_seg": lambda target: subset(target, 240, 60, task="segment"),
    "small": lambda target: subset(target, 120, 40),
    "huge": enlarged(4000, 3000, 104, 26),
    "photos": enlarged(2592, 1944, 120, 26),
    "nan_labels": changed(lambda n, row: [row[0], "nan", *row[2:]] if n % 5 == 0 else row),
    "pixels": changed(pixels),
    "class_ids": changed(lambda n, row: ["7" if n % 10 == 0 else row[0], *row[1:]]),
    "empty": changed(lambda n, row: []),
    "backgrounds": backgrounds,
    "two_classes": two_classes,
    "rounded": rounded,
    "train_is_val": train_is_val,
    "val_5": lambda target: subset(target, 120, 5),
    "heavy_val": heavy_val,
    "train_20": lambda target: subset(target, 20, 40),
    "pose": lambda target: _bars(target, _pose, "kpt_shape: [2, 3]\nflip_idx: [0, 1]\n"),
    "obb": lambda target: _bars(target, _obb, ""),
    "classify": classify,
}
