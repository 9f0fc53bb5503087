"""Ask every question about the machine, each with its own time limit."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from diag.model.check import Check, Status
from diag.model.hardware import Baseline
from diag.probe.child import Child, command
from diag.probe.host import read_host
from diag.probe.machine import Machine, Question, questions
from diag.probe.nvml import read_nvml
from diag.probe.once import Once, UnreadableError
from diag.probe.plan import CheckRequest, make_plan

__all__ = ["CheckRequest", "ask", "run_checks"]


def _silent(_: Check) -> None:
    return None


def run_checks(
    request: CheckRequest, *, on_check: Callable[[Check], None] = _silent
) -> tuple[tuple[Check, ...], Baseline]:
    """Ask every question about the machine; `on_check` hears each answer at once.

    A check that crashes or hangs is answered `unknown` with its reason and takes no other one down. Raises
    InputError for arguments that can't be read, before anything is started. Takes about 10 s.
    """
    plan = make_plan(request.args)
    host = Once("host", read_host, timeout_s=10)
    nvml = Once("NVML", read_nvml, timeout_s=15)
    host.start()  # before the child is there: what is busy or in use now is somebody else's
    nvml.start()
    _settle(host, nvml)
    with Child(command(plan)) as child:
        machine = Machine(request, child, nvml, host)
        checks = ask(questions(machine), on_check)
        return checks, machine.baseline()


def ask(asked: Sequence[Question], on_check: Callable[[Check], None]) -> tuple[Check, ...]:
    """Ask one question after the other, each on its own thread with its own time limit."""
    answers = []
    for question in asked:
        started = time.monotonic()
        try:
            check = Once(question.id, question.ask, timeout_s=question.limit_s)()
        except UnreadableError as error:
            check = Check(question.id, Status.UNKNOWN, reason=str(error))
        check = replace(check, seconds=round(time.monotonic() - started, 3))
        answers.append(check)
        on_check(check)
    return tuple(answers)


def _settle(*facts: Once[Any]) -> None:
    for fact in facts:
        try:
            fact()
        except UnreadableError:
            continue  # the checks that need this fact say why it is missing
