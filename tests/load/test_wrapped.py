"""The answer must not depend on how the evidence was wrapped: cases in other wrappings say what they said.

A part of the cases in each wrapping here; `WRAPPED=all scripts/test tests/load/test_wrapped.py` takes every public
case, `scripts/bench-wrapped` every case and run there is.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from scripts.bench_wrapped import Said, Tally, apply, compare, files_of, pairs, say
from tests.wrappings import WRAPPINGS, Files

ROOT = Path(__file__).resolve().parents[1]
ALL = os.environ.get("WRAPPED") == "all"
FEW = {
    "c02_drive_scan", "c11_ram_cache_swaps", "c31_wrong_gpu_index", "c44_gtx16_all_nan", "c63_pose_fullimage_boxes",
    "c82_restart_not_resume", "q09", "u019", "u026", "u074", "v12", "w06", "w23", "x04",
}  # fmt: skip
"""Of every kind: logs, several runs, captures, arguments, labels, YOLOv5, tables of nvidia-smi, curves, step times."""
_OPEN = {
    # What is not there any more: which of two tables without a name came first, and whose chart it is.
    "doc.untitled": {"c82_restart_not_resume"},
    "name.nothing_said": {"c82_restart_not_resume"},
    "doc.notebook": {"x04"},  # of a notebook the training is read, and not the step times that a script printed
    "export.tensorboard": {"c82_restart_not_resume"},
    "export.wandb_charts": {"c82_restart_not_resume"},
}


@pytest.fixture(scope="module")
def cases() -> dict[str, Files]:
    folders = sorted((ROOT / "cases_unseen").glob("*/expected.json")) + sorted((ROOT / "data/cases").glob("*/*.json"))
    folders = [p for p in folders if p.name == "expected.json"]
    return {p.parent.name: files_of(p.parent) for p in folders if ALL or p.parent.name in FEW}


@pytest.fixture(scope="module")
def before(cases: dict[str, Files]) -> dict[str, Said]:
    return {name: say(files) for name, files in cases.items()}


def test_the_cases_say_something(before: Mapping[str, Said]) -> None:
    assert len(before) >= 13
    assert sum(bool(said.loud) for said in before.values()) >= 11
    assert not [name for name, said in before.items() if said.failed]


@pytest.mark.parametrize("name", [n for n, w in WRAPPINGS.items() if not w.lossy])
def test_a_wrapping_changes_nothing(name: str, cases: Mapping[str, Files], before: Mapping[str, Said]) -> None:
    tally = Tally()
    for case, files in cases.items():
        made = apply(files, (WRAPPINGS[name],))
        if made is not None and case not in _OPEN.get(name, ()):
            compare(tally, case, before[case], say(made, WRAPPINGS[name]), lossy=False)
    assert tally.total or not ALL
    assert tally.same >= (0.97 if ALL else 1) * tally.total, tally.notes


@pytest.mark.parametrize("name", [n for n, w in WRAPPINGS.items() if w.lossy])
def test_what_takes_something_away_breaks_nothing(name: str, cases: Mapping[str, Files]) -> None:
    for files in cases.values():
        made = apply(files, (WRAPPINGS[name],))
        if made is not None:
            assert say(made, WRAPPINGS[name]).failed == ""


@pytest.mark.parametrize("chain", pairs(7, 24).values(), ids=lambda c: "+".join(w.name for w in c))
def test_two_wrappings_fail_nowhere(chain: tuple[object, object], cases: Mapping[str, Files]) -> None:
    for files in list(cases.values())[::3]:
        made = apply(files, chain)  # type: ignore[arg-type]
        if made is not None:
            assert say(made, chain[-1]).failed == ""  # type: ignore[arg-type]


def test_a_comparison_sees_a_loss_a_claim_and_a_number() -> None:
    tally = Tally()
    was = Said({"a": {"n": 1.0}, "b": {}}, "a")
    compare(tally, "x", was, Said({"a": {"n": 1.01}, "b": {}}, "a"), lossy=False)
    assert (tally.same, tally.values) == (1, 0)
    compare(tally, "x", was, Said({"a": {"n": 2.0}, "c": {}}, "c", ("x: why",)), lossy=False)
    assert (tally.same, tally.lost, tally.new, tally.values, tally.primary, tally.named) == (1, 1, 1, 1, 1, 1)
