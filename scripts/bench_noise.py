"""Known label noise: swap, drop, shift and add boxes at seeded places of a data set, and say where."""

from dataclasses import dataclass
from pathlib import Path
from random import Random

Box = tuple[float, float, float, float]
KINDS = ("class", "missing", "misplaced", "unsupported")


@dataclass(frozen=True)
class Wrong:
    """One injected fault; `line` is its line in the noisy file, None for a box that is gone."""

    kind: str
    file: str
    line: int | None
    box: Box


def overlap(a: Box, b: Box) -> float:
    """IoU of two boxes given as x, y, w, h."""
    wide = min(a[0] + a[2] / 2, b[0] + b[2] / 2) - max(a[0] - a[2] / 2, b[0] - b[2] / 2)
    high = min(a[1] + a[3] / 2, b[1] + b[3] / 2) - max(a[1] - a[3] / 2, b[1] - b[3] / 2)
    inside = max(wide, 0.0) * max(high, 0.0)
    return inside / (a[2] * a[3] + b[2] * b[3] - inside or 1.0)


def add_noise(root: Path, classes: int, *, share: float, seed: int) -> list[Wrong]:
    """Change `share` of all rows of `root/labels` in each of the four ways; returns what was done."""
    random = Random(seed)
    files = {
        path: [line.split() for line in path.read_text().splitlines()] for path in sorted(root.rglob("labels/**/*.txt"))
    }
    places = [
        (path, k) for path, rows in files.items() for k, row in enumerate(rows) if float(row[3]) > 0 < float(row[4])
    ]
    each = max(1, round(share * len(places)))
    chosen = random.sample(places, 3 * each)
    way = {place: KINDS[number % 3] for number, place in enumerate(chosen)}
    extra = dict.fromkeys(files, 0)
    for path in random.choices(list(files), k=each):
        extra[path] += 1
    done: list[Wrong] = []
    for path, rows in files.items():
        kept: list[str] = []
        name = str(path.relative_to(root))
        boxes = [_box(row) for row in rows]
        for k, old in enumerate(rows):
            row = old
            kind = way.get((path, k), "")
            if kind == "missing":
                done.append(Wrong(kind, name, None, boxes[k]))
                continue
            if kind == "class":
                row = [str((int(row[0]) + random.randrange(1, classes)) % classes), *row[1:]]
            if kind == "misplaced":
                row = [row[0], *(f"{v:.6f}" for v in _shifted(boxes[k], random))]
            kept.append(" ".join(row))
            if kind:
                done.append(Wrong(kind, name, len(kept), _box(row)))
        for _ in range(extra[path]):
            if (box := _free(boxes, random)) is not None:
                kept.append(" ".join([str(random.randrange(classes)), *(f"{v:.6f}" for v in box)]))
                boxes.append(box)
                done.append(Wrong("unsupported", name, len(kept), box))
        path.write_text("\n".join(kept) + "\n" if kept else "")
    return done


def _box(row: list[str]) -> Box:
    x, y, w, h = map(float, row[1:5])
    return x, y, w, h


def _shifted(box: Box, random: Random) -> Box:
    """Moved such that 0.3 to 0.55 of it (IoU) is left and it stays inside the image."""
    x, y, w, h = box
    for _ in range(200):
        moved = (x + random.uniform(-0.6, 0.6) * w, y + random.uniform(-0.6, 0.6) * h, w, h)
        inside = w / 2 <= moved[0] <= 1 - w / 2 and h / 2 <= moved[1] <= 1 - h / 2
        if inside and 0.3 <= overlap(moved, box) <= 0.55:
            return moved
    factor = 0.65  # no room to move: drawn too small
    return x, y, w * factor, h * factor


def _free(boxes: list[Box], random: Random) -> Box | None:
    """A box of a usual size where no object is; None if the image is full."""
    for _ in range(200):
        _, _, w, h = random.choice(boxes) if boxes else (0, 0, 0.15, 0.15)
        if w <= 0 or h <= 0 or w > 0.9 or h > 0.9:
            continue
        box = (random.uniform(w / 2, 1 - w / 2), random.uniform(h / 2, 1 - h / 2), w, h)
        if all(overlap(box, other) < 0.05 for other in boxes):
            return box
    return None
