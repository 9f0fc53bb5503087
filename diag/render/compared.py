"""Compared runs in words: their names, what differs, and which difference explains the outcome."""

from collections.abc import Iterable, Mapping

from diag.messages import has, text
from diag.model.evidence import Evidence
from diag.model.finding import Report
from diag.model.outcome import Outcome, Reason
from diag.render.words import Escape, clean

_SHORT = 14
"""Longer names become letters with a legend."""


def labels(evidence: Evidence) -> Mapping[str, str]:
    """What each run is called in a table: its own name where that is short, else A, B, C ..."""
    names = list(evidence.peers.runs) if evidence.peers else []
    if all(len(name) <= _SHORT for name in names):
        return {name: clean(name) for name in names}
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return {name: letters[i] if i < len(letters) else str(i + 1) for i, name in enumerate(names)}


def legend(evidence: Evidence, escape: Escape = str) -> list[str]:
    """`A = path` of each run that is called by a letter."""
    return [f"{label} = {escape(clean(name))}" for name, label in labels(evidence).items() if label != clean(name)]


def shortened(places: Iterable[str], evidence: Evidence) -> list[str]:
    """Places with the letters of the runs instead of their names."""
    found = []
    for place in places:
        name = next((n for n in labels(evidence) if place == n or place.startswith(f"{n}/")), None)
        found.append(labels(evidence)[name] + place[len(name) :] if name else place)
    return found


def rows(evidence: Evidence, lang: str, escape: Escape = str) -> list[list[str]]:
    """What differs between the compared runs: a header, then one row each (none without a comparison)."""
    peers = evidence.peers
    if peers is None:
        return [[]]
    found = [[text(lang, "ui", "what"), *(escape(label) for label in labels(evidence).values())]]
    for difference in peers.differences:
        found.append([escape(_called(difference.what, lang)), *(escape(clean(v, limit=40)) for v in difference.values)])
    return found


def story(report: Report, evidence: Evidence, lang: str, escape: Escape = str) -> list[str]:
    """How far the runs lie apart and why, a sentence each."""
    names = labels(evidence)
    told = []
    for outcome in report.outcomes:
        told.append(_apart(outcome, names, lang, escape))
        told += _reasons(outcome, names, lang, escape)
    return told


def _called(what: str, lang: str) -> str:
    return text(lang, "compare", what) if has(lang, "compare", what) else clean(what)


_MANY = 6
"""Differences that a sentence names."""


def _apart(outcome: Outcome, names: Mapping[str, str], lang: str, escape: Escape) -> str:
    values: dict[str, object] = {
        "case": outcome.case,
        "better": escape(names[outcome.better]),
        "worse": escape(names[outcome.worse]),
        "best": outcome.best,
        "other": outcome.other,
        # a percentage of next to nothing says nothing
        "gain": f" ({outcome.best / outcome.other - 1:+.0%})" if outcome.other > 0.05 * outcome.best else "",
        "factor": outcome.other / outcome.best if outcome.best > 0 else None,
        "metric": escape(clean(outcome.metric)),
        "noise": outcome.noise,
    }
    return text(lang, "outcome", outcome.measure, values)


def _reasons(outcome: Outcome, names: Mapping[str, str], lang: str, escape: Escape) -> list[str]:
    better, worse = escape(names[outcome.better]), escape(names[outcome.worse])
    together = [reason for reason in outcome.reasons if reason.why in {"only", "one_of", "besides"}]
    told = [
        text(
            lang,
            "outcome",
            "reason",
            {
                "case": reason.why,
                "list": _change(reason, lang, escape),
                "better": better,
                "worse": worse,
                "id": reason.finding,
            },
        )
        for reason in outcome.reasons
        if reason not in together
    ]
    if together:
        listed = ", ".join(_change(reason, lang, escape) for reason in together[:_MANY])
        listed += f" … +{len(together) - _MANY}" if len(together) > _MANY else ""
        values = {"list": listed, "count": len(together), "case": together[0].why}
        told.append(text(lang, "outcome", "reason", values))
    return told


def _change(reason: Reason, lang: str, escape: Escape) -> str:
    worse, better = (escape(clean(v, limit=40)) for v in (reason.worse, reason.better))
    return f"{escape(_called(reason.what, lang))} {worse} → {better}" if reason.what else ""
