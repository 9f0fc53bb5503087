"""The main job on real input: what is written, what is said, and how every end is told."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path

import pytest

from diag.stages.profile import check_trace
from tests.e2e.conftest import DIAG, SHARED, TINY, Diag, environment, summary
from tests.processes import ended, kill_tree
from tests.processes import run as run_command


@pytest.fixture(scope="module")
def run(workspace: Path) -> Path:
    """One whole pipeline on the demo set; its run directory."""
    args = [str(DIAG), "pipeline", *TINY]
    env = environment(workspace)
    done = run_command(args, env=env, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for name in ("check", "data", "smoke", "train", "analyze", "report"):
        assert re.search(rf"(PASS|WARN) {name}: ", done.stdout), name
    return Path(summary(workspace)["run"]["dir"])


def test_the_run_directory_is_complete(run: Path) -> None:
    names = "run.json baseline.json check.json data.json smoke.json health.json console.log train.log"
    more = "trace/rank0.jsonl trace/counters.jsonl report.md report.json"
    more += " ultralytics/args.yaml ultralytics/results.csv ultralytics/weights/last.pt"
    assert [n for n in f"{names} {more}".split() if not (run / n).stat().st_size] == []
    assert list((run / "ultralytics").glob("events.out.tfevents*"))


def test_the_summary_tells_the_whole_story(run: Path, workspace: Path) -> None:
    document = summary(workspace)
    assert document["exit_cause"]["kind"] == "finished"
    assert document["verdict"] in {"pass", "warn", "fail"}  # two epochs may rightly be called undertrained
    assert len(document["check"]["checks"]) >= 15
    assert document["data"]["splits"]["train"]["images"] == 240
    assert [v["status"] for v in document["smoke"]["verdicts"]] == ["pass"] * 6
    assert document["train"]["epochs_done"] == 2
    assert document["environment"]["software"]["lock_sha256"]
    assert document["findings"]
    page = (workspace / "health" / "latest.md").read_text()
    assert "| train | PASS |" in page


def test_laps_of_a_real_run_touch_and_cover_the_wall_clock(run: Path) -> None:
    lines = [json.loads(line) for line in (run / "trace" / "rank0.jsonl").read_text().splitlines()]
    spans: list[tuple[int, int]] = []
    for record in lines:
        if record["k"] == "laps":
            spans.append((record["t"], record["t"] + sum(ns for _, ns in record["l"])))
    assert all(a[1] == b[0] for a, b in pairwise(spans))
    assert spans[0][0] == lines[0]["t"]
    assert sum(end - start for start, end in spans) == spans[-1][1] - spans[0][0]
    names = {stage for record in lines if record["k"] == "laps" for stage, _ in record["l"]}
    assert names >= {
        "startup",
        "data_wait",
        "transfer",
        "forward",
        "backward",
        "optimizer",
        "log",
        "validate",
        "checkpoint",
    }
    assert "other" not in names


def test_train_log_suits_the_fields_usual_one_liners(run: Path) -> None:
    lines = (run / "train.log").read_text().splitlines()
    assert len(lines) == 2 * 15
    assert all(re.search(r"dataloader: ([\d.]+)s", line) for line in lines)
    assert all(re.search(r"epoch \d/2 batch \d+/15 \| dataloader: .*, model: .*, optimizer: ", line) for line in lines)


def test_nothing_is_written_beside_the_data(run: Path, workspace: Path) -> None:
    demo = workspace / "datasets" / "demo-detect"
    assert {p.name for p in demo.rglob("*.cache")} == set()


def test_analyze_gives_one_json_object(run: Path, diag: Diag) -> None:
    done = diag("analyze", str(run), "--format", "json")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert {"verdict", "findings", "skipped", "crashed"} <= set(document)
    assert document["crashed"] == []


def test_a_profile_of_a_run_is_a_table_a_trace_and_a_section_of_its_report(
    run: Path, workspace: Path, diag: Diag
) -> None:
    before = (workspace / "health" / "latest.json").read_text()
    done = diag("profile", str(run), "--steps", "2", "--warmup", "1", "--format", "json")
    assert done.returncode == 0, done.stderr[-3000:]
    profile = json.loads(done.stdout)
    assert profile == json.loads((run / "profile" / "profile.json").read_text())
    assert (profile["steps"], profile["batch"], profile["device"]) == (2, 16, "cpu")
    names = {operator["name"] for operator in profile["operators"]}
    assert "aten::convolution_backward" in names
    assert [layer["index"] for layer in profile["layers"]] == list(range(24))
    detect = profile["layers"][-1]
    assert detect["type"] == "Detect"
    assert min(detect["forward_s"], detect["backward_s"], detect["parameters"], profile["flops"]) > 0
    assert check_trace(run / "profile" / "trace.json") > 1000
    page = (run / "report.md").read_text()
    assert "## Operators and layers" in page
    assert "23 Detect" in page
    assert sorted(p.name for p in (run / "profile").iterdir()) == ["console.log", "profile.json", "trace.json"]
    assert (workspace / "health" / "latest.json").read_text() == before


@pytest.mark.parametrize(
    ("words", "code", "said", "kind"),
    [
        (["epoch=3"], 2, "did you mean epochs=?", "input_error"),
        (["data=/nope.yaml"], 2, "no such file", "input_error"),
        (["model=foo.yaml"], 2, "Ultralytics ships no model of this name", "input_error"),
        (["model=yolo11n.pt"], 2, "OFFLINE is set", "input_error"),
        (["data=coco8.yaml"], 2, "not downloaded because OFFLINE is set", "input_error"),
        (["device=0"], 1, "device=0", "check_failed"),
    ],
)
def test_wrong_input_is_one_clear_line_and_a_summary(
    tmp_path: Path, diag: Diag, words: list[str], code: int, said: str, kind: str
) -> None:
    done = diag("pipeline", *words, workspace=tmp_path)
    assert done.returncode == code
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    document = summary(tmp_path)
    assert (document["verdict"], document["exit_cause"]["kind"]) == ("fail", kind)
    if kind == "check_failed":  # the analysis after it names what the check found, and not a training on the CPU
        assert document["findings"][0]["id"] == "env.torch_cpu"
        assert document["findings"][0]["evidence"][0]["file"] == "check.json"


def test_json_mode_keeps_stdout_for_the_document(tmp_path: Path, diag: Diag) -> None:
    done = diag("pipeline", "epoch=3", "--format", "json", workspace=tmp_path)
    assert json.loads(done.stdout) == summary(tmp_path)


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """start(workspace) gives a training in the background, as far as its third batch."""
    with ExitStack() as stack:

        def begin(workspace: Path, **more: str) -> subprocess.Popen[str]:
            args = [str(DIAG), "train", *TINY, "epochs=50"]
            env = environment(workspace, **more)
            started = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
            process = stack.enter_context(ended(started, limit=400))
            deadline = time.monotonic() + 240
            while time.monotonic() < deadline and process.poll() is None:
                logs = list((workspace / "runs").glob("*/train.log"))
                if logs and len(logs[0].read_text().splitlines()) > 20:
                    return process
                time.sleep(0.2)
            kill_tree(process)
            raise AssertionError(process.communicate(timeout=30)[0])

        yield begin


def test_sigterm_ends_at_a_batch_with_a_resumable_checkpoint(tmp_path: Path, start: Start) -> None:
    process = start(tmp_path)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=100)
    assert process.returncode == 143, out[-2000:]
    document = summary(tmp_path)
    assert (document["exit_cause"]["kind"], document["exit_cause"]["signal"]) == ("stopped", "SIGTERM")
    import torch

    last = Path(document["train"]["weights"]["last"])
    assert torch.load(last, map_location="cpu", weights_only=False)["optimizer"] is not None
    assert "goes on after the last saved epoch" in document["exit_cause"]["detail"]


def test_a_stop_before_the_first_epoch_ends_begins_the_same_run_again(tmp_path: Path) -> None:
    words = ("train", *TINY, "epochs=1", "--format", "json")
    env = environment(tmp_path)
    started = subprocess.Popen([DIAG, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    with ended(started, limit=400) as process:
        deadline = time.monotonic() + 240
        while not list((tmp_path / "runs").glob("*/train.log")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=100)
    assert process.returncode == 130, err[-2000:]
    first = summary(tmp_path)
    assert "begins this run again, no epoch was saved yet" in first["exit_cause"]["detail"]
    done = run_command([DIAG, *words], env=env, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    document = summary(tmp_path)
    assert document["run"]["id"] == first["run"]["id"]
    assert (document["exit_cause"]["kind"], document["train"]["epochs_done"]) == ("finished", 1)
    assert [attempt["exit_cause"]["kind"] for attempt in document["run"]["attempts"]] == ["stopped"]
    assert "- start 1: " in (tmp_path / "health" / "latest.md").read_text()


def test_a_killed_trainer_is_told_and_how_far_it_got(tmp_path: Path, start: Start) -> None:
    process = start(tmp_path)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    trainer = next(pid for pid in children if b"diag.record.launch" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(int(trainer), signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == 1
    document = summary(tmp_path)
    assert document["exit_cause"]["kind"] == "killed"
    assert document["train"]["progress"]["epoch"] >= 2
    assert document["train"]["epochs_done"] >= 1


def test_a_hung_trainer_is_ended_and_told_if_that_is_wished(tmp_path: Path, start: Start) -> None:
    process = start(tmp_path, DIAG_STALL_S="3", DIAG_STALL_ABORT="1")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    trainer = next(pid for pid in children if b"diag.record.launch" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(int(trainer), signal.SIGSTOP)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 1, out[-2000:]
    assert "HANGS: " in out
    document = summary(tmp_path)
    assert (document["exit_cause"]["kind"], document["exit_cause"]["signal"]) == ("stalled", "SIGKILL")
    assert document["train"]["stall"]["aborted"] is True
    assert document["train"]["stall"]["step"] >= 15
    assert f"== trainer {trainer}" in (Path(document["run"]["dir"]) / "stall.txt").read_text()
    assert not Path(f"/proc/{trainer}").exists()


def test_a_killed_pipeline_leaves_a_summary_and_the_next_run_closes_it(
    tmp_path: Path, diag: Diag, start: Start
) -> None:
    process = start(tmp_path)
    children = [int(p) for p in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    process.kill()
    for pid in children:  # the trainer is in a session of its own; the counters end by themselves
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=60)
    before = summary(tmp_path)
    assert (before["verdict"], before["train"]["status"]) == ("running", "unknown")
    done = diag("train", "epoch=3", workspace=tmp_path)
    assert f"the last run ({before['run']['id']}) went away" in done.stdout
    closed = json.loads((Path(before["run"]["dir"]) / "health.json").read_text())
    assert closed["exit_cause"]["kind"] == "killed"


@pytest.mark.skipif(not SHARED.exists(), reason="not run: no ../shared")
def test_a_read_only_segmentation_set_trains(tmp_path: Path, workspace: Path, diag: Diag) -> None:
    data = SHARED / "data" / "coco128-seg" / "data.yaml"
    before = sorted(p.relative_to(SHARED / "data") for p in (SHARED / "data").rglob("*"))
    done = diag("train", f"data={data}", "model=yolo11n-seg.yaml", "epochs=1", "imgsz=64", "batch=32", "plots=False")
    assert done.returncode == 0, done.stdout[-3000:]
    assert summary(workspace)["train"]["epochs_done"] == 1
    assert sorted(p.relative_to(SHARED / "data") for p in (SHARED / "data").rglob("*")) == before
