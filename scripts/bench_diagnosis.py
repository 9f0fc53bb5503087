"""Score `diag analyze` on the public bench: cases, real runs, healthy runs. Prints one table and what was missed."""

import argparse
import contextlib
import csv
import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from diag.engine import evaluate  # noqa: E402
from diag.errors import InputError  # noqa: E402
from diag.load import load_run  # noqa: E402
from diag.model.finding import Report  # noqa: E402

BENCH = Path(os.environ.get("DIAG_BENCH") or ROOT.parent / "shared" / "bench")
UNSEEN = ROOT / "tests" / "cases_unseen"
PUBLIC = tuple(ROOT / "tests" / "data" / name for name in ("runs_public.tsv", "runs_public5.tsv"))
_BULK = ("*.pt", "*.jpg", "*.jpeg", "*.png", "*.onnx", "events.out.*")
UNSEEN_ROWS = (
    ("unseen, text", "u*"),
    ("unseen, curves", "v*"),
    ("unseen, quiet", "q*"),
    ("unseen, second", "w*"),
    ("unseen, third", "x*"),
    ("unseen, bundles", "by[0-6]*"),
    ("bundles, quiet", "bq*"),
    ("bundles, second", "by[7-9]*"),
    ("bundles, third", "bt*"),
    ("excerpts", "be*"),
    ("training side", "cd*"),
    ("training side, quiet", "cs*"),
    ("unseen, machine", "a[yz][0-4]*"),
    ("unseen, machine 2", "ay[56]*"),
    ("unseen, machine 3", "az[67]*"),
    ("unseen, machine 4", "ba*"),
    ("unseen, machine 5", "c[abq]*"),
)


@dataclass
class Score:
    """Found and total, and what went wrong."""

    found: int = 0
    total: int = 0
    missed: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


def judge(folder: Path, *, without: tuple[str, ...] = ()) -> Report | None:
    """The report on a copy of the inputs, but for files named `without`, at a neutral path; None if unreadable."""
    with tempfile.TemporaryDirectory() as neutral:
        copy = Path(neutral) / "input"
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("expected.json", *without))
        with contextlib.suppress(InputError):
            return evaluate(load_run(copy))
    return None


def cases(folder: Path, pattern: str = "*") -> Score:
    """Right: the expected primary (or an id accepted in its place) is reported and nothing forbidden is.

    A case without an expected finding is right when nothing of medium or above is reported.
    """
    missed, wrong, total, right = [], [], 0, 0
    for expected in sorted(folder.glob(f"{pattern}/expected.json")):
        total += 1
        want = json.loads(expected.read_text(encoding="utf-8"))
        report = judge(expected.parent)
        said = {f.id for f in report.findings} if report else set()
        said |= {f"crash:{c.id}" for c in report.crashed} if report else {"crash:unreadable"}
        forbidden = said & set(want["must_not"])
        if want["findings"]:
            wanted = {want["findings"][0]["id"], *want.get("accept", ())}
        else:
            wanted = set()
            forbidden |= {f.id for f in report.findings if f.severity.rank >= 2} if report else set()
        crashes = sorted(s for s in said if s.startswith("crash:"))
        found = not wanted or bool(wanted & said)
        if not found:
            instead = ", ".join(sorted(said)) or "nothing"
            missed.append(f"{expected.parent.name}: {' or '.join(sorted(wanted))}; said {instead}")
        if forbidden or crashes:
            wrong.append(f"{expected.parent.name}: {', '.join(sorted(forbidden) + crashes)}")
        right += found and not forbidden and not crashes
    return Score(right, total, tuple(missed), tuple(wrong))


def runs(folder: Path) -> tuple[Score, Score]:
    """Primaries of the unambiguous runs, and quiet healthy runs."""
    return score_runs(folder, json.loads((folder / "labels.json").read_text(encoding="utf-8")))


def public_runs(copies: Path) -> list[tuple[str, Score]]:
    """The same for the listed public runs, by batch; `copies` holds checkouts as OWNER/NAME. Absent ones are told."""
    batches: dict[str, dict[str, Any]] = {}
    for listed in PUBLIC:
        with listed.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                if row.get("kind") == "console":
                    continue  # a file among others; score it with `diag analyze`
                others = (other.partition(":")[0] for other in row["others"].split())
                findings = [{"id": id} for id in (row["primary"], *others)]
                label = {"primary": row["primary"], "findings": findings, "ambiguous": row["ambiguous"] == "yes"}
                batches.setdefault(row["batch"], {})[f"{row['repository']}/{row['path']}"] = label
    rows = []
    for batch, labels in batches.items():
        here = {name: label for name, label in labels.items() if any((copies / name).glob("results.[ct][sx][vt]"))}
        primaries, healthy = score_runs(copies, here, without=_BULK)
        absent = tuple(f"{name}: no copy" for name in labels if name not in here)
        primaries.missed += absent
        rows += [(f"{batch}, primary", primaries), (f"{batch}, quiet", healthy)]
    return rows


def score_runs(folder: Path, labels: dict[str, Any], *, without: tuple[str, ...] = ()) -> tuple[Score, Score]:
    """Primaries and quiet healthy runs of labelled folders below this one."""
    primaries, healthy = Score(), Score()
    for name, label in labels.items():
        if label["ambiguous"]:
            continue
        report = judge(folder / name, without=without)
        found = report.findings if report else ()
        primaries.total += 1
        if label["primary"] in {f.id for f in found}:
            primaries.found += 1
        else:
            primaries.missed += (f"{name}: {label['primary']}; said {', '.join(f.id for f in found) or 'nothing'}",)
        if report and report.crashed:
            primaries.wrong += (f"{name}: {', '.join(f'{c.id} {c.error}' for c in report.crashed)}",)
        if label["primary"] == "train.converged_ok":
            known = {f["id"] for f in label["findings"]}
            loud = sorted(f.id for f in found if f.severity.rank >= 2 and f.id.startswith(("train.", "num.")))
            loud = [id for id in loud if id not in known]
            healthy.total += 1
            healthy.found += not loud
            healthy.wrong += (f"{name}: {', '.join(loud)}",) if loud else ()
    return primaries, healthy


def logs(folder: Path) -> Score:
    """Console logs without a csv: read, with epochs or an error."""
    score = Score()
    for path in sorted(folder.glob("*.log")):
        score.total += 1
        log = load_run(path).log
        score.found += log is not None and bool(log.epochs or log.ended == "error")
    return score


def main() -> int:
    """Print the table. Returns 1 if something was forbidden or crashed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bench", nargs="?", type=Path, default=BENCH, help="folder with cases/ and runs/")
    parser.add_argument("--cases", type=Path, metavar="DIR", help="only the cases of this folder")
    parser.add_argument("--unseen", action="store_true", help="only the cases of tests/cases_unseen")
    parser.add_argument("--public", type=Path, metavar="COPIES", help="only the runs of tests/data/runs_public*.tsv")
    given = parser.parse_args()
    bench: Path = given.bench
    rows: list[tuple[str, Score]] = []
    if given.public:
        rows = public_runs(given.public)
    elif given.cases:
        rows = [("cases", cases(given.cases))]
    elif not given.unseen and not (bench / "cases").is_dir():
        print("bench not run: no ../shared")
    elif not given.unseen:
        rows = [("cases", cases(bench / "cases"))]
    if not given.public and not given.cases and not given.unseen and (bench / "runs" / "labels.json").is_file():
        primaries, healthy = runs(bench / "runs")
        rows += [
            ("runs, primary", primaries),
            ("healthy, quiet", healthy),
            ("logs read", logs(bench / "runs" / "_console_only")),
        ]
    if not given.public and not given.cases:
        rows += [(name, cases(UNSEEN, pattern)) for name, pattern in UNSEEN_ROWS if any(UNSEEN.glob(pattern))]
    print(f"{'':18}{'reached':>8}{'of':>5}{'wrong':>7}")
    for name, score in rows:
        print(f"{name:18}{score.found:8}{score.total:5}{len(score.wrong):7}")
    for name, score in rows:
        for line in score.missed:
            print(f"missed     {name}: {line}")
        for line in score.wrong:
            print(f"forbidden  {name}: {line}")
    return 1 if any(score.wrong for _, score in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
