"""One fault: prepare what surrounds it, train for real, let diag judge what the training left."""

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bench_faults_data import dataset
from bench_faults_list import NEVER, Fault, known

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(os.environ.get("VENV") or ROOT / ".venv") / "bin"
DIAG = BIN / "diag"
INJECT = ROOT / "scripts" / "bench_faults_inject"
LIMIT_S = 1800
WEIGHTS = known()["healthy_detect"]
"""The training whose weights other rows start from."""


class NotRunError(Exception):
    """This machine does not allow the fault; the text says why."""


@dataclass(frozen=True)
class Place:
    """Where the benchmark keeps its things."""

    keep: Path

    @property
    def workspace(self) -> Path:
        return self.keep / "workspace"

    def run_dir(self, fault: Fault) -> Path:
        return self.workspace / "runs" / fault.name

    def result(self, fault: Fault) -> Path:
        return self.keep / "results" / f"{fault.name}.json"


def train(fault: Fault, place: Place) -> float:
    """Train with the fault; returns the seconds it took. Raises NotRunError."""
    run_dir = place.run_dir(fault)
    shutil.rmtree(run_dir, ignore_errors=True)
    data = dataset(fault.data, place.keep / "data")
    words = [word.replace("WEIGHTS", str(weights(place))) if "WEIGHTS" in word else word for word in fault.words]
    if not any(word.startswith("model=") for word in words):
        words.append("model=yolo11n.yaml")
    words = [f"data={data}", *words, "device=cpu"]
    env = {**os.environ, "OFFLINE": "1", "WORKSPACE": str(place.workspace), **dict(fault.env)}
    if fault.inject:
        paths = [str(INJECT), *env.get("PYTHONPATH", "").split(os.pathsep)]
        env |= {"BENCH_FAULT": fault.inject, "PYTHONPATH": os.pathsep.join(p for p in paths if p)}
    start = time.monotonic()
    if fault.command == "plain_resume":
        _plain(words, run_dir, env, resume=False)
        _plain(words, run_dir, {**env, "BENCH_FAULT": ""}, resume=True)
        return time.monotonic() - start
    command = [str(DIAG), *fault.command.replace("again", "train").split(), *words, f"name={fault.name}"]
    if fault.command == "pipeline":
        command.append("--no-smoke")
    with surrounded(fault, place, env) as prefix:
        with (place.keep / "logs" / f"{fault.name}.log").open("wb") as log:
            call([*prefix, *command], env, log)
            if fault.command == "again":  # the same words go on with the run; nothing is injected any more
                call([*prefix, *command], {**env, "BENCH_FAULT": ""}, log)
        if fault.around.startswith("readonly"):
            run_dir.mkdir(parents=True, exist_ok=True)
            found = subprocess.run(
                [*prefix, str(DIAG), "check", "--format", "json"], env=env, capture_output=True, check=False
            )
            (run_dir / "check.json").write_bytes(found.stdout)
    return time.monotonic() - start


def _plain(words: Sequence[str], folder: Path, env: dict[str, str], *, resume: bool) -> None:
    """Ultralytics without diag, its console in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    env = {**env, "YOLO_OFFLINE": "true", "YOLO_CONFIG_DIR": str(folder.parent.parent / "cache" / "plain")}
    with (folder / "console.log").open("ab") as log:
        script = str(ROOT / "scripts" / "bench_plain.py")
        call([str(BIN / "python"), script, str(folder), "resume" if resume else "new", *words], env, log)


def call(command: Sequence[str], env: dict[str, str], log: IO[bytes]) -> None:
    """Run a command to its end, whatever that is. If we are stopped, it is asked to stop, too, and waited for."""
    process = subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)
    try:
        process.wait(LIMIT_S)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(120)


def weights(place: Place) -> Path:
    """Weights that know the demo shapes: those of the row healthy_detect, which is trained when it is missing."""
    best = place.run_dir(WEIGHTS) / "ultralytics" / "weights" / "best.pt"
    kept = place.keep / "weights" / "shapes.pt"
    if not kept.exists():
        if not best.exists() or not place.result(WEIGHTS).exists():
            seconds = train(WEIGHTS, place)
            place.result(WEIGHTS).write_text(json.dumps({"seconds": seconds, **judge(WEIGHTS, place)}))
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(best, kept)
    return kept


@contextlib.contextmanager
def surrounded(fault: Fault, place: Place, env: dict[str, str]) -> Iterator[list[str]]:
    """Words before the command that put it into its surroundings. Raises NotRunError."""
    kind, _, value = fault.around.partition("=")
    with contextlib.ExitStack() as stack:
        match kind:
            case "":
                yield []
            case "cpus":
                group = stack.enter_context(_group("cpu", float(value)))
                yield _enter(group)
                stat = dict(line.split() for line in (group / "cpu.stat").read_text().splitlines())
                if int(stat["nr_throttled"]) < 0.1 * int(stat["nr_periods"]):
                    raise NotRunError("the quota held nobody back: others left this training less than that")
            case "ample_cpus":
                yield _enter(stack.enter_context(_group("cpu", float(value))))
            case "memory":
                yield _enter(stack.enter_context(_group("memory", float(value) * 1e6)))
            case "shm":
                mount = f"mount -t tmpfs -o size={value} tmpfs /dev/shm"
                _allowed(["unshare", "-m", "sh", "-c", mount])
                yield ["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh"]
            case "disk" | "readonly":
                small = place.keep / "mount"
                small.mkdir(exist_ok=True)
                _allowed(
                    ["mount", "-t", "tmpfs", "-o", f"size={value if kind == 'disk' else '1m'}", "tmpfs", str(small)]
                )
                stack.callback(subprocess.run, ["umount", "-l", str(small)], check=False)
                if kind == "readonly":
                    _allowed(["mount", "-o", "remount,ro", str(small)])
                env["WORKSPACE"] = str(small)
                env.setdefault("YOLO_CONFIG_DIR", str(_settings(place)))
                yield []
                if kind == "disk":
                    shutil.copytree(small / "runs" / fault.name, place.run_dir(fault), symlinks=True)
            case _:
                raise ValueError(fault.around)


def _settings(place: Place) -> Path:
    """Ultralytics' seeded settings of the usual workspace, so that a tiny one need not hold them."""
    found = sorted((place.workspace / "cache").glob("ultralytics-*"))
    if not found:
        weights(place)
        found = sorted((place.workspace / "cache").glob("ultralytics-*"))
    return found[-1]


@contextlib.contextmanager
def _group(controller: str, limit: float) -> Iterator[Path]:
    """A control group of version 1 or 2 with so many CPUs or bytes."""
    first = Path("/sys/fs/cgroup") / controller
    unified = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    group = (Path("/sys/fs/cgroup") if unified else first) / f"diag-bench-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise NotRunError(f"no control group can be made here: {error.strerror}") from error
    try:
        if controller == "cpu":
            text = f"{int(limit * 100000)} 100000"
            files = {"cpu.max": text} if unified else {"cpu.cfs_quota_us": text.split(maxsplit=1)[0]}
        else:
            files = {"memory.max" if unified else "memory.limit_in_bytes": str(int(limit))}
        for name, text in files.items():
            (group / name).write_text(text)
        yield group
    except OSError as error:
        raise NotRunError(f"control group {controller}: {error.strerror}") from error
    finally:
        for _ in range(50):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


def _enter(group: Path) -> list[str]:
    return ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh"]


def _allowed(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotRunError(f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        raise NotRunError(f"{command[0]} is not permitted here: {done.stderr.strip()[:80]}")


def judge(fault: Fault, place: Place) -> dict[str, Any]:
    """What diag says of the run, compared with the list."""
    run_dir = place.run_dir(fault)
    if fault.around.startswith("readonly"):
        checks = json.loads((run_dir / "check.json").read_text())["checks"]
        said = (place.keep / "logs" / f"{fault.name}.log").read_text()
        found = [(c["finding"], "critical") for c in checks if c["status"] == "fail" and c.get("finding")]
        found = found if "can't be written" in said and "Traceback" not in said else []
        return verdict(fault, found)
    found = analyze(run_dir)
    if fault.healthy:
        ended = json.loads((run_dir / "run.json").read_text())["exit_cause"]["kind"]
        if ended != "finished":
            found = [(f"did not finish: {ended}", "critical"), *found]
    return verdict(fault, found)


def analyze(path: Path) -> list[tuple[str, str]]:
    """The findings (id, severity) of `diag analyze`, first one first."""
    done = subprocess.run(
        [str(DIAG), "analyze", str(path), "--format", "json"], capture_output=True, text=True, check=False
    )
    try:
        document = json.loads(done.stdout)
    except ValueError:
        return [(f"no report: {done.stderr.strip()[-120:]}", "critical")]
    crashed = [(f"crash:{c['id']}", "critical") for c in document["crashed"]]
    return crashed + [(f["id"], f["severity"]) for f in document["findings"]]


def verdict(fault: Fault, found: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Right or wrong, and why."""
    loud = [id for id, severity in found if severity != "info"]
    first = found[0][0] if found else ""
    if fault.healthy:
        right, wrong = not loud, loud
    else:
        wrong = [id for id, _ in found if id in (*fault.wrong, *NEVER) or id.startswith("crash:")]
        told = any(id in fault.right for id, _ in found)
        calm = all(severity in {"info", "low"} for _, severity in found)
        named = told and calm if fault.fact else first in fault.right if fault.right else True
        right = named and not wrong
    return {"first": first, "found": found, "forbidden": wrong, "right": right}


def data_stage(fault: Fault, place: Place) -> list[str]:
    """The findings of `diag data` for the set of a fault."""
    done = subprocess.run(
        [str(DIAG), "data", str(dataset(fault.data, place.keep / "data")), "--format", "json"],
        capture_output=True, text=True, check=False, env={**os.environ, "WORKSPACE": str(place.workspace)},
    )  # fmt: skip
    with contextlib.suppress(ValueError, KeyError):
        return [f["id"] for f in json.loads(done.stdout)["findings"]]
    return []
