"""Early stopping, simulated on the scores of a finished run."""

import math

from hypothesis import given
from hypothesis import strategies as st

from diag.stats import would_stop


def test_it_counts_from_the_best_row() -> None:
    assert would_stop([0.1, 0.3, 0.2, 0.2, 0.2], 3) == 5
    assert would_stop([0.1, 0.3, 0.2, 0.2], 3) == 0
    assert would_stop([0.1, 0.3, 0.2, 0.3, 0.2], 3) == 0  # an equal score counts as a new best
    assert would_stop([0.3, math.nan, math.nan], 2) == 3
    assert would_stop([], 5) == 0


@given(st.lists(st.floats(0, 1), max_size=80), st.integers(1, 30))
def test_no_row_before_the_stop_is_patience_behind_its_best(scores: list[float], patience: int) -> None:
    stop = would_stop(scores, patience)
    seen = scores[:stop] if stop else scores
    for row in range(1, len(seen) + (0 if stop else 1)):
        head = seen[:row]
        assert row - max(i for i, v in enumerate(head, 1) if v == max(head)) < patience
    if stop:
        assert stop - max(i for i, v in enumerate(seen, 1) if v == max(seen)) == patience
