"""The run of all checks: none takes another one down; the sections of the child; the text that is shown."""

import io
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from diag.commands.check import Progress, summary
from diag.errors import InputError
from diag.model.check import Check, Status
from diag.model.hardware import Baseline
from diag.probe import CheckRequest, ask, check_torch, run_checks
from diag.probe.child import Child, Section, command, local_yaml
from diag.probe.machine import Question
from diag.probe.once import Once, UnreadableError
from diag.probe.plan import Kind, make_plan, parse_device
from diag.render.checks import lines


def good() -> Check:
    return Check("b", Status.PASS)


def test_a_crash_and_a_hang_become_unknown_with_their_reason_and_the_rest_goes_on() -> None:
    blocked = threading.Event()

    def crash() -> Check:
        raise ZeroDivisionError("oh")

    def hang() -> Check:
        blocked.wait()
        return good()

    heard: list[str] = []
    asked = [Question("a", crash), Question("c", hang, limit_s=0.05), Question("b", good)]
    checks = ask(asked, lambda check: heard.append(check.id))
    blocked.set()
    assert [(c.id, c.status, c.reason) for c in checks] == [
        ("a", Status.UNKNOWN, "a: ZeroDivisionError: oh"),
        ("c", Status.UNKNOWN, "c: no answer within 0.05 s"),
        ("b", Status.PASS, ""),
    ]
    assert heard == ["a", "c", "b"]


def test_a_fact_is_read_once_and_a_hanging_one_is_waited_for_once() -> None:
    calls: list[int] = []
    once = Once("x", lambda: calls.append(1), timeout_s=5)
    once()
    once()
    assert calls == [1]
    blocked = threading.Event()
    slow = Once("slow", blocked.wait, timeout_s=0.05)
    for _ in range(2):
        with pytest.raises(UnreadableError, match="no answer"):
            slow()
    blocked.set()


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that must happen."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def child(code: str, *, limit_s: float = 20) -> Child:
    return Child([sys.executable, "-c", code], limit_s=limit_s)


def test_sections_before_a_crash_survive_and_the_signal_is_named() -> None:
    line = json.dumps({"section": "torch", "seconds": 1.0, "error": "", "values": {"torch": "2"}})
    code = f'import os; print({line!r}, flush=True); print(\'{{"begin": "step"}}\', flush=True); os.abort()'
    with child(code) as running:
        assert running.section("torch") == Section("torch", 1.0, "", {"torch": "2"})
        with pytest.raises(UnreadableError, match="died of SIGABRT in `step`"):
            running.section("step")


def test_a_child_that_hangs_is_ended_with_what_it_started() -> None:
    code = (
        "import subprocess, sys, time; p = subprocess.Popen(['sleep', '600']);"
        'print(\'{"begin": "cuda"}\', flush=True); print(p.pid, file=sys.stderr, flush=True); time.sleep(600)'
    )
    for limit_s in (1.5, 10, 60):  # a busy machine may be long in starting it
        with child(code, limit_s=limit_s) as running:
            with pytest.raises(UnreadableError, match="did not finish within") as told:
                running.section("cuda")
            words = Path(running._errors.name).read_text()
        if words.endswith("\n"):
            break
    assert "`cuda` did not finish within" in str(told.value)
    pid = int(words)
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_a_child_that_fails_says_its_last_words() -> None:
    with child("raise SystemExit('no torch here')") as running, pytest.raises(UnreadableError, match="no torch here"):
        running.section("torch")


def test_what_the_child_prints_besides_is_ignored() -> None:
    code = 'print(\'hello\'); print(\'{"section": "x", "seconds": 0, "error": "", "values": {}}\')'
    with child(code) as running:
        assert running.section("x").values == {}


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (None, (Kind.AUTO, ())),
        ("", (Kind.AUTO, ())),
        ("cpu", (Kind.CPU, ())),
        (0, (Kind.CUDA, (0,))),
        ("cuda", (Kind.CUDA, ())),
        ("cuda:1", (Kind.CUDA, (1,))),
        ("0,1", (Kind.CUDA, (0, 1))),
        ([0, 2], (Kind.CUDA, (0, 2))),
        (-1, (Kind.CUDA, ())),
        ("mps", (Kind.OTHER, ())),
    ],
)
def test_devices_are_read_as_ultralytics_does(device: object, expected: tuple[Kind, tuple[int, ...]]) -> None:
    assert parse_device(device) == expected


@pytest.mark.parametrize("args", [{"device": "gpu"}, {"device": "0,0"}, {"imgsz": "big"}, {"imgsz": 8}, {"batch": "x"}])
def test_arguments_that_are_none_are_refused_before_anything_starts(args: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(InputError):
        run_checks(CheckRequest(tmp_path, args))


def test_autobatch_is_judged_as_the_default_batch() -> None:
    assert (make_plan({"batch": -1}).batch, make_plan({"batch": 0.7}).batch, make_plan({"batch": 4}).batch) == (
        16,
        16,
        4,
    )


@pytest.mark.parametrize(
    ("model", "yaml"),
    [
        ("yolo11s.pt", "yolo11s.yaml"),
        ("yolov8n.pt", "yolov8n.yaml"),
        ("yolo26x.pt", "yolo26x.yaml"),
        ("yolo11n-seg.pt", "yolo11n.yaml"),
        ("runs/best.pt", "yolo11n.yaml"),
        ("rtdetr-l.pt", "yolo11n.yaml"),
    ],
)
def test_the_step_is_measured_with_the_yaml_of_the_same_scale(model: str, yaml: str) -> None:
    assert local_yaml(model) == yaml


def test_the_child_measures_on_the_gpu_that_was_asked_for() -> None:
    asked = json.loads(command(make_plan({"device": "2,3", "batch": 32, "imgsz": 320}))[-1])
    assert (asked["device"], asked["batch"], asked["imgsz"]) == ("cuda:2", 16, 320)


def test_a_batch_that_autobatch_chooses_is_measured_small() -> None:
    assert json.loads(command(make_plan({"batch": -1}))[-1])["batch"] == 4


def numerics(device: str, **wrong: int | str) -> Section:
    return Section("numerics", values={"device": device, "size": 64, "wrong": wrong})


@pytest.mark.parametrize(
    ("part", "status"),
    [
        (numerics("cuda:0", fp32=0, bf16=0, fp16=0), Status.PASS),
        (numerics("cuda:0", fp32=0, bf16=1), Status.FAIL),
        (numerics("cpu", fp32=1), Status.FAIL),
        (numerics("cpu", fp32=0, bf16=5), Status.PASS),
        (numerics("cuda:0", fp32=0, bf16="not supported: x"), Status.PASS),
        (numerics("cuda:0", fp32="not supported: x"), Status.UNKNOWN),
        (Section("numerics", error="RuntimeError: x"), Status.UNKNOWN),
    ],
)
def test_one_wrong_number_fails(part: Section, status: Status) -> None:
    assert check_torch.torch_numerics(part).status is status


def step(device: str, rate: float, *, finite: bool = True) -> Section:
    values = {"device": device, "images_per_s": rate, "finite": finite, "model": "m.yaml", "imgsz": 640, "batch": 2}
    return Section("step", values=values)


def test_a_step_without_a_finite_loss_or_out_of_memory_fails() -> None:
    assert check_torch.torch_step(step("cpu", 4.0)).status is Status.PASS
    assert check_torch.torch_step(step("cpu", 4.0, finite=False)).status is Status.FAIL
    oom = check_torch.torch_step(Section("step", error="OutOfMemoryError: CUDA out of memory. Tried to"))
    assert (oom.status, oom.finding) == (Status.FAIL, "mem.gpu_oom")


@pytest.mark.parametrize(
    ("part", "args", "status", "data"),
    [
        (step("cuda:0", 900.0), {"workers": 8}, Status.PASS, 1000.0),  # five CPUs at 200 images each
        (step("cuda:0", 900.0), {"workers": 2}, Status.WARN, 400.0),
        (step("cpu", 4.0), {"workers": 8}, Status.PASS, 200.0),  # no workers on the CPU
    ],
)
def test_the_slower_of_decoding_and_computing_is_named(
    part: Section, args: dict[str, object], status: Status, data: float
) -> None:
    check = check_torch.bottleneck(part, 200.0, make_plan(args), 8, 5.0)
    assert (check.status, check.facts["data_images_per_s"]) == (status, data)


def test_mixed_builds_of_torch_and_torchvision_fail() -> None:
    values = {"torchvision": "0.29", "nms_ok": True, "cuda": "12.6"}
    assert check_torch.torch_vision(Section("torchvision", values=values), "12.4").status is Status.PASS
    check = check_torch.torch_vision(Section("torchvision", values=values), "13.0")
    assert (check.status, check.finding) == (Status.FAIL, "env.torchvision_mismatch")
    assert check_torch.torch_vision(Section("torchvision", error="OSError: undefined symbol"), "13.0").remedy


FAILED = Check("shm.size", Status.FAIL, "64 MiB free", ">= 1 GiB", "workers hang", "--shm-size=1g", "mem.shm_small")


def test_a_failure_shows_value_expectation_reason_and_remedy() -> None:
    assert lines(FAILED, colour=False, width=0) == [
        "FAIL     shm.size            64 MiB free (expected: >= 1 GiB)",
        "         why: workers hang",
        "         fix: --shm-size=1g",
    ]


def test_lines_keep_to_the_terminals_width() -> None:
    long = Check("a.b", Status.WARN, "word " * 40, "more " * 20, "why " * 40, "fix " * 40)
    shown = lines(long, colour=False, width=80)
    assert max(len(line) for line in shown) <= 80
    assert " ".join(" ".join(shown).split()).count("word") == 40


def test_colours_are_only_added_when_asked_for() -> None:
    assert "\033[" in lines(FAILED, colour=True, width=0)[0]
    assert "\033[" not in "".join(lines(FAILED, colour=False, width=0))


def test_the_summary_names_what_failed() -> None:
    assert summary((FAILED, good()), Baseline(), 9.4).endswith("1 pass, 1 fail in 9 s: can't train as asked: shm.size")
    assert summary((good(),), Baseline(cuda_usable=True), 9.4).endswith("ready to train on the GPU")


def test_progress_is_told_once_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    with Progress(out, patience_s=0.0):
        until(lambda: bool(out.getvalue()))
        time.sleep(1.2)  # two more ticks
    assert out.getvalue().count("\n") == 1


def test_the_parent_never_imports_torch() -> None:
    code = (
        "import sys; from pathlib import Path; import diag.probe, diag.probe.machine, diag.commands.check;"
        "from diag.probe.images import decode; decode([], budget_s=0.01);"
        "raise SystemExit('torch' in sys.modules or 'ultralytics' in sys.modules)"
    )
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == 0
