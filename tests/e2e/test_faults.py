"""A few of the faults of scripts/bench-faults, so that the benchmark can't rot: real trainings, named right."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from diag import settings

sys.path.insert(0, str(settings.ROOT / "scripts"))
rows: Any = importlib.import_module("bench_faults_list")
bench: Any = importlib.import_module("bench_faults_run")


@pytest.fixture(scope="module")
def keep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One place for all, so that settings and sets are made once."""
    folder = tmp_path_factory.mktemp("faults")
    for name in ("logs", "data", "workspace"):
        (folder / name).mkdir()
    return folder


@pytest.mark.parametrize("name", ["slow_storage", "lr_1e-12", "class_ids", "five_twin"])
def test_what_was_injected_is_named_and_nothing_else_is_blamed(
    keep: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("PYTEST_CURRENT_TEST", "PYTEST_VERSION"):
        monkeypatch.delenv(variable, raising=False)
    fault, place = rows.known()[name], bench.Place(keep)
    fault = replace(fault, words=tuple(word.replace("epochs=8", "epochs=5") for word in fault.words))
    bench.train(fault, place)
    result = bench.judge(fault, place)
    log = (keep / "logs" / f"{name}.log").read_text(errors="replace")
    assert result["right"], f"{result}\n{log[-3000:]}"


def test_a_claim_that_must_not_be_made_or_a_second_place_is_not_right() -> None:
    fault = rows.Fault("x", "", ("train.lr_stuck",), ("num.lr_too_high",))
    assert bench.verdict(fault, [("train.lr_stuck", "high")])["right"]
    assert not bench.verdict(fault, [("train.undertrained", "medium"), ("train.lr_stuck", "high")])["right"]
    assert not bench.verdict(fault, [("train.lr_stuck", "high"), ("num.lr_too_high", "low")])["right"]
    assert not bench.verdict(fault, [])["right"]
    alike = rows.Fault("z", "", wrong=("mem.ram_growth",))
    assert bench.verdict(alike, [("train.undertrained", "medium")])["right"]
    assert not bench.verdict(alike, [("train.undertrained", "medium"), ("mem.ram_growth", "info")])["right"]
    healthy = rows.Fault("y", "", (), healthy=True)
    assert bench.verdict(healthy, [("train.converged_ok", "info")])["right"]
    assert not bench.verdict(healthy, [("data.image_extreme", "low")])["right"]


def test_every_expectation_is_an_id_of_the_catalog() -> None:
    ids = {line.split("\t")[0] for line in (settings.CONFIGS / "findings.tsv").read_text().splitlines()}
    for fault in rows.known().values():
        assert {*fault.right, *fault.wrong, *rows.NEVER} <= ids, fault.name
        assert not set(fault.right) & set(fault.wrong), fault.name
        assert not (fault.healthy and fault.right), fault.name
        assert fault.healthy or fault.right or fault.wrong, fault.name
