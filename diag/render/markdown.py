"""The report as a Markdown page."""

import html
import re
from collections.abc import Sequence

from diag.messages import text
from diag.model.evidence import Evidence
from diag.model.finding import Finding, Report, Severity
from diag.render import advice, compared, profile, words
from diag.render.curveline import curve_lines
from diag.render.machine import COLUMNS, machine_note, machine_rows

_ICONS = {"fail": "❌", "warn": "⚠️", "pass": "✅", "unknown": "❔"}
_SPECIAL = re.compile(r"([\\`*_\[\]|~])")


def escape(value: str) -> str:
    """Untrusted text for Markdown: neither HTML nor markup of its own."""
    return _SPECIAL.sub(r"\\\1", html.escape(value, quote=False))


def report(report: Report, evidence: Evidence, *, lang: str = "en") -> str:
    """The whole report as a page: verdict, primary finding, where the time goes, the rest."""
    verdict = report.verdict
    name = evidence.run.id if evidence.run else evidence.path
    lines = [
        f"# {text(lang, 'ui', 'report')}: {escape(words.clean(name))}",
        "",
        f"{_ICONS[verdict]} **{text(lang, 'ui', verdict)}**: {words.headline(report, lang)}",
    ]
    if ended := words.ending(evidence, lang, escape):
        lines += ["", ended]
    lines += ["", *(f"- {line}" for line in told)] if (told := curve_lines(evidence, lang, escape)) else []
    lines += ["", *(f"- {line}" for line in legend)] if (legend := compared.legend(evidence, escape)) else []
    if told := compared.story(report, evidence, lang, escape):
        lines += ["", f"## {text(lang, 'ui', 'outcome')}", "", *(f"- {sentence}" for sentence in told)]
    explained = {id for f in report.findings for id in f.explains}
    roots = [f for f in report.findings if f.id not in explained]
    if roots:
        lines += ["", *_finding(roots[0], report, evidence, lang, primary=True)]
    header, *differing = compared.rows(evidence, lang, escape)
    if differing:
        lines += ["", f"## {text(lang, 'ui', 'compare')}", "", *_table(header, differing)]
    lines += _times(report, evidence, lang)
    rest = [f for f in roots[1:] if f.severity is not Severity.INFO]
    remarks = [f for f in roots[1:] if f.severity is Severity.INFO]
    for title, part in (("others", rest), ("noted", remarks)):
        if part:
            lines += ["", f"## {text(lang, 'ui', title)}"]
            for finding in part:
                lines += ["", *_finding(finding, report, evidence, lang)]
    lines += _machine(evidence, lang)
    lines += _profile(evidence, lang)
    lines += _unjudged(report, evidence, lang)
    return "\n".join(lines) + "\n"


def _finding(finding: Finding, report: Report, evidence: Evidence, lang: str, *, primary: bool = False) -> list[str]:
    told = words.story(finding, lang, escape=escape, old=advice.is_old(evidence))
    confidence = text(lang, "ui", f"confidence.{finding.confidence}")
    lines = [
        f"{'##' if primary else '###'} {told.title}",
        "",
        f"**{words.severity(finding, report, lang)}** · `{finding.id}` · {confidence}",
        "",
        told.cause,
    ]
    if told.advice:
        lines.append("")
        lines += [f"- {a.sentence}" + (f" `{a.change.replace('`', '')}`" if a.change else "") for a in told.advice]
    if primary and (command := advice.command(evidence, finding)):
        lines += ["", f"{text(lang, 'ui', 'try')}:", "", "```sh", command.replace("`", ""), "```"]
    if told.evidence:
        lines.append("")
        places = compared.shortened(told.evidence, evidence)
        lines += [f"> {text(lang, 'ui', 'evidence')}: {item}  " for item in places]
    lines += ["", f"{text(lang, 'ui', 'more')}: `{words.link(finding)}`"]
    by_id = {f.id: f for f in report.findings}
    before = report.findings[: report.findings.index(finding)]  # a symptom of two causes is named under the first
    symptoms = [id for id in finding.explains if not any(id in f.explains for f in before)]
    if symptoms:
        lines.append("")
        for id in symptoms:
            title = words.story(by_id[id], lang, escape=escape).title
            lines.append(f"- {text(lang, 'ui', 'explains')}: {title} (`{id}`)")
    return lines


def _times(report: Report, evidence: Evidence, lang: str) -> list[str]:
    steps, ledger, views = evidence.steps, evidence.ledger, report.steps
    lines: list[str] = []
    if steps is None and ledger is None:
        return lines
    lines += ["", f"## {text(lang, 'ui', 'where')}"]
    if steps is not None:
        lines += ["", words.where_note(steps, lang, escape), ""]
        rows = [r[:4] for r in words.step_rows(steps, lang)]
        lines += _table([text(lang, "ui", k) for k in ("stage", "mean", "median", "share")], rows)
    if evidence.device is not None:
        lines += ["", words.device_note(evidence.device, lang)]
    if (loader := evidence.loader) is not None:
        lines += ["", f"**{text(lang, 'ui', 'loader')}** ({words.loader_note(loader, lang, escape)})", ""]
        header = [text(lang, "ui", k) for k in ("part", "per_sample", "share")]
        lines += _table(header, [r[:3] for r in words.loader_rows(loader, lang)])
        lines += ["", *(f"- {text(lang, 'ui', 'slowest')}: {escape(f)}" for f in words.slowest_files(loader))]
    if views is not None:
        lines += ["", f"**{text(lang, 'ui', 'views')}** ({text(lang, 'ui', 'views_note')})", ""]
        header = [text(lang, "ui", k) for k in ("line", "measured", "holds")]
        lines += _table(header, [(escape(a), b, c) for a, b, c in words.view_rows(views, lang)])
        for sentence in words.disagreements(views, lang) or [text(lang, "ui", "views_agree")]:
            lines += ["", sentence]
    if ledger is not None:
        lines += ["", f"**{text(lang, 'ui', 'ledger')}** ({words.duration(ledger.wall_s)})", ""]
        rows3 = [r[:3] for r in words.ledger_rows(ledger, lang, evidence.validation)]
        lines += _table([text(lang, "ui", k) for k in ("stage", "time", "share")], rows3)
    return lines


def _machine(evidence: Evidence, lang: str) -> list[str]:
    counters = evidence.counters
    rows = machine_rows(counters, lang) if counters else []
    if counters is None or not rows:
        return []
    header = [text(lang, "machine", key) for key in COLUMNS]
    title, note = text(lang, "machine", "title"), machine_note(counters, lang)
    return ["", f"## {title}", "", note, "", *_table(header, rows)]


def _profile(evidence: Evidence, lang: str) -> list[str]:
    if evidence.profile is None:
        return []
    lines = ["", f"## {text(lang, 'profile', 'title')}", "", profile.profile_note(evidence.profile, lang)]
    for names, rows in (
        (profile.OPERATOR_COLUMNS, profile.operator_rows(evidence.profile)),
        (profile.LAYER_COLUMNS, profile.layer_rows(evidence.profile)),
    ):
        lines += ["", *_table(profile.columns(names, lang), [[escape(words.clean(c)) for c in row] for row in rows])]
    return lines


def _unjudged(report: Report, evidence: Evidence, lang: str) -> list[str]:
    lines: list[str] = []
    if report.skipped or evidence.skipped_files:
        lines += ["", f"## {text(lang, 'ui', 'skipped')}", ""]
        lines += [f"- {escape(words.clean(item))}" for item in evidence.skipped_files]
        for reason, ids in words.skip_groups(report, lang):
            lines.append(f"- {escape(reason)} " + ", ".join(f"`{id}`" for id in ids))
        if note := words.collect_note(report, evidence, lang, escape):
            lines += ["", note]
    if report.crashed:
        lines += ["", f"## {text(lang, 'ui', 'crashed')}", ""]
        lines += [f"- `{words.clean(c.id)}`: {escape(words.clean(c.error))}" for c in report.crashed]
    return lines


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    align = [":--", *["--:"] * (len(header) - 1)]
    return ["| " + " | ".join(row) + " |" for row in (header, align, *rows)]
