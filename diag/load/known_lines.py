"""The lines of a log that are of a known kind, found without asking each line for each kind.

Most lines say nothing, and logs are long: a text is cut into words, and for each word it is found out once which gates
it may open. Only those are then looked for, and only behind them stands a pattern.
"""

import re
from collections.abc import Iterable
from typing import Any

from diag.load.kinds import GATES, pattern
from diag.load.trainlog_lines import WORDS, LogParser
from diag.model.evidence import ConsoleLine

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_STAMP = re.compile(r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S*\s*\|?\s*(?:[A-Z]+\s*\|\s*\S+\s*\|\s*)?")
_ANSI_BYTES = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]")
_SPLIT = bytes(c if (chr(c).isalpha() and c < 128) or c >= 128 or c == ord("^") else ord(" ") for c in range(256))
"""Letters (and all that is not ASCII) stay, the rest is a space: numbers are ever new, words are not."""
_PARSER = ""
_END = -1
_Gate = tuple[bytes, tuple[str, ...]]
_MAX_MEMO = 100_000
_MAX_TEXT = 300
_MAX_PER_KIND = 20
_MAX_LINE = 4000


class KnownLines:
    """Picks the lines of known kinds, and hands to the parser what it may want."""

    def __init__(self, parser: LogParser) -> None:
        self.parser = parser
        self.found: list[ConsoleLine] = []
        self.counts: dict[str, int] = {}
        self.gates = _open_gates({})
        self.keys = any_of(key for key, _, _ in self.gates)
        self.quiet: set[bytes] = set()
        self.loud: dict[bytes, tuple[_Gate, ...]] = {}

    def fork(self, parser: LogParser) -> "KnownLines":
        """A copy that goes its own way, with a parser of its own."""
        twin = KnownLines(parser)
        twin.found, twin.counts = list(self.found), dict(self.counts)
        twin.gates, twin.quiet = self.gates, set(self.quiet)
        return twin

    def silent(self, block: bytes) -> bool:
        """Whether none of these lines says anything (its last time of day is taken all the same)."""
        low = lower(block, len(block))
        return self.parser.idle(low) and not any(gate in low for gate, _ in self._opened(low))

    def line(self, number: int, part: bytes) -> None:
        """Take one line in."""
        low = lower(part)
        wanted = self.parser.wants(low)
        kinds = [kind for gate, opens in self._opened(low) if gate in low for kind in opens]
        if wanted or kinds:
            text = plain(part)
            if wanted or _PARSER in kinds:
                self.parser.feed(number, text)
            self._keep(number, text.strip(), kinds)

    def _opened(self, low: bytes) -> list[_Gate]:
        words = set(low.translate(_SPLIT).split()) - self.quiet
        return [gate for word in words for gate in self._gates(word)] if words else []

    def _gates(self, word: bytes) -> tuple[_Gate, ...]:
        """The gates that a word may open, looked up once."""
        gates = self.loud.get(word)
        if gates is None:
            found = self.keys.search(word) is not None
            gates = tuple((gate, kinds) for key, gate, kinds in self.gates if key in word) if found else ()
            if not gates and len(self.quiet) < _MAX_MEMO:
                self.quiet.add(word)
            elif len(self.loud) < _MAX_MEMO:
                self.loud[word] = gates
        return gates

    def _keep(self, number: int, text: str, kinds: Iterable[str]) -> None:
        for kind in dict.fromkeys(kinds) if text else ():
            if kind and self.counts.get(kind, 0) < _MAX_PER_KIND and pattern(kind).search(text):
                self.counts[kind] = self.counts.get(kind, 0) + 1
                self.found.append(ConsoleLine(kind, number, text[:_MAX_TEXT]))
                if self.counts[kind] == _MAX_PER_KIND:
                    self.gates = _open_gates(self.counts)
                    self.loud.clear()


def lower(part: bytes, limit: int = _MAX_LINE) -> bytes:
    """In lower case, without terminal codes, cut at `limit` bytes."""
    low = part[:limit].lower()
    return _ANSI_BYTES.sub(b"", low) if b"\x1b" in low else low


def plain(part: bytes) -> str:
    """A line as text, without terminal codes and the stamp of a logger."""
    text = _ANSI.sub("", part[:_MAX_LINE].decode("utf-8", "replace").lstrip("\ufeff")).rstrip()
    return _STAMP.sub("", text, count=1) if text[:2] == "20" and "|" in text[:60] else text


def _open_gates(counts: dict[str, int]) -> tuple[tuple[bytes, bytes, tuple[str, ...]], ...]:
    """(key, gate, kinds) of the gates whose kinds are not yet full; the key is the longest word of the gate."""
    full = {kind for kind, count in counts.items() if count >= _MAX_PER_KIND}
    left = [(word, tuple(k for k in kinds if k not in full)) for word, kinds in GATES]
    left += [(word, (_PARSER,)) for word in WORDS]
    return tuple((max(word.translate(_SPLIT).split(), key=len), word, kinds) for word, kinds in left if kinds)


def any_of(words: Iterable[bytes]) -> re.Pattern[bytes]:
    """A pattern for one of many words that looks at each letter once: `cache`, `cuda` as `c(?:ache|uda)`."""
    tree: dict[int, Any] = {}
    for word in words:
        node = tree
        for letter in word:
            node = node.setdefault(letter, {})
        node[_END] = {}

    def branch(node: dict[int, Any]) -> bytes:
        if not node or _END in node:
            return b""
        return b"(?:" + b"|".join(re.escape(bytes([c])) + branch(after) for c, after in node.items()) + b")"

    return re.compile(branch(tree))
