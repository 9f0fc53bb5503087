"""Time `diag analyze` on long files beside a process that only reads them."""

import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
READ = "import sys\nfor line in open(sys.argv[1], 'rb'): line.lower()"
CSV_LIMIT_S, LOG_LIMIT_S = 0.4, 5.0
HEAD = (
    "Ultralytics 8.3.40 🚀 Python-3.11.9 torch-2.5.1+cu121 CUDA:0 (NVIDIA GeForce RTX 3090, 24260MiB)\n"
    "engine/trainer: task=detect, mode=train, model=yolo11n.pt, data=coco.yaml, epochs=5000, imgsz=640, batch=16\n"
)
TABLE = "\n      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
ROW = (
    "\r{:11}/5000      8.1G      {:.4g}      {:.4g}      {:.4g}        {}        640: "
    "{:3}%|{:10}| {}/7393 [{:02}:{:02}<10:02, 10.2it/s]"
)
SCORES = (
    "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): "
    "100%|##########| 157/157 [00:20<00:00,  7.7it/s]\n"
    "                   all       5000      36335      0.{}      0.512      0.5{}      0.38{}\n"
)


class Cost(NamedTuple):
    """Of one process."""

    wall_s: float
    cpu_s: float
    peak_mb: float


def bars(dice: random.Random, steps: int = 7393) -> Iterator[str]:
    """A bar that is drawn again for each batch, and a row of scores an epoch."""
    for epoch in range(1, sys.maxsize):
        yield TABLE
        for n in range(1, steps + 1):
            losses = (1.2 + dice.random() / 10, 1.4 + dice.random() / 10, 1.1 + dice.random() / 10)
            yield ROW.format(
                epoch,
                *losses,
                dice.randint(20, 200),
                100 * n // steps,
                "#" * (10 * n // steps),
                n,
                n // 600,
                n // 10 % 60,
            )
        yield "\n" + SCORES.format(dice.randint(500, 700), dice.randint(10, 99), dice.randint(1, 9))


def warnings(dice: random.Random) -> Iterator[str]:
    """Another image each time."""
    while True:
        yield (
            f"WARNING ⚠️ /data/coco/images/train2017/{dice.getrandbits(48):012x}.jpg: ignoring corrupt image/label: "
            f"image file is truncated ({dice.randint(1, 99)} bytes not processed)\n"
        )


def half(dice: random.Random) -> Iterator[str]:
    """Bars and warnings."""
    drawn, said = bars(dice, 700), warnings(dice)
    while True:
        yield from (next(drawn) for _ in range(700))
        yield from (next(said) for _ in range(1000))


def requests(dice: random.Random) -> Iterator[str]:
    """A program that has nothing to do with training, with names that are ever new."""
    while True:
        yield (
            f"2026-11-30 12:{dice.randint(0, 59):02}:07,123 INFO app.pipeline: request {dice.getrandbits(64):016x} "
            f"took {dice.random():.3f} s user={''.join(dice.choices('abcdefgh', k=6))}\n"
        )


def own_bar(dice: random.Random) -> Iterator[str]:
    """A loop's own bar, which begins with other numbers each time; no line ever ends."""
    while True:
        losses = f"loss={dice.random():.4f} lr={dice.random():.2e}"
        yield f"\r{losses}:  {dice.randint(0, 99)}%|####      | 9/7393 [00:12<10:02, 10.2it/s]"


LOGS: dict[str, Callable[[random.Random], Iterator[str]]] = {
    "progress bars": bars, "warnings": warnings, "half of each": half, "another program": requests, "own bars": own_bar,
}  # fmt: skip


def write_log(path: Path, lines: Iterator[str], size: int) -> None:
    """Lines until the file has `size` bytes."""
    with path.open("w", encoding="utf-8") as file:
        left = size - file.write(HEAD)
        for line in lines:
            left -= len(line.encode())
            file.write(line)
            if left <= 0:
                return


def write_csv(path: Path, epochs: int = 300) -> None:
    """A results.csv of version 8 whose losses fall and whose scores rise."""
    names = [f"{part}/{loss}_loss" for part in ("train", "val") for loss in ("box", "cls", "dfl")]
    scores = [f"metrics/{name}(B)" for name in ("precision", "recall", "mAP50", "mAP50-95")]
    dice = random.Random(0)
    with path.open("w") as file:
        file.write(",".join(["epoch", "time", *names[:3], *scores, *names[3:], "lr/pg0", "lr/pg1", "lr/pg2"]) + "\n")
        for n in range(epochs):
            fall = math.exp(-n / 60)
            losses = [a + b * fall + dice.gauss(0, 0.01) for a, b in ((1, 0.8), (0.6, 2), (1, 0.5))]
            rates = [0.01 * (1 - 0.99 * n / epochs)] * 3
            row = [n + 1, 30.0 * (n + 1), *losses]
            row += [top * (1 - fall) + dice.gauss(0, 0.004) for top in (0.8, 0.7, 0.75, 0.5)]
            row += [x + 0.1 for x in losses] + rates
            file.write(",".join(f"{x:.5g}" for x in row) + "\n")


ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
"""Bytecode is kept, as it is for users and in the image."""


def run(*command: str) -> Cost:
    """Run it to its end; CPU seconds and peak memory are those of the kernel."""
    started = time.perf_counter()
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, *command],
        ENVIRONMENT,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, used = os.wait4(pid, 0)
    if code := os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(command)} ended with {code}")
    return Cost(time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def measure(path: Path) -> tuple[Cost, float]:
    """Medians of `diag analyze`, and its CPU time over that of only reading, A B B A."""
    analyze, read = ("-m", "diag", "analyze", str(path), "--format", "json"), ("-c", READ, str(path))
    a1, b1, b2, a2 = run(*analyze), run(*read), run(*read), run(*analyze)
    both = (a1, a2)
    cost = Cost(*(statistics.median(column) for column in zip(*both, strict=True)))
    return cost, (a1.cpu_s + a2.cpu_s) / (b1.cpu_s + b2.cpu_s)


def main(size_mb: int) -> int:
    """0 if all stay within the limits (which grow with the size)."""
    os.chdir(ROOT)
    failed = False
    print("| file | wall | CPU | times reading it | peak memory |\n| :-- | --: | --: | --: | --: |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.csv"
        write_csv(path)
        run("-m", "diag", "analyze", str(path))
        rows = [("results.csv, 300 epochs", path, CSV_LIMIT_S)]
        for name in LOGS:
            rows.append((f"{size_mb} MB of {name}", Path(folder) / "train.log", LOG_LIMIT_S * max(size_mb, 10) / 100))
        for name, path, limit in rows:
            if path.suffix == ".log":
                write_log(path, LOGS[name.split(" of ", 1)[1]](random.Random(1)), size_mb * 1_000_000)
            cost, ratio = measure(path)
            failed |= cost.cpu_s > limit
            print(
                f"| {name} | {cost.wall_s:.2f} s | {cost.cpu_s:.2f} s | {ratio:.1f} | {cost.peak_mb:.0f} MB |",
                flush=True,
            )
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
