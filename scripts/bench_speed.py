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


def main(shared: Path, folder: Path, images: int) -> int:
    """Print one line a set and tool."""
    environment = os.environ | {
        "WORKSPACE": str(folder / "workspace"),
        "YOLO_CONFIG_DIR": str(folder),
        "YOLO_OFFLINE": "1",
    }
    plan = {"bccd": sets.copy_set(shared / "bccd", folder / "bccd")}
    if images:
        plan[f"{images} synthetic"] = many(shared / "bccd", folder / "many", images)
    print(f"{'set':18} {'what':34} {'seconds':>8} {'CPU s':>7} {'x Ultralytics':>14} {'peak MB':>8}")
    for name, data in plan.items():
        diag = [str(Path(sys.executable).parent / "diag"), "data", str(data), "--format", "json"]
        runs = {
            "Ultralytics scan": [sys.executable, "-c", SCAN, str(data)],
            "diag data --quick --no-cache": [*diag, "--quick", "--no-cache"],
            "diag data --no-cache": [*diag, "--no-cache"],
            "diag data (first, writes cache)": diag,
            "diag data (second)": diag,
        }
        base = 0.0
        for what, command in runs.items():
            for cache in data.parent.rglob("*.cache"):
                cache.unlink()
            best, cpu, peak = 1e9, 0.0, 0
            for _ in range(1 if "first" in what else 3 if "bccd" in name else 2):
                for cache in data.parent.rglob("*.cache"):
                    cache.unlink()
                seconds, used, memory = timed(command, environment)
                if seconds < best:
                    best, cpu, peak = seconds, used, memory
            base = base or best
            print(f"{name:18} {what:34} {best:8.2f} {cpu:7.2f} {best / base:14.2f} {peak:8.0f}", flush=True)
    return 0


def timed(command: list[str], environment: dict[str, str]) -> tuple[float, float, float]:
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
