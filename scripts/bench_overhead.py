"""What watching costs: alternating trainings with and without it, in child processes. See scripts/bench-overhead."""

import argparse
import contextlib
import itertools
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

WARMUP = 5
BLOCK = 6
"""Batches of one state in the interleaved training; the first of each block is left out."""
MODES = ("plain", "recorder", "interleaved", "torch_profiler", "traceml")


class Done(BaseException):
    """Enough batches."""


def train(mode: str, folder: Path, data: str, steps: int) -> dict[str, Any]:
    """One training of so many batches in this process; CPU and wall seconds of each batch."""
    ends: list[tuple[float, float]] = []
    facts: dict[str, Any] = {}
    finish: list[Callable[[], None]] = []

    def batch_end(_: Any) -> None:
        ends.append((time.process_time(), time.perf_counter()))
        if len(ends) > WARMUP + steps:
            for work in finish:
                work()
            raise Done

    from ultralytics import YOLO

    model = YOLO("yolo11n.yaml")
    trainer = None
    if mode == "recorder":
        trainer = _with_recorder(folder, model, facts, finish)
    elif mode == "interleaved":
        trainer = _interleaved(folder, model)
    elif mode == "torch_profiler":
        _with_torch_profiler(model, finish)
    elif mode == "traceml":
        _with_traceml(model)
    model.add_callback("on_train_batch_end", batch_end)
    args = {"data": data, "imgsz": 160, "batch": 4, "epochs": 100, "device": "cpu", "seed": 0, "val": False}
    args |= {"plots": False, "save": False, "project": str(folder), "name": "u", "exist_ok": True, "verbose": False}
    with contextlib.suppress(Done):
        model.train(trainer=trainer, **args)
    laps = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(ends[WARMUP:])]
    return {"cpu": [c for c, _ in laps], "wall": [w for _, w in laps], **facts}


def _with_recorder(folder: Path, model: Any, facts: dict[str, Any], finish: list[Callable[[], None]]) -> Any:
    """What `diag train` does: the recording trainer, train.log, the trace, and the counters process beside it."""
    from diag.counters.proc import read, read_process
    from diag.counters.process import CountersProcess
    from diag.record.alive import Heartbeat, stacks_on_signal
    from diag.record.trainer import trainer_for

    os.environ["DIAG_RUN_DIR"] = str(folder)
    stacks_on_signal(folder)
    model.add_callback("on_val_batch_end", Heartbeat(folder))
    counters = CountersProcess(folder, {})
    counters.start(os.getpid())
    started = time.perf_counter()
    pid = counters._process.pid if counters._process else 0

    def end() -> None:
        used, seconds = read_process(pid), time.perf_counter() - started
        memory = read(f"/proc/{pid}/smaps_rollup").decode()
        pss = next((int(line.split()[1]) / 1024 for line in memory.splitlines() if line.startswith("Pss:")), 0.0)
        facts.update(counters_share=used.cpu_s / seconds if used else None, counters_pss_mb=pss)
        counters.stop()

    finish.append(end)
    return trainer_for(model)


def _interleaved(folder: Path, model: Any) -> Any:
    """The recording trainer with its recorder off, on, on, off by blocks: processes differ more than that costs."""
    from diag.record.trainer import trainer_for

    os.environ["DIAG_RUN_DIR"] = str(folder)
    seen = 0

    def switch(trainer: Any) -> None:
        nonlocal seen
        recorder = trainer._diag
        if (seen - WARMUP) % BLOCK == 0:
            recorder._in_batch = False  # a batch that was begun in the other state is dropped
            for name in ("batch_start", "transferred", "forward_done", "backward_done", "optimizer_done", "batch_end"):
                recorder.__dict__.pop(name, None)
                if not is_on((seen - WARMUP) // BLOCK):
                    setattr(recorder, name, lambda *_: None)
        seen += 1

    model.add_callback("on_train_batch_end", switch)
    return trainer_for(model)


def is_on(block: int) -> bool:
    """A B B A: is the recorder on in this block?"""
    return block % 4 in {1, 2}


def blocks(result: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Pairs of neighbouring blocks (off, on) of an interleaved training."""
    parts = []
    for start in range(0, len(result["cpu"]) - BLOCK + 1, BLOCK):
        inner = slice(start + 1, start + BLOCK)
        parts.append({"cpu": result["cpu"][inner], "wall": result["wall"][inner]})
    return [(parts[i], parts[i + 1]) if is_on(i + 1) else (parts[i + 1], parts[i]) for i in range(0, len(parts) - 1, 2)]


def _with_torch_profiler(model: Any, finish: list[Callable[[], None]]) -> None:
    """The profiler as its tutorial has it, stepping in cycles (wait 1, warm up 1, record 3) for the whole run."""
    from torch.profiler import ProfilerActivity, profile, schedule

    profiler = profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=3))
    model.add_callback("on_train_start", lambda _: profiler.start())
    model.add_callback("on_train_batch_end", lambda _: profiler.step())
    finish.append(profiler.stop)


def _with_traceml(model: Any) -> None:
    """TraceML's documented API through Ultralytics' callbacks; run by `traceml run`."""
    import traceml_ai as traceml

    traceml.init(mode="auto")
    steps: list[Any] = []

    def enter(trainer: Any) -> None:
        steps.append(traceml.trace_step(trainer.model))
        steps[-1].__enter__()

    model.add_callback("on_train_batch_start", enter)
    model.add_callback("on_train_batch_end", lambda _: steps.pop().__exit__(None, None, None))


def tight_loop(folder: Path, *, count: int = 5000, repeats: int = 5) -> float:
    """Microseconds of CPU that the recorder takes for one batch, files included; median of the repeats."""
    from diag.record.recorder import Recorder

    found = []
    for repeat in range(repeats):
        recorder = Recorder(str(folder / f"loop{repeat}"), 0)
        recorder.epoch_start(0, 4)
        started = time.process_time()
        for _ in range(count):
            recorder.batch_start()
            recorder.transferred()
            recorder.forward_done()
            recorder.backward_done()
            recorder.optimizer_done()
            recorder.batch_end(1, count)
        found.append((time.process_time() - started) / count * 1e6)
    return statistics.median(found)


def run(mode: str, number: int, options: argparse.Namespace, data: str, *, steps: int = 0) -> dict[str, Any]:
    """One training in a child process."""
    folder = options.folder / f"{number:02d}-{mode}"
    folder.mkdir(parents=True)
    out = folder / "out.json"
    child = [
        str(Path(__file__)),
        "--child",
        mode,
        "--folder",
        str(folder),
        "--data",
        data,
        "--steps",
        str(steps or options.steps),
    ]
    command = [sys.executable, *child]
    env = {
        **os.environ,
        "YOLO_CONFIG_DIR": str(options.folder / "config"),
        "YOLO_OFFLINE": "true",
        "YOLO_AUTOINSTALL": "false",
        "OMP_WAIT_POLICY": "PASSIVE",  # threads that spin would count other people's load as our CPU time
    }
    if mode == "traceml":
        command = [str(Path(options.traceml) / "bin" / "traceml"), "run", child[0], "--args", *child[1:]]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with (folder / "log").open("w") as log:
        done = subprocess.run(command, env=env, cwd=folder, stdout=log, stderr=log, check=False, timeout=900)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not out.exists():
        raise RuntimeError(f"{mode}: exit code {done.returncode}: {(folder / 'log').read_text()[-800:]}")
    result: dict[str, Any] = json.loads(out.read_text())
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
    parser.add_argument("--quick", action="store_true", help="2 pairs")
    parser.add_argument("--peers", action="store_true", help="torch.profiler and TraceML, too")
    parser.add_argument("--steps", type=int, default=40, help="measured batches of each training")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--traceml", default="")
    parser.add_argument("--data", default="")
    parser.add_argument("--child", choices=MODES)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.child:
        result = train(options.child, options.folder, options.data, options.steps)
        (options.folder / "out.json").write_text(json.dumps(result))
        return 0

    from diag.dataset.demo import make_demo

    data = str(make_demo(options.folder / "demo", "detect"))
    print(f"before: {load()}", flush=True)
    print(f"recorder in a tight loop: {tight_loop(options.folder):.1f} microseconds of CPU a batch", flush=True)
    run("plain", 0, options, data)  # caches of files and settings
    pairs: list[tuple[Any, Any]] = []
    count = 2 if options.quick else 8
    for number in range(count):  # A B, B A, A B ...
        order = ("plain", "recorder") if number % 2 == 0 else ("recorder", "plain")
        found = {mode: run(mode, 2 * number + 1 + i, options, data) for i, mode in enumerate(order)}
        pairs.append((found["plain"], found["recorder"]))
        print(f"pair {number + 1} of {count}: {load()}", file=sys.stderr, flush=True)
    step_ms = statistics.median(statistics.median(a["cpu"]) for a, _ in pairs) * 1e3
    print(f"plain Ultralytics, yolo11n, 160 px, batch 4: {step_ms:.0f} ms of CPU a step, {options.steps} steps a run\n")
    print(f"{'':18} {'pairs':>5}   {'CPU time a step, 95 %':28} {'wall time a step, 95 %':28} whole run, all processes")
    print(row("diag", pairs))
    one = run("interleaved", 80, options, data, steps=(20 if options.quick else 80) * BLOCK)
    print(row("diag, one process", blocks(one)))
    if options.peers:
        for number, mode in enumerate(("torch_profiler", *(["traceml"] if options.traceml else []))):
            try:
                both = [(run("plain", 90 + 4 * number, options, data), run(mode, 91 + 4 * number, options, data))]
                both.append((run("plain", 93 + 4 * number, options, data), run(mode, 92 + 4 * number, options, data)))
                print(row(mode, both))
            except (RuntimeError, StopIteration) as error:
                print(f"{mode}: not measured: {error}")
    recorded = [b for _, b in pairs]
    share = statistics.median(b["counters_share"] for b in recorded)
    pss = statistics.median(b["counters_pss_mb"] for b in recorded)
    print(f"\ncounters process: {share * 100:.2f} % of one core (its start included), {pss:.0f} MB PSS")
    print(f"pipeline process: {parent_pss_mb():.0f} MB PSS while it waits for the training")
    print(f"after: {load()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
