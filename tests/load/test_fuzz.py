"""No input makes a parser fail in any other way than by saying that it can't read it.

100 inputs each here; `HYPOTHESIS_PROFILE=full scripts/test --timeout 0 tests/load/test_fuzz.py` tries 10,000 of each.
"""

# ruff: noqa: E501 # a table of parsers

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from diag.codec import decode_json
from diag.engine import evaluate
from diag.errors import InputError
from diag.health import close_vanished
from diag.live.look import take_look
from diag.load import load_run
from diag.load.args import parse_args
from diag.load.console import parse_log
from diag.load.counters import parse_counters, summarize
from diag.load.curves import curves
from diag.load.dialect import canonical
from diag.load.exports import merged, records
from diag.load.follow import Follower
from diag.load.foreign import log_epochs
from diag.load.labels import parse_data_yaml, parse_labels
from diag.load.listings import listing_tables
from diag.load.notes import parse_notes
from diag.load.parts import Part, split
from diag.load.plain import decode, plain
from diag.load.rates import with_rates
from diag.load.read import UnreadableError
from diag.load.results import parse_results
from diag.load.sniff import kind_of
from diag.load.stall import stalls
from diag.load.summary import TraceSummary
from diag.load.tables import parse_results_txt, parse_table, phase_ledger, phase_steps, phases
from diag.load.trace import parse_trace
from diag.load.trainlog import parse_trainlog
from diag.model.evidence import Dataset, Evidence
from diag.model.foreign import Tables
from diag.model.hardware import Baseline
from diag.model.profile import Profile
from diag.model.run import RunRecord
from diag.render import console, jsonfile, markdown
from diag.rules import load_rules
from diag.rules.listing_facts import class_folders, hashes, listing, lists, sizes
from diag.stages.progress import read_progress
from tests.fuzzing import QUICK_OR_FULL, examples
from tests.load import mutations
from tests.load.conftest import CSV
from tests.load.mutations import mutated, read_cases

QUIET = (UnreadableError, InputError, RecursionError)
"""What a reader may raise: `_Reader.read` of diag/load/run.py turns each into a named skip."""


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", errors="replace")


def _results(data: bytes) -> None:
    curves(parse_results(_text(data)))


def _results_txt(data: bytes) -> None:
    curves(parse_results_txt(_text(data), name="results.txt"))


def _log(data: bytes) -> None:
    _, log = parse_log(_text(data))
    curves(log_epochs(log))


def _table(data: bytes) -> None:
    table = parse_table(_text(data), name="t.csv")
    made = phases(Tables((table,)) if table else None)
    phase_steps(made)
    phase_ledger(made)


def _trace(data: bytes) -> None:
    summary = TraceSummary("t").feed(data.split(b"\n"))
    for answer in (
        summary.steps,
        summary.ledger,
        summary.loader,
        summary.validation,
        summary.device,
        summary.steady_part,
    ):
        answer()
    parse_trace(data)


def _counters(data: bytes) -> None:
    columns, gpus, marks, lost = parse_counters(data)
    stalls(marks)
    if columns:
        summarize(columns, gpus, marks, lost_lines=lost)


def _restored(data: bytes) -> None:
    text = decode(data) or ""
    for part in split(text) or [Part("", text)]:
        made = plain(part.text)
        listing_tables([("a.txt", made)])
        for told in (made, canonical(made), records(made)):
            kind_of(told or "")
            merged({"a.csv": told or "", "run-.-tag-train_box_loss.csv": made})


def _json(kind: type) -> Callable[[bytes], None]:
    return lambda data: decode_json(data, kind, "file") and None


SPLIT = {"images": 9, "labelled": 9, "instances": 20}
DATASET = {
    "yaml": "d",
    "task": "detect",
    "names": {"0": "a"},
    "splits": {"train": SPLIT, "val": SPLIT},
    "class_counts": {"0": 5},
}
BASELINE = {
    "host": {"cpus_effective": 2.0},
    "gpu_triage": "none",
    "cuda_usable": False,
    "gpus": [{"index": 0, "name": "L4"}],
}
LISTING = (
    b"$ find\nimages/train/1.jpg\nimages/val/1.jpg\nlabels/train/1.txt\ntrain/cat/f0001.jpg\n\xe2\x94\x9c\xe2\x94\x80\xe2\x94\x80 train\n"
    b"0123456789abcdef0123456789abcdef  images/train/2.png\nimages/train/3.png PNG 1024x768 8-bit\n"
    b"a_jpg.rf.0123456789abcdef.jpg\nOrientation : Rotate 90 CW\n"
)
RATES = b"epoch,lr/pg0,lr/pg2\n1,0.01,0.1\n2,0.009,0.05\n3,0.008,nan\n4,,\n"


def _listing(data: bytes) -> None:
    notes = parse_notes([("find.txt", _text(data)), ("train.txt", _text(data))])
    listing(notes), lists(notes), hashes(notes), sizes(notes), class_folders(notes)
    for rule in load_rules():
        if rule.id.endswith("@listed"):
            evaluate(Evidence(notes=notes), rules=[rule])


PARSERS: dict[str, tuple[Callable[[bytes], Any], list[bytes]]] = {
    "results.csv": (_results, [CSV.encode(), *read_cases("results*.csv")]),
    "results.txt": (_results_txt, [mutations.V5]),
    "args.yaml": (lambda d: parse_args(_text(d)), [mutations.OPT, *read_cases("args.yaml", "hyp.yaml", "opt.yaml", limit=2000)]),
    "data.yaml": (lambda d: parse_data_yaml(_text(d)), [mutations.DATA, *read_cases("data.yaml")]),
    "console.log": (_log, [mutations.LOG, *read_cases("*.log")]),
    "train.log": (lambda d: parse_trainlog(_text(d)), [mutations.TRAINLOG]),
    "tables": (_table, read_cases("*.csv", limit=3000)),
    "captures": (
        lambda d: parse_notes([("nvidia-smi.txt", _text(d)), ("env.txt", _text(d))]),
        [mutations.NVIDIA, mutations.CAPTURE, *read_cases("*.txt", limit=2000)],
    ),
    "polygons": (lambda d: parse_labels([("labels/a.txt", _text(d))], None, "segment"), [b"0 .1 .1 .5 .1 .5 .5 .1 .5\n" * 3]),
    "oriented boxes": (lambda d: parse_labels([("labels/a.txt", _text(d))], None, "obb"), [b"0 .1 .1 .5 .1 .5 .5 .1 .5\n"]),
    "listings": (_listing, [LISTING]),
    "rates": (lambda d: (t := parse_table(_text(d), name="lr.csv")) and curves(with_rates(None, Tables((t,)))), [RATES]),
    "documents": (_restored, [*mutations.documents(), *read_cases("*.log", "*.csv", "*.md", limit=3000)]),
    "labels": (lambda d: parse_labels([("labels/train/a.txt", _text(d))], None), [b"0 0.5 0.5 0.1 0.1\n" * 4, b"1 0.1 0.1 0.2 0.2 0.3 0.4\n"]),
    "trace": (_trace, [mutations.TRACE.encode()]),
    "counters": (_counters, [mutations.COUNTERS.encode()]),
    "run.json": (_json(RunRecord), [json.dumps(mutations.RUN).encode()]),
    "baseline.json": (_json(Baseline), [json.dumps(BASELINE).encode()]),
    "data.json": (_json(Dataset), [json.dumps(DATASET).encode()]),
    "profile.json": (_json(Profile), [b'{"steps": 3, "device": "cpu", "step_s": 0.1, "operators": [], "layers": []}']),
}  # fmt: skip
_few = settings(QUICK_OR_FULL, max_examples=examples(100))
_folders = settings(QUICK_OR_FULL, max_examples=examples(40))


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_never_fails(name: str) -> None:
    parse, seeds = PARSERS[name]

    @_few
    @given(data=mutated(seeds))
    def check(data: bytes) -> None:
        with suppress(*QUIET):
            parse(data)

    check()


def test_an_archive_never_fails(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"

    @_folders
    @given(data=mutated(mutations.archives()))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        with suppress(InputError):
            load_run(path)

    check()


def test_a_summary_never_fails(tmp_path: Path) -> None:
    (tmp_path / "health").mkdir()

    @_folders
    @given(data=mutated([json.dumps(mutations.HEALTH).encode()]))
    def check(data: bytes) -> None:
        (tmp_path / "health" / "latest.json").write_bytes(data)
        close_vanished(tmp_path)

    check()


CHECK = {
    "created": "2026-01-02T03:04:06+00:00",
    "machine": "ab",
    "checks": [
        {"id": "shm.size", "status": "warn", "value": "1 MiB free", "finding": "mem.shm_small", "remedy": "more"},
        {"id": "disk.free", "status": "fail", "value": "1 MiB", "finding": "hw.disk_low", "reason": "full"},
        {"id": "cpu.pressure", "status": "warn", "value": "90 %", "facts": {"cpu": 0.9}},
    ],
}
FILES = {
    "check.json": [json.dumps(CHECK).encode(), json.dumps(CHECK["checks"]).encode()],
    "run.json": [json.dumps(mutations.RUN).encode()],
    "health.json": [json.dumps(mutations.HEALTH).encode()],
    "baseline.json": [json.dumps(BASELINE).encode()],
    "train.log": [mutations.TRAINLOG],
    "console.log": [mutations.LOG],
    "results.csv": [CSV.encode()],
    "args.yaml": [mutations.OPT],
    "trace/rank0.jsonl": [mutations.TRACE.encode()],
    "trace/counters.jsonl": [mutations.COUNTERS.encode()],
}


@pytest.mark.parametrize("name", FILES)
def test_a_run_with_a_broken_file_is_judged(name: str, tmp_path: Path) -> None:
    """From the file to the page: loading, all rules, the three formats, and a look while it trains."""
    for other, seeds in FILES.items():
        (tmp_path / other).parent.mkdir(exist_ok=True)
        (tmp_path / other).write_bytes(seeds[0])

    @settings(_few, max_examples=examples(10))
    @given(data=mutated(FILES[name]))
    def check(data: bytes) -> None:
        (tmp_path / name).write_bytes(data)
        evidence = load_run(tmp_path)
        report = evaluate(evidence)
        assert not report.crashed
        console.report(report, evidence, lang="zh")
        markdown.report(report, evidence)
        json.dumps(jsonfile.report_dict(report, evidence), allow_nan=False)
        take_look(tmp_path, Follower())
        read_progress(tmp_path)

    check()
