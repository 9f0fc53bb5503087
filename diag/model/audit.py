"""What the audit of a data set found: faults by subject, each with the places where it stands."""

from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_PLACES = 20
"""Places that `data.json` and a finding keep of one fault; the full list is in `faults.jsonl`."""


@dataclass(frozen=True)
class Place:
    """One offending thing. `kind` is the variant of the fault, `fix` the least invasive repair of it.

    `file` is relative to the data set's own folder; `value` is what stands there; `other` is the file (or `file:line`)
    that it clashes with, e.g. the image of which this one is a copy. Hints of a model also have `score` (0..1, what
    they are ranked by), `confidence` and `box` (x y w h in shares: what the model sees there).
    """

    file: str
    line: int | None = None
    value: str = ""
    kind: str = ""
    fix: str = ""
    split: str = ""
    other: str = ""
    score: float = 0.0
    confidence: float = 0.0
    box: tuple[float, ...] = ()


@dataclass(frozen=True)
class Fault:
    """All places of one fault: their number, how many files they are in, and the first of them."""

    count: int = 0
    files: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)
    splits: Mapping[str, int] = field(default_factory=dict)
    places: tuple[Place, ...] = ()

    @property
    def main_kind(self) -> str:
        """The variant that most places have."""
        return max(self.kinds, key=lambda kind: self.kinds[kind], default="")
