"""What is said of a hang: while it lasts, and when the watchdog has ended it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from diag.load.stall import Stalls
from diag.model.run import EXIT_KINDS, ExitCause
from diag.stages.stall import Hang, drop_empty, stall_cause

ERROR = "RuntimeError: unable to allocate shared memory(shm) for file </t>: No space left on device (28)"
ENDED = Stalls(1, 70.2, 3, aborted=True)
KILLED = ExitCause("killed", -9, "SIGKILL", "killed with SIGKILL")


def test_a_hang_is_told_once_with_its_reason_and_its_end(tmp_path: Path) -> None:
    told: list[Any] = []
    context: Any = SimpleNamespace(
        health=SimpleNamespace(update=lambda stage, **values: told.append((stage, values))),
        screen=SimpleNamespace(line=told.append),
    )
    (tmp_path / "trace").mkdir()
    hang = Hang(context, "train", tmp_path)
    hang.tell()
    assert told == []
    (tmp_path / "console.log").write_text("x" * 50_000 + f"\n{ERROR}\n  1/3  0G\n")
    (tmp_path / "trace" / "stalled").write_text("no step for 61 s in a batch\n")
    hang.tell()
    hang.tell()
    said = "no step for 61 s in a batch: /dev/shm is too small for the data loader"
    assert told == [("train", {"stall": said}), f"      HANGS: {said}; stacks in stall.txt"]
    (tmp_path / "trace" / "stalled").unlink()
    hang.tell()
    assert told[2:] == [("train", {"stall": None}), "      training goes on"]


@pytest.mark.parametrize(
    ("tail", "detail", "evidence"),
    [
        ((ERROR, "  1/3"), "/dev/shm is too small for the data loader", ERROR),
        (("  1/3",), "was ended by the watchdog", "stall.txt"),
    ],
)
def test_an_end_by_the_watchdog_is_a_stall_with_its_reason(tail: tuple[str, ...], detail: str, evidence: str) -> None:
    cause = stall_cause(KILLED, ENDED, tail)
    assert (cause.kind, cause.code, cause.signal, cause.evidence) == ("stalled", -9, "SIGKILL", evidence)
    assert cause.kind in EXIT_KINDS
    assert cause.detail.startswith("hung for 70 s after step 3 and was ended by the watchdog")
    assert cause.detail.endswith(detail)


@pytest.mark.parametrize("stall", [None, Stalls(1, 70.2, 3)])
def test_another_end_stays_what_it_was(stall: Stalls | None) -> None:
    assert stall_cause(KILLED, stall, (ERROR,)) is KILLED
    finished = ExitCause("finished", 0)
    assert stall_cause(finished, ENDED, (ERROR,)) is finished


def test_only_an_empty_file_is_dropped(tmp_path: Path) -> None:
    drop_empty(tmp_path / "missing")
    for text in ("", "stacks"):
        (tmp_path / "stall.txt").write_text(text)
        drop_empty(tmp_path / "stall.txt")
    assert (tmp_path / "stall.txt").read_text() == "stacks"
