"""Untrusted text as harmless lines."""

import re

_UNSAFE = re.compile(
    "\x1b\\[[0-9;?]*[ -/]*[@-~]"  # colours and cursor moves
    "|\x1b\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?"  # titles and links
    "|[\x00-\x1f\x7f-\x9f]"
    "|[\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"  # invisible and direction-changing
)


def clean(value: object, *, limit: int = 300) -> str:
    """Untrusted text as one harmless line: no control characters, no terminal codes, bounded."""
    line = _UNSAFE.sub(" ", str(value)).strip()
    line = re.sub(" {2,}", " ", line)
    return line if len(line) <= limit else line[: limit - 1] + "…"
