"""Collect faults with their places while a data set is audited."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from diag.dataset.walk import shown
from diag.model.audit import MAX_PLACES, Fault, Place

ROW_LOSS = {"bad_rows", "class_oob", "coord_oob"}
"""Faults for which Ultralytics drops the whole image (verify_image_label); `encoding` only for some kinds."""


@dataclass
class Faults:
    """Places by fault. `root` is what file names are shown relative to."""

    root: Path
    places: dict[str, list[Place]] = field(default_factory=dict)
    _prefix: str = ""
    _seen: set[tuple[object, ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._prefix = f"{self.root}/"

    def add(
        self,
        fault: str,
        kind: str,
        file: Path | str,
        line: int | None = None,
        value: str = "",
        *,
        fix: str = "",
        split: str = "",
        other: str = "",
        score: float = 0.0,
        confidence: float = 0.0,
        box: tuple[float, ...] = (),
    ) -> None:
        """One place."""
        name = self.name(file)
        key = (fault, kind, name, line, other, box)
        if key in self._seen:  # a file that several splits list
            return
        self._seen.add(key)
        place = Place(name, line, shown(value), kind, fix, split, shown(other), score, confidence, box)
        self.places.setdefault(fault, []).append(place)

    def name(self, file: Path | str) -> str:
        """The file as it is shown: relative to the data set's folder where it lies below it."""
        return shown(str(file).removeprefix(self._prefix))

    def all(self) -> Iterable[tuple[str, Place]]:
        """Every place with its fault, worst subject first as they were found."""
        return ((fault, place) for fault, places in self.places.items() for place in places)

    def summary(self) -> Mapping[str, Fault]:
        """Counts and the first places; what evidence holds."""
        found = {}
        for fault, places in sorted(self.places.items()):
            found[fault] = Fault(
                len(places),
                len({p.file for p in places}),
                dict(Counter(p.kind for p in places).most_common()),
                dict(Counter(p.split for p in places if p.split)),
                tuple(_spread(places)),
            )
        return found


def _spread(places: list[Place]) -> list[Place]:
    """The first places, such that every kind is among them; ranked places take turns by kind."""
    if places and places[0].score:
        by_kind: dict[str, list[Place]] = {}
        for place in places:
            by_kind.setdefault(place.kind, []).append(place)
        turns = [p for turn in zip_longest(*by_kind.values()) for p in turn if p is not None][:MAX_PLACES]
        return sorted(turns, key=lambda place: -place.score)
    firsts: dict[str, Place] = {}
    for place in places:
        firsts.setdefault(place.kind, place)
    chosen = list(firsts.values())[:MAX_PLACES]
    for place in places:
        if len(chosen) >= MAX_PLACES:
            break
        if firsts[place.kind] is not place:
            chosen.append(place)
    order = {id(place): number for number, place in enumerate(places)}
    return sorted(chosen, key=lambda place: order[id(place)])
