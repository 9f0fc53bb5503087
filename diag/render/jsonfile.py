"""The report for programs: ids and numbers, no sentences."""

from typing import Any

from diag.codec import plain
from diag.model.evidence import Evidence
from diag.model.finding import Finding, Report
from diag.model.trace import Stage
from diag.render import words

SCHEMA_VERSION = 1


def report_dict(report: Report, evidence: Evidence) -> dict[str, Any]:
    """The report as JSON values; the first finding is the primary one."""
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "verdict": report.verdict,
        "findings": [finding_dict(f) for f in report.findings],
        "passed": report.passed,
        "skipped": report.skipped,
        "crashed": report.crashed,
        "steps": _steps(report, evidence),
        "ledger": evidence.ledger,
        "counters": _counters(evidence),
        "ranks": evidence.ranks,
        "loader": evidence.loader,
        "validation": evidence.validation,
        "device": evidence.device,
        "run": _run(evidence),
    }
    if evidence.peers is not None and len(evidence.peers.runs) > 1:  # of two folders one may be unreadable
        rows = [{"what": d.what, "values": d.values} for d in evidence.peers.differences]
        document["compare"] = {"runs": list(evidence.peers.runs), "differences": rows, "outcomes": report.outcomes}
    result: dict[str, Any] = plain(document)
    return result


def finding_dict(finding: Finding) -> dict[str, Any]:
    """One finding as JSON values; its `link` is its section of docs/rules.md."""
    return {
        "id": finding.id,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "values": finding.values,
        "evidence": finding.evidence,
        "fixes": [{"key": fix.key, "change": fix.change} for fix in finding.fixes],
        "explains": finding.explains,
        "headroom": finding.headroom,
        "link": words.link(finding),
    }


def _steps(report: Report, evidence: Evidence) -> dict[str, Any] | None:
    steps, views = evidence.steps, report.steps
    if steps is None or views is None:
        return None
    return {
        "file": steps.file,
        "steps": steps.steps,
        "steady_steps": steps.steady_steps,
        "step_s": steps.step_s,
        "mean_s": steps.mean_s,
        "steady_mean_s": steps.steady_mean_s,
        "steady_median_s": steps.steady_median_s,
        "share": {stage: steps.share(stage) for stage in Stage if stage in steps.mean_s},
        "thresholds": {
            "dataloader_s": steps.dataloader_s,
            "model_s": steps.model_s,
            "optimizer_s": steps.optimizer_s,
            "lines": views.lines,
            "says": views.by_threshold,
        },
        "shares": {
            "data": views.data_share,
            "compute": views.compute_share,
            "optimizer": views.optimizer_share,
            "says": views.by_share,
        },
        "agree": views.agree,
    }


def _counters(evidence: Evidence) -> dict[str, Any] | None:
    counters = evidence.counters
    if counters is None:
        return None
    names = ("mean", "p50", "max", "first", "last", "slope_per_h")
    return {
        "file": counters.file,
        "seconds": counters.seconds,
        "series": {key: {n: getattr(s, n) for n in names} for key, s in counters.series.items()},
        "grew": counters.grew,
        "gpus": counters.gpus,
    }


def _run(evidence: Evidence) -> dict[str, Any]:
    run = evidence.run
    return {
        "path": evidence.path,
        "id": run.id if run else None,
        "exit_cause": run.exit_cause if run else None,
        "epochs": evidence.curves.rows if evidence.curves else None,
        "unreadable": evidence.skipped_files,
    }
