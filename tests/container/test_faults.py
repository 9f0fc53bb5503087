"""Faults done to a training in the real image: the right exit code and cause, and nothing that was finished is lost.

More rows of the same table come from test_train.py and test_compose.py.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.container.engine import GROUP, OWNER, ROOT, Container, Engine, command, docker
from tests.container.faults import Faults, kept, only_run, summary

pytestmark = [pytest.mark.container, pytest.mark.slow]
TINY = ("imgsz=64", "batch=8", "device=cpu", "plots=False", "fraction=0.1", "val=False")
FINISHED = {"finished epochs", "last.pt", "summary"}
TRAINER = "diag.record.launch"


class Runs:
    """Trainings of a few seconds in one workspace."""

    def __init__(self, engine: Engine, workspace: Path, options: tuple[str, ...]) -> None:
        self.workspace = workspace
        # Passive threads: two containers on two cores would wait for each other in busy loops.
        threads = ("-e", "OMP_NUM_THREADS=1", "-e", "OMP_WAIT_POLICY=PASSIVE")
        self._engine = engine
        self._options = ("-v", f"{workspace}:/workspace", *threads, *options)

    def start(self, *args: str, options: tuple[str, ...] = (), check: bool = False) -> Container:
        words = ("train", "--no-smoke", *(() if check else ("--no-check",)), *TINY, *args)
        return self._engine.start(*self._options, *options, args=words)

    def service(self, name: str) -> Container:
        return self._engine.start(*self._options, args=(name,))

    def wait_for(self, container: Container, pattern: str, timeout: float = 600) -> Path:
        """Wait until a file is there."""
        until = time.monotonic() + timeout
        while not (found := list(self.workspace.glob(pattern))):
            assert time.monotonic() < until, container.logs()
            assert container.inspect("{{.State.Running}}") == "true", container.logs()
            time.sleep(0.3)
        return found[0]


@pytest.fixture
def runs(engine: Engine, workspace: Path, as_owner: tuple[str, ...]) -> Runs:
    return Runs(engine, workspace, as_owner)


def kill_inside(container: Container, of: str) -> None:
    """SIGKILL for the processes whose command line holds `of`, from inside, with the rights of the container's user."""
    script = 'for f in /proc/[0-9]*/cmdline; do p=${f#/proc/}; p=${p%/*}; case $(tr "\\0" " " <$f) in '
    script += f'*bash*-c*) ;; *tini*) ;; *{of}*) kill -9 "$p" ;; esac; done'
    done = container.exec("bash", "-c", script)
    assert done.code == 0, done.err


def ids(told: dict[str, Any]) -> set[str]:
    return {finding["id"] for finding in told["findings"]}


def compile_c(source: Path, target: Path) -> Path:
    """A shared library for the container. Its base is as old as any that has a compiler here."""
    if not shutil.which("gcc"):
        pytest.skip("not run: no gcc for the stand-in library")
    soname = f"-Wl,-soname,{target.name}"
    subprocess.run(["gcc", "-shared", "-fPIC", soname, "-o", str(target), str(source)], check=True)
    return target


def test_a_killed_trainer(runs: Runs, faults: Faults) -> None:
    container = runs.start("epochs=100")
    runs.wait_for(container, "runs/*/ultralytics/weights/best.pt")
    kill_inside(container, TRAINER)
    code = container.wait(600).code
    cause = summary(runs.workspace)["exit_cause"]
    left = kept(only_run(runs.workspace))
    assert (code, cause["kind"], cause["signal"]) == (1, "killed", "SIGKILL")
    assert set(left) >= FINISHED | {"report"}
    faults.add("trainer killed", "kill -9 PID", code, cause["kind"], cause["detail"], left)


@pytest.mark.parametrize("limit", [5, 12])
def test_a_limit_of_threads(runs: Runs, faults: Faults, limit: int) -> None:
    """12: no thread for the trainer; 5: not even a process for it."""
    done = runs.start("epochs=1", options=("--pids-limit", str(limit))).wait(600)
    told = summary(runs.workspace)
    cause = told["exit_cause"]
    assert (done.code, cause["kind"], told["verdict"]) == (1, "thread_limit", "fail"), (cause, done)
    assert "--pids-limit" in cause["detail"]
    left = kept(only_run(runs.workspace))
    assert "summary" in left
    faults.add("limit of threads", "--pids-limit", done.code, cause["kind"], cause["detail"], left)


def test_a_cpu_quota(runs: Runs, faults: Faults) -> None:
    options = ("--cpus", "0.7", "-e", "OMP_NUM_THREADS=2")
    done = runs.start("epochs=1", options=options, check=True).wait(600)
    told = summary(runs.workspace)
    assert (done.code, told["exit_cause"]["kind"]) == (0, "finished"), done
    host = told["environment"]["host"]
    assert (host["cpus_effective"], host["cpus_visible"] >= 1) == (0.7, True)
    check = next(check for check in told["check"]["checks"] if check["id"] == "cpu.effective")
    assert check["value"].startswith("0.7 of "), check
    run = only_run(runs.workspace)
    counted = [json.loads(line) for line in (run / "trace/counters.jsonl").read_text().splitlines()]
    throttled = [record["v"]["throttled_s_total"] for record in counted if record["k"] == "c"]
    assert throttled[-1] > throttled[0]
    left = kept(run)
    assert set(left) >= FINISHED
    words = f"check cpu.effective: {check['value'].partition(',')[0]}; throttled seconds in the counters"
    faults.add("CPU quota", "--cpus", done.code, "finished", words, left)


@contextmanager
def own_disk(image: Path, folder: Path) -> Iterator[str]:
    """A file system of its own at `folder`; yields its device, whose speed Docker can limit for one container."""
    if os.getuid() or not shutil.which("mkfs.ext4"):
        pytest.skip("not run: a disk of our own needs root and mkfs.ext4")
    with image.open("wb") as file:
        file.truncate(48 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    folder.mkdir()
    done = subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"not run: no loop device: {done.stderr.strip()}")
    try:
        device = subprocess.run(["findmnt", "-no", "SOURCE", str(folder)], check=True, capture_output=True, text=True)
        yield device.stdout.strip()
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def noise_set(folder: Path, count: int) -> int:
    """A data set of images that do not compress; the bytes of one."""
    for split in ("train", "val"):
        for kind in ("images", "labels"):
            (folder / kind / split).mkdir(parents=True)
        for number in range(count):
            pixels = np.random.default_rng(number).integers(0, 255, (192, 192, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"images/{split}/{number}.jpg", quality=95)
            (folder / f"labels/{split}/{number}.txt").write_text("0 0.5 0.5 0.4 0.4\n")
    (folder / "data.yaml").write_text("train: images/train\nval: images/val\nnames: [thing]\n")
    return (folder / "images/train/0.jpg").stat().st_size


def forget(folder: Path) -> None:
    """Drop files from the page cache, so that they are read from the disk again."""
    for path in folder.rglob("*.jpg"):
        handle = os.open(path, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def test_a_slow_disk(runs: Runs, faults: Faults, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with own_disk(tmp_path / "disk.img", data) as device:
        size = noise_set(data, 16)
        os.sync()
        # Three images a second, and no memory of the ones before.
        options = ("-v", f"{data}:/data:ro", "--device-read-bps", f"{device}:{3 * size}")
        words = ("data=/data/data.yaml", "epochs=3", "batch=4", "fraction=1.0", "mosaic=0.0")
        container = runs.start(*words, options=options)
        while container.inspect("{{.State.Running}}") == "true":
            forget(data)
            time.sleep(0.1)
        done = container.wait(600)
    told = summary(runs.workspace)
    assert (done.code, told["exit_cause"]["kind"]) == (0, "finished"), done
    finding = next(f for f in told["findings"] if f["id"] == "speed.storage_slow")
    left = kept(only_run(runs.workspace))
    assert set(left) >= FINISHED
    words_said = f"finding {finding['id']}, with MB/s and the slowest files"
    faults.add("slow disk", "--device-read-bps", done.code, "finished", words_said, left)


def test_a_paused_container_and_a_clock_that_steps_are_no_stall(runs: Runs, faults: Faults, tmp_path: Path) -> None:
    library = compile_c(ROOT / "tests/container/step_clock.c", tmp_path / "step_clock.so")
    clock = runs.workspace / "clock"
    preload = (
        "-v",
        f"{library}:/step_clock.so:ro",
        "-e",
        "LD_PRELOAD=/step_clock.so",
        "-e",
        "CLOCK_STEP=/workspace/clock",
    )
    # 15 s without a step are a stall here, and the pause is longer.
    container = runs.start("epochs=5", options=(*preload, "-e", "DIAG_STALL_S=15", "-e", "DIAG_STALL_ABORT=1"))
    runs.wait_for(container, "runs/*/ultralytics/weights/last.pt")
    clock.write_text("86400")
    assert container.exec("date", "+%F").out.strip() > time.strftime("%F"), "the clock did not step"
    while command("docker", "pause", container.name).code:  # a busy machine may need a second try to freeze it
        assert container.inspect("{{.State.Running}}") == "true"
    time.sleep(17)
    docker("unpause", container.name)
    clock.write_text("-7200")
    done = container.wait(600)
    told = summary(runs.workspace)
    run = only_run(runs.workspace)
    assert (done.code, told["exit_cause"]["kind"], "stall" in told["train"]) == (0, "finished", False), done
    assert not (run / "stall.txt").exists()
    laps = [json.loads(line) for line in (run / "trace/rank0.jsonl").read_text().splitlines()]
    lengths = [ns for record in laps if record["k"] == "laps" for _, ns in record["l"]]
    # Monotonic: no time is negative, and no hour of the wall clock is in it.
    assert min(lengths) >= 0 and 15e9 < max(lengths) < 120e9
    stamps = [line[:23] for line in (run / "train.log").read_text().splitlines()]
    assert stamps != sorted(stamps), "the trainer saw no step"
    left = kept(run)
    assert set(left) >= FINISHED
    words = "no stall; the pause is in the time of its step"
    faults.add("container paused", "docker pause", done.code, "finished", words, left)
    faults.add("clock steps", "CLOCK_REALTIME +1 day, -26 hours", done.code, "finished", "times are monotonic", left)


def test_an_image_that_is_damaged_and_one_that_goes(runs: Runs, faults: Faults) -> None:
    container = runs.start("epochs=1", "name=first")
    assert container.wait(600).code == 0
    images = sorted((runs.workspace / "datasets/demo-detect/images/train").iterdir())
    damaged = images[3]
    damaged.write_bytes(damaged.read_bytes()[:200])
    done = runs.start("epochs=1", "name=damaged", "fraction=1.0").wait(600)
    told = summary(runs.workspace)
    assert (done.code, told["exit_cause"]["kind"]) == (0, "finished"), done
    finding = next(f for f in told["findings"] if f["id"] == "data.corrupt_images")
    assert any(damaged.name in str(place) for place in finding["evidence"])
    left = kept(runs.workspace / "runs/damaged")
    assert set(left) >= FINISHED
    faults.add("damaged image", "truncate", done.code, "finished", f"finding {finding['id']}, by file", left)
    container = runs.start("epochs=100", "name=gone", "fraction=1.0")
    runs.wait_for(container, "runs/gone/ultralytics/weights/best.pt")
    for image in images:
        image.unlink()
    done = container.wait(600)
    cause = summary(runs.workspace)["exit_cause"]
    left = kept(runs.workspace / "runs/gone")
    assert (done.code, cause["kind"]) == (1, "failed") and "FileNotFoundError" in cause["detail"], (cause, done)
    assert "datasets/demo-detect/images/train" in cause["detail"]
    assert set(left) >= FINISHED
    words = cause["detail"].partition(" /workspace")[0]
    faults.add("image gone during training", "rm", done.code, cause["kind"], f"{words} FILE", left)


GPUS = """system nvmlDeviceGetCount_v2 2
system nvmlSystemGetDriverVersion 580.65.06
system nvmlSystemGetCudaDriverVersion_v2 13000
0 nvmlDeviceGetName NVIDIA A10G
0 nvmlDeviceGetTemperature 40
0 nvmlDeviceGetPowerUsage 90000
1 nvmlDeviceGetName NVIDIA A10G
1 nvmlDeviceGetTemperature 41
"""
"""Two GPUs; the second one has no power reading."""
LOST = "0 * !15\n"


def test_a_gpu_that_is_lost_and_a_query_that_is_not_supported(runs: Runs, faults: Faults, tmp_path: Path) -> None:
    """Training goes on here, on the CPU: what is shown is that neither the counters nor the watchdog go down."""
    library = compile_c(ROOT / "tests/fakes/fakenvml.c", tmp_path / "libnvidia-ml.so.1")
    answers = runs.workspace / "nvml.txt"
    answers.write_text(GPUS)
    target = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    options = ("-v", f"{library}:{target}:ro", "-e", "FAKE_NVML=/workspace/nvml.txt")
    container = runs.start("epochs=8", options=options)
    log = runs.wait_for(container, "runs/*/ultralytics/weights/last.pt").parents[2] / "trace/counters.jsonl"
    answers.write_text(LOST + GPUS)
    done = container.wait(600)
    told = summary(runs.workspace)
    assert (done.code, told["exit_cause"]["kind"]) == (0, "finished"), done
    finding = next(f for f in told["findings"] if f["id"] == "hw.xid")
    assert (finding["severity"], finding["values"]["gpu"]) == ("critical", 0)
    assert told["train"]["gpu_lost"].startswith("GPU 0 was lost (NVMLError_GpuIsLost")
    samples = [json.loads(line) for line in log.read_text().splitlines()]
    last = [record["v"] for record in samples if record["k"] == "c"][-1]
    assert sum(record.get("m") == "gpu_lost" for record in samples) == 1
    seen = {name for record in samples for name in record.get("v", {}) if name.startswith("gpu")}
    assert {"gpu0_temperature_c", "gpu0_power_w", "gpu1_temperature_c"} <= seen and "gpu1_power_w" not in seen
    assert "gpu0_temperature_c" not in last
    left = kept(only_run(runs.workspace))
    assert set(left) >= FINISHED
    how = "a libnvidia-ml that answers"
    faults.add("GPU lost", f"{how} GPU_IS_LOST", done.code, "finished", told["train"]["gpu_lost"], left)
    words = "this value is left out, all others are there"
    faults.add("GPU query not supported", f"{how} NOT_SUPPORTED", done.code, "finished", words, left)


def test_two_trainings_and_two_services_that_crash(runs: Runs, faults: Faults) -> None:
    both = [runs.start("epochs=2", f"name={name}") for name in ("one", "two")]
    services = {"Jupyter crashes": runs.service("jupyter"), "TensorBoard crashes": runs.service("tensorboard")}
    for fault, server in services.items():
        server.wait_for("http://127.0.0.1:")
        kill_inside(server, "python")
        code = server.wait(60).code
        assert code == 137, server.logs()
        faults.add(
            fault, "kill -9 PID", code, "not a run", "the container ends; training is in another one", ["training"]
        )
    for container, name in zip(both, ("one", "two"), strict=True):
        done = container.wait(600)
        told = json.loads((runs.workspace / "runs" / name / "health.json").read_text())
        assert (done.code, told["exit_cause"]["kind"], told["run"]["id"]) == (0, "finished", name), done
        left = kept(runs.workspace / "runs" / name)
        assert set(left) >= FINISHED
        rows = (runs.workspace / "runs" / name / "ultralytics/results.csv").read_text().splitlines()
        assert len(rows) == 3
    # The last one to write owns `latest`; it is never a mixture.
    latest = summary(runs.workspace)
    assert latest == json.loads((Path(runs.workspace) / "runs" / latest["run"]["id"] / "health.json").read_text())
    owners = {path.lstat().st_uid for path in runs.workspace.rglob("*")}
    assert owners == {OWNER} and GROUP
    words = "a folder, a lock and a summary each"
    faults.add("two trainings at once", "two containers, one workspace", 0, "finished", words, left)
