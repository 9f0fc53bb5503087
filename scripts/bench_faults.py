"""Run and score the injected faults and the healthy trainings; see scripts/bench-faults --help."""

import argparse
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench_faults_alike import LOOKALIKES
from bench_faults_list import FAULTS, HEALTHY, PEER_FAULTS, Fault, known
from bench_faults_run import ROOT, NotRunError, Place, data_stage, judge, train


def main() -> int:
    """Returns 0 when at least 95 % of the faults are named right and all healthy trainings are left in peace
    and all look-alikes told apart."""
    parser = argparse.ArgumentParser(prog="scripts/bench-faults")
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--keep", type=Path, default=ROOT / ".cache" / "bench-faults")
    parser.add_argument("--again", action="store_true", help="train again although a result is there")
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--with", dest="venv", type=Path)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that mounts and control groups are taken away
    if args.list:
        show_list()
        return 0
    if unknown := set(args.only or ()) - set(known()):
        parser.error(f"no such fault: {', '.join(sorted(unknown))}; see --list")
    place = Place(args.keep.resolve())
    for name in ("results", "logs", "data", "workspace"):
        (place.keep / name).mkdir(parents=True, exist_ok=True)
    if args.peers:
        from bench_faults_peers import compare

        return compare(place, args.venv, only_judge=args.judge)
    rows = [known()[name] for name in args.only] if args.only else [*FAULTS, *HEALTHY, *LOOKALIKES]
    for number, fault in enumerate(rows, 1):
        one(fault, place, again=args.again, only_judge=args.judge, progress=f"{number}/{len(rows)}")
    return table(rows, place)


def one(fault: Fault, place: Place, *, again: bool, only_judge: bool, progress: str) -> dict[str, Any]:
    """Train (unless a result is kept) and judge one row; its result is stored at once."""
    path = place.result(fault)
    kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if kept and not again and not only_judge:
        return kept
    if only_judge and ("seconds" not in kept):
        return kept
    print(f"{progress} {fault.name}: {fault.what}", file=sys.stderr, flush=True)
    try:
        seconds = kept["seconds"] if only_judge else train(fault, place)
        result = {"seconds": seconds, **judge(fault, place)}
        if fault.right and fault.right[0].startswith("data."):
            result["data_stage"] = data_stage(fault, place)
    except NotRunError as error:
        result = {"not_run": str(error)}
    except subprocess.TimeoutExpired as error:
        result = {"seconds": error.timeout, "first": "", "found": [], "forbidden": ["timeout"], "right": False}
    result["when"] = time.strftime("%Y-%m-%d %H:%M")
    path.write_text(json.dumps(result, indent=1))
    word = "not run" if "not_run" in result else "right" if result["right"] else "WRONG"
    print(f"    {word}: {result.get('first') or result.get('not_run', '')}", file=sys.stderr, flush=True)
    return result


def table(rows: list[Fault], place: Place) -> int:
    """Print the table; 1 if the goals are missed."""
    print("| fault | right findings | first finding | | seconds |\n| :-- | :-- | :-- | :-- | --: |")
    counts = {"faults": [0, 0], "healthy": [0, 0], "alike": [0, 0]}
    for fault in rows:
        path = place.result(fault)
        result = json.loads(path.read_text()) if path.exists() else {"not_run": "no result yet"}
        wanted = expected(fault)
        if "not_run" in result:
            print(f"| {fault.name} | {wanted} | | not run: {result['not_run']} | |")
            continue
        kind = "alike" if fault in LOOKALIKES else "healthy" if fault.healthy else "faults"
        counts[kind][0] += result["right"]
        counts[kind][1] += 1
        why = f"; must not: {', '.join(result['forbidden'])}" if result["forbidden"] else ""
        if fault.right and fault.right[0].startswith("data.") and not set(fault.right) & set(result["data_stage"]):
            why += f"; data stage said {', '.join(result['data_stage']) or 'nothing'}"
        word = "right" if result["right"] else f"wrong{why}"
        print(f"| {fault.name} | {wanted} | {result['first']} | {word} | {result['seconds']:.0f} |")
    (named, faults), (quiet, healthy), (told, alike) = counts["faults"], counts["healthy"], counts["alike"]
    print(f"\nfaults named right: {named} of {faults}; healthy trainings left in peace: {quiet} of {healthy}; ", end="")
    print(f"look-alikes told apart: {told} of {alike}")
    return 0 if named >= 0.95 * faults and (quiet, told) == (healthy, alike) else 1


def expected(fault: Fault) -> str:
    """What is right, in words."""
    if fault.healthy:
        return "nothing above info"
    return ", ".join(fault.right) or f"none of {', '.join(fault.wrong)}"


def show_list() -> None:
    """All rows with what is right and what must not be claimed."""
    for fault in (*FAULTS, *HEALTHY, *LOOKALIKES, *PEER_FAULTS):
        print(f"{fault.name}: {fault.what}")
        print(f"    right: {expected(fault)}")
        if fault.wrong:
            print(f"    must not: {', '.join(fault.wrong)}")


if __name__ == "__main__":
    sys.exit(main())
