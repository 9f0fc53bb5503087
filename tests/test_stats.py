"""Pure numbers: nan survives nowhere, warm-up is left out, every nanosecond is counted."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diag.model.trace import Lap, Stage
from diag.stats import ledger, line, mean, noise, quantile, sample, smooth, step_stats

SERIES = st.lists(st.one_of(st.floats(-1e6, 1e6), st.just(math.nan), st.just(math.inf)), max_size=30)


def test_one_nan_or_inf_poisons_nothing() -> None:
    assert mean([1.0, math.nan, math.inf, 3.0]) == 2.0
    assert math.isnan(mean([math.nan]))
    assert line([1.0, math.nan, 3.0]) == (1.0, 1.0)
    assert smooth([1.0, math.nan, 3.0], window=3) == [1.0, 2.0, 3.0]


def test_noise_is_around_the_trend() -> None:
    assert noise([1.0, 2.0, 3.0, 4.0]) == pytest.approx(0.0)
    assert noise([0.0, 1.0, 0.0, 1.0]) > 0.3
    assert noise([1.0, 9.0]) == 0.0


@given(SERIES)
def test_statistics_survive_any_series(values: list[float]) -> None:
    assert math.isfinite(noise(values))
    assert math.isfinite(line(values)[0])
    assert len(smooth(values)) == len(values)


def _steps(*lengths_ms: int, epoch_steps: int = 1000) -> list[Lap]:
    laps, clock = [], 0
    for n, length in enumerate(lengths_ms):
        for stage, ms in ((Stage.DATA_WAIT, length), (Stage.FORWARD, 10)):
            laps.append(Lap(stage, clock, clock + ms * 1_000_000, n, n // epoch_steps))
            clock = laps[-1].end_ns
    return laps


def test_warm_up_and_the_first_batch_of_an_epoch_are_not_steady() -> None:
    stats = step_stats(_steps(*[900] * 10, *[20] * 10, 800, *[20] * 19, epoch_steps=20), file="t")
    assert stats is not None
    assert (stats.steps, stats.steady_steps) == (40, 31)
    # a fifth of 40 is 8: two slow steps stay in, the first of epoch 2 does not
    assert stats.steady_median_s[Stage.DATA_WAIT] == pytest.approx(0.02)
    assert stats.mean_s[Stage.DATA_WAIT] > stats.steady_mean_s[Stage.DATA_WAIT]
    assert sum(stats.share(stage) for stage in stats.mean_s) == pytest.approx(1.0)


def test_few_steps_are_kept() -> None:
    stats = step_stats(_steps(10), file="t")
    assert stats is not None
    assert stats.steady_steps == 1


def test_a_step_that_was_cut_off_does_not_count() -> None:
    stats = step_stats([*_steps(10, 10), Lap(Stage.DATA_WAIT, 0, 10**12, 2, 0)], file="t")
    assert stats is not None
    assert stats.steps == 2


def test_nothing_recorded_is_none() -> None:
    assert step_stats([], file="t") is None
    assert ledger({}) is None


def test_the_ledger_sums_to_the_wall_clock() -> None:
    total = ledger({Stage.STARTUP: 10**9 + 5, Stage.VALIDATE: 10**9 - 5})
    assert total is not None
    assert total.wall_s == pytest.approx(2.0)
    assert sum(total.seconds.values()) == pytest.approx(total.wall_s)


def test_order_statistics_of_many_values_are_taken_from_a_sample() -> None:
    assert len(sample(range(1_000_001))) <= 100_000
    assert sample([3, 1, 2]) == [3, 1, 2]
    assert (quantile([3, 1, 2], 0.5), quantile(list(range(100)), 0.99), quantile([], 0.5)) == (2, 98, 0.0)
