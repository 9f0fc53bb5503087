"""Prefixes that collectors, launchers and pasting put before every line: found on the head of a text, then taken off.

Docker Compose, kubectl, containerd, syslog, journald, GitHub Actions, ClearML, Slurm, torchrun, MPI, Ray, Python's
logging, loguru, moreutils' ts, grep, cat -n, quotes of mails and issues. Texts are restored by them
(`diag.load.plain`); logs that grow or are large have them taken off as they are read (`diag.load.console`).
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

_SAMPLE = 400
_ROUNDS = 4
_DAY = r"\d{4}[-/]\d\d[-/]\d\d"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d"
_LEVEL = r"(?:TRACE|DEBUG|INFO|SUCCESS|WARNING|WARN|ERROR|CRITICAL|FATAL)"


@dataclass(frozen=True)
class Prefix:
    """A pattern for text and for bytes; `least` lines must be there and `share` of them must have it.

    A message of several lines may have its prefix on the first one alone, so 0.3 is enough for that of a collector.
    """

    source: str
    share: float = 0.9
    least: int = 1
    check: Callable[[list[str]], bool] | None = None
    """Asked about group 1 of all sampled lines that match."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """For text. Not compiled before a text is looked at: a results.csv has none of these."""
        return re.compile(self.source)

    @cached_property
    def raw(self) -> re.Pattern[bytes]:
        """For bytes."""
        return re.compile(self.source.encode())


def _one_word(words: list[str]) -> bool:
    """One name throughout; a short sample needs one that ends in a number, as Compose makes them."""
    return len(set(words)) == 1 and (len(words) >= 3 or re.search(r"[-_]\d+$", words[0]) is not None)


def _one_file(words: list[str]) -> bool:
    return len(set(words)) == 1


def _counted(words: list[str]) -> bool:
    """Line numbers, which go up (`grep -n`, `cat -n`), or ranks of a launcher: few that come again and again."""
    numbers = [int(w) for w in words]
    rising = all(0 < b - a <= 50 for a, b in pairwise(numbers))
    if len(numbers) < 4:
        return (numbers[0] == 1 and rising) or (len(numbers) == 3 and not any(numbers))
    distinct = len(set(numbers))
    return rising or (max(numbers) < 1024 and distinct <= max(1, len(numbers) // 4))


def _made(pattern: str, **how: object) -> Prefix:
    return Prefix(pattern, **how)  # type: ignore[arg-type]


PREFIXES: tuple[Prefix, ...] = (
    _made(r"\d{13} \S{1,80} (?:info|error|warning|debug|critical) ", share=0.3),
    _made(rf"{_DAY}T{_CLOCK} (?:stdout|stderr) [FP] ", share=0.3),
    _made(r"([\w.-]{1,60})\s{0,30}\| ?(?!.*\|\s*$)", check=_one_word),
    _made(r"([\w.-]{1,60}[-_]\d{1,4})\s{0,30}\| ?", share=0.3, check=_one_file),
    _made(r"\[pod/[^\]]{1,200}\] ?", share=0.3),
    _made(rf"<\d{{1,3}}>1 {_DAY}T{_CLOCK} \S+ \S+ \S+ \S+ (?:-|\[.{{0,200}}?\]) ?", share=0.3),
    _made(rf"(?:<\d{{1,3}}>)?{_MONTH} \d\d:\d\d:\d\d \S{{1,64}} (?!kernel)[\w./@-]{{1,64}}\[\d+\]: ?", share=0.3),
    _made(rf"{_MONTH} \d\d:\d\d:\d\d (\S{{1,64}} (?!kernel)[\w./@-]{{1,64}}): ?", least=3, check=_one_file),
    _made(rf"{_DAY}T{_CLOCK} \S{{1,64}} (?!kernel)[\w./@-]{{1,64}}\[\d+\]: ?", share=0.3),
    _made(rf"\[?{_DAY}[T ]{_CLOCK}\]?\s*[-|]?\s*\[?{_LEVEL}\]?\s*(?:[-|:]\s*)(?:[\w.<>]+:[\w.<>]+:\d+ - )?", share=0.3),
    _made(rf"\[?{_DAY}[T ]{_CLOCK}\]?\s*-\s*[\w.]{{1,60}}\s*-\s*{_LEVEL}\s*-\s?", share=0.3),
    _made(rf"\[?{_DAY}[T ]{_CLOCK}\]?(?: |$)", share=0.8),
    _made(rf"{_DAY}T\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?(?:Z|[+-]\d\d:?\d\d) ?", share=0.3),
    _made(rf"{_MONTH} \d\d:\d\d:\d\d(?: |$)", share=0.8),
    _made(r"\[\d\d:\d\d:\d\d(?:[.,]\d{1,6})?\](?: |$)", share=0.9, least=2),
    _made(r"\[(?:rank|default|trainer|worker)_?\d{1,4}\]:? ?", share=0.3),
    _made(r"\[\d{1,5},\d{1,5}\]<std(?:out|err|diag)>: ?", share=0.3),
    _made(r"\([\w.:-]{1,80} (?:pid=\d+|ip=)[^)\n]{0,80}\) ?", share=0.3),
    _made(rf"{_LEVEL}:(?:ultralytics|root|yolov5|__main__|torch)[\w.]{{0,60}}:"),
    _made(rf"{_LEVEL}:[\w.]{{1,60}}:", least=3),
    _made(r"((?:[A-Za-z]:)?[\w./\\ -]{1,200}\.(?:log|out|err|txt))[:-](?:\d+[:-])?(?=.?)", check=_one_file),
    _made(r"((?:[A-Za-z]:)?[\w./\\ -]{1,200}\.\w{1,5})[:-](?:\d+[:-])?(?=.?)", least=3, check=_one_file),
    _made(r" {0,6}(?!\d\d:\d\d:\d\d)(\d{1,7})(?:[:|)]|\.(?= |$)|\t) ?", least=2, check=_counted),
    _made(r"(?:>(?!>>) ?){1,4}", least=1),
    _made(r"\+(?![-=+]{3})", least=3),
    _made(r"#(?!\s*#) ?", least=3),
)  # fmt: skip


def find_prefix(lines: Iterable[str]) -> Prefix | None:
    """The prefix of these lines; None where they have none."""
    sample = [line for line in lines if line.strip()][:_SAMPLE]
    if not sample:
        return None
    for prefix in PREFIXES:
        if len(sample) < prefix.least:
            continue
        found = [m for line in sample if (m := prefix.pattern.match(line[:400]))]
        if len(found) < max(prefix.least, prefix.share * len(sample)):
            continue
        if any(m.end() == 0 for m in found) or (prefix.check and not prefix.check([m[1] for m in found])):
            continue
        return prefix
    return None


def prefixes_of(lines: Iterable[str]) -> tuple[Prefix, ...]:
    """The prefixes of these lines from the outside in: `train-1  | 2024-05-01T12:00:00Z text` has two."""
    rest = list(lines)[: 2 * _SAMPLE]
    made: list[Prefix] = []
    while len(made) < _ROUNDS and (prefix := find_prefix(rest)):
        made.append(prefix)
        rest = [prefix.pattern.sub("", line, count=1) if prefix.pattern.match(line) else line for line in rest]
    return tuple(made)


def stripped(lines: Iterable[str], prefixes: tuple[Prefix, ...]) -> Iterator[str]:
    """The lines without these prefixes; one that has none stays as it is."""
    matches = tuple(p.pattern.match for p in prefixes)
    for line in lines:
        rest = line
        for match in matches:
            if found := match(rest):
                rest = rest[found.end() :]
        yield rest


def sniff(head: bytes, *, least: int = 5) -> tuple[Prefix, ...]:
    """The prefixes of a log by its first bytes; none for a head of fewer lines, which may still be written."""
    lines = head.decode("utf-8", "replace").split("\n")[: 2 * _SAMPLE]
    return prefixes_of(lines) if sum(bool(line.strip()) for line in lines) >= least else ()


def strip_all(prefixes: tuple[Prefix, ...], block: bytes) -> bytes:
    """All lines of a block without these prefixes."""
    for prefix in prefixes:
        match = prefix.raw.match
        block = b"\n".join(line[found.end() :] if (found := match(line)) else line for line in block.split(b"\n"))
    return block
