"""The shapes of a trace's lines, for msgspec: what is of another shape is read the slow way, or is broken."""

from typing import Annotated, Literal

import msgspec

DAY_NS = 10**15
"""A lap longer than eleven days is a broken line."""
StageName = Literal[
    "startup", "data_wait", "transfer", "forward", "backward", "optimizer", "log", "validate", "checkpoint",
    "epoch_gap", "plot", "final_eval", "other",
]  # fmt: skip
"""The stages of this release; msgspec gives the same string object for each of them."""
Nanoseconds = Annotated[int, msgspec.Meta(ge=0, lt=DAY_NS)]
Count = Annotated[int, msgspec.Meta(ge=0, lt=10**18)]
MAX_NS = 2**62
Time = Annotated[int, msgspec.Meta(gt=-MAX_NS, lt=MAX_NS)]


class Laps(msgspec.Struct, gc=False):
    """Laps with any stages."""

    l: list[tuple[str, Nanoseconds]]  # noqa: E741 # the names of the format
    t: Time = 0
    e: int = -1
    n: int = -1


class KnownLaps(msgspec.Struct, gc=False):
    """Laps whose stages are all known."""

    l: list[tuple[StageName, Nanoseconds]]  # noqa: E741
    t: Time = 0
    e: int = -1
    n: int = -1


class LoaderParts(msgspec.Struct, gc=False):
    """Nanoseconds in the loader."""

    read: Count
    decode: Count
    augment: Count
    collate: Count


class LoaderSums(msgspec.Struct, gc=False):
    """One line of the loader."""

    b: Count
    ns: LoaderParts
    images: Count
    loads: Count
    hits: Count
    opened: Count
    bytes: Count
    pixels: Count
    workers: dict[int, tuple[Count, Count]]
    slow: list[tuple[str, Count]]
