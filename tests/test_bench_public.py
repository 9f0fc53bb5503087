"""The list of public runs, and the score of copies of them (scripts/bench-diagnosis --public)."""

import csv
import re
from pathlib import Path

import pytest

from diag import settings
from scripts import bench_diagnosis
from scripts.bench_diagnosis import PUBLIC, public_runs

FINDINGS = {
    line.split("\t")[0] for line in (settings.ROOT / "configs/findings.tsv").read_text(encoding="utf-8").splitlines()
}


def test_the_list_names_commits_and_known_findings() -> None:
    with PUBLIC.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert len({(row["repository"], row["path"]) for row in rows}) == len(rows) > 100
    for row in rows:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", row["repository"]), row
        assert re.fullmatch(r"[0-9a-f]{40}", row["commit"]), row
        assert {row["primary"], *row["others"].split()} <= FINDINGS, row
        assert row["ambiguous"] in {"yes", "no"}, row


def test_copies_are_scored_and_absent_ones_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = "batch\trepository\tcommit\tpath\tprimary\tothers\tambiguous\n"
    known = f"one\towner/there\t{'0' * 40}\truns/train\ttrain.incomplete\ttrain.undertrained\tno\n"
    absent = f"one\towner/away\t{'0' * 40}\truns/train\ttrain.converged_ok\t\tno\n"
    listed = tmp_path / "runs.tsv"
    listed.write_text(header + known + absent, encoding="utf-8")
    monkeypatch.setattr(bench_diagnosis, "PUBLIC", listed)
    run = tmp_path / "copies/owner/there/runs/train"
    run.mkdir(parents=True)
    rows = "".join(f"{i},{2 - i / 20},{i / 50}\n" for i in range(1, 9))
    (run / "results.csv").write_text("epoch,train/box_loss,metrics/mAP50-95(B)\n" + rows, encoding="utf-8")
    (run / "args.yaml").write_text("epochs: 100\n", encoding="utf-8")
    (run / "best.pt").write_bytes(b"weights are not copied")
    primary, quiet = (score for _, score in public_runs(tmp_path / "copies"))
    assert (primary.found, primary.total, quiet.total) == (1, 1, 0)
    assert primary.missed == ("owner/away/runs/train: no copy",)
