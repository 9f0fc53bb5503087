"""Take secrets out of text, and count what was taken out by which pattern."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diag.codec import read_yaml
from diag.errors import ConfigError

_SECRET_NAME = re.compile(r"passw|secret|token|api_?key|access_?key|auth|credential|private", re.I)
_TOKEN_FILES = ("JUPYTER_TOKEN_FILE", "TOKEN_FILE")
"""As entrypoint/services/jupyter.sh and entrypoint/lib.sh name them; the default is `.token` of the workspace."""
_HOMES = re.compile(r"(?P<head>(?:/home/|/Users/|[A-Za-z]:\\{1,2}Users\\{1,2}))(?P<user>[^\s/\\:\"'<>]{1,64})")
_COLOURS = re.compile(r"\x1b\[[0-9;]{0,20}m")
MIN_LITERAL = 8
"""A secret of the environment that is shorter is no more likely a secret than a word."""


@dataclass(frozen=True)
class Pattern:
    """One kind of secret: tried on a text that holds one of `words` (lower case)."""

    name: str
    words: tuple[str, ...]
    regex: re.Pattern[str]


@dataclass
class Redactor:
    """Redacts texts; `counts` are the replacements so far by pattern."""

    patterns: tuple[Pattern, ...]
    literals: tuple[str, ...] = ()
    """Known secrets, replaced wherever they stand: of the environment, of token files."""
    hide_user: bool = False
    """Replace the user's name in paths of home directories."""
    counts: Counter[str] = field(default_factory=Counter)

    def text(self, text: str) -> str:
        """The text without secrets, and without colours: their codes stand between a name and its value."""
        text = _COLOURS.sub("", text)
        for literal in self.literals:
            if literal in text:
                self.counts["environment"] += text.count(literal)
                text = text.replace(literal, "<redacted:environment>")
        low = text.lower()
        for pattern in self.patterns:
            if any(word in low for word in pattern.words):
                text = pattern.regex.sub(lambda found, name=pattern.name: self._hide(found, name), text)  # type: ignore[misc]
        return _HOMES.sub(self._hide_user, text) if self.hide_user else text

    def _hide(self, found: re.Match[str], name: str) -> str:
        start, end = found.span("secret") if "secret" in found.re.groupindex else found.span()
        whole, at = found[0], found.start()
        if "<redacted:" in whole:
            return whole
        self.counts[name] += 1
        return f"{whole[: start - at]}<redacted:{name}>{whole[end - at :]}"

    def _hide_user(self, found: re.Match[str]) -> str:
        self.counts["user"] += 1
        return f"{found['head']}<user>"


def load_patterns(path: Path) -> tuple[Pattern, ...]:
    """The patterns of configs/redact.yaml. Raises ConfigError for a broken one."""
    made = []
    for number, entry in enumerate(read_yaml(path) or [], 1):
        try:
            words = tuple(str(word) for word in entry["words"])
            made.append(Pattern(str(entry["name"]), words, re.compile(entry["pattern"], re.DOTALL)))
        except (KeyError, TypeError, re.error) as error:
            raise ConfigError(f"{path}: entry {number}: {error}") from error
    return tuple(made)


def known_secrets(env: Mapping[str, str] = os.environ, *, more_files: Iterable[Path] = ()) -> tuple[str, ...]:
    """Values of variables that are called like secrets, and what is in token files; longest first."""
    found = {value.strip() for name, value in env.items() if _SECRET_NAME.search(name) and not value.startswith("/")}
    files = [Path(env[name]) for name in _TOKEN_FILES if env.get(name)]
    for file in (*files, *more_files):
        try:
            found.add(file.read_text(encoding="utf-8", errors="replace")[:4096].strip())
        except OSError:
            continue
    return tuple(sorted((s for s in found if len(s) >= MIN_LITERAL), key=len, reverse=True))


def shown(counts: Mapping[str, Any]) -> str:
    """`aws_key_id 2, named 1`; `nothing` without any."""
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "nothing"
