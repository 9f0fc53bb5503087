"""`scripts/bench-kill [POINT ...]`: kill a training at each point, go on, and print a table."""

import sys
import tempfile
from pathlib import Path

from tests.kill.points import POINTS, expected_epochs, kill_and_resume, make_data, rows, train


def main(points: list[str]) -> int:
    """Returns 1 when a point failed, 2 for an unknown one."""
    if unknown := [p for p in points if p not in POINTS]:
        print(f"unknown: {' '.join(unknown)}; points: {' '.join(POINTS)}", file=sys.stderr)
        return 2
    chosen = points or list(POINTS)
    with tempfile.TemporaryDirectory(prefix="bench-kill-") as folder:
        root = Path(folder)
        data = make_data(root / "set")
        print("an uninterrupted run ...", file=sys.stderr, flush=True)
        done = train(root, data, "whole")
        if done.returncode:
            print(done.stdout[-3000:] + done.stderr[-3000:], file=sys.stderr)
            return 1
        whole = rows(root / "runs" / "whole")
        print(
            "| killed at | where | saved epochs | resumed | seconds | result |\n| --- | --- | ---: | --- | ---: | --- |"
        )
        failed = 0
        for number, point in enumerate(chosen):
            print(f"{number + 1}/{len(chosen)} {point} ...", file=sys.stderr, flush=True)
            outcome = kill_and_resume(root, data, point, whole)
            faults = list(outcome.faults)
            if outcome.saved != expected_epochs(point):
                faults.append(f"went on after {outcome.saved} epochs, not {expected_epochs(point)}")
            failed += bool(faults)
            cells = (
                f"`{point}`", POINTS[point], str(expected_epochs(point)), outcome.resumed, f"{outcome.seconds:.0f}",
                "; ".join(faults) or "equal",
            )  # fmt: skip
            print(f"| {' | '.join(cells)} |", flush=True)
        print(f"\n{len(chosen) - failed} of {len(chosen)} points: the same results.csv as the whole run")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
