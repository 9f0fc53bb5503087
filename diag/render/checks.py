"""Answers of the machine check as lines of text."""

import textwrap

from diag.model.check import Check

_COLOURS = {"pass": "32", "info": "36", "warn": "33", "fail": "1;31", "skip": "2", "unknown": "35"}
_ID_WIDTH = 20
_INDENT = " " * 9


def lines(check: Check, *, colour: bool, width: int) -> list[str]:
    """One check as text: status, id, value, expectation; below a warning or a failure why, and what to do.

    `width` is the terminal's; 0 writes long lines, which suit `grep`.
    """
    said = check.value or check.reason
    if check.value and check.expected:
        said += f"  (expected: {check.expected})"
    status = check.status.upper()
    body = _wrapped(said, width, first=f"{check.id:{_ID_WIDTH}}")
    shade = f"\033[{_COLOURS[check.status.value]}m" if colour else ""
    reset = "\033[0m" if colour else ""
    shown = [f"{shade}{status:8}{reset} {body[0]}", *body[1:]]
    if check.status.value in {"warn", "fail", "unknown"}:
        if check.value and check.reason:
            shown += _wrapped(check.reason, width, first=f"{_INDENT}why: ")
        if check.remedy:
            shown += _wrapped(check.remedy, width, first=f"{_INDENT}fix: ")
    return shown


def _wrapped(text: str, width: int, *, first: str) -> list[str]:
    if not width:
        return [first + " ".join(text.split())]
    under = " " * (len(first) if first.startswith(" ") else len(_INDENT) + len(first))
    room = width if first.startswith(" ") else width - len(_INDENT)
    rows = textwrap.wrap(text, max(30, room), initial_indent=first, subsequent_indent=under[: max(0, width - 30)])
    return rows or [first.rstrip()]
