"""Does the answer depend on how the evidence was wrapped? Re-wraps every case and compares the findings."""

import argparse
import contextlib
import io
import itertools
import json
import math
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from diag.engine import evaluate  # noqa: E402
from diag.errors import InputError  # noqa: E402
from diag.load import load_run  # noqa: E402
from scripts.bench_diagnosis import BENCH, UNSEEN  # noqa: E402
from tests.wrappings import WRAPPINGS, Files, Wrapping, write  # noqa: E402
from tests.wrappings.containers import tarred, zipped  # noqa: E402

_CLOSE = 0.02
"""A number that went through another unit comes back rounded."""
_PLACES = {"file", "files", "line", "lines", "name", "path", "where", "example"}


@dataclass(frozen=True)
class Said:
    """What a report claims: the findings of medium or above with their numbers, the primary, what was skipped."""

    loud: Mapping[str, Mapping[str, object]]
    primary: str = ""
    skipped: tuple[str, ...] = ()
    failed: str = ""


@dataclass
class Tally:
    """Of one wrapping: how often the answer stayed, and how it did not."""

    total: int = 0
    same: int = 0
    primary: int = 0
    lost: int = 0
    named: int = 0
    new: int = 0
    values: int = 0
    failed: int = 0
    notes: list[str] = field(default_factory=list)


def files_of(path: Path) -> Files:
    """The inputs of a case without the answer."""
    if path.is_file():
        return {path.name: path.read_bytes()}
    found = sorted(p for p in path.rglob("*") if p.is_file() and p.name != "expected.json")
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in found}


def inputs() -> Iterator[tuple[str, Files]]:
    """All cases and runs by name."""
    folders = sorted(UNSEEN.glob("*/expected.json"))
    folders += sorted((BENCH / "cases").glob("*/expected.json")) or sorted((ROOT / "tests/data/cases").glob("*/*.json"))
    for expected in folders:
        yield expected.parent.name, files_of(expected.parent)
    for path in sorted(p for p in (BENCH / "runs").glob("*") if p.is_dir() and p.name != "_console_only"):
        yield path.name, files_of(path)
    for path in sorted((BENCH / "runs" / "_console_only").glob("*.log")):
        yield path.name, files_of(path)


def say(files: Files, wrapping: Wrapping | None = None) -> Said:
    """The report on these files; an error that is no clear line is a failure."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "input"
        stdin = mock.Mock(buffer=io.BytesIO())
        target = base
        if wrapping and wrapping.stdin:
            stdin.buffer = io.BytesIO(next(iter(files.values())))
            target = Path("-")
        elif wrapping and wrapping.pack:
            target = base.with_name(f"input.{wrapping.pack}")
            target.write_bytes((zipped if wrapping.pack == "zip" else tarred)(files))
        else:
            write(files, base)
        try:
            with mock.patch.object(sys, "stdin", stdin):
                evidence = load_run(target)
                report = evaluate(evidence)
        except InputError as error:
            return Said({}, failed="", skipped=(f"input: {error}",))
        except Exception as error:
            return Said({}, failed=f"{type(error).__name__}: {error}")
    found = report.findings
    loud = {f.id: dict(f.values) for f in found if f.severity.rank >= 2}
    crashed = ", ".join(f"{c.id} {c.error}" for c in report.crashed)
    return Said(loud, found[0].id if found else "", tuple(evidence.skipped_files), crashed)


def differing(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """The names of values that are not the same within rounding; names of files and places do not count."""
    return [k for k, v in before.items() if k not in _PLACES and k in after and not _close(v, after[k])]


def _close(a: object, b: object) -> bool:
    if isinstance(a, bool) or isinstance(b, bool) or not isinstance(a, (int, float)) or not isinstance(b, (int, float)):
        return a == b or isinstance(a, str)
    return math.isclose(a, b, rel_tol=_CLOSE, abs_tol=1e-3) or (a != a and b != b)  # noqa: PLR0124


def compare(tally: Tally, name: str, before: Said, after: Said, *, lossy: bool) -> None:
    """Add one comparison."""
    tally.total += 1
    lost = sorted(set(before.loud) - set(after.loud))
    new = sorted(set(after.loud) - set(before.loud))
    odd = [f"{i}:{k}" for i in before.loud if i in after.loud for k in differing(before.loud[i], after.loud[i])]
    kept = before.primary == after.primary
    # A loss that the tool names itself is no silent one.
    named = bool(lost or not kept) and len(after.skipped) > len(before.skipped)
    tally.primary += kept
    tally.lost += bool(lost)
    tally.named += named
    tally.new += bool(new)
    tally.values += bool(odd)
    tally.failed += bool(after.failed)
    same = not (lost or new or odd or after.failed) and kept
    tally.same += same
    if not same:
        words = [f"lost {', '.join(lost)}"] * bool(lost) + [f"new {', '.join(new)}"] * bool(new)
        words += [f"values {', '.join(odd)}"] * bool(odd) + [f"failed {after.failed}"] * bool(after.failed)
        words += [f"primary {before.primary or 'none'} -> {after.primary or 'none'}"] * (not kept)
        words += [f"(named: {after.skipped[-1]})"] if named else []
        tally.notes.append(f"{name}: {'; '.join(words)}{' (lossy)' * lossy}")


def apply(files: Files, chain: Sequence[Wrapping]) -> Files | None:
    """The files in all these wrappings, the first one innermost; None where one has nothing to do."""
    for wrapping in chain:
        changed = wrapping.change(files)
        same_way = not (wrapping.pack or wrapping.stdin)
        if not changed or (same_way and changed == files and list(changed) == list(files)):
            return None
        files = changed
    return files


def run(
    chains: Mapping[str, Sequence[Wrapping]], cases: Mapping[str, Files], before: Mapping[str, Said]
) -> dict[str, Tally]:
    """Compare every case in every chain of wrappings."""
    tallies: dict[str, Tally] = {}
    for name, chain in chains.items():
        tally = tallies[name] = Tally()
        for case, files in cases.items():
            made = apply(files, chain)
            if made is None:
                continue
            try:
                after = say(made, chain[-1])
            except OSError as error:  # a name that this file system does not take
                after = Said({}, failed=str(error))
            compare(tally, case, before[case], after, lossy=any(w.lossy for w in chain))
    return tallies


def pairs(seed: int, count: int) -> dict[str, Sequence[Wrapping]]:
    """Pairs drawn by chance: what is packed or piped comes last."""
    inner = [w for w in WRAPPINGS.values() if not (w.pack or w.stdin)]
    every = [(a, b) for a, b in itertools.product(inner, WRAPPINGS.values()) if a is not b]
    drawn = random.Random(seed).sample(every, min(count, len(every)))
    return {f"{a.name} + {b.name}": (a, b) for a, b in drawn}


def main() -> int:
    """Print the table. Returns 1 if a wrapping made something fail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="wrappings whose name holds this")
    parser.add_argument("--cases", default="", metavar="TEXT", help="cases whose name holds this")
    parser.add_argument("--pairs", type=int, default=0, metavar="N", help="N pairs of wrappings instead of single ones")
    parser.add_argument("--each", type=int, default=1, metavar="K", help="every Kth case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--notes", type=int, default=0, metavar="N", help="this many differences of each wrapping")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table there")
    given = parser.parse_args()
    cases = {n: f for i, (n, f) in enumerate(inputs()) if given.cases in n and i % given.each == 0}
    before = {n: say(f) for n, f in cases.items()}
    chains: dict[str, Sequence[Wrapping]] = (
        pairs(given.seed, given.pairs) if given.pairs else {n: (w,) for n, w in WRAPPINGS.items()}
    )
    chains = {n: c for n, c in chains.items() if given.only in n}
    print(
        f"{'wrapping':34}{'of':>5}{'same':>6}{'primary':>9}{'lost':>6}{'named':>6}{'new':>5}{'values':>8}{'failed':>8}"
    )
    total = Tally()
    began = time.monotonic()
    made: dict[str, dict[str, int]] = {}
    for name, chain in chains.items():
        tally = run({name: chain}, cases, before)[name]
        row = {k: v for k, v in vars(tally).items() if k != "notes"}
        made[name] = row
        for key, value in row.items():
            setattr(total, key, getattr(total, key) + value)
        _print(name, tally)
        for note in tally.notes[: given.notes]:
            print(f"    {note}")
    _print("total", total)
    print(f"{len(cases)} cases, {time.monotonic() - began:.0f} s")
    if given.json:
        with contextlib.suppress(OSError):
            given.json.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return 1 if total.failed else 0


def _print(name: str, t: Tally) -> None:
    print(
        f"{name:34}{t.total:5}{t.same:6}{t.primary:9}{t.lost:6}{t.named:6}{t.new:5}{t.values:8}{t.failed:8}", flush=True
    )


if __name__ == "__main__":
    raise SystemExit(main())
