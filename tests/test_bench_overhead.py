"""The arithmetic of scripts/bench-overhead; its figures are no test."""

import importlib.util
from types import ModuleType
from typing import Any

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


def test_blocks_pair_neighbours_and_drop_their_first_batch(bench: ModuleType) -> None:
    cpu: list[float] = []
    for block in range(4):
        cpu += [99.0] + [2.0 if bench.is_on(block) else 1.0] * (bench.BLOCK - 1)
    result: dict[str, Any] = {"cpu": cpu, "wall": cpu}
    pairs = bench.blocks(result)
    assert [bench.is_on(n) for n in range(4)] == [False, True, True, False]
    assert [(set(a["cpu"]), set(b["cpu"])) for a, b in pairs] == [({1.0}, {2.0})] * 2
