"""Known label noise, a training on it, and how much of it `diag data --with RUN` points at."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import bench_sets as sets
from bench_noise import KINDS, Wrong, add_noise, overlap

from diag.dataset.demo import make_demo

TRAIN = {
    "demo": ["epochs=12", "imgsz=160"],
    "bccd": ["epochs=40", "imgsz=320"],
}
COMMON = ["batch=8", "nbs=8", "optimizer=AdamW", "lr0=0.002", "warmup_epochs=1", "close_mosaic=2", "plots=False"]


def main(shared: Path, folder: Path, name: str, share: float, seed: int) -> int:
    """Print precision at k over the ranked hints, and recall and precision by kind."""
    data = make_demo(folder / "set") if name == "demo" else sets.copy_set(shared / "bccd", folder / "set")
    truth = add_noise(data.parent, 3, share=share, seed=seed)
    environment = os.environ | {"WORKSPACE": str(folder / "workspace"), "OMP_WAIT_POLICY": "PASSIVE"}
    diag = str(Path(sys.executable).parent / "diag")
    start = time.monotonic()
    trained = [diag, "train", f"data={data}", *TRAIN[name], *COMMON]
    subprocess.run(trained, env=environment, check=True, stdout=sys.stderr)
    [run] = (folder / "workspace" / "runs").glob("*/ultralytics")
    middle = time.monotonic()
    subprocess.run(
        [diag, "data", str(data), "--with", str(run.parent), "--out", str(folder / "report")],
        env=environment, check=False, stdout=sys.stderr,
    )  # fmt: skip
    document = json.loads((folder / "report" / "audit.json").read_text())
    support = document["measures"].get("hint_support", 0)
    faults = folder / "report" / "faults.jsonl"
    lines = faults.read_text().splitlines() if faults.exists() else []
    hints = [h for h in map(json.loads, lines) if h["id"] == "data.label_noise"]
    print(f"{name}, {share:.0%} of each kind, seed {seed}: {len(truth)} injected; training {middle - start:.0f} s")
    print(f"pass {time.monotonic() - middle:.0f} s, agrees with {support:.1%} of all labels")
    score(truth, hints)
    return 0


def score(truth: list[Wrong], hints: list[dict[str, object]]) -> None:
    """A hint is right if it names the file and line of an injected fault, or a box that was removed (IoU 0.4)."""
    right, found = [], set()
    for hint in hints:
        hit = next((k for k, wrong in enumerate(truth) if _same(wrong, hint)), None)
        right.append(hit is not None)
        found.add(hit)
    for k in (25, 50, 100, 200, len(hints)):
        if k <= len(hints):
            print(f"  precision at {k:4}: {sum(right[:k]) / max(k, 1):.2f}")
    for kind in KINDS:
        of_kind = [k for k, wrong in enumerate(truth) if wrong.kind == kind]
        told = [r for h, r in zip(hints, right, strict=True) if h["kind"] == kind]
        recall = sum(k in found for k in of_kind) / max(len(of_kind), 1)
        print(f"  {kind:12} injected {len(of_kind):4}, pointed at {recall:.2f}; hints {len(told):4}", end=", ")
        print(f"right {sum(told) / max(len(told), 1):.2f}")


def _same(wrong: Wrong, hint: dict[str, object]) -> bool:
    label = str(hint["file"])
    if hint["line"] is not None:
        return label == wrong.file and hint["line"] == wrong.line
    label = label.replace("images/", "labels/", 1).rsplit(".", 1)[0] + ".txt"
    x, y, w, h = map(float, hint["box"])  # type: ignore[call-overload]
    return label == wrong.file and wrong.kind == "missing" and overlap((x, y, w, h), wrong.box) >= 0.4
