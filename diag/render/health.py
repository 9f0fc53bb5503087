"""The health summary as a Markdown page: verdict, how it ended, stages, findings, where the files are."""

from typing import Any

from diag.render.markdown import escape

STAGES = ("check", "data", "smoke", "train", "analyze", "report")

_VERDICTS = {
    "pass": "PASS: trained, nothing found that needs a change",
    "warn": "WARN: trained, with findings worth a look",
    "fail": "FAIL",
    "unknown": "UNKNOWN: not enough was seen to judge",
    "running": "RUNNING: this run has not ended (or its machine went away; see `updated`)",
}


def markdown(document: dict[str, Any]) -> str:
    """`document` is the content of latest.json."""
    run, cause = document["run"], document["exit_cause"]
    verdict = str(document["verdict"])
    lines = [
        "# Health summary",
        "",
        f"**{_headline(document, verdict)}**",
        "",
        f"- run: `{escape(str(run['id']))}` in `{escape(str(run['dir']))}`" if run["id"] else "- run: none was started",
        f"- how it ended: **{cause['kind']}**" + (f", {escape(cause['detail'])}" if cause.get("detail") else ""),
        f"- started {run['started']}, ended {run['ended'] or '-'}, updated {document['updated']}",
    ]
    for number, attempt in enumerate(run.get("attempts") or [], 1):
        lines.append(f"- start {number}: {_attempt(attempt)}")
    if run.get("overrides"):
        given = run["overrides"]
        words = given if isinstance(given, list) else [f"{k}={v}" for k, v in given.items()]
        lines.append(f"- arguments: `{escape(' '.join(map(str, words)))}`")
    lines += ["", "## Stages", "", "| stage | status | | seconds |", "| --- | --- | --- | ---: |"]
    for name in STAGES:
        stage = document[name]
        seconds = f"{stage['seconds']:.1f}" if "seconds" in stage else ""
        lines.append(f"| {name} | {str(stage['status']).upper()} | {escape(str(stage['reason']))} | {seconds} |")
    lines += _checks(document["check"].get("checks", []))
    lines += _findings(document["findings"])
    lines += _machine(document["environment"])
    if run["dir"]:
        lines += ["", "The full report with the time ledger: `report.md` in the run directory."]
    return "\n".join(lines) + "\n"


def _headline(document: dict[str, Any], verdict: str) -> str:
    """The verdict in words; a warning that only checks or stages gave is not called a finding."""
    loud = any(f.get("severity") in {"medium", "high", "critical"} for f in document["findings"])
    if verdict == "warn" and not loud and document["train"]["status"] == "pass":
        warned = [name for name in STAGES if document[name]["status"] == "warn"]
        if warned:
            return f"WARN: trained, with no finding above low; {' and '.join(warned)} warned"
    return _VERDICTS.get(verdict, verdict)


def _attempt(attempt: dict[str, Any]) -> str:
    """One earlier start of a run that went on: when, where it went on from, how it ended."""
    cause, resumed = attempt["exit_cause"], attempt.get("resumed") or {}
    begun = f"after epoch {resumed['epoch']}" if resumed.get("how") not in {None, "start"} else "from the first epoch"
    said = f", {escape(cause['detail'])}" if cause.get("detail") else ""
    return f"{attempt['started']} to {attempt['ended']}, {begun}, **{cause['kind']}**{said}"


def _checks(checks: list[dict[str, Any]]) -> list[str]:
    bad = [c for c in checks if c["status"] in {"fail", "warn", "unknown"}]
    if not bad:
        return []
    lines = ["", "## Checks to look at", ""]
    for check in bad:
        said = " ".join(filter(None, [check["value"], check["reason"]]))
        lines.append(f"- **{check['status'].upper()}** `{check['id']}`: {escape(said)}")
        if check["remedy"]:
            lines.append(f"  - fix: {escape(check['remedy'])}")
    return lines


def _findings(findings: list[dict[str, Any]]) -> list[str]:
    if not findings:
        return []
    lines = ["", "## Findings", ""]
    for finding in findings:
        title = escape(str(finding.get("title", finding["id"])))
        epoch = (finding.get("first_seen") or {}).get("epoch")
        since = f" (since epoch {epoch})" if epoch else ""
        lines.append(f"- **{finding['severity']}** `{finding['id']}`: {title}{since}")
        lines += [f"  - {escape(str(sentence))}" for sentence in finding.get("advice", [])]
    return lines


def _machine(environment: dict[str, Any]) -> list[str]:
    if not environment:
        return []
    host, software = environment["host"], environment["software"]
    gpus = ", ".join(str(g["name"]) for g in environment["gpus"]) or "none seen by NVML"
    usable = {True: "computes", False: "does not compute", None: "not tried"}[environment["cuda_usable"]]
    memory = host.get("memory_limit_bytes") or host.get("memory_total_bytes") or 0
    return [
        "",
        "## Machine",
        "",
        f"- GPU: {escape(gpus)}; CUDA {usable}",
        f"- CPUs: {host['cpus_effective']} usable of {host['cpus_visible']}; memory {memory / 2**30:.1f} GiB",
        f"- torch {software['torch']} (CUDA {software['torch_cuda']}), ultralytics {software['ultralytics']}, "
        f"stack {software['stack'] or '-'}, lock {software['lock_sha256'][:12] or '-'}",
    ]
