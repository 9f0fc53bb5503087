"""What a log collector puts before each line: its clock, its machine, its stream. Taken off before a line is read."""

import re

_PREFIXES = (
    rb"\d{13} \S{1,80} (?:info|error|warning|debug|critical) ",  # ClearML's download of a console
    rb"\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:?\d\d) (?:stdout|stderr) [FP] ",  # Kubernetes, CRI
    rb"\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:?\d\d) ?",  # docker logs -t, CI runners
    rb"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,80} [\w.@/-]{1,60}(?:\[\d{1,8}\])?: ",  # syslog, journalctl
    rb"\[\d{1,5},\d{1,5}\]<std(?:out|err)>: ?",  # mpirun --tag-output
    rb"\[(?:default|rank|trainer|worker)_?\d{1,4}\]: ?",  # torchrun --tee, accelerate
    rb"[\w.-]{1,60} +\| ",  # docker compose
)
_COMPILED = tuple(re.compile(p) for p in _PREFIXES)
_LINES = 400


def sniff(head: bytes, *, least: int = 5, share: float = 0.3) -> re.Pattern[bytes] | None:
    """The prefix that this share of the first lines (and so many of them) carry.

    A message of several lines has its prefix on the first one alone, so not all of them do.
    """
    lines = [line for line in head.split(b"\n")[:_LINES] if line.strip()]
    for pattern in _COMPILED:
        count = sum(1 for line in lines if pattern.match(line))
        if count >= least and count >= share * len(lines):
            return pattern
    return None


def strip(prefix: re.Pattern[bytes], line: bytes) -> bytes:
    """The line without the prefix."""
    found = prefix.match(line)
    return line[found.end() :] if found else line


def strip_all(prefix: re.Pattern[bytes], block: bytes) -> bytes:
    """All lines without the prefix."""
    return b"\n".join(strip(prefix, line) for line in block.split(b"\n"))
