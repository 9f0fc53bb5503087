"""The list of public runs and logs that were read for the benchmarks: every label is an id of the catalog."""

import csv

from diag import settings

COLUMNS = [
    "repository", "commit", "path", "kind", "primary", "other_findings", "ambiguous", "sample", "reading",
]  # fmt: skip
SEVERITIES = {"info", "low", "medium", "high", "critical"}


def test_the_list_of_other_public_runs_is_well_formed() -> None:
    with (settings.ROOT / "configs/findings.tsv").open(encoding="utf-8") as file:
        known = {row["id"] for row in csv.DictReader(file, delimiter="\t")}
    with (settings.ROOT / "tests/data/runs_public_other.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert list(rows[0]) == COLUMNS
    assert len({(r["repository"], r["commit"], r["path"]) for r in rows}) == len(rows) >= 140
    for row in rows:
        assert len(row["commit"]) == 40 and row["repository"].count("/") == 1 and row["ambiguous"] in {"yes", "no"}
        assert {row["primary"]} <= known | {"-"}
        for other in row["other_findings"].split():
            id, _, severity = other.partition(":")
            assert other == "-" or (id in known and (severity in SEVERITIES or not severity)), other
