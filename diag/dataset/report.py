"""What is told of an audit: verdict, JSON document, console lines, and the files of `--out`."""

import dataclasses
import hashlib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from diag import codec
from diag.dataset.audit import Audit
from diag.dataset.faults import Faults
from diag.dataset.resolve import DataSpec
from diag.dataset.spread import BINS, COUNT_BINS
from diag.engine import evaluate
from diag.errors import InputError
from diag.messages import text
from diag.model.audit import Place
from diag.model.check import StageResult, Status
from diag.model.evidence import Dataset, Evidence
from diag.model.finding import Finding, Severity
from diag.render import jsonfile
from diag.render.datapage import page
from diag.render.words import clean, story
from diag.screen import Screen

SHOWN = 3
"""Places of a finding on the console."""


def findings_of(dataset: Dataset) -> list[Finding]:
    """The findings about the data alone."""
    return [f for f in evaluate(Evidence(dataset=dataset)).findings if f.id.startswith("data.")]


def judge(dataset: Dataset) -> tuple[Status, str]:
    """Status and one line: the counts, and the worst finding about the data if there is one."""
    counts = ", ".join(
        f"{name} {_many(s.images, 'image')} / {_many(s.instances, 'object')}" for name, s in dataset.splits.items()
    )
    line = f"{counts}; {_many(len(dataset.names), 'class', 'es')}"
    findings = findings_of(dataset)
    if not findings:
        return Status.PASS, line
    worst = findings[0]
    title = story(worst, "en").title
    status = Status.FAIL if worst.severity is Severity.CRITICAL else Status.WARN
    if worst.severity.rank < Severity.MEDIUM.rank:
        status = Status.PASS
    return status, f"{line}. {title}"


def _many(count: int, word: str, ending: str = "s") -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}{ending}"


def cache_file(spec: DataSpec, workspace: Path) -> Path:
    """Where what was read of this data set is kept."""
    digest = hashlib.sha256(f"{spec.source}\0{spec.task}".encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return workspace / "cache" / "audits" / f"{digest}.bin"


def document(found: Audit, written: Mapping[str, Any]) -> dict[str, Any]:
    """The audit for programs: verdict, splits, findings as in analyze, problems, and the files that were written."""
    dataset = found.dataset
    evidence = Evidence(dataset=dataset)
    report = evaluate(evidence)
    findings = [f for f in jsonfile.report_dict(report, evidence)["findings"] if f["id"].startswith("data.")]
    for finding in findings:
        for place in finding["evidence"]:
            place["value"] = place["text"]
        if finding["id"] == "data.label_noise":
            for place, hint in zip(finding["evidence"], dataset.faults["label_noise"].places, strict=True):
                place |= {"kind": hint.kind, "score": hint.score, "confidence": hint.confidence, "box": hint.box}
    result: dict[str, Any] = codec.plain(
        {
            "verdict": judge(dataset)[0],
            "splits": dataset.splits,
            "findings": findings,
            "problems": dataset.problems,
            "class_counts": dataset.class_counts,
            "split_classes": dataset.split_classes,
            "measures": dataset.measures,
            "histograms": found.histograms,
            "crashed": report.crashed,
            **written,
        }
    )
    return result


def write_faults(faults: Faults, path: Path) -> str:
    """All places, one JSON object a line; returns where, or "" if there is none or the disk refuses."""
    lines = [codec.to_json({"id": f"data.{fault}", **_entry(p)}, indent=0) for fault, p in faults.all()]
    try:
        if not lines:
            path.unlink(missing_ok=True)  # the list of an earlier audit
            return ""
        codec.write_text(path, "\n".join(lines) + "\n")
    except OSError:
        return ""
    return str(path)


def full_list(faults: Faults, path: Path) -> dict[str, Any]:
    """Where all places are if no `--out` was asked for: a file in the workspace, renewed by each audit of the set."""
    return {"faults_file": file} if (file := write_faults(faults, path)) else {}


def _entry(place: Place) -> dict[str, Any]:
    """A place as an object; what only hints have is left out of the others."""
    entry = dataclasses.asdict(place)
    return entry if place.score else {k: v for k, v in entry.items() if k not in {"score", "confidence", "box"}}


def write_report(
    found: Audit, folder: Path, *, lang: str = "en", hints: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Write audit.html, audit.json (with what is told of `hints`) and faults.jsonl; returns their paths.

    Raises InputError if that can't be done.
    """
    # Late: only the page needs pictures.
    from diag.dataset.thumbs import thumbnails

    written: dict[str, Any] = {"page": str(folder / "audit.html"), "faults_file": str(folder / "faults.jsonl")}
    bins = {
        "box_size": [f"{low:g} - {high:g}" for low, high in zip(BINS, (*BINS[1:-1], 1.0), strict=False)],
        "objects": [str(low) if high - low == 1 else f"{low} - {high - 1}" for low, high in pairwise(COUNT_BINS)],
    }
    bins["objects"][-1] = f"{COUNT_BINS[-2]} -"
    histograms = {
        name: (labels[: len(found.histograms[name])], found.histograms[name]) for name, labels in bins.items()
    }
    text_page = page(found.dataset, findings_of(found.dataset), thumbnails(found), histograms, lang=lang)
    try:
        codec.write_text(folder / "audit.html", text_page)
        codec.write_json(
            folder / "audit.json", document(found, written | ({"hints": hints} if hints is not None else {}))
        )
    except OSError as error:
        raise InputError(f"--out {folder}: can't be written: {error.strerror or error}") from error
    written["faults_file"] = write_faults(found.faults, folder / "faults.jsonl")
    return written


def console(found: Audit, written: Mapping[str, Any], screen: Screen, *, lang: str = "en") -> None:
    """Counts, findings with their first places, and what was written."""
    dataset = found.dataset
    status, reason = judge(dataset)
    screen.result(StageResult("data", status, reason))
    if dropped := int(dataset.measures.get("dropped_images", 0)):
        screen.line(f"      {text(lang, 'datapage', 'dropped', {'count': dropped})}")
    for finding in findings_of(dataset):
        told = story(finding, lang)
        screen.line(f"      {text(lang, 'ui', finding.severity.value)}: {told.title}  [{finding.id}]")
        for place in told.evidence[:SHOWN]:
            screen.line(f"          {clean(place, limit=160)}")
        more = int(finding.values.get("count") or 0) - SHOWN
        if more > 0 and len(told.evidence) > SHOWN:
            screen.line(f"          {text(lang, 'datapage', 'more', {'count': more})}")
    for name, value in written.items():
        if name == "hints":
            for line in _hint_lines(value, lang):
                screen.line(f"      {line}")
            continue
        screen.line(f"      {name}: {value}")


def _hint_lines(hints: Mapping[str, Any], lang: str) -> list[str]:
    """What the pass of the model was and what it could not say."""
    if "skipped" in hints:
        return [text(lang, "datapage", "hints_skipped", {"reason": clean(hints["skipped"])})]
    lines = [text(lang, "datapage", "hints", hints)]
    return lines + [f"  {clean(name)}: {reason}" for name, reason in list(hints["left_out"].items())[:10]]
