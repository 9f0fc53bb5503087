"""Small grey thumbnails of images, and the search for equal and nearly equal ones among them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from diag.dataset.table import Floats, Ints

SIDE = 16
"""Side of the thumbnail that images are compared by."""

MAX_PIXELS = 100_000_000
"""Larger images are not decoded: a decompression bomb, or minutes of work for one file."""

NEAR = 0.985
"""Correlation of two thumbnails from which on images are nearly equal. Measured on bccd and coco128: re-encoded and
resized copies 0.997 to 1.000, the most alike of different images 0.75 (docs/data.md)."""

MAYBE = 0.78
"""From here on the two are compared closely: copies that lost a tenth of their border have 0.73 to 0.96."""

CLOSE = 0.95
"""Correlation of the close comparison (64 pixels, one inside the other at several scales) that makes a copy."""

BLOCK = 2048
MAX_PAIRS = 5000
"""Pairs that are kept: more is one fault of the whole set, not many."""

MAX_CLOSE = 300
"""Close comparisons; each takes some hundredths of a second."""

FLAT = 3.0
"""An image whose thumbnail varies by less (of 255) shows nothing."""


class Look(NamedTuple):
    """A grey thumbnail (SIDE x SIDE bytes) and the mean brightness; empty if the image can't be decoded."""

    thumb: bytes = b""
    error: str = ""


def look(path: Path | str, pixels: int, *, deep: bool = False) -> Look:
    """Decode an image small (JPEG at an eighth of its size). `deep` decodes it whole, so that damage shows."""
    # Late: only audits that look at pictures need Pillow.
    import warnings

    from PIL import Image

    if pixels > MAX_PIXELS:
        return Look(error="too_large")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path) as image:
                if deep:
                    image.load()
                else:
                    image.draft("L", (4 * SIDE, 4 * SIDE))
                grey = image.convert("L")
                reducing = 2.0 if min(grey.size) > 8 * SIDE else None
                return Look(grey.resize((SIDE, SIDE), Image.Resampling.BOX, reducing_gap=reducing).tobytes())
    except Exception as error:  # Pillow raises anything on damaged or hostile bytes
        return Look(error=f"{type(error).__name__}: {error}"[:120])


class Pair(NamedTuple):
    """Two images that look alike: indexes, correlation, and `same`, `mirrored`, `flipped` or `cropped`."""

    a: int
    b: int
    score: float
    how: str


def similar(thumbs: "Floats", paths: Sequence[Path | str]) -> list[Pair]:
    """Pairs among `thumbs` (n x SIDE*SIDE, float32 grey), also mirrored, upside down or cropped.

    Flat images have no pairs. Pairs that are merely alike are decoded again and compared closely.
    """
    import numpy as np

    pixels = thumbs.reshape(-1, SIDE, SIDE).astype(np.float32)
    base, usable = _normal(pixels)
    found: dict[tuple[int, int], Pair] = {}
    maybe: list[Pair] = []
    for how, turned in (("same", pixels), ("mirrored", pixels[:, :, ::-1]), ("flipped", pixels[:, ::-1])):
        other, _ = _normal(turned)
        for first in range(0, len(base), BLOCK):
            for second in range(first, len(base), BLOCK):
                scores = base[first : first + BLOCK] @ other[second : second + BLOCK].T
                for i, j in zip(*np.nonzero(scores >= MAYBE), strict=True):
                    a, b = first + int(i), second + int(j)
                    if a < b and usable[a] and usable[b] and (a, b) not in found:
                        pair = Pair(a, b, float(scores[i, j]), how)
                        if pair.score >= NEAR:
                            found[a, b] = pair
                        else:
                            maybe.append(pair)
                if len(found) > MAX_PAIRS:
                    return sorted(found.values())
    for pair in sorted(maybe, key=lambda p: -p.score)[:MAX_CLOSE]:
        if (pair.a, pair.b) not in found and (score := closely(paths[pair.a], paths[pair.b], pair.how)) >= CLOSE:
            how = "cropped" if pair.how == "same" else pair.how
            found[pair.a, pair.b] = Pair(pair.a, pair.b, score, how)
    return sorted(found.values())


def closely(a: Path | str, b: Path | str, how: str) -> float:
    """How well one image fits inside the other, over scales from 1 to 0.75 and all shifts; 0 if one can't be read."""
    import numpy as np
    from PIL import Image

    side = 64
    greys = []
    for path in (a, b):
        try:
            with Image.open(path) as image:
                image.draft("L", (2 * side, 2 * side))
                greys.append(image.convert("L").copy())
        except Exception:  # as in look()
            return 0.0
    if how != "same":
        greys[1] = greys[1].transpose(
            getattr(Image.Transpose, "FLIP_LEFT_RIGHT" if how == "mirrored" else "FLIP_TOP_BOTTOM")
        )
    best = 0.0
    whole = [np.asarray(g.resize((side, side), Image.Resampling.BOX), dtype=np.float32) for g in greys]
    for size in range(side, 47, -2):
        for inner, outer in ((greys[1], whole[0]), (greys[0], whole[1])):
            part = np.asarray(inner.resize((size, size), Image.Resampling.BOX), dtype=np.float32)
            part = (part - part.mean()) / max(float(part.std()), 1e-6)
            windows = np.lib.stride_tricks.sliding_window_view(outer, (size, size))
            spread = windows.std(axis=(2, 3))
            match = np.einsum("ijkl,kl->ij", windows, part) / (size * size) / np.maximum(spread, 1e-6)
            best = max(best, float(match[spread > FLAT].max(initial=0.0)))
        if best >= CLOSE + 0.02:
            break
    return best


def _normal(pixels: "Floats") -> "tuple[Floats, Ints]":
    """Each thumbnail with mean 0 and length 1, and which of them vary at all."""
    import numpy as np

    flat = pixels.reshape(len(pixels), -1)
    flat = flat - flat.mean(axis=1, keepdims=True)
    length = np.linalg.norm(flat, axis=1, keepdims=True)
    return flat / np.maximum(length, 1e-6), length[:, 0] > FLAT * SIDE


def as_floats(looks: Sequence[Look]) -> "Floats":
    """Thumbnails of looks that have one, as an array; an empty one becomes zeros (flat, so it has no pairs)."""
    import numpy as np

    empty = bytes(SIDE * SIDE)
    return (
        np.frombuffer(b"".join(k.thumb or empty for k in looks), np.uint8).reshape(-1, SIDE * SIDE).astype(np.float32)
    )
