"""Figures over the whole set: how classes, boxes, images and brightness are distributed over the splits."""

from collections.abc import Mapping, Sequence

from diag.dataset.gather import Item
from diag.dataset.looks import as_floats
from diag.dataset.table import Table

BINS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.01)
"""Edges of the histogram of box sizes: square root of the area as a share of the image."""

COUNT_BINS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 1 << 40)
"""Edges of the histogram of objects an image."""


def class_distance(train: Mapping[int, int], val: Mapping[int, int]) -> tuple[float, float]:
    """Total variation distance of two class distributions, and what chance alone makes of it (95 %).

    The expected distance of two samples of one distribution is about sum(sqrt(p (1 - p) (1/n + 1/m))) / sqrt(2 pi);
    twice that is not reached by chance.
    """
    n, m = sum(train.values()), sum(val.values())
    if not n or not m:
        return 0.0, 0.0
    distance = sum(abs(train.get(c, 0) / n - val.get(c, 0) / m) for c in {*train, *val}) / 2
    shares = [(train.get(c, 0) + val.get(c, 0)) / (n + m) for c in {*train, *val}]
    expected = sum((p * (1 - p) * (1 / n + 1 / m)) ** 0.5 for p in shares) / (2 * 3.14159265) ** 0.5
    return distance, 2 * expected


def brightness_shift(items: Sequence[Item]) -> float:
    """Difference of the mean brightness of val and train, in standard deviations of the training images."""
    import numpy as np

    means = {}
    for split in ("train", "val"):
        looks = [i.look for i in items if i.split == split and i.look.thumb]
        if len(looks) < 20:
            return 0.0
        means[split] = as_floats(looks).mean(axis=1)
    spread = float(np.std(means["train"]))
    return float(abs(means["val"].mean() - means["train"].mean()) / max(spread, 1.0))


def size_shift(table: Table) -> float:
    """Difference of the median log box size of val and train, in octaves."""
    import numpy as np

    splits = np.array(table.splits, dtype=object)[table.file] if len(table.file) else np.zeros(0, object)
    area = table.box[:, 2] * table.box[:, 3]
    medians = {}
    for split in ("train", "val"):
        chosen = area[(splits == split) & (area > 0)]
        if len(chosen) < 50:
            return 0.0
        # np.median imports numpy.ma, a twentieth of the whole audit of a small set
        medians[split] = float(np.sort(np.log2(chosen))[len(chosen) // 2]) / 2
    return abs(medians["val"] - medians["train"])


def histograms(table: Table, counts: Sequence[int]) -> dict[str, list[int]]:
    """Box sizes (by BINS) and objects an image (by COUNT_BINS)."""
    import numpy as np

    area = table.box[:, 2] * table.box[:, 3]
    sizes = np.histogram(np.sqrt(area[area > 0]), BINS)[0]
    return {"box_size": sizes.tolist(), "objects": np.histogram(np.array(counts), COUNT_BINS)[0].tolist()}
