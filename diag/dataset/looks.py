"""Small grey thumbnails of images, and the search for equal and nearly equal ones among them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from diag.dataset.table import Floats, Ints

SIDE = 16
"""Side of the thumbnail that images are compared by."""

MAX_PIXELS = 100_000_000
"""Larger images are not decoded: a decompression bomb, or minutes of work for one file."""

NEAR = 0.985
"""Correlation of two thumbnails from which on one close comparison at full frame is enough (copies that were encoded
or resized anew have 0.997 and more)."""

MAYBE = 0.78
"""From here on the two are compared closely at all scales: copies that lost a little border have more."""

CLOSE = 0.65
"""Correlation of the fine structure (64 pixels, blurred part taken off, one inside the other) that makes a copy.

Measured on bccd and coco128: encoded anew at quality 10 and up 0.95, resized to 160 pixels 0.96, cropped by 5 to 15 %
0.87, two photographs of one field of cells 0.76; crops of different cells of one kind at most 0.49, different
photographs at most 0.15. Thumbnails alone call single cells (or digits, or faces) equal that are not.
"""

MAX_QUICK = 2000
"""Comparisons at full frame."""

BLOCK = 2048
MAX_PAIRS = 20_000
"""Alike pairs that are kept while searching; of more the more alike half stays."""

ZOOM = 0.9
"""A copy that lost a tenth of each side around the middle looks like the other zoomed by this."""

FINE = 64
"""Side that pairs are compared at closely."""

MAX_CLOSE = 300
"""Close comparisons; each takes some hundredths of a second."""

TILES = 4
BLANK = 1.5
PART = 0.5
"""A copy also agrees in the middle one of its 4 x 4 parts by this (those that vary by BLANK of 255 grey levels).

Measured: copies of bccd and coco128 (as for CLOSE) 0.93 and more, two photographs of one field 0.78, two drawn images
with one shape alike on different ground 0.21."""

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

    Flat images have no pairs. Pairs that are alike are decoded again and compared closely.
    """
    import numpy as np

    pixels = thumbs.reshape(-1, SIDE, SIDE).astype(np.float32)
    base, usable = _normal(pixels)
    found: dict[tuple[int, int], Pair] = {}
    maybe: list[Pair] = []
    zoom = _zoom(ZOOM)
    turns = {
        "same": pixels,
        "mirrored": pixels[:, :, ::-1],
        "flipped": pixels[:, ::-1],
        "cropped": zoom @ pixels @ zoom.T,
    }
    for how, turned in turns.items():
        other, _ = _normal(turned)
        for first in range(0, len(base), BLOCK):
            # only a crop is another thing when the two change places
            for second in range(0 if how == "cropped" else first, len(base), BLOCK):
                scores = base[first : first + BLOCK] @ other[second : second + BLOCK].T
                for i, j in zip(*np.nonzero(scores >= MAYBE), strict=True):
                    a, b = first + int(i), second + int(j)
                    if usable[a] and usable[b] and (a < b or (how == "cropped" and a != b)):
                        maybe.append(Pair(min(a, b), max(a, b), float(scores[i, j]), how))
                if len(maybe) > MAX_PAIRS:
                    maybe = sorted(maybe, key=lambda p: -p.score)[: MAX_PAIRS // 2]
    strong = sorted((p for p in maybe if p.score >= NEAR), key=lambda p: -p.score)
    for pair in strong[:MAX_QUICK]:
        if (pair.a, pair.b) not in found and (
            score := closely(paths[pair.a], paths[pair.b], pair.how, whole=True)
        ) >= CLOSE:
            found[pair.a, pair.b] = Pair(pair.a, pair.b, score, pair.how)
    tried: set[tuple[int, int, str]] = set()
    for pair in sorted(maybe, key=lambda p: -p.score)[:MAX_CLOSE]:
        key = (pair.a, pair.b, "" if pair.how == "cropped" else pair.how)
        if key in tried:
            continue
        tried.add(key)
        if (pair.a, pair.b) not in found and (score := closely(paths[pair.a], paths[pair.b], pair.how)) >= CLOSE:
            found[pair.a, pair.b] = Pair(pair.a, pair.b, score, "cropped" if pair.how == "same" else pair.how)
    return sorted(found.values())


def closely(a: Path | str, b: Path | str, how: str, *, whole: bool = False) -> float:
    """How well the fine structure of one image fits inside the other; 0 if one can't be read.

    Tries scales from 1 to 0.75 and all shifts; with `whole` only the full frames.
    """
    import numpy as np
    from PIL import Image

    greys = []
    for path in (a, b):
        try:
            with Image.open(path) as image:
                image.draft("L", (2 * FINE, 2 * FINE))
                greys.append(image.convert("L").copy())
        except Exception:  # as in look()
            return 0.0
    if how in {"mirrored", "flipped"}:
        turn = Image.Transpose.FLIP_LEFT_RIGHT if how == "mirrored" else Image.Transpose.FLIP_TOP_BOTTOM
        greys[1] = greys[1].transpose(turn)
    best = 0.0
    frames = [_fine(grey, FINE) for grey in greys]
    for size in (FINE,) if whole else range(FINE, 3 * FINE // 4 - 1, -2):
        for inner, outer in ((greys[1], frames[0]), (greys[0], frames[1])):
            part = _fine(inner, size)[1:-1, 1:-1]  # blurring the outermost pixels has no outside to look at
            part = part - part.mean()
            n = len(part)
            product = np.fft.rfft2(outer) * np.conj(np.fft.rfft2(part, s=outer.shape))
            match = np.fft.irfft2(product, s=outer.shape)[: FINE - n + 1, : FINE - n + 1] / part.size
            variance = _sums(outer * outer, n) / part.size - (_sums(outer, n) / part.size) ** 2
            spread = np.sqrt(np.maximum(variance, 0)) * part.std()
            scores = match / np.maximum(spread, 1e-3)
            at = np.unravel_index(scores.argmax(), scores.shape)
            if scores[at] > best:
                best = float(scores[at])
                fit = part, outer[at[0] : at[0] + n, at[1] : at[1] + n]
        if best >= 0.9:
            break
    return best if best >= CLOSE and _everywhere(*fit) else min(best, CLOSE - 0.01)


def _everywhere(a: "Floats", b: "Floats") -> bool:
    """True if the two agree in most parts that show anything, not only in one strong shape on different ground."""
    import numpy as np

    side = len(a) // TILES
    alike = []
    for y in range(TILES):
        for x in range(TILES):
            p, q = (v[y * side : (y + 1) * side, x * side : (x + 1) * side] for v in (a, b))
            p, q = p - p.mean(), q - q.mean()
            if min(p.std(), q.std()) >= BLANK:
                alike.append(float((p * q).mean() / (p.std() * q.std())))
    return not alike or float(np.sort(np.array(alike))[len(alike) // 2]) >= PART


def _fine(grey: Any, side: int) -> "Floats":
    """The image at this size less its own blur over five pixels: what is left is detail, not layout."""
    import numpy as np
    from PIL import Image

    pixels = np.asarray(grey.resize((side, side), Image.Resampling.BOX), dtype=np.float32)
    return np.asarray(pixels - _sums(np.pad(pixels, 2, mode="edge"), 5) / 25)


def _sums(values: "Floats", n: int) -> "Floats":
    """Sums over all windows of n x n."""
    import numpy as np

    total = np.pad(values.cumsum(0, dtype=np.float64).cumsum(1), ((1, 0), (1, 0)))
    return np.asarray(total[n:, n:] - total[:-n, n:] - total[n:, :-n] + total[:-n, :-n])


def _zoom(share: float) -> "Floats":
    """A matrix that stretches the middle `share` of a thumbnail over its whole side (linear in between)."""
    import numpy as np

    middle = (SIDE - 1) / 2
    at = middle + (np.arange(SIDE) - middle) * share
    return np.asarray(np.maximum(1 - np.abs(at[:, None] - np.arange(SIDE)), 0).astype(np.float32))


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
