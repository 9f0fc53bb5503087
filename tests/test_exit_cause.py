"""The way a child ended, from its exit code, signal, last lines and the cgroup's kill counter."""

import pytest

from diag.exit_cause import exit_cause
from diag.model.run import EXIT_KINDS


@pytest.mark.parametrize(
    ("code", "tail", "kills", "stopped", "kind"),
    [
        (0, [], 0, "", "finished"),
        (0, [], 0, "SIGTERM", "finished"),
        (143, [], 0, "SIGTERM", "stopped"),
        (-15, [], 0, "SIGINT", "stopped"),
        (-9, [], 0, "", "killed"),
        (-9, [], 1, "", "ram_oom"),
        (137, [], 2, "", "ram_oom"),
        (1, ["torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB"], 0, "", "gpu_oom"),
        (1, ["OSError: [Errno 28] No space left on device"], 0, "", "disk_full"),
        (
            1,
            ["RuntimeError: unable to allocate shared memory(shm) for file </t>: No space left on device (28)"],
            0,
            "",
            "shm_small",
        ),
        (
            1,
            ["RuntimeError: DataLoader worker is killed: Bus error. insufficient shared memory (shm)"],
            0,
            "",
            "shm_small",
        ),
        (1, ["MemoryError"], 0, "", "ram_oom"),
        (1, ["RuntimeError: can't start new thread"], 0, "", "thread_limit"),
        (1, ["BlockingIOError: [Errno 11] Resource temporarily unavailable"], 0, "", "thread_limit"),
        (1, ["PanicException: `Err` value: Os { code: 11, kind: WouldBlock }"], 0, "", "thread_limit"),
        (1, ["libgomp: Thread creation failed: Resource temporarily unavailable"], 0, "", "thread_limit"),
        (1, ["ValueError: bad"], 0, "", "failed"),
        (-11, [], 0, "", "failed"),
    ],
)
def test_each_end_has_its_kind(code: int, tail: list[str], kills: int, stopped: str, kind: str) -> None:
    cause = exit_cause(code, tail, oom_kills=kills, stopped_by=stopped)
    assert cause.kind == kind
    assert cause.kind in EXIT_KINDS
    assert cause.code == code


def test_a_failure_is_told_by_its_last_exception() -> None:
    tail = ["Traceback (most recent call last):", "  File x", "ultralytics.errors.HUBModelError: no such model", "bye"]
    assert exit_cause(1, tail).detail == "HUBModelError: no such model"


def test_a_crash_without_words_is_told_by_its_signal() -> None:
    assert exit_cause(-11, []).detail == "ended by SIGSEGV"
    assert exit_cause(3, []).detail == "exit code 3"
