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


@pytest.mark.parametrize("listed", PUBLIC, ids=lambda path: path.stem)
def test_the_list_names_commits_and_known_findings(listed: Path) -> None:
    with listed.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert len({(row["repository"], row["path"]) for row in rows}) == len(rows) > 100
    for row in rows:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", row["repository"]), row
        assert re.fullmatch(r"[0-9a-f]{40}", row["commit"]), row
        others = row["others"].split()
        assert {row["primary"], *(other.partition(":")[0] for other in others)} <= FINDINGS, row
        assert row["ambiguous"] in {"yes", "no"}, row


OLD = (
    "batch\trepository\tcommit\tpath\tprimary\tothers\tambiguous\n",
    "one\towner/{name}\t{commit}\truns/train\t{primary}\ttrain.undertrained\tno\n",
)
NEW = (
    "repository\tcommit\tpath\tkind\tprimary\tothers\tambiguous\tbatch\treading\n",
    "owner/{name}\t{commit}\truns/train\tdetect\t{primary}\ttrain.undertrained:low\tno\tfirst\twhy\n",
)


@pytest.mark.parametrize(("header", "line"), [OLD, NEW])
def test_copies_are_scored_and_absent_ones_are_told(
    header: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = line.format(name="there", commit="0" * 40, primary="train.incomplete")
    absent = line.format(name="away", commit="0" * 40, primary="train.converged_ok")
    if header == NEW[0]:
        absent += known.replace("detect", "console").replace("there", "log")
    listed = tmp_path / "runs.tsv"
    listed.write_text(header + known + absent, encoding="utf-8")
    monkeypatch.setattr(bench_diagnosis, "PUBLIC", (listed,))
    run = tmp_path / "copies/owner/there/runs/train"
    run.mkdir(parents=True)
    rows = "".join(f"{i},{2 - i / 20},{i / 50}\n" for i in range(1, 9))
    (run / "results.csv").write_text("epoch,train/box_loss,metrics/mAP50-95(B)\n" + rows, encoding="utf-8")
    (run / "args.yaml").write_text("epochs: 100\n", encoding="utf-8")
    (run / "best.pt").write_bytes(b"weights are not copied")
    primary, quiet = (score for _, score in public_runs(tmp_path / "copies"))
    assert (primary.found, primary.total, quiet.total) == (1, 1, 0)
    assert primary.missed == ("owner/away/runs/train: no copy",)
