"""Fixtures of more than one part."""

from collections.abc import Callable, Iterator

import pytest

from tests.fakes.nvml import FakeNvml
from tests.fakes.scenarios import Scenario


@pytest.fixture
def fake_nvml(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Scenario], FakeNvml]]:
    """Put a scenario behind pynvml in this process."""
    import pynvml  # only these tests need it

    def use(scenario: Scenario) -> FakeNvml:
        fake = FakeNvml(scenario)
        monkeypatch.setattr(pynvml, "nvmlLib", fake)
        # pynvml keeps function pointers for the life of the process
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        return fake

    yield use
