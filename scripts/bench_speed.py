"""Cold-process times of the data doctor beside Ultralytics' own scan, as ratios of one run."""

import os
import subprocess
import sys
import time
from pathlib import Path

import bench_sets as sets
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
SCAN = """
import sys
from ultralytics.data.dataset import YOLODataset
from ultralytics.utils import YAML
from pathlib import Path
yaml = Path(sys.argv[1])
data = YAML.load(yaml) | {"channels": 3}
data["nc"] = len(data["names"])
for split in ("train", "val", "test"):
    if split in data:
        YOLODataset(img_path=str(yaml.parent / data[split]), data=data, task="detect", augment=False)
"""


SETS = ("bccd", "synthetic", "links", "small")


def main(shared: Path, folder: Path, images: int, which: str) -> int:
    """Print one line a set and tool. `which` is one of SETS.

    `synthetic` are different crops, `links` hard links of bccd (all copies of each other), `small` different pictures
    of 64 x 48 pixels with ten boxes each (so 100,000 files hold a million labels).
    """
    environment = os.environ | {
        "WORKSPACE": str(folder / "workspace"),
        "YOLO_CONFIG_DIR": str(folder),
        "YOLO_OFFLINE": "1",
    }
    make = {
        "bccd": lambda: sets.copy_set(shared / "bccd", folder / "bccd"),
        "synthetic": lambda: many(shared / "bccd", folder / "many", images),
        "links": lambda: links(shared / "bccd", folder / "links", images),
        "small": lambda: small(folder / "small", images),
    }
    start = time.monotonic()
    data = make[which]()
    print(f"{which}: made in {time.monotonic() - start:.0f} s; load {os.getloadavg()[0]:.1f}")
    diag = [str(Path(sys.executable).parent / "diag"), "data", str(data), "--format", "json"]
    scan = [sys.executable, "-c", SCAN, str(data)]
    rounds = 3 if which == "bccd" else 1
    print(f"{'what':42} {'seconds':>8} {'CPU s':>7} {'wall ratio':>10} {'CPU ratio':>10} {'peak MB':>8}")
    for what in ("--quick", "look") if which != "small" else ():
        command = [*diag, "--no-cache", *(["--quick"] if what == "--quick" else [])]
        abba(f"diag data {what}, nothing cached", scan, command, data, environment=environment, rounds=rounds)
    theirs = [timed(scan, environment)] if which == "small" else None
    if theirs:
        line("Ultralytics scan", theirs)
    for what in ("--quick",) if which == "small" else ("--quick", "look"):
        command = [*diag, *(["--quick"] if what == "--quick" else [])]
        for number in ("first", "second"):
            line(f"diag data {what}, {number} audit", [timed(command, environment)], theirs)
    return 0


def abba(
    what: str, scan: list[str], command: list[str], data: Path, *, environment: dict[str, str], rounds: int
) -> None:
    """Ultralytics' scan (its label index removed before) and ours in the order A B B A; prints both and the ratio."""
    ours, theirs = [], []
    for _ in range(rounds):
        for turn in "ABBA":
            for cache in data.parent.rglob("*.cache"):
                cache.unlink()
            (theirs if turn == "A" else ours).append(timed(scan if turn == "A" else command, environment))
    line("Ultralytics scan", theirs)
    line(what, ours, theirs)


Timing = tuple[float, float, float]


def line(what: str, runs: list[Timing], base: list[Timing] | None = None) -> None:
    """Means over the runs, and what they are of those of `base`."""
    seconds, cpu = (sum(r[k] for r in runs) / len(runs) for k in range(2))
    ratios = ""
    if base:
        ratios = "".join(
            f" {value / (sum(r[k] for r in base) / len(base)):10.2f}" for k, value in enumerate((seconds, cpu))
        )
    print(f"{what:42} {seconds:8.2f} {cpu:7.2f} {ratios or ' ' * 22} {max(r[2] for r in runs):8.0f}", flush=True)


def timed(command: list[str], environment: dict[str, str]) -> Timing:
    """Wall seconds, CPU seconds and peak memory in MB of a cold process."""
    start = time.monotonic()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    if os.waitstatus_to_exitcode(status) not in {0, 1}:
        raise SystemExit(process.stderr.read().decode()[-2000:] if process.stderr else command)
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def many(source: Path, target: Path, count: int) -> Path:
    """Distinct images: shifted crops of bccd, encoded anew, with the boxes that lie in them."""
    rows = sets.rows_of(source, "train")
    for number in range(count):
        image, boxes = rows[number % len(rows)]
        shift = number // len(rows)
        split = "val" if number % 5 == 0 else "train"
        left, top = (shift * 13) % 300, (shift * 29) % 220
        with Image.open(image) as picture:
            part = picture.convert("RGB").crop((left, top, left + 320, top + 240))
        lines = []
        for c, x, y, w, h in boxes:
            u, v = (x * 640 - left) / 320, (y * 480 - top) / 240
            if w < u < 1 - w and h < v < 1 - h:
                lines.append(f"{c:g} {u:.6f} {v:.6f} {2 * w:.6f} {2 * h:.6f}")
        for kind in ("images", "labels"):
            (target / kind / split).mkdir(parents=True, exist_ok=True)
        part.save(target / "images" / split / f"{number:06d}.jpg", quality=85)
        (target / "labels" / split / f"{number:06d}.txt").write_text("\n".join(lines) + "\n" if lines else "")
    return sets.finish(target, {})


def links(source: Path, target: Path, count: int) -> Path:
    """Hard links (copies where there can be none) of the images and labels of bccd, again and again."""
    found = [(split, image) for split in sets.SPLITS for image in sorted((source / "images" / split).glob("*.jpg"))]
    copy = sets.copy_set(source, target / "bccd").parent
    for number in range(count):
        split, image = found[number % len(found)]
        for kind, suffix in (("images", ".jpg"), ("labels", ".txt")):
            (target / kind / split).mkdir(parents=True, exist_ok=True)
            os.link(copy / kind / split / f"{image.stem}{suffix}", target / kind / split / f"{number:06d}{suffix}")
    return sets.finish(target, {})


def small(target: Path, count: int, rows: int = 10) -> Path:
    """Different pictures of 64 x 48 pixels with `rows` boxes each."""
    import numpy as np

    rng = np.random.default_rng(0)
    for split in ("train", "val"):
        for kind in ("images", "labels"):
            (target / kind / split).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        split = "val" if number % 5 == 0 else "train"
        coarse = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((64, 48), Image.Resampling.BILINEAR).save(
            target / "images" / split / f"{number:06d}.jpg"
        )
        boxes = np.column_stack(
            [rng.integers(0, 3, rows), rng.uniform(0.2, 0.8, (rows, 2)), rng.uniform(0.1, 0.3, (rows, 2))]
        )
        text = "".join(f"{int(c)} {x:.6f} {y:.6f} {w:.6f} {h:.6f}\n" for c, x, y, w, h in boxes.tolist())
        (target / "labels" / split / f"{number:06d}.txt").write_text(text)
    return sets.finish(target, {})
