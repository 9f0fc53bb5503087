"""The report in a terminal: the verdict first, then what to change, then the numbers behind it."""

import re
import unicodedata
from collections.abc import Sequence

from diag.messages import text
from diag.model.evidence import Evidence
from diag.model.finding import Finding, Report
from diag.render import words
from diag.render.machine import COLUMNS, machine_note, machine_rows

COLORS = {
    "fail": "31;1", "critical": "31;1", "high": "31", "warn": "33;1", "medium": "33",
    "pass": "32;1", "low": "36", "info": "36", "unknown": "35;1", "dim": "2", "bold": "1", "change": "32",
}  # fmt: skip
_BAR = 20
_SKIP_GROUPS, _SKIP_IDS = 4, 4
"""What a terminal shows of the rules that could not judge; Markdown and JSON hold them all."""
# A wide character with the closing punctuation after it, or a word with the spaces after it.
_WORDS = re.compile(
    r"[\u2e80-\u9fff\uff00-\uffef][\u3001\u3002\uff0c\uff1a\uff1b\uff09]*|[^\s\u2e80-\u9fff\uff00-\uffef]+\s*|\s+"
)


def report(report: Report, evidence: Evidence, *, lang: str = "en", color: bool = False, width: int = 100) -> str:
    """The whole report as text; `color` adds ANSI colours."""
    return _Page(lang, color, max(60, min(width, 120))).render(report, evidence)


class _Page:
    def __init__(self, lang: str, color: bool, width: int) -> None:
        self.lang, self.color, self.width = lang, color, width
        self.lines: list[str] = []

    def render(self, report: Report, evidence: Evidence) -> str:
        verdict = report.verdict
        self.lines += [
            f"{self.paint(self.ui(verdict), verdict)}  {words.headline(report, self.lang)}",
            self.paint(words.clean(evidence.path), "dim"),
        ]
        self.wrap(words.ending(evidence, self.lang), "")
        explained = {id for f in report.findings for id in f.explains}
        for number, finding in enumerate((f for f in report.findings if f.id not in explained), 1):
            self.lines.append("")
            self.finding(number, finding, evidence, report)
        self.compared(evidence)
        self.times(report, evidence)
        self.machine(evidence)
        self.unjudged(report, evidence)
        return "\n".join(self.lines) + "\n"

    def finding(self, number: int, finding: Finding, evidence: Evidence, report: Report) -> None:
        told = words.story(finding, self.lang)
        tag = f"{self.ui(finding.severity)} · {finding.id} · {self.ui('confidence.' + finding.confidence)}"
        for n, part in enumerate(_wrap(told.title, self.width - 4)):
            self.lines.append((f"{number}. " if n == 0 else "   ") + self.paint(part, "bold"))
        self.lines.append("   " + self.paint(tag, finding.severity))
        self.wrap(told.cause, "   ")
        for advice in told.advice:
            self.wrap(advice.sentence, "   → ", "     ")
            if advice.change:
                self.lines.append("     " + self.paint(advice.change, "change"))
        if number == 1 and (command := words.command(evidence, finding)):
            self.wrap(f"{self.ui('try')}: {command}", "   ", "     ")
        for item in told.evidence:
            self.lines.append("   " + self.paint(self.cut(f"{self.ui('evidence')}: {item}"), "dim"))
        self.lines.append("   " + self.paint(self.cut(f"{self.ui('more')}: {words.link(finding)}"), "dim"))
        by_id = {f.id: f for f in report.findings}
        for id in finding.explains:
            self.wrap(f"{self.ui('explains')}: {words.story(by_id[id], self.lang).title} ({id})", "   ", "     ")

    def compared(self, evidence: Evidence) -> None:
        header, *rows = words.compare_rows(evidence, self.lang)
        if rows:
            self.head(self.ui("compare"), self.ui("compare_note"))
            self.table([header, *rows])

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
                shown = ", ".join(ids[:_SKIP_IDS]) + (f" … +{len(ids) - _SKIP_IDS}" if len(ids) > _SKIP_IDS else "")
                self.wrap(reason, "  ", "    ")
                self.wrap(shown, "    ", style="dim")
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
        return line if len(line) <= self.width - 3 else line[: self.width - 4] + "…"

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
