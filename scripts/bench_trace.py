"""Write a trace as the recorder writes it, then load it in a process of its own and measure that."""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAGES = ("data_wait", "transfer", "forward", "backward", "optimizer", "log")
LIMIT_S, LIMIT_BYTES = 5.0, 10**9


def write(path: Path, steps: int, *, epoch_steps: int = 2000, steps_per_s: int = 10) -> None:
    """Laps of each step, a loader line a second, a validation an epoch; lengths differ so that sorting is work."""
    path.parent.mkdir(parents=True, exist_ok=True)
    clock = 10**15  # a machine that has run for eleven days
    loader = {
        "b": 10, "ns": {"read": 10**7, "decode": 10**8, "augment": 10**8, "collate": 10**6}, "images": 160,
        "loads": 640, "hits": 480, "opened": 160, "bytes": 2**25, "pixels": 10**8,
        "workers": {str(n): [20, 10**8] for n in range(8)},
        "slow": [[f"/workspace/datasets/coco/images/train2017/{n:012d}.jpg", 10**8 + n] for n in range(3)],
    }  # fmt: skip
    with path.open("w") as file:
        file.write(json.dumps({"k": "start", "t": clock, "rank": 0, "version": 1}, separators=(",", ":")) + "\n")
        for n in range(steps):
            laps = [[stage, 10**7 + (n * 7919 + i * 104729) % 10**7] for i, stage in enumerate(STAGES)]
            file.write(f'{{"k":"laps","e":{n // epoch_steps},"n":{n},"t":{clock},"l":{_compact(laps)}}}\n')
            clock += sum(ns for _, ns in laps)
            if n % steps_per_s == 0:
                file.write(_compact({"k": "loader", "e": n // epoch_steps, "n": n, **loader}) + "\n")
            if n % epoch_steps == epoch_steps - 1:
                file.write(f'{{"k":"laps","e":-1,"n":-1,"t":{clock},"l":[["validate",{10**10}]]}}\n')
                clock += 10**10


def load(path: Path) -> None:
    """What `diag analyze` does with a run that has nothing but this trace."""
    from diag.load.run import load_run

    started, cpu = time.perf_counter(), time.process_time()
    evidence = load_run(path)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    steps = evidence.steps
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        _compact(
            {
                "seconds": round(seconds, 2),
                "cpu_seconds": round(cpu, 2),
                "peak_bytes": peak,
                "steps": steps.steps if steps else 0,
            }
        )
    )


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def main(steps: int) -> int:
    """0 if a million steps stay below the limits."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace" / "rank0.jsonl"
        write(path, steps)
        size = path.stat().st_size
        done = subprocess.run(
            [sys.executable, __file__, "--load", folder], check=True, capture_output=True, text=True, cwd=ROOT
        )
    figures = json.loads(done.stdout) | {"file_bytes": size}
    print(_compact(figures))
    scale = max(steps / 1e6, 0.1)  # starting up is not the loader's
    # CPU seconds: the wall clock also counts what the machine's other users do.
    return int(figures["cpu_seconds"] > LIMIT_S * scale or figures["peak_bytes"] > LIMIT_BYTES * scale)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--load"]:
        load(Path(sys.argv[2]))
    else:
        raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))
