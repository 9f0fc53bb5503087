"""Child process of `diag data --with`: `python -m diag.record.predict REQUEST ANSWER`. Predicts on all images of a set.

REQUEST is a JSON object: `weights`, `own` (a run of diag: see `_load`), `classify` (what the labels are), `images`.
ANSWER is JSONL: first `{"names", "task", "imgsz", "loaded"}`, or `{"refused": reason}` and nothing else; then one line
an image: `{"i", "rows": [[class, confidence, x, y, w, h], ...]}` in shares of the image, `{"i", "probs": [...]}` for a
classifier, or `{"i", "error"}`.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from diag import codec

BATCH = 8

MIN_CONFIDENCE = 0.05
"""Weaker predictions support no label: on a set of single objects a detector has hundreds of them an image."""

OVERLAP = 0.6
"""IoU of the non-maximum suppression; the same as in Ultralytics' training validation would be 0.7."""


def main(request: Path, answer: Path) -> None:
    """Answer one request. Progress is a line `images K/N` on stdout every few batches."""
    asked = codec.read_json(request, dict)
    images: list[str] = asked["images"]
    answer.parent.mkdir(parents=True, exist_ok=True)
    with answer.open("w", encoding="utf-8") as file:
        for line in _lines(asked, images):
            file.write(codec.to_json(line, indent=0) + "\n")


def _lines(asked: dict[str, Any], images: list[str]) -> Iterator[dict[str, Any]]:
    model, loaded = _load(Path(asked["weights"]), own=bool(asked["own"]))
    if model is None:
        yield {"refused": loaded}
        return
    if (model.task == "classify") != bool(asked["classify"]):
        yield {"refused": f"the model is for {model.task}, the data set is not"}
        return
    trained = getattr(model, "ckpt", None) or {}
    imgsz = int((trained.get("train_args") or {}).get("imgsz") or 640)
    yield {"names": dict(model.names), "task": model.task, "imgsz": imgsz, "loaded": loaded}
    for start in range(0, len(images), BATCH):
        yield from _batch(model, images, start, imgsz)
        if start // BATCH % 4 == 0:
            print(f"images {min(start + BATCH, len(images))}/{len(images)}", flush=True)


def _load(weights: Path, *, own: bool) -> tuple[Any, str]:
    """The model and how it was read; or None and the reason.

    Weights are a pickle, which may run any code. Ultralytics from 8.4 can read them with torch's weights_only and a
    list of known layers (ULTRALYTICS_SAFE_LOAD); where it can't, only weights of the user's own run are read.
    """
    os.environ["ULTRALYTICS_SAFE_LOAD"] = "1"  # read when Ultralytics is imported
    from ultralytics import YOLO
    from ultralytics.nn import tasks

    safe = bool(getattr(getattr(tasks, "_SafeLoad", None), "SUPPORTED", False))
    if not safe and not own:
        return None, "this Ultralytics release can read weights only with pickle; give a run of diag instead"
    try:
        model = YOLO(str(weights))
    except Exception as error:  # a damaged or foreign file: told in one line
        return (
            None,
            f"{weights.name} can't be loaded: {str(error).strip().splitlines()[0][:200] if str(error) else error!r}",
        )
    return model, "weights_only" if safe else "pickle, own run"


def _batch(model: Any, images: list[str], start: int, imgsz: int) -> Iterator[dict[str, Any]]:
    """Predictions of the images from `start`; images that can't be decoded are said to be so."""
    from ultralytics.utils.patches import imread

    pixels: dict[int, Any] = {}
    for i in range(start, min(start + BATCH, len(images))):
        try:
            pixels[i] = imread(images[i])
        except Exception as error:
            yield {"i": i, "error": str(error)[:200]}
            continue
        if pixels[i] is None:
            del pixels[i]
            yield {"i": i, "error": "not decodable"}
    if not pixels:
        return
    results = model.predict(
        list(pixels.values()),
        imgsz=imgsz,
        conf=MIN_CONFIDENCE,
        iou=OVERLAP,
        verbose=False,
        save=False,
        batch=len(pixels),
    )
    for i, result in zip(pixels, results, strict=True):
        if result.probs is not None:
            yield {"i": i, "probs": [round(float(p), 5) for p in result.probs.data.tolist()]}
            continue
        yield {"i": i, "rows": _rows(result)}


def _rows(result: Any) -> list[list[float]]:
    """Class, confidence and box (of a mask, of keypoints, or around a turned box) in shares of the image."""
    boxes = getattr(result, "obb", None)
    boxes = result.boxes if boxes is None else boxes
    height, width = result.orig_shape
    found = []
    for c, confidence, (left, top, right, bottom) in zip(
        boxes.cls.tolist(), boxes.conf.tolist(), boxes.xyxy.tolist(), strict=True
    ):
        x, y, w, h = (
            (left + right) / 2 / width,
            (top + bottom) / 2 / height,
            (right - left) / width,
            (bottom - top) / height,
        )
        found.append([int(c), round(confidence, 4), *(round(v, 6) for v in (x, y, w, h))])
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
