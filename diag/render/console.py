"""The report in a terminal: the verdict first, then what to change, then the numbers behind it."""

import re
import unicodedata
from collections.abc import Sequence

from diag.messages import text
from diag.model.evidence import Evidence
from diag.model.finding import Finding, Report, Severity
from diag.render import advice, compared, words
from diag.render.curveline import curve_lines
from diag.render.machine import COLUMNS, machine_note, machine_rows

COLORS = {
    "fail": "31;1", "critical": "31;1", "high": "31", "warn": "33;1", "medium": "33",
    "pass": "32;1", "low": "36", "info": "36", "unknown": "35;1", "dim": "2", "bold": "1", "change": "32",
}  # fmt: skip
_BAR = 20
_SKIP_GROUPS = 3
"""Reasons that a terminal shows of the rules that could not judge; Markdown and JSON hold them all, with the rules."""
# A wide character with the closing punctuation after it, or a word with the spaces after it.
_WORDS = re.compile(
    r"[\u2e80-\u9fff\uff00-\uffef][\u3001\u3002\uff0c\uff1a\uff1b\uff09]*"
    r"|[^\s\u2e80-\u9fff\uff00-\uffef]+(?:[\u3001\u3002\uff0c\uff1a\uff1b\uff09]+|\s*)|\s+"
)


def report(report: Report, evidence: Evidence, *, lang: str = "en", color: bool = False, width: int = 100) -> str:
    """The whole report as text; `color` adds ANSI colours."""
    return _Page(lang, color, max(60, min(width, 120))).render(report, evidence)


class _Page:
    def __init__(self, lang: str, color: bool, width: int) -> None:
        self.lang, self.color, self.width = lang, color, width
        self.lines: list[str] = []
        self.told: set[str] = set()

    def render(self, report: Report, evidence: Evidence) -> str:
        verdict = report.verdict
        self.lines += [
            f"{self.paint(self.ui(verdict), verdict)}  {words.headline(report, self.lang)}",
        ]
        if not compared.legend(evidence):
            self.lines.append(self.paint(words.clean(evidence.path), "dim"))
        self.wrap(words.ending(evidence, self.lang), "")
        for line in curve_lines(evidence, self.lang):
            self.wrap(line, "", "  ", style="dim")
        self.outcomes(report, evidence)
        explained = {id for f in report.findings for id in f.explains}
        roots = [f for f in report.findings if f.id not in explained]
        faults = [f for f in roots if f.severity is not Severity.INFO]
        for number, finding in enumerate(faults, 1):
            self.lines.append("")
            self.finding(number, finding, evidence, report)
        self.remarks([f for f in roots if f.severity is Severity.INFO], report, evidence)
        self.compared(evidence)
        self.times(report, evidence)
        self.machine(evidence)
        self.unjudged(report, evidence)
        return "\n".join(self.lines) + "\n"

    def finding(self, number: int, finding: Finding, evidence: Evidence, report: Report) -> None:
        told = words.story(finding, self.lang, old=advice.is_old(evidence))
        severity = words.severity(finding, report, self.lang)
        tag = f"{severity} · {finding.id} · {self.ui('confidence.' + finding.confidence)}"
        for n, part in enumerate(_wrap(told.title, self.width - 4)):
            self.lines.append((f"{number}. " if n == 0 else "   ") + self.paint(part, "bold"))
        self.lines.append("   " + self.paint(tag, finding.severity))
        self.wrap(told.cause, "   ")
        self.advice(told)
        if number == 1 and (command := advice.command(evidence, finding)):
            self.lines.append(f"   {self.ui('try')}: {command}")  # whole, so that it can be copied
        for item in compared.shortened(told.evidence, evidence):
            self.lines.append("   " + self.paint(self.cut(f"{self.ui('evidence')}: {item}"), "dim"))
        self.lines.append("   " + self.paint(self.cut(f"{self.ui('more')}: {words.link(finding)}"), "dim"))
        self.explained(finding, report, "   ")

    def advice(self, told: words.Story) -> None:
        for item in told.advice:
            self.wrap(item.sentence, "   → ", "     ")
            if item.change:
                self.lines.append("     " + self.paint(item.change, "change"))

    def explained(self, finding: Finding, report: Report, indent: str) -> None:
        by_id = {f.id: f for f in report.findings}
        for id in finding.explains:
            if id in self.told:
                continue  # a symptom of two causes is named under the first
            self.told.add(id)
            title = words.story(by_id[id], self.lang).title
            self.wrap(f"{self.ui('explains')}: {title} ({id})", indent, indent + "  ")

    def remarks(self, findings: Sequence[Finding], report: Report, evidence: Evidence) -> None:
        """What is no fault: a sentence or two each, without the apparatus."""
        if not findings:
            return
        self.head(self.ui("noted"))
        for finding in findings:
            told = words.story(finding, self.lang, old=advice.is_old(evidence))
            self.wrap(told.title, " · ", "   ")
            self.wrap(told.cause, "   ", style="dim")
            self.advice(told)
            places = [item.partition("  ")[0] for item in compared.shortened(told.evidence, evidence)]
            self.wrap(", ".join([finding.id, *places]), "   ", style="dim")
            self.explained(finding, report, "   ")

    def compared(self, evidence: Evidence) -> None:
        header, *rows = compared.rows(evidence, self.lang)
        if rows:
            self.head(self.ui("compare"), self.ui("compare_note"))
            self.table([header, *rows])

    def outcomes(self, report: Report, evidence: Evidence) -> None:
        """Which run did better and why, before anything else, since that is what a comparison is asked for."""
        for line in compared.legend(evidence):
            self.wrap(line, "  ", "    ", style="dim")
        if told := compared.story(report, evidence, self.lang):
            self.head(self.ui("outcome"))
            for sentence in told:
                self.wrap(sentence, "  · ", "    ")

    def times(self, report: Report, evidence: Evidence) -> None:
        steps, ledger = evidence.steps, evidence.ledger
        if steps is not None:
            self.head(self.ui("where"), words.where_note(steps, self.lang))
            rows = words.step_rows(steps, self.lang)
            header = [self.ui(k) for k in ("stage", "mean", "median", "share")]
            self.table([header, *(list(r[:4]) for r in rows)], bars=[r[4] for r in rows])
        if evidence.device is not None:
            self.wrap(words.device_note(evidence.device, self.lang), "  ", style="dim")
        if (loader := evidence.loader) is not None:
            self.head(self.ui("loader"), words.loader_note(loader, self.lang))
            loader_rows = words.loader_rows(loader, self.lang)
            header = [self.ui(k) for k in ("part", "per_sample", "share")]
            self.table([header, *(list(r[:3]) for r in loader_rows)], bars=[r[3] for r in loader_rows])
            self.lines += [
                self.paint(self.cut(f"  {self.ui('slowest')}: {f}"), "dim") for f in words.slowest_files(loader)
            ]
        if report.steps is not None:
            self.head(self.ui("views"), self.ui("views_note"))
            header = [self.ui(k) for k in ("line", "measured", "holds")]
            self.table([header, *(list(r) for r in words.view_rows(report.steps, self.lang))])
            told = words.disagreements(report.steps, self.lang) or [self.ui("views_agree")]
            for sentence in told:
                self.wrap(sentence, "  ")
        if ledger is not None:
            self.head(self.ui("ledger"), words.duration(ledger.wall_s))
            ledger_rows = words.ledger_rows(ledger, self.lang, evidence.validation)
            header = [self.ui(k) for k in ("stage", "time", "share")]
            self.table([header, *(list(r[:3]) for r in ledger_rows)], bars=[r[3] for r in ledger_rows])

    def machine(self, evidence: Evidence) -> None:
        if evidence.counters is not None and (rows := machine_rows(evidence.counters, self.lang)):
            self.head(text(self.lang, "machine", "title"), machine_note(evidence.counters, self.lang))
            header = [text(self.lang, "machine", key) for key in COLUMNS]
            self.table([header, *(list(row) for row in rows)])

    def unjudged(self, report: Report, evidence: Evidence) -> None:
        if report.skipped or evidence.skipped_files:
            self.head(self.ui("skipped"))
            for item in evidence.skipped_files:
                self.wrap(words.clean(item), "  ", "    ")
            groups = words.skip_groups(report, self.lang)
            for reason, ids in groups[:_SKIP_GROUPS]:
                self.wrap(f"{len(ids):>4}  {reason}", "  ", "        ")
            if rest := groups[_SKIP_GROUPS:]:
                count = sum(len(ids) for _, ids in rest)
                self.wrap(text(self.lang, "ui", "skipped_more", {"rules": count, "reasons": len(rest)}), "  ")
            if note := words.collect_note(report, evidence, self.lang):
                self.wrap(note, "  ")
        if report.crashed:
            self.head(self.ui("crashed"))
            for crash in report.crashed:
                self.wrap(f"{words.clean(crash.id)}: {words.clean(crash.error)}", "  ", "    ")

    def head(self, title: str, note: str = "") -> None:
        self.lines += ["", self.paint(title, "bold")]
        if note:
            self.wrap(note, "  ", style="dim")

    def table(self, rows: Sequence[Sequence[str]], *, bars: Sequence[float] = ()) -> None:
        widths = [max(_width(row[i]) for row in rows) for i in range(len(rows[0]))]
        for number, row in enumerate(rows):
            cells = [
                cell + " " * (w - _width(cell)) if i == 0 or not bars else " " * (w - _width(cell)) + cell
                for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            ]
            bar = "  " + "█" * round(bars[number - 1] * _BAR) if bars and number else ""
            line = "  " + "  ".join(cells) + bar
            self.lines.append(self.paint(line.rstrip(), "dim") if number == 0 else line.rstrip())

    def wrap(self, sentence: str, first: str, rest: str | None = None, *, style: str = "") -> None:
        rest = first if rest is None else rest
        lines = _wrap(sentence, self.width, first, rest)
        self.lines += [self.paint(line, style) if style else line for line in lines]

    def cut(self, line: str) -> str:
        while _width(line) > self.width - 3:
            line = line[: min(len(line) - 2, self.width - 4)] + "…"
        return line

    def ui(self, key: str) -> str:
        return text(self.lang, "ui", key)

    def paint(self, line: str, name: str) -> str:
        return f"\x1b[{COLORS[name]}m{line}\x1b[0m" if self.color and line else line


def _wrap(sentence: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Lines of at most `width` columns; a line may end at a space or beside a wide character."""
    lines, line, empty = [], first, True
    for word in _WORDS.findall(sentence):
        if not empty and _width(line + word.rstrip()) > width:
            lines.append(line.rstrip())
            line, empty = rest, True
        line, empty = line + (word.lstrip() if empty and lines else word), False
    return lines if empty else [*lines, line.rstrip()]


def _width(cell: str) -> int:
    """Columns in a terminal: East Asian wide characters take two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in cell)
