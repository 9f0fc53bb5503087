"""What watching costs: alternating trainings with and without it, in child processes. See scripts/bench-overhead."""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from bench_overhead_train import MODES, tight_loop, train  # beside this file, also for its test

PATIENT = """import sys
from traceml_ai.launcher import cli, commands
commands.DEFAULT_TCP_READY_TIMEOUT_SEC = 120  # its aggregator imports torch, too: too long on a busy machine
sys.exit(cli.main())"""
PEERS = ("torch_profiler", "traceml")


def quads(values: Sequence[float]) -> list[float]:
    """The ratio on / off of each four steps off, on, on, off: a slow drift of the machine cancels out."""
    whole = len(values) // 4 * 4
    return [(values[i + 1] + values[i + 2]) / (values[i] + values[i + 3]) for i in range(0, whole, 4)]


def median_interval(values: Sequence[float], *, draws: int = 2000) -> tuple[float, float, float]:
    """The median and its 95 % bootstrap interval."""
    rng = random.Random(0)
    drawn = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(draws))
    return statistics.median(values), drawn[round(0.025 * draws)], drawn[round(0.975 * draws) - 1]


def run(mode: str, number: int, options: argparse.Namespace, data: str, *, steps: int = 0) -> dict[str, Any]:
    """One training in a child process."""
    folder = options.folder / f"{number:02d}-{mode}"
    folder.mkdir(parents=True)
    out = folder / "out.json"
    child = [str(Path(__file__)), "--child", mode, "--folder", str(folder), "--data", data]
    child += ["--steps", str(steps or options.steps)]
    command = [sys.executable, *child]
    env = {
        **os.environ,
        "YOLO_CONFIG_DIR": str(options.folder / "config"),
        "YOLO_OFFLINE": "true",
        "YOLO_AUTOINSTALL": "false",
        "OMP_WAIT_POLICY": "PASSIVE",  # threads that spin would count other people's load as our CPU time
    }
    if mode == "traceml":
        command = [str(Path(options.traceml) / "bin" / "python"), "-c", PATIENT]
        command += ["run", "--logs-dir", str(folder), child[0], "--args", *child[1:]]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with (folder / "log").open("w") as log:
        done = subprocess.run(command, env=env, cwd=folder, stdout=log, stderr=log, check=False, timeout=3600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not out.exists():
        raise RuntimeError(f"{mode}: exit code {done.returncode}: {(folder / 'log').read_text()[-800:]}")
    result: dict[str, Any] = {"mode": mode, **json.loads(out.read_text())}
    return {**result, "all_cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def ratio(pairs: Sequence[tuple[Any, Any]], what: str) -> tuple[float, float, float]:
    """Median over pairs of (median step with / without), and its 95 % bootstrap interval over pairs and their steps."""
    rng = random.Random(0)

    def once(drawn: Sequence[tuple[Any, Any]], pick: Callable[[list[float]], list[float]]) -> float:
        return statistics.median(statistics.median(pick(b[what])) / statistics.median(pick(a[what])) for a, b in drawn)

    draws = sorted(
        once(rng.choices(pairs, k=len(pairs)), lambda steps: rng.choices(steps, k=len(steps))) for _ in range(1000)
    )
    return once(pairs, lambda steps: steps), draws[25], draws[974]


def row(name: str, pairs: Sequence[tuple[Any, Any]]) -> str:
    """One line of the table."""
    cells = []
    for what in ("cpu", "wall"):
        middle, low, high = ratio(pairs, what)
        cells.append(f"{(middle - 1) * 100:+6.2f} % [{(low - 1) * 100:+.2f}, {(high - 1) * 100:+.2f}]")
    whole = [b["all_cpu"] - a["all_cpu"] for a, b in pairs if "all_cpu" in a]
    more = f"{statistics.median(whole):+.2f} s" if whole else ""
    return f"{name:18} {len(pairs):5}   {cells[0]:28} {cells[1]:28} {more}"


def parent_pss_mb() -> float:
    """Proportional memory of a process that has imported all that `diag pipeline` holds while training runs."""
    code = "import diag.commands.pipeline, diag.pipeline; print(open('/proc/self/smaps_rollup').read())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return next(int(line.split()[1]) / 1024 for line in told.splitlines() if line.startswith("Pss:"))


def load() -> str:
    """Load averages, and the share of the last ten seconds in which a task waited for a CPU."""
    try:
        pressure = Path("/proc/pressure/cpu").read_text().split("avg10=")[1].split()[0]
    except (OSError, IndexError):
        pressure = "?"
    return f"load {' '.join(f'{x:.1f}' for x in os.getloadavg())} on {os.cpu_count()} CPUs, CPU pressure {pressure} %"


def main() -> int:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 pairs, 60 groups of four steps")
    parser.add_argument("--peers", action="store_true", help="torch.profiler and TraceML in the first two rounds")
    parser.add_argument("--steps", type=int, default=40, help="measured batches of each training")
    parser.add_argument("--pairs", type=int, default=0, help="trainings with and without diag, 8 unless --quick")
    parser.add_argument("--groups", type=int, default=0, help="groups of four steps in one process, 400 unless --quick")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--traceml", default="", help="a virtual environment with traceml-ai==0.5.0")
    parser.add_argument("--data", default="")
    parser.add_argument("--child", choices=MODES)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.child:
        result = train(options.child, options.folder, options.data, options.steps)
        (options.folder / "out.json").write_text(json.dumps(result))
        return 0
    started = time.monotonic()
    count = options.pairs or (2 if options.quick else 8)
    groups = options.groups or (60 if options.quick else 400)

    from diag.dataset.demo import make_demo

    data = str(make_demo(options.folder / "demo", "detect"))
    print(f"before: {load()}", flush=True)
    print(f"recorder in a tight loop: {tight_loop(options.folder):.1f} microseconds of CPU a batch", flush=True)
    run("plain", 0, options, data)  # caches of files and settings
    why_not: dict[str, str] = {}
    if not options.peers:
        why_not = dict.fromkeys(PEERS, "--peers was not given")
    elif not options.traceml:
        why_not = {"traceml": "its environment could not be built"}
    pairs = measure(options, data, count, why_not)
    step_ms = statistics.median(statistics.median(a["cpu"]) for a, _ in pairs["diag"]) * 1e3
    print(f"plain Ultralytics, yolo11n, 160 px, batch 4: {step_ms:.0f} ms of CPU a step, {options.steps} steps a run\n")
    print(f"{'':18} {'pairs':>5}   {'CPU time a step, 95 %':28} {'wall time a step, 95 %':28} whole run, all processes")
    for mode, found in pairs.items():
        print(row(mode, found) if found else f"{mode:18} not run: {why_not.get(mode, '')}", flush=True)
    one = run("interleaved", 80, options, data, steps=4 * groups)
    print(f"\nrecorder off, on, on, off by steps in one process, {groups} groups of four:")
    for what in ("cpu", "wall"):
        ratios = quads(one[what])
        middle, low, high = ((x - 1) * 100 for x in median_interval(ratios))
        first, _, third = statistics.quantiles(ratios, n=4)
        rest = (
            f"step {statistics.median(one[what]) * 1e3:.0f} ms; half of the groups within {(third - first) * 100:.1f} %"
        )
        print(f"  {what:4} {middle:+.2f} % [{low:+.2f}, {high:+.2f}]   ({rest})")
    recorded = [b for _, b in pairs["diag"]]
    print(f"\ncounters process, by its own clock: {counters_cost(recorded)}")
    print(f"pipeline process: {parent_pss_mb():.0f} MB PSS while it waits for the training")
    print(f"after: {load()}; {time.monotonic() - started:.0f} s in all")
    return 0


def measure(options: argparse.Namespace, data: str, count: int, why_not: dict[str, str]) -> dict[str, list[Any]]:
    """Rounds of A B ..., ... B A: diag in all, the peers in the first two. Pairs (plain, watched) by mode."""
    pairs: dict[str, list[Any]] = {"diag": [], **{mode: [] for mode in PEERS}}
    number = 0
    for turn in range(count):
        modes = ["plain", "diag", *(mode for mode in PEERS if mode not in why_not and turn < 2)]
        found = {}
        for mode in modes if turn % 2 == 0 else reversed(modes):
            number += 1
            try:
                found[mode] = run(mode, number, options, data)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                if mode not in PEERS:
                    raise
                why_not[mode] = str(error).replace("\n", " ")[-300:]
        for mode in set(found) - {"plain"}:
            pairs[mode].append((found["plain"], found[mode]))
        print(f"round {turn + 1} of {count}: {load()}", file=sys.stderr, flush=True)
    return pairs


def counters_cost(recorded: Sequence[Mapping[str, Any]]) -> str:
    """What the counters processes of these runs said of themselves in trace/counters.jsonl."""
    costs = [(one["counters_cost"], one["counters_s"]) for one in recorded]
    share = statistics.median(cost["cpu_s"] / seconds for cost, seconds in costs)
    start = statistics.median(cost["start_cpu_s"] for cost, _ in costs)
    look = statistics.median((cost["cpu_s"] - cost["start_cpu_s"]) / max(cost["looks"], 1) for cost, _ in costs)
    seconds = statistics.median(seconds for _, seconds in costs)
    pss = statistics.median(one["counters_pss_mb"] for one in recorded)
    return (
        f"{share * 100:.2f} % of one core in runs of {seconds:.0f} s, its start of {start * 1e3:.0f} ms included; "
        f"{look * 1e3:.2f} ms a look; {pss:.0f} MB PSS"
    )


if __name__ == "__main__":
    raise SystemExit(main())
