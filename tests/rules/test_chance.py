"""A small validation split swings: what its scores do by chance is no overfitting, and overfitting shows through it."""

import math
import random
from collections import Counter

import pytest

from diag.load.curves import curves
from diag.model.curves import Curves
from diag.model.finding import Hit
from diag.model.run import Epoch, Epochs
from diag.rules.curve_facts import beyond_chance
from diag.rules.past_best import overfit

NAMES = ("metrics/mAP50-95(B)", "metrics/mAP50(B)", "train/box_loss", "val/box_loss")
SEEDS = 40


def swings(rows: int, near: float, chance: random.Random) -> list[float]:
    """Standard normal numbers, neighbours correlated by `near`."""
    values = [chance.gauss(0, 1)]
    for _ in range(rows - 1):
        values.append(near * values[-1] + math.sqrt(1 - near**2) * chance.gauss(0, 1))
    return values


def training(rows: int, noise: float, near: float, seed: int, *, lost: float = 0.0, rise: float = 0.0) -> Curves:
    """A score that rises to 0.5 and, from 40 % of the run on, loses `lost` of it while the loss rises by `rise`."""
    chance = random.Random(seed)
    score_noise, loss_noise = swings(rows, near, chance), swings(rows, near, chance)
    made = []
    for i in range(rows):
        done = i / rows
        late = max(0.0, (done - 0.4) / 0.6)
        score = 0.5 * (1 - math.exp(-12 * done)) * (1 + noise * score_noise[i]) * (1 - lost * late)
        loss = (2 + 2 * math.exp(-16 * done)) * (1 + 0.8 * noise * loss_noise[i]) * (1 + rise * late)
        values = (min(max(score, 0.0), 0.66), min(max(1.5 * score, 0.0), 1.0), 1 + 2 * math.exp(-3 * done), loss)
        made.append(Epoch(i + 1, float(i + 1), dict(zip(NAMES, values, strict=True))))
    found = curves(Epochs(tuple(made), NAMES))
    assert found is not None
    return found


def claimed(rows: int, noise: float, near: float, **faults: float) -> int:
    """How many of SEEDS trainings are called overfitted."""
    seen = Counter(
        isinstance(overfit.function(training(rows, noise, near, seed, **faults), None, None, None), Hit)
        for seed in range(SEEDS)
    )
    return seen[True]


@pytest.mark.parametrize("near", [0.0, 0.6])
@pytest.mark.parametrize("rows", [50, 100])
def test_a_plateau_that_swings_is_not_overfitted(rows: int, near: float) -> None:
    """18 to 24 of 40 by the drop and the rise alone; of 50 epochs whose neighbours resemble each other a few remain."""
    assert claimed(rows, 0.1, near) <= (10 if near and rows == 50 else 4)


@pytest.mark.parametrize("near", [0.0, 0.6])
def test_overfitting_shows_through_usual_noise(near: float) -> None:
    assert claimed(100, 0.03, near, lost=0.1, rise=0.15) >= 38
    assert claimed(100, 0.1, near, lost=0.25, rise=0.3) >= 34


def test_what_chance_can_do() -> None:
    rough = swings(100, 0.0, random.Random(3))
    assert not beyond_chance(rough, 1.5, window=5)
    assert beyond_chance(rough, 3.0, window=5)
    assert beyond_chance([1.0] * 50, 0.1, window=5), "a curve without noise"
    assert not beyond_chance([1.0] * 50, 0.0, window=5)
    assert not beyond_chance([1.0, math.nan, math.nan], 1.0, window=1), "too little to know"
    assert not beyond_chance([], 1.0, window=1)
