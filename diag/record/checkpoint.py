"""How long a checkpoint takes to be written, apart from gathering and packing it: that is the disk's part."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def timed(report: Callable[[int, int], None]) -> Iterator[None]:
    """While it is entered, `Path.write_bytes` is timed; at the end `report(nanoseconds, bytes)`, if it was used at all.

    Ultralytics packs a checkpoint in memory and writes last.pt and best.pt with it (8.1 and later).
    """
    original = Path.write_bytes
    ns = size = 0

    def write_bytes(path: Path, data: Any) -> int:
        nonlocal ns, size
        start = time.monotonic_ns()
        try:
            return original(path, data)
        finally:
            ns += time.monotonic_ns() - start
            size += len(data)

    Path.write_bytes = write_bytes  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Path.write_bytes = original  # type: ignore[method-assign]
        if size:
            report(ns, size)
