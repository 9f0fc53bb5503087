"""The demo data set: drawn shapes on textured backgrounds, seeded and byte-identical, learnable from scratch.

Boxes and polygons come from the same drawing, so one set of images serves `detect` and `segment`.
"""

import contextlib
import shutil
import tempfile
from pathlib import Path

from diag import codec

NAMES = {0: "circle", 1: "square", 2: "triangle"}
COUNTS = {"train": 240, "val": 60}
WIDTH, HEIGHT = 320, 240
VERSION = 1
"""Raised when the drawing changes, so that an old set is drawn anew."""


def make_demo(folder: Path, task: str = "detect") -> Path:
    """Draw the set into `folder` unless it is there already; returns its data.yaml.

    `task` is detect (rows `class x y w h`) or segment (rows `class x1 y1 x2 y2 ...`).
    """
    done = folder / f"version-{VERSION}-{task}"
    yaml = folder / "data.yaml"
    if done.exists() and yaml.exists():
        return yaml
    # Drawn beside it and moved there whole: two trainings may start at once in one workspace.
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as drawn:
        new = Path(drawn) / "new"
        for split, count in COUNTS.items():
            (new / "images" / split).mkdir(parents=True)
            (new / "labels" / split).mkdir(parents=True)
            for number in range(count):
                _draw(new, split, number, task)
        codec.write_text(new / yaml.name, codec.to_yaml({"train": "images/train", "val": "images/val", "names": NAMES}))
        (new / done.name).touch()
        if not (done.exists() and yaml.exists()):
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):  # not empty: the other one was quicker, and drew the same
                new.rename(folder)
    return yaml


def _draw(folder: Path, split: str, number: int, task: str) -> None:
    """Draw one image and its label file."""
    # Late: the command line must stay quick, and only this module draws.
    import numpy as np
    from PIL import Image, ImageDraw

    rng = np.random.default_rng([VERSION, list(COUNTS).index(split), number])
    coarse = rng.integers(30, 110, (HEIGHT // 20, WIDTH // 20, 3), dtype=np.uint8)
    texture = np.asarray(Image.fromarray(coarse).resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR), dtype=np.int16)
    noise = rng.integers(-16, 17, (HEIGHT, WIDTH, 3), dtype=np.int16)
    image = Image.fromarray(np.clip(texture + noise, 0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    rows: list[str] = []
    placed: list[tuple[float, float, float]] = []
    for _ in range(int(rng.integers(2, 7))):
        radius = float(rng.integers(18, 46))
        x = float(rng.integers(int(radius) + 2, WIDTH - int(radius) - 2))
        y = float(rng.integers(int(radius) + 2, HEIGHT - int(radius) - 2))
        shape = int(rng.integers(0, 3))
        colour = tuple(int(c) for c in rng.integers(130, 256, 3))
        if any((x - a) ** 2 + (y - b) ** 2 < (radius + r) ** 2 for a, b, r in placed):
            continue  # shapes never overlap: every label is fully visible
        placed.append((x, y, radius))
        points = _outline(shape, x, y, radius)
        draw.polygon(points, fill=colour)
        rows.append(_row(shape, points, task))
    stem = f"{split}_{number:04d}"
    image.save(folder / "images" / split / f"{stem}.jpg", quality=90, subsampling=0)
    (folder / "labels" / split / f"{stem}.txt").write_text("\n".join(rows) + "\n")


def _outline(shape: int, x: float, y: float, radius: float) -> list[tuple[float, float]]:
    """Corner points in pixels of a circle (24 corners), square or triangle with this centre and radius."""
    # Late, see _draw.
    import numpy as np

    corners, turn = ((24, 0.0), (4, np.pi / 4), (3, -np.pi / 2))[shape]
    angles = turn + 2 * np.pi * np.arange(corners) / corners
    return [(round(float(x + radius * np.cos(a)), 2), round(float(y + radius * np.sin(a)), 2)) for a in angles]


def _row(shape: int, points: list[tuple[float, float]], task: str) -> str:
    xs, ys = [p[0] / WIDTH for p in points], [p[1] / HEIGHT for p in points]
    if task == "segment":
        return " ".join([str(shape), *(f"{v:.6f}" for point in zip(xs, ys, strict=True) for v in point)])
    box = ((min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2, max(xs) - min(xs), max(ys) - min(ys))
    return " ".join([str(shape), *(f"{v:.6f}" for v in box)])
