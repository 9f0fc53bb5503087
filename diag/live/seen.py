"""What was found when: compares each look with those before and says what changed."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from diag.live.look import Look
from diag.model.finding import Finding
from diag.render import jsonfile, words

Event = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """A finding and when it first appeared. `gone`: the newest look did not have it any more."""

    finding: Finding
    time: str
    """ISO 8601."""
    epoch: int | None
    elapsed_s: float
    """Seconds since watching began."""
    gone: bool = False

    def first(self) -> dict[str, Any]:
        """`first_seen` of the contract."""
        return {"time": self.time, "epoch": self.epoch, "elapsed_s": round(self.elapsed_s, 1)}


class Watcher:
    """Keeps what was seen. `news` takes a look and gives one event per change (docs/contracts.md)."""

    def __init__(self, *, lang: str = "en") -> None:
        self.seen: dict[str, Seen] = {}
        self.looks = 0
        self._lang = lang
        self._start = time.monotonic()
        self._cpu = time.process_time()
        self._last: tuple[Any, ...] = ()
        self._silent = False

    def news(self, look: Look) -> Iterator[Event]:
        """`start` once, `progress` when an epoch or stage has changed, `silent`, `finding`, `changed`, `gone`."""
        self.looks += 1
        if self.looks == 1:
            yield {"event": "start", "time": look.time, "run": look.evidence.path, "living": look.state.living}
        place = (look.stage, look.epoch, look.state.living)
        if place != self._last:
            self._last = place
            yield {"event": "progress", "time": look.time, **progress_of(look)}
        if look.state.silent and not self._silent:
            yield {"event": "silent", "time": look.time, "quiet_s": round(look.state.quiet_s, 1)}
        self._silent = look.state.silent
        current = {finding.id: finding for finding in look.report.findings}
        explained = {id for finding in look.report.findings for id in finding.explains}
        for id, finding in current.items():
            known = self.seen.get(id)
            if known is None:
                known = self.seen[id] = Seen(finding, look.time, look.epoch, time.monotonic() - self._start)
                yield self._finding("finding", known, look, id in explained)
            elif known.gone or known.finding.severity != finding.severity:
                was = None if known.gone else known.finding.severity
                known = self.seen[id] = replace(known, finding=finding, gone=False)
                yield {**self._finding("changed", known, look, id in explained), "was": was}
            else:
                self.seen[id] = replace(known, finding=finding)
        for id, known in self.seen.items():
            if id not in current and not known.gone:
                self.seen[id] = replace(known, gone=True)
                yield {"event": "gone", "time": look.time, "id": id, "first_seen": known.first()}

    def cost(self) -> dict[str, Any]:
        """How often was looked, and the CPU seconds of this process since."""
        return {"looks": self.looks, "cpu_s": round(time.process_time() - self._cpu, 2)}

    def _finding(self, event: str, seen: Seen, look: Look, explained: bool) -> Event:
        told = words.story(seen.finding, self._lang)
        return {
            "event": event,
            "time": look.time,
            "first_seen": seen.first(),
            "explained": explained,
            "finding": {
                **jsonfile.finding_dict(seen.finding),
                "title": told.title,
                "advice": [advice.sentence for advice in told.advice],
            },
        }


def progress_of(look: Look) -> Event:
    """How far, how long still, where the step's time goes, the newest figures."""
    steps = look.evidence.steps
    return {
        "stage": look.stage or None,
        "progress": vars(look.progress) if look.progress else None,
        "eta_s": round(look.eta_s, 1) if look.eta_s is not None else None,
        "step_s": steps.step_s if steps else None,
        "share": {stage: round(steps.share(stage), 4) for stage in steps.mean_s} if steps else None,
        "metrics": look.metrics,
    }
