"""What holds for every finding on every public case: it can be proved, it contradicts no other, its advice can be done.

The inputs are the cases of tests/data and tests/cases_unseen, each copied to a neutral path without its answer; with
DIAG_BENCH=DIR also the runs and logs of that bench.
"""

import json
import math
import os
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from diag import settings
from diag.codec import to_json
from diag.engine import evaluate
from diag.load import load_run
from diag.messages import catalog
from diag.model.evidence import Evidence
from diag.model.finding import Finding, Report, Severity
from diag.render import jsonfile, words

ROOT = Path(__file__).parents[1]
CASES = sorted(
    d for f in (ROOT / "data" / "cases", ROOT / "cases_unseen") for d in f.iterdir() if (d / "expected.json").is_file()
)
if "DIAG_BENCH" in os.environ:
    RUNS = Path(os.environ["DIAG_BENCH"]) / "runs"
    CASES += sorted(p for p in (*RUNS.iterdir(), *(RUNS / "_console_only").iterdir()) if p.name[:1] not in "_l")
OPPOSITES = (
    ("train.converged_ok", "train.overfit"),
    ("train.converged_ok", "train.val_gap"),
    ("train.converged_ok", "num.collapse"),
    ("train.converged_ok", "train.not_learning"),
    ("train.overfit", "train.es_premature"),
    ("train.overfit", "train.undertrained"),
    ("train.plateau", "train.undertrained"),
    ("train.plateau", "train.es_premature"),
    ("train.lr_schedule_ok", "train.lr_stuck"),
    ("train.lr_schedule_ok", "train.lr_too_low"),
    ("train.lr_schedule_ok", "num.lr_too_high"),
    ("train.lr_too_low", "num.lr_too_high"),
    ("train.lr_stuck", "num.lr_too_high"),
    ("train.early_stopped_ok", "train.incomplete"),
    ("train.early_stopped_ok", "train.es_premature"),
    ("speed.loader_bound", "speed.gpu_bound"),
    ("env.torch_cpu", "env.docker_no_gpu"),
    ("env.pcie_idle_ok", "hw.pcie_degraded"),
    ("mem.cache_growth_normal", "mem.gpu_leak"),
    ("mem.gpu_underused", "mem.gpu_oom_risk"),
)
"""Two findings that say the opposite of each other; side by side only as a cause and its symptom."""
QUIET = {
    "train.close_mosaic_step", "train.lr_schedule_ok", "train.converged_ok", "train.early_stopped_ok",
    "train.best_not_last", "train.finetune_dip", "train.resumed", "train.val_loss_placeholder",
    "train.cls_val_loss_floor", "mem.cache_growth_normal", "env.pcie_idle_ok", "train.saturated",
}  # fmt: skip
GPU_CLAIMS = re.compile(r"(?:hw\.(?:gpu|pcie|thermal|power|ecc|xid)|speed\.(?:gpu|thermal|amp|sysmem)|mem\.gpu)")
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
HOLE = re.compile(r"(?:^|[\s\uff08])\?")
"""A number that was not known (diag/messages.py)."""
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", re.I)


@cache
def judged(folder: Path, base: Path) -> tuple[Path, Evidence, Report]:
    """A case's neutral copy, what was read of it, and its report."""
    copy = base / f"run{CASES.index(folder)}"
    if folder.is_file():
        copy.mkdir()
        shutil.copy(folder, copy / "console.log")
    else:
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("expected.json"))
    evidence = load_run(copy)
    return copy, evidence, evaluate(evidence)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("neutral")


def _found(base: Path) -> Iterator[tuple[str, Path, Evidence, Finding]]:
    for case in CASES:
        copy, evidence, report = judged(case, base)
        assert not report.crashed, case.name
        for finding in report.findings:
            yield f"{case.name}: {finding.id}", copy, evidence, finding


def test_every_finding_names_a_place_that_is_there(base: Path) -> None:
    wrong = []
    for name, copy, _, finding in _found(base):
        if not finding.evidence:
            wrong.append(f"{name}: no evidence")
        for source in finding.evidence:
            path = copy / source.file
            if not path.exists():
                wrong.append(f"{name}: {source.file} is not there")
            elif path.is_file() and source.line is not None:
                lines = CODES.sub("", path.read_bytes().decode("utf-8", "replace")).split("\n")
                if not (0 < source.line <= len(lines) and lines[source.line - 1].strip()):
                    wrong.append(f"{name}: {source.file}:{source.line} holds nothing")
                elif not _holds(lines[source.line - 1], source.text):
                    wrong.append(f"{name}: {source.file}:{source.line} does not say {source.text[:60]!r}")
    assert wrong == []


def _holds(line: str, text: str) -> bool:
    """The line holds the quote, or all numbers of a remark about it (`class 16 but names 0 to 0`, `box_loss = 0`)."""
    have, quote = re.sub(r"\s+", "", line), re.sub(r"\s+", "", text)
    if quote[:40] in have or have.startswith(quote.rpartition(":")[2][:20]):
        return True
    said = NUMBER.findall(text)
    return bool(said) and bool({float(n) for n in said} & {float(n) for n in NUMBER.findall(line)})


def test_the_report_keeps_its_schema(base: Path) -> None:
    schema = json.loads((settings.CONFIGS / "report.schema.json").read_text(encoding="utf-8"))
    check = jsonschema.Draft202012Validator(schema)
    for case in CASES:
        _, evidence, report = judged(case, base)
        document = json.loads(to_json(jsonfile.report_dict(report, evidence)))
        assert [e.message for e in check.iter_errors(document)] == [], case.name


def test_a_text_file_is_cited_with_its_line(base: Path) -> None:
    whole = {".csv", ".tsv", ".jsonl"}  # tables are judged as a whole; so are folders, and logs of step times
    bare = [
        f"{name}: {source.file}"
        for name, copy, evidence, finding in _found(base)
        for source in finding.evidence
        if source.line is None
        and (copy / source.file).is_file()
        and Path(source.file).suffix not in whole
        and not (evidence.steps is not None and source.file == evidence.steps.file)
        and not source.text.endswith("rows twice")  # two rows of a file
    ]
    assert bare == []


def test_values_are_numbers_or_words_and_sentences_have_no_holes(base: Path) -> None:
    for name, _, _, finding in _found(base):
        for key, value in finding.values.items():
            assert not (isinstance(value, float) and not math.isfinite(value)), f"{name}: {key} is {value}"
            assert value not in {"None", "nan", "inf"}, f"{name}: {key} is {value!r}"
        for lang in ("en", "zh"):
            told = words.story(finding, lang)
            for sentence in (told.title, told.cause, *(a.sentence for a in told.advice)):
                assert not HOLE.search(sentence), f"{name}: {sentence}"


def test_no_finding_is_said_beside_its_opposite(base: Path) -> None:
    wrong = []
    for case in CASES:
        report = judged(case, base)[2]
        ids = {f.id for f in report.findings}
        under = {(f.id, e) for f in report.findings for e in f.explains}
        wrong += [
            f"{case.name}: {a} and {b}"
            for a, b in OPPOSITES
            if {a, b} <= ids and (a, b) not in under and (b, a) not in under
        ]
    assert wrong == []


def test_controls_are_never_faults(base: Path) -> None:
    loud = [name for name, _, _, f in _found(base) if f.id in QUIET and f.severity is not Severity.INFO]
    assert loud == []


def test_a_run_on_the_cpu_is_never_told_of_its_gpu(base: Path) -> None:
    wrong = []
    for name, _, evidence, finding in _found(base):
        console, notes = evidence.console, evidence.notes
        seen = bool(notes and notes.gpus) or bool(evidence.tables and evidence.tables.series("gpu_util"))
        said = console is not None and any(
            GPU_CLAIMS.match(finding.id) and line.kind == "gpu_oom" for line in console.lines
        )
        on_cpu = console is not None and console.device == "cpu" and not seen and not said
        if on_cpu and GPU_CLAIMS.match(finding.id) and finding.severity.rank >= Severity.MEDIUM.rank:
            wrong.append(name)
    assert wrong == []


def test_a_cause_stands_before_its_symptoms_and_the_worst_first(base: Path) -> None:
    for case in CASES:
        report = judged(case, base)[2]
        at = {f.id: i for i, f in enumerate(report.findings)}
        rank = {f.id: f.severity.rank for f in report.findings}
        under = {e for f in report.findings for e in f.explains}
        for finding in report.findings:
            if finding.id not in under:
                assert all(at[finding.id] < at[e] for e in finding.explains), case.name
        if report.findings and max(rank.values()) >= Severity.HIGH.rank:
            first = report.findings[0]
            assert max(rank[i] for i in _below(report, first.id)) >= Severity.HIGH.rank, case.name


def _below(report: Report, id: str) -> set[str]:
    explains: dict[str, tuple[str, ...]] = {f.id: f.explains for f in report.findings}
    seen, todo = set(), [id]
    while todo:
        now = todo.pop()
        if now not in seen:
            seen.add(now)
            todo += explains.get(now, ())
    return seen


def test_advice_is_an_argument_that_exists_or_something_to_do_by_hand(base: Path) -> None:
    for name, _, _, finding in _found(base):
        key = finding.message or finding.id
        for fix in finding.fixes:
            assert set(fix.change) <= ARGUMENTS, f"{name}: {fix}"
            for lang in ("en", "zh"):
                assert f"fix.{fix.key}" in catalog(lang)[key], f"{name}: {fix.key} has no sentence"


ARGUMENTS = {
    "task", "mode", "model", "data", "epochs", "time", "patience", "batch", "imgsz", "save", "save_period", "cache",
    "device", "workers", "project", "name", "exist_ok", "pretrained", "optimizer", "verbose", "seed",
    "deterministic", "single_cls", "rect", "cos_lr", "close_mosaic", "resume", "amp", "fraction", "profile",
    "freeze", "multi_scale", "overlap_mask", "mask_ratio", "dropout", "val", "split", "save_json", "conf", "iou",
    "max_det", "half", "dnn", "plots", "lr0", "lrf", "momentum", "weight_decay", "warmup_epochs", "warmup_momentum",
    "warmup_bias_lr", "box", "cls", "dfl", "pose", "kobj", "nbs", "hsv_h", "hsv_s", "hsv_v", "degrees", "translate",
    "scale", "shear", "perspective", "flipud", "fliplr", "bgr", "mosaic", "mixup", "cutmix", "copy_paste",
    "copy_paste_mode", "auto_augment", "erasing", "crop_fraction",
}  # fmt: skip
"""Ultralytics' default.yaml (docs.ultralytics.com/usage/cfg)."""


def _numbers(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def test_shares_lie_between_nothing_and_all(base: Path) -> None:
    shares = {"share", "wait", "compute", "iowait", "left"}
    for name, _, _, finding in _found(base):
        for key in shares & set(finding.values):
            number = _numbers(finding.values[key])
            assert number is None or 0 <= number <= 1.0001, f"{name}: {key} = {number}"


def test_epochs_and_best_scores_are_those_of_the_file(base: Path) -> None:
    wrong = []
    for name, copy, evidence, finding in _found(base):
        curves, values = evidence.curves, finding.values
        if curves is None or not finding.id.startswith(("train.", "num.")):
            continue
        epochs = [*curves.epochs, *(e.epoch for e in (evidence.log.epochs if evidence.log else ()))]
        for key in ("epoch", "best_epoch", "val_epoch"):
            number = _numbers(values.get(key))
            if number is not None and finding.id != "train.early_stopped_ok" and not 0 <= number <= max(epochs):
                wrong.append(f"{name}: {key} = {number}, but the file ends at {max(epochs)}")
        best = _numbers(values.get("best")) if finding.id in BEST else None
        cited = [s for s in finding.evidence if s.line and s.file.endswith(".csv")]
        if best is not None and cited:
            cells = (copy / cited[0].file).read_text(encoding="utf-8").splitlines()[(cited[0].line or 1) - 1].split(",")
            if not any(cell.strip() and _near(cell, best) for cell in cells):
                wrong.append(f"{name}: the best score {best} is not in {cited[0].file}:{cited[0].line}")
    assert wrong == []


BEST = {"train.converged_ok", "train.undertrained", "train.early_peak", "train.best_not_last", "train.plateau"}
"""Findings that name the best score and cite its row."""


def _near(cell: str, number: float) -> bool:
    try:
        return math.isclose(float(cell), number, rel_tol=1e-6)
    except ValueError:
        return False
