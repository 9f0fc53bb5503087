"""What people see: verdict and primary first, tables that line up, nothing hidden, nothing unsafe."""

import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diag.engine import evaluate
from diag.messages import LANGUAGES
from diag.model.evidence import DeviceStats, Evidence, Ledger, LoaderStats, StepStats, ValidationStats
from diag.model.finding import Confidence, Crash, Finding, Report, Severity
from diag.model.run import RunRecord, TrainArgs
from diag.model.trace import Stage
from diag.render import console, jsonfile, markdown, words
from tests.rules.building import evidence

MEAN = {Stage.DATA_WAIT: 0.3, Stage.TRANSFER: 0.01, Stage.FORWARD: 0.1, Stage.BACKWARD: 0.1, Stage.OPTIMIZER: 0.01}
EVIDENCE = Evidence(
    run=RunRecord("r1", 1, "2026-01-02T03:04:05Z", {"data": "my data.yaml", "epochs": 3}, {}),
    args=TrainArgs({"workers": 2, "device": 0, "imgsz": 640}),
    steps=StepStats(100, 90, MEAN, MEAN, MEAN, sum(MEAN.values()), "trace/rank0.jsonl"),
    ledger=Ledger({Stage.STARTUP: 5.0, Stage.FORWARD: 52.0, Stage.VALIDATE: 3900.0}, 3957.0),
    loader=LoaderStats(
        80,
        10,
        2,
        {"read": 0.001, "decode": 0.006, "augment": 0.002, "collate": 0.001},
        {0: 90.0, 1: 110.0},
        0.25,
        2e5,
        1.2e7,
        (("images/<b>.jpg", 0.5), ("a.jpg", 0.1)),
        "trace/rank0.jsonl",
    ),
    validation=ValidationStats(2, 50, {"wait": 0.0, "inference": 1500.0, "postprocess": 450.0}, "trace/rank0.jsonl"),
    device=DeviceStats({Stage.FORWARD: 0.021}, 90, 1, 2, 3, 0, "trace/rank0.jsonl"),
    path="runs/r1",
)
REPORT = evaluate(EVIDENCE)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_verdict_comes_first_and_the_primary_before_the_tables(lang: str) -> None:
    page = markdown.report(REPORT, EVIDENCE, lang=lang)
    assert page.startswith("# ")
    assert page.index("speed.val_dominates") < page.index("|")
    text = console.report(REPORT, EVIDENCE, lang=lang)
    assert text.index("speed.val_dominates") < text.index("trace/rank0.jsonl")


def test_the_fix_is_a_command_that_can_be_typed() -> None:
    assert "scripts/train data='my data.yaml' epochs=3 plots=False" in console.report(REPORT, EVIDENCE)


def test_every_end_of_a_rule_is_shown() -> None:
    report = replace(REPORT, crashed=(Crash("data.class_oob", "KeyError: 'x'"),))
    for text in (console.report(report, EVIDENCE), markdown.report(report, EVIDENCE)):
        for shown in ("Could not be judged", "data.class_oob", "KeyError"):
            assert shown in text
    page = markdown.report(report, EVIDENCE)
    assert [skip.id for skip in report.skipped if skip.id not in page] == []
    assert "more rules for" in console.report(report, EVIDENCE)


def test_the_parts_of_validation_stand_below_it() -> None:
    rows = [row[:3] for row in words.ledger_rows(EVIDENCE.ledger, "en", EVIDENCE.validation)]  # type: ignore[arg-type]
    assert rows[:3] == [
        ("validation", "65 min 00 s", "98.6%"),
        ("· inference", "50 min 00 s", "75.8%"),
        ("· post-processing (NMS)", "15 min 00 s", "22.7%"),
    ]
    for text in (console.report(REPORT, EVIDENCE), markdown.report(REPORT, EVIDENCE)):
        assert "· inference" in text
        assert "On the GPU itself, per step: forward + loss 21.0 ms" in text


def test_the_loader_is_shown_from_inside() -> None:
    text, page = console.report(REPORT, EVIDENCE), markdown.report(REPORT, EVIDENCE)
    for shown in ("Inside the loader", "80 samples timed in 2 workers, each loads 100 images/s", "12.00 megapixels"):
        assert shown in text.replace("\n  ", " ")
        assert shown in page
    assert "decode + resize  " in text
    assert "| decode + resize | 6.00 ms | 60% |" in page
    assert "slowest file: 500.0 ms  images/<b>.jpg" in text
    assert "slowest file: 500.0 ms images/&lt;b&gt;.jpg" in page.replace("  ", " ")
    assert jsonfile.report_dict(REPORT, EVIDENCE)["loader"]["mean_s"]["decode"] == 0.006


@pytest.mark.parametrize("lang", LANGUAGES)
def test_tables_line_up(lang: str) -> None:
    lines = console.report(REPORT, EVIDENCE, lang=lang).splitlines()
    rows = [line.split("█")[0].rstrip() for line in lines if line.endswith("█") and "%" in line]
    widths = {sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in row) for row in rows[:3]}
    assert len(widths) == 1


def test_lines_fit_the_terminal() -> None:
    for width in (60, 80, 100):
        for line in console.report(REPORT, EVIDENCE, width=width).splitlines():
            assert len(line) <= max(width, 110)


def test_colour_only_when_asked_for() -> None:
    assert "\x1b[" in console.report(REPORT, EVIDENCE, color=True)
    assert "\x1b[" not in console.report(REPORT, EVIDENCE, color=False)


def test_an_empty_report_is_honest() -> None:
    report = Report((), (), (), ())
    for text in (console.report(report, Evidence(path="x")), markdown.report(report, Evidence(path="x"))):
        assert "too little is known" in text
    assert jsonfile.report_dict(report, Evidence())["verdict"] == "unknown"


@given(st.text(max_size=80))
def test_no_text_of_a_run_escapes(text: str) -> None:
    line = words.clean(text)
    assert all(unicodedata.category(c) != "Cc" for c in line)
    escaped = markdown.escape(line)
    assert "<" not in escaped
    finding = Finding("disk.full", REPORT.findings[0].severity, REPORT.findings[0].confidence, {"line": text}, (), ())
    report = Report((finding,), (), (), ())
    assert "\x1b" not in console.report(report, Evidence(path=text))
    assert "\n<" not in markdown.report(report, Evidence(path=text))


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2144, "0.214 s"), (12.34, "12.3 s"), (200, "3 min 20 s"), (7500, "2 h 05 min")]
)
def test_durations(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said


def test_remarks_stand_apart_from_faults_and_without_apparatus() -> None:
    curves = {"metrics/mAP50-95(B)": "0.1>0.5 x80, 0.5 x120", "lr/pg0": "0.01>0.0001 x200"}
    given = evidence({"curves": curves, "args": {"task": "detect", "batch": 1, "epochs": 200, "model": "a.pt"}})
    report = evaluate(given)
    assert {f.id: f.severity for f in report.findings}["train.lr_schedule_ok"] is Severity.INFO
    text = console.report(report, given)
    fault, _, noted = text.partition("\nNoted, no fault\n")
    assert "1. " in fault
    assert "train.batch_too_small" in fault
    assert "docs/rules.md" in fault
    noted = noted.partition("\nCould not be judged")[0]
    assert "train.lr_schedule_ok, results.csv:" in noted
    assert "docs/rules.md" not in noted
    page = markdown.report(report, given)
    assert page.index("train.batch_too_small") < page.index("## Noted, no fault") < page.index("train.lr_schedule_ok")


def test_a_symptom_of_two_causes_is_named_under_the_first() -> None:
    low = Confidence.LOW
    causes = ("num.diverged", "num.collapse")
    both = [Finding(id, Severity.HIGH, low, {}, (), (), ("train.oscillation",)) for id in causes]
    report = Report((*both, Finding("train.oscillation", Severity.LOW, low, {}, (), ())), (), (), ())
    for text in (console.report(report, Evidence()), markdown.report(report, Evidence())):
        assert text.count("train.oscillation") == 1
