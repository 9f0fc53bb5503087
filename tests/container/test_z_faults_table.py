"""Runs last: what happened to the faulty trainings of this session is what docs/faults.md says."""

import pytest

from tests.container.engine import ROOT
from tests.container.faults import ORDER, Faults, find_row


def test_the_table_in_the_docs_is_what_happened(faults: Faults) -> None:
    page = (ROOT / "docs/faults.md").read_text(encoding="utf-8")
    known = {fault: row for fault in faults.rows if (row := find_row(page, fault))}
    changed = {fault: (row, faults.rows[fault]) for fault, row in known.items() if row != faults.rows[fault]}
    assert changed == {}, "scripts/faults renews docs/faults.md"
    new = [fault for fault in faults.rows if fault not in known]
    if new or not faults.rows:
        pytest.skip(
            f"not compared: docs/faults.md has no row for {', '.join(new) or 'any'} yet; scripts/faults adds it"
        )


def test_the_table_has_only_known_faults_in_their_order() -> None:
    page = (ROOT / "docs/faults.md").read_text(encoding="utf-8").partition("<!-- table -->\n")[2]
    shown = [line.split(" | ")[0].removeprefix("| ") for line in page.splitlines()][2:]
    assert shown == [fault for fault in ORDER if fault in shown]
    assert {"trainer killed", "GPU lost"} <= set(shown)
