"""The data set's images: how many, how large when cached, and how fast this CPU decodes them."""

import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diag.model.check import Check, Status

SUFFIXES = frozenset((".bmp", ".dng", ".jpeg", ".jpg", ".mpo", ".png", ".tif", ".tiff", ".webp"))
MOST_FILES = 500_000


@dataclass(frozen=True)
class Decoding:
    """A decode measurement on one core. `cpu_s` is CPU time: it hardly moves when the machine is busy."""

    images: int
    cpu_s: float
    wall_s: float
    failed: tuple[str, ...] = ()
    synthetic: bool = False
    mean_pixels: float = 0.0

    @property
    def per_cpu_s(self) -> float:
        """Images per second of CPU time."""
        return self.images / self.cpu_s if self.cpu_s > 0 else 0.0


def decode(images: Sequence[Path], *, budget_s: float = 1.0, most: int = 200) -> Decoding:
    """Decode sample images with OpenCV, as Ultralytics does, until `budget_s` seconds have gone by.

    Without any image a generated photograph-like JPEG of 640x480 is decoded instead.
    """
    import cv2  # takes 0.1 s, and only this check needs it
    import numpy as np

    cv2.setNumThreads(1)
    chosen = random.Random(0).sample(list(images), min(most, len(images)))
    sample = [(path.name, _bytes(path)) for path in chosen] or [("synthetic", _synthetic(cv2, np))]
    done, pixels, failed = 0, 0, set[str]()
    started, cpu = time.perf_counter(), time.thread_time()
    while time.perf_counter() - started < budget_s and len(failed) < len(sample):
        for name, data in sample:
            image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
            if image is None:
                failed.add(name)
                continue
            done, pixels = done + 1, pixels + image.shape[0] * image.shape[1]
            if time.perf_counter() - started >= budget_s:
                break
    return Decoding(
        images=done,
        cpu_s=time.thread_time() - cpu,
        wall_s=time.perf_counter() - started,
        failed=tuple(sorted(failed)),
        synthetic=not images,
        mean_pixels=pixels / done if done else 0.0,
    )


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _synthetic(cv2: Any, np: Any) -> bytes:
    """A JPEG with the detail of a photograph: smooth areas, edges and grain."""
    rng = np.random.default_rng(0)
    coarse = cv2.resize(rng.integers(0, 255, (24, 32, 3), np.uint8), (640, 480), interpolation=cv2.INTER_CUBIC)
    grain = rng.normal(0, 6, coarse.shape)
    _, data = cv2.imencode(".jpg", np.clip(coarse + grain, 0, 255).astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, 92])
    return bytes(data)


def decode_rate(decoding: Decoding) -> Check:
    """How many images does one core decode per second? It feeds `predict.bottleneck`; no threshold of its own."""
    facts = {
        "images_per_cpu_s": round(decoding.per_cpu_s, 1),
        "images": decoding.images,
        "cpu_share": round(decoding.cpu_s / decoding.wall_s, 2) if decoding.wall_s else None,
        "mean_pixels": round(decoding.mean_pixels),
        "failed": list(decoding.failed),
    }
    if not decoding.images:
        reason = f"none of the sample images can be decoded, for example {decoding.failed[0]}"
        remedy = "check the files: `diag data` lists every image that can't be read"
        return Check(
            "data.decode_rate", Status.FAIL, "0 images", "> 0", reason, remedy, "data.corrupt_images", facts=facts
        )
    of = "a generated 640x480 JPEG" if decoding.synthetic else "the data set's own images"
    value = f"{decoding.per_cpu_s:.0f} images per CPU second ({of})"
    if decoding.failed:
        reason = f"{len(decoding.failed)} sample images can't be decoded, for example {decoding.failed[0]}"
        remedy = "`diag data` lists every image that can't be read; repair or remove them"
        return Check(
            "data.decode_rate", Status.WARN, value, "all decodable", reason, remedy, "data.corrupt_images", facts=facts
        )
    return Check("data.decode_rate", Status.INFO if decoding.synthetic else Status.PASS, value, facts=facts)


def cache_bytes(images: Sequence[Path], dataset_dir: Path | None, imgsz: int) -> int | None:
    """What cache=ram or cache=disk takes: every image of the data set, decoded and scaled to `imgsz`.

    None without sample images. The number of images is counted in `dataset_dir` (up to 500 000), else it is
    the size of the sample.
    """
    from PIL import Image  # reads sizes from headers; only needed when an image cache is asked for

    sizes = []
    for path in random.Random(0).sample(list(images), min(50, len(images))):
        try:
            with Image.open(path) as image:
                width, height = image.size
        except (OSError, ValueError, Image.DecompressionBombError):
            continue
        ratio = imgsz / max(width, height)
        sizes.append(3 * width * height * ratio**2)
    if not sizes:
        return None
    count = max(len(images), count_images(dataset_dir) if dataset_dir else 0)
    return int(count * sum(sizes) / len(sizes))


def count_images(folder: Path, *, most: int = MOST_FILES) -> int:
    """Image files below `folder`; stops at `most`."""
    count = 0
    for _, _, files in os.walk(folder):
        count += sum(Path(name).suffix.lower() in SUFFIXES for name in files)
        if count >= most:
            break
    return count
