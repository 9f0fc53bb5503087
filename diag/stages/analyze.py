"""Stages `analyze` and `report`: judge the run directory, and write what a person reads."""

import time

from diag import codec
from diag.engine import evaluate
from diag.load import load_run
from diag.model.check import StageResult, Status
from diag.model.evidence import Evidence
from diag.model.finding import Report
from diag.render import console, jsonfile, markdown, tensorboard
from diag.render.words import story
from diag.stages.context import Context

WHAT = "what limited the run, what is broken, what to change"
WHAT_REPORT = "write report.md, report.json and the health summary"


def run(context: Context) -> StageResult:
    """Evaluate the rules; findings go to the summary, the report waits in `facts`."""
    start = time.monotonic()
    evidence = load_run(context.run_dir)
    report = evaluate(evidence)
    context.facts["judged"] = (report, evidence)
    document = jsonfile.report_dict(report, evidence)
    titles = [story(finding, "en").title for finding in report.findings]
    for entry, finding, title in zip(document["findings"], report.findings, titles, strict=True):
        entry["title"] = title
        entry["advice"] = [advice.sentence for advice in story(finding, "en").advice]
        if first := context.facts.get("first_seen", {}).get(finding.id):
            entry["first_seen"] = first  # it was seen while training, at that epoch
    context.health.document["findings"] = document["findings"]
    reason = titles[0] if titles else "nothing to report"
    details = {"skipped": len(report.skipped), "crashed": document["crashed"], "steps": document.get("steps")}
    status = Status.FAIL if report.crashed else Status.PASS
    return StageResult("analyze", status, reason, time.monotonic() - start, details)


def run_report(context: Context) -> StageResult:
    """Write report.json and report.md into the run directory, and show the report."""
    start = time.monotonic()
    report, evidence = _judged(context)
    path = context.run_dir / "report.md"
    codec.write_json(context.run_dir / "report.json", jsonfile.report_dict(report, evidence))
    codec.write_text(path, markdown.report(report, evidence))
    if evidence.console or evidence.steps:  # without a training there is nothing to read but the stages above
        context.screen.line(console.report(report, evidence, color=context.screen.colour))
    events = _export(context, report, evidence)
    return StageResult("report", Status.PASS, str(path), time.monotonic() - start, {"tensorboard": events})


def _export(context: Context, report: Report, evidence: Evidence) -> str:
    """The event file, or why there is none: a report is complete without it."""
    try:
        return str(tensorboard.export(context.run_dir, evidence, report))
    except (ImportError, OSError) as error:
        return f"skipped: {error}"


def _judged(context: Context) -> tuple[Report, Evidence]:
    judged: tuple[Report, Evidence] = context.facts["judged"]
    return judged
