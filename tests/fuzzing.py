"""How many inputs a fuzz tries: as many as its file says; with `HYPOTHESIS_PROFILE=full` 10,000, or `FUZZ_EXAMPLES`."""

import os

from hypothesis import HealthCheck, settings

FULL = os.environ.get("HYPOTHESIS_PROFILE") == "full"


def examples(count: int) -> int:
    """`count` in every test run, 10,000 (or `FUZZ_EXAMPLES`) in a full one."""
    return int(os.environ.get("FUZZ_EXAMPLES") or 10_000) if FULL else count


QUICK_OR_FULL = settings(deadline=None, derandomize=not FULL, database=None, suppress_health_check=list(HealthCheck))
"""The same inputs in every test run, others in each full one."""
