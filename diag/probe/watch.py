"""One GPU while it works: its PCIe link and what holds its clocks down, read beside a load."""

from contextlib import suppress
from typing import Any

from diag.probe.nvml import Reading, clocks_event_reasons, query


class LinkWatch:
    """Looks at one GPU while it works: its PCIe link and what holds its clocks down. Gaps stay gaps.

    `look` takes well under a millisecond. The GPU is found by the UUID that torch names, else by index.
    """

    def __init__(self, uuid: str, index: int, *, enabled: bool = True) -> None:
        self._uuid = uuid if not uuid or uuid.startswith("GPU-") else f"GPU-{uuid}"
        self._index = index
        self._enabled = enabled
        self._nvml: Any = None
        self._handle: Any = None
        self._links: list[tuple[int, int]] = []
        self._reasons: list[int] = []

    def __enter__(self) -> "LinkWatch":
        if self._enabled:
            import pynvml  # machines without a GPU must not need it

            if query(pynvml.nvmlInit).gap is None:
                self._nvml = pynvml
                by_uuid = query(lambda: pynvml.nvmlDeviceGetHandleByUUID(self._uuid)) if self._uuid else Reading()
                self._handle = by_uuid.value or query(lambda: pynvml.nvmlDeviceGetHandleByIndex(self._index)).value
        return self

    def look(self) -> None:
        """Take one sample; call it while work is queued on the GPU."""
        if self._handle is None:
            return
        nvml, handle = self._nvml, self._handle
        generation = query(lambda: nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle)).value
        width = query(lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(handle)).value
        reasons = query(lambda: clocks_event_reasons(nvml, handle)).value
        if generation is not None and width is not None:
            self._links.append((int(generation), int(width)))
        if reasons is not None:
            self._reasons.append(reasons)

    def values(self) -> dict[str, Any]:
        """The best link that was seen, and the bits that two looks in a row had in common, over all looks."""
        best = max(self._links, default=None)
        lasting = 0
        for one, two in zip(self._reasons, self._reasons[1:], strict=False):
            lasting |= one & two
        return {
            "link_gen": best[0] if best else None,
            "link_width": best[1] if best else None,
            "clocks_event_reasons": lasting if len(self._reasons) > 1 else None,
        }

    def __exit__(self, *_: object) -> None:
        if self._nvml is not None:
            with suppress(Exception):
                self._nvml.nvmlShutdown()
