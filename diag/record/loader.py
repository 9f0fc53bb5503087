"""Inside the loader: where the time of a sample goes, measured in the process that loads it.

A probe hangs on the training set as three instance attributes that torch and Ultralytics look for anyway:
`__getitems__` (torch's batched fetch), `load_image` and `collate_fn`. What it measured travels inside the batch
under `KEY`, and the trainer takes it out before anybody looks: no files of workers, no order to restore, and a
batch that is never used is never counted. It reads clocks only; images and random numbers stay as they are.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from torch.utils.data import default_collate, get_worker_info

KEY = "_diag_loader"
"""The key inside a batch. `take` removes it."""
_now = time.monotonic_ns


@dataclass
class _Sums:
    """What one batch took so far; times in nanoseconds."""

    total: int = 0
    read: int = 0
    decode: int = 0
    loads: int = 0
    hits: int = 0
    opened: int = 0
    bytes: int = 0
    pixels: int = 0
    slow_file: str = ""
    slow_ns: int = 0

    def slowest(self, file: str, ns: int) -> None:
        if ns > self.slow_ns:
            self.slow_file, self.slow_ns = file, ns


class LoaderProbe:
    """Times one data set. It is copied into each worker by fork or pickle, and each copy counts for itself."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._sums = _Sums()
        self._inside = False
        self._loads = hasattr(type(dataset), "load_image")

    def fetch(self, indices: Sequence[int]) -> list[Any]:
        """`[dataset[i] for i in indices]`, timed."""
        sums = self._sums = _Sums()
        samples = []
        with self._watched():
            for i in indices:
                opened, start = sums.opened, _now()
                samples.append(self._dataset[i])
                ns = _now() - start
                sums.total += ns
                if not self._loads:  # no load_image in this kind of data set: the sample is the image
                    sums.loads += 1
                    sums.hits += sums.opened == opened
                    sums.slowest(self._file(i), ns)
        return samples

    def load_image(self, i: int, *args: Any, **kwargs: Any) -> Any:
        """The data set's own load_image. What it does beside decoding and resizing is waiting for storage."""
        # Through the class: the instance's attribute is this method.
        load = type(self._dataset).load_image
        sums = self._sums
        opened, read, decode = sums.opened, sums.read, sums.decode
        self._inside = True
        start = _now()
        try:
            return load(self._dataset, i, *args, **kwargs)
        finally:
            ns = _now() - start
            self._inside = False
            sums.loads += 1
            sums.hits += sums.opened == opened
            sums.read = read + ns - (sums.decode - decode)
            sums.slowest(self._file(i), ns)

    def collate(self, samples: list[Any]) -> Any:
        """The data set's own collate_fn (or torch's); the batch takes the sums along."""
        start = _now()
        own = getattr(type(self._dataset), "collate_fn", default_collate)
        batch = own(samples)
        sums, worker = self._sums, get_worker_info()
        if isinstance(batch, dict):
            batch[KEY] = {
                "worker": worker.id if worker else -1,
                "images": len(samples),
                "read": sums.read,
                "decode": sums.decode,
                "augment": max(sums.total - sums.read - sums.decode, 0),
                "collate": _now() - start,
                "loads": sums.loads,
                "hits": sums.hits,
                "bytes": sums.bytes,
                "pixels": sums.pixels,
                "opened": sums.opened,
                "slow_file": sums.slow_file,
                "slow_ns": sums.slow_ns,
            }
        return batch

    def _file(self, i: int) -> str:
        files = getattr(self._dataset, "im_files", None)
        return str(files[i] if files is not None else self._dataset.samples[i][0])

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Time the functions that read and decode while a batch is loaded; other callers get the originals."""
        places: list[tuple[Any, str, Callable[[int, Any], None]]] = [
            (np, "fromfile", self._on_read),
            (np, "load", self._on_read),
            (cv2, "imread", self._on_imread),
            (cv2, "imdecode", self._on_decode),
            (cv2, "imdecodemulti", self._on_decode),
            (cv2, "resize", self._on_resize),
        ]
        originals = [getattr(module, name) for module, name, _ in places]
        try:
            for (module, name, note), original in zip(places, originals, strict=True):
                setattr(module, name, _timed(original, note))
            yield
        finally:
            for (module, name, _), original in zip(places, originals, strict=True):
                setattr(module, name, original)

    def _on_read(self, ns: int, result: Any) -> None:
        sums = self._sums
        sums.opened += 1
        sums.bytes += getattr(result, "nbytes", 0)
        sums.read += ns  # load_image replaces it by all that it did not spend on decoding

    def _on_decode(self, ns: int, result: Any) -> None:
        sums = self._sums
        sums.decode += ns
        if isinstance(result, np.ndarray):
            sums.pixels += int(result.shape[0] * result.shape[1])

    def _on_imread(self, ns: int, result: Any) -> None:
        # 8.3.9 on Linux: OpenCV opens the file itself. `bytes` stays 0, which says that reading is not known.
        self._sums.opened += 1
        self._on_decode(ns, result)

    def _on_resize(self, ns: int, result: Any) -> None:
        if self._inside:  # elsewhere it is augmentation
            self._sums.decode += ns


def _timed(function: Callable[..., Any], note: Callable[[int, Any], None]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        start = _now()
        result = function(*args, **kwargs)
        note(_now() - start, result)
        return result

    return call


def attach(dataset: Any) -> Any:
    """Hang a probe on a training set; a set of an unknown kind is left alone, with a line that says so."""
    try:
        probe = LoaderProbe(dataset)
        if len(dataset):
            probe._file(0)  # a set that can't name its files is of another kind
        attributes: dict[str, Any] = {"collate_fn": probe.collate, "__getitems__": probe.fetch}
        if probe._loads:
            attributes["load_image"] = probe.load_image
        vars(dataset).update(attributes)
    except Exception as error:  # whatever the reason, training must not care
        print(f"diag: the loader is not timed: {type(error).__name__}: {error}", file=sys.stderr)
    return dataset


def take(batch: Any) -> Mapping[str, Any] | None:
    """Remove and return what the probe put into a batch."""
    return batch.pop(KEY, None) if isinstance(batch, dict) else None
