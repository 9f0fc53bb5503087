"""The arithmetic of scripts/bench-overhead; its figures are no test."""

import importlib.util
import sys
from types import ModuleType

import pytest

from diag import settings


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_overhead", settings.ROOT / "scripts" / "bench_overhead.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_ratio_is_of_medians_by_pair_with_an_interval_around_it(bench: ModuleType) -> None:
    pairs = [({"cpu": [1.0, 1.0, 9.0]}, {"cpu": [1.1, 1.1, 50.0]}), ({"cpu": [2.0] * 3}, {"cpu": [2.2] * 3})]
    middle, low, high = bench.ratio(pairs, "cpu")
    assert middle == pytest.approx(1.1)
    assert low <= middle <= high


def test_four_steps_give_one_ratio_and_a_drift_cancels_out(bench: ModuleType) -> None:
    is_on = sys.modules["bench_overhead_train"].is_on

    assert [is_on(n) for n in range(5)] == [False, True, True, False, False]
    cpu = [(1.0 + 0.001 * n) * (1.1 if is_on(n) else 1.0) for n in range(402)]
    ratios = bench.quads(cpu)
    assert len(ratios) == 100
    assert ratios == pytest.approx([1.1] * 100)
    middle, low, high = bench.median_interval([1.0, 1.1, 1.2] * 30)
    assert low <= middle == 1.1 <= high


def test_what_the_counters_said_of_themselves_becomes_a_share(bench: ModuleType) -> None:
    one = {"counters_cost": {"start_cpu_s": 0.01, "cpu_s": 0.03, "looks": 10}, "counters_s": 10.0, "counters_pss_mb": 9}
    told = bench.counters_cost([one])
    assert told.startswith("0.30 % of one core in runs of 10 s, its start of 10 ms included; 2.00 ms a look; 9 MB")
