"""What all report formats share: sentences of a finding, safe text, numbers and tables as plain values."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from diag.messages import text
from diag.model.evidence import DeviceStats, Evidence, Ledger, LoaderStats, StepStats, ValidationStats
from diag.model.finding import Finding, Report, Skipped, Value
from diag.model.trace import Stage
from diag.model.views import StepViews
from diag.render import advice
from diag.render import safe as harmless

Escape = Callable[[str], str]
clean = harmless.clean


@dataclass(frozen=True)
class Advice:
    """One fix in words, with its arguments as `key=value`."""

    sentence: str
    change: str


@dataclass(frozen=True)
class Story:
    """A finding in words."""

    title: str
    cause: str
    advice: tuple[Advice, ...]
    evidence: tuple[str, ...]


def story(finding: Finding, lang: str, *, escape: Escape = str, old: bool = False) -> Story:
    """A finding's sentences; strings among its values are cleaned and escaped first.

    `old`: changes are written for YOLOv5 and YOLOv7 (`advice.is_old`).
    """
    # the case chooses a sentence and is never shown: escaping would break its name
    values = safe(finding.values, escape) | {"case": finding.values.get("case")}
    key = finding.message or finding.id
    return Story(
        title=text(lang, key, "title", values),
        cause=text(lang, key, "cause", values),
        advice=tuple(
            Advice(
                text(lang, key, f"fix.{fix.key}", values | safe(fix.change, escape)),
                advice.typed(fix.change, lang, old=old),
            )
            for fix in finding.fixes
        ),
        evidence=tuple(
            escape(clean(s.file)) + (f":{s.line}" if s.line else "") + (f"  {escape(clean(s.text))}" if s.text else "")
            for s in finding.evidence
        ),
    )


def severity(finding: Finding, report: Report, lang: str) -> str:
    """How grave a finding is; where its symptoms are graver, so is the verdict, and that is said."""
    told: set[str] = set()  # a symptom of two causes is named under the first
    for cause in report.findings[: report.findings.index(finding)]:
        told |= set(cause.explains)
    symptoms = [f for f in report.findings if f.id in finding.explains and f.id not in told]
    worst = max(symptoms, key=lambda f: f.severity.rank, default=finding)
    own = text(lang, "ui", finding.severity)
    if worst.severity.rank <= finding.severity.rank:
        return own
    return text(lang, "ui", "graver", {"own": own, "worst": text(lang, "ui", worst.severity)})


RULES_PAGE = "docs/rules.md"
"""Relative to the checkout, and to /app in the image; every finding's id is an anchor in it."""


def link(finding: Finding) -> str:
    """Where the finding is explained: its rule, limits with their sources, all advice."""
    return f"{RULES_PAGE}#{finding.id}"


def safe(values: Mapping[str, Value], escape: Escape = str) -> dict[str, Value]:
    """Values with harmless strings."""
    return {k: escape(clean(v)) if isinstance(v, str) else v for k, v in values.items()}


def duration(seconds: float) -> str:
    """`0.214 s`, `12.3 s`, `3 min 20 s`, `2 h 05 min`: units that every language reads."""
    if seconds < 10:
        return f"{seconds:.3f} s"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def headline(report: Report, lang: str) -> str:
    """How many problems, how many passed, how many could not be judged."""
    explained = {id for f in report.findings for id in f.explains}
    roots = [f for f in report.findings if f.id not in explained]
    problems = sum(f.severity.rank >= 2 for f in roots)
    counts = {
        "problems": problems,
        "remarks": len(roots) - problems,
        "passed": len(report.passed),
        "skipped": len(report.skipped),
        "case": report.verdict,
    }
    return text(lang, "ui", "headline", counts)


def where_note(steps: StepStats, lang: str, escape: Escape = str) -> str:
    """How long a step is, how many were counted, and where that was read."""
    facts: dict[str, Value] = {"steps": steps.steady_steps, "all": steps.steps, "step": steps.step_s}
    return text(lang, "ui", "where_note", facts | {"file": escape(clean(steps.file))})


def ending(evidence: Evidence, lang: str, escape: Escape = str) -> str:
    """How the recorded run ended, if that was not as planned; else empty."""
    cause = evidence.run.exit_cause if evidence.run else None
    if cause is None or cause.kind in {"finished", "running"}:
        return ""
    detail = clean(cause.detail or cause.evidence)
    return f"{text(lang, 'ui', 'ended')}: {escape(clean(cause.kind))}" + (f" ({escape(detail)})" if detail else "")


def step_rows(steps: StepStats, lang: str) -> list[tuple[str, str, str, str, float]]:
    """Stage, mean, median and share of a steady step; the last cell is the share as a number."""
    model_only = Stage.LOG not in steps.mean_s and Stage.BACKWARD not in steps.mean_s
    rows = []
    for stage in steps.mean_s:
        name = text(lang, "stage", "model" if model_only and stage is Stage.FORWARD else stage.value)
        share = steps.share(stage)
        mean_s = f"{steps.steady_mean_s[stage]:.3f} s"
        rows.append((name, mean_s, f"{steps.steady_median_s[stage]:.3f} s", f"{share:.0%}", share))
    return rows


def device_note(device: DeviceStats, lang: str) -> str:
    """What the GPU itself takes per step, by stage, in milliseconds."""
    parts = (f"{text(lang, 'stage', stage.value)} {s * 1e3:.1f} ms" for stage, s in device.mean_s.items())
    return f"{text(lang, 'ui', 'device')}: {', '.join(parts)}"


def loader_note(loader: LoaderStats, lang: str, escape: Escape = str) -> str:
    """How fast a worker is, how many there are, and what it opens."""
    rates = loader.images_per_s.values()
    facts: dict[str, Value] = {
        "images": loader.images,
        "workers": loader.workers,
        "rate": sum(rates) / len(rates) if rates else 0.0,
        "hits": loader.hit_share,
        "kb": loader.bytes_per_file / 1000,
        "megapixels": loader.pixels_per_image / 1e6,
        "case": "workers" if loader.workers else "process",
    }
    return text(lang, "ui", "loader_note", facts)


def loader_rows(loader: LoaderStats, lang: str) -> list[tuple[str, str, str, float]]:
    """Part, milliseconds per sample and share of a worker's time."""
    return [
        (text(lang, "loader", part), f"{seconds * 1e3:.2f} ms", f"{loader.share(part):.0%}", loader.share(part))
        for part, seconds in loader.mean_s.items()
    ]


def slowest_files(loader: LoaderStats, *, count: int = 3) -> list[str]:
    """The files that took longest to load, with their times."""
    return [f"{seconds * 1e3:.1f} ms  {clean(file)}" for file, seconds in loader.slowest[:count]]


def ledger_rows(
    ledger: Ledger, lang: str, validation: ValidationStats | None = None
) -> list[tuple[str, str, str, float]]:
    """Stage, time and share of the whole recorded time, largest first; below validation its parts, where known."""
    items = sorted(ledger.seconds.items(), key=lambda item: -item[1])
    wall = ledger.wall_s or 1.0
    rows = []
    for stage, v in items:
        rows.append((text(lang, "stage", stage.value), duration(v), f"{v / wall:.1%}", v / wall))
        if stage is Stage.VALIDATE and validation is not None:
            parts = (
                (part, s * validation.runs) for part, s in validation.mean_s.items() if s * validation.runs >= 5e-4
            )
            rows += [(f"· {text(lang, 'val', p)}", duration(s), f"{s / wall:.1%}", s / wall) for p, s in parts]
    return rows


def view_rows(views: StepViews, lang: str) -> list[tuple[str, str, str]]:
    """The classic three lines: condition, measured means, yes or no."""
    rows = []
    for line in views.lines:
        limits = {"limit": line.limit_s, "other_limit": line.other_limit_s}
        measured = f"{line.value_s:.3f} s" + (f", {line.other_s:.3f} s" if line.other_s is not None else "")
        rows.append((text(lang, "views", line.name, limits), measured, text(lang, "ui", "yes" if line.holds else "no")))
    return rows


def disagreements(views: StepViews, lang: str) -> list[str]:
    """Why the two views differ, with the numbers, and whether one could not judge; empty where they agree."""
    shares = {
        "speed.loader_bound": ("data_bound", views.data_share, views.lines[0].value_s),
        "speed.gpu_bound": ("compute_bound", views.compute_share, views.lines[1].value_s),
        "speed.optimizer_bound": ("optimizer_bound", views.optimizer_share, views.lines[2].value_s),
    }
    told = []
    for id, (name, share, value_s) in shares.items():
        if id in views.unjudged:
            continue
        threshold, by_share = id in views.by_threshold, id in views.by_share
        if threshold != by_share:
            key = f"{name}.only_threshold" if threshold else f"{name}.only_share"
            told.append(text(lang, "views", key, {"share": share, "value": value_s, "step": views.step_s}))
    if views.unjudged:
        told.append(text(lang, "views", "unjudged"))
    return told


def skip_groups(report: Report, lang: str) -> list[tuple[str, list[str]]]:
    """What could not be judged: reason in words -> rule ids, largest group first."""
    groups: dict[str, list[str]] = {}
    for skipped in report.skipped:
        groups.setdefault(skip_reason(skipped, lang), []).append(skipped.id)
    return sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))


def collect_note(report: Report, evidence: Evidence, lang: str, escape: Escape = str) -> str:
    """How to collect what rules could not find; empty where nothing is missing."""
    if evidence.peers is not None or not any(skip.reason == "no_evidence" for skip in report.skipped):
        return ""
    return text(lang, "ui", "collect", {"path": escape(shlex.quote(clean(evidence.path or ".")))})


def skip_reason(skipped: Skipped, lang: str) -> str:
    """One skip reason in words; names of missing evidence become what a person would look for."""
    values = safe(skipped.values)
    if skipped.reason == "no_evidence":
        names = str(values.get("missing", "")).split(", ")
        values["missing"] = ", ".join(text(lang, "evidence", name) for name in names)
    return text(lang, "skip", skipped.reason, values)
