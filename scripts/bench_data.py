"""Inject one defect at a time into copies of real sets and print what the data doctor names."""

import argparse
import re
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

import bench_kinds as kinds  # noqa: E402
import bench_kinds_more as more  # noqa: E402
import bench_sets as sets  # noqa: E402
from bench_mutations import Bench, Expected  # noqa: E402

from diag.dataset.audit import audit  # noqa: E402
from diag.dataset.report import findings_of  # noqa: E402
from diag.dataset.resolve import resolve  # noqa: E402
from diag.errors import InputError  # noqa: E402

SHARED = ROOT.parent / "shared" / "data"
FOLLOWS = {"class_oob", "class_imbalance", "val_shift", "dup_images"}
"""What a wrong yaml or a lost class folder brings about beside itself."""

Found = set[tuple[str, str, int | None, str]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench-data")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", default="", help="sets, separated by commas")
    parser.add_argument(
        "--speed", metavar="SET", nargs="?", const="bccd", default="", help="bccd, synthetic, links or small"
    )
    parser.add_argument(
        "--peer", action="append", default=[], metavar="TOOL=PYTHON", help="as scripts/bench-data sets it"
    )
    parser.add_argument("--hints", nargs="?", const="demo", default="", choices=("", "demo", "bccd"))
    parser.add_argument("--share", type=float, default=0.03, help="noise of each kind for --hints")
    parser.add_argument("--seed", type=int, default=0, help="seed of --hints")
    parser.add_argument("--images", type=int, default=10_000, help="size of the made sets of --speed")
    args = parser.parse_args()
    if not SHARED.is_dir() and args.hints != "demo":
        print("not run: no ../shared", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        if args.speed:
            import bench_speed

            if args.speed not in bench_speed.SETS:
                parser.error(f"--speed {args.speed}: one of {', '.join(bench_speed.SETS)}")
            return bench_speed.main(SHARED, Path(folder), args.images, args.speed)
        if args.hints:
            import bench_hints

            return bench_hints.main(SHARED, Path(folder), args.hints, args.share, args.seed)
        if args.peer:
            import bench_data_peers

            wanted = set(filter(None, args.only.split(",")))
            return bench_data_peers.compare(plan(), Path(folder), dict(p.split("=", 1) for p in args.peer), wanted)
        return mutate(Path(folder), args.seeds, set(filter(None, args.only.split(","))))


def plan() -> dict[str, tuple[str, dict[str, kinds.Kind], Callable[[Path], Path]]]:
    """Sets by name: their task, the kinds of defects, and how a writable copy is made."""
    bccd = SHARED / "bccd"
    return {
        "bccd": ("detect", kinds.DETECT, lambda t: sets.copy_set(bccd, t)),
        "coco128": ("detect", kinds.DETECT, lambda t: sets.copy_set(SHARED / "coco128", t)),
        "coco128-seg": ("segment", more.SEGMENT, lambda t: sets.copy_set(SHARED / "coco128-seg", t)),
        "pose": ("pose", more.POSE, lambda t: sets.pose_set(bccd, t)),
        "obb": ("obb", more.OBB, lambda t: sets.obb_set(bccd, t)),
        "cls": ("classify", more.CLASSIFY, lambda t: sets.classify_set(bccd, t)),
    }


def mutate(folder: Path, seeds: int, only: set[str]) -> int:
    named: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    extra = 0
    print(f"{'set':12} {'kind':24} {'named':6} found as; what else was newly reported")
    for name, (task, table, make) in plan().items():
        if only and name not in only:
            continue
        data = make(folder / name)
        cache = folder / f"{name}.cache"
        before = found(data, task, cache)
        for kind, change in table.items():
            for seed in range(seeds):
                bench = Bench(data, Random(f"{name} {kind} {seed}"))
                expected = change(bench)
                try:
                    now = found(data, task, cache)
                finally:
                    bench.undo()
                verdict, what, others = compare(now - before, expected, quiet=kind in kinds.CONTROLS)
                named[task][kind].append(verdict)
                extra += len(others)
                print(
                    f"{name:12} {kind:24} {verdict:6} {what}{'; ELSE: ' + '; '.join(others) if others else ''}",
                    flush=True,
                )
        shutil.rmtree(folder / name, ignore_errors=True)
    return summary(named, extra)


def found(data: Path, task: str, cache: Path) -> Found:
    """What is reported: finding, file, line, and the file it clashes with."""
    try:
        spec = resolve(str(data), task, cwd=Path.cwd(), datasets_dir=Path("/nowhere"))
    except InputError as error:
        return {("input error", str(data), None, str(error))}
    result = audit(spec, level="look", cache=cache)
    ids = {f.id.removeprefix("data.") for f in findings_of(result.dataset)}
    places = {(fault, p.file, p.line, p.other) for fault, p in result.faults.all() if fault in ids}
    told = {fault for fault, *_ in places}
    return places | {(f, str(data), None, "") for f in ids - told}


def compare(new: Found, expected: Expected, *, quiet: bool) -> tuple[str, str, list[str]]:
    """`row`, `file`, `-` (not named) or `quiet`; the findings that name it; and what was said of other files."""
    hits = [n for n in new if n[1] in expected.files or re.sub(r":\d+$", "", n[3]) in expected.files]
    hits += [n for n in new if n[0] == "input error"]
    rest = [n for n in sorted(new, key=str) if n not in hits]
    if any(n[1].endswith("data.yaml") for n in hits):  # a fault of the yaml has its symptoms in the files
        rest = [n for n in rest if n[0] not in {h[0] for h in hits} | FOLLOWS]
    if any(n[0] == "cls_folder_mismatch" for n in hits):
        rest = [n for n in rest if n[0] not in FOLLOWS]
    others = [f"{n[0]} {n[1]}:{n[2]}" for n in rest]
    what = ", ".join(sorted({n[0] for n in hits}))
    if quiet:
        return ("quiet" if not new else "-"), what, others
    lines = {n[2] for n in hits} | {int(n[3].rpartition(":")[2]) for n in hits if re.search(r":\d+$", n[3])}
    if not hits or (expected.line is not None and expected.line not in lines):
        return "-", what, others
    return ("row" if expected.line is not None else "file"), what, others


def summary(named: dict[str, dict[str, list[str]]], extra: int) -> int:
    """A line a task: kinds that were named at every seed. Fails under 95 % of detect or 90 % of the others."""
    failed = False
    print()
    for task, table in named.items():
        harmful = {k: v for k, v in table.items() if k not in kinds.CONTROLS}
        good = sum("-" not in v for v in harmful.values())
        quiet = all(v == "quiet" for k, vs in table.items() if k in kinds.CONTROLS for v in vs)
        share = good / len(harmful)
        failed |= share < (0.95 if task == "detect" else 0.90) or not quiet
        missed = ", ".join(k for k, v in harmful.items() if "-" in v) or "none"
        print(f"{task:9} {good} of {len(harmful)} kinds ({share:.0%}), missed: {missed}; controls quiet: {quiet}")
    print(f"reported elsewhere: {extra}")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
