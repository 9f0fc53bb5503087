"""Runs last: what happened to the faulty trainings of this session is what docs/faults.md says."""

import os

import pytest

from tests.container.engine import ROOT
from tests.container.faults import ORDER, Faults, table


def test_the_table_in_the_docs_is_what_happened(faults: Faults) -> None:
    if not faults.rows:
        pytest.skip("not run: no fault was done in this session")
    page = (ROOT / "docs/faults.md").read_text(encoding="utf-8").splitlines()
    changed = [line for line in faults.lines() if line not in page]
    assert changed == [], "scripts/faults renews docs/faults.md"


def test_the_table_is_complete() -> None:
    page = (ROOT / "docs/faults.md").read_text(encoding="utf-8")
    shown = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines() if line.startswith("| ")]
    assert shown[1:] == [*ORDER, "shm too small"] or os.environ.get("DIAG_FAULTS_FILE")
    assert table(Faults()).splitlines()[0] in page
