"""A document -> the files that were put into it: fences, quotes, `==> name <==`, recordings."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from diag.load.plain import is_page, without_tags

MAX_PARTS = 100
_MAX_JSON = 32 * 1024 * 1024
_HEAD = 1 << 20
_SUFFIXES = r"(?:csv|tsv|ya?ml|txt|log|out|err|json|jsonl|md|ini|cfg)"
_FILE = rf"(?:[\w.()+\- ]{{0,80}}[/\\])*[\w.()+\-]{{1,80}}(?: \(\d+\))?\.{_SUFFIXES}"
_HEADER = (
    rf"(?:={{2,}}>?|-{{2,}}>?|\#{{1,6}}|\*\*|\*{{3,}}|`|>>>?|[-*+] `?)\s*[`*\"']{{0,3}}({_FILE})[`*\"']{{0,3}}\s*"
    rf":?\s*(?:<?={{2,}}|<?-{{2,}}|\#{{0,6}}|\*{{0,3}}|`?:?|<<<?)\s*"
)
_COMMAND = (
    rf"(?:[\w.\-]+@[\w.\-]+:?[^$#\n]{{0,80}}|\([\w.\-]+\) ?|PS [^>\n]{{0,80}}|[A-Z]:[^>\n]{{0,80}})?[$#>%] ?"
    rf"(?:cat|type|more|less|head|tail|Get-Content|gc|bat)\s+(?:-\S+ )*[\"']?({_FILE})[\"']?\s*"
)
_COLON = rf"[*`\"']{{0,3}}({_FILE})[*`\"']{{0,3}}\s*[:\uff1a]"
_FENCE = r"^(?P<margin>[ \t]{0,8})(?P<mark>`{3,}|~{3,})[ \t]*(?P<lang>[\w.+-]*)[^`\n]*$"
_QUOTE = re.compile(r"^(?:>(?!>>) ?){1,4}")
_TOLD = (
    r"(?i)\W{0,3}(?:Ultralytics |YOLOv\d|Traceback |Epoch\s+gpu_mem)|\s*\d+/\d+\s+[\d.]+[GM]\s|\s+File \"|[\w.]*Error: "
)
"""Compiled where a text is looked at; a results.csv needs none of them."""
_LANGS = {"csv": "table.csv", "yaml": "part.yaml", "yml": "part.yaml"}


@dataclass(frozen=True)
class Part:
    """`name` as the document gives it, else empty; `line` is the number of lines before it."""

    name: str
    text: str
    line: int = 0
    prose: bool = False


def split(text: str) -> list[Part] | None:
    """The parts of a document; None for a text that is one thing by itself. Raises nothing."""
    head = text[:4096].lstrip()
    if head.startswith(("{", "[")) and (made := _json(text, head)):
        return made
    if is_page(text):
        return [Part("", without_tags(text))]
    text, quoted = _unquoted(text)
    lines = text.split("\n")
    lines = [line.removesuffix("\r") for line in lines]
    parts = _fenced(lines) or _headed(lines) or _margins(lines)
    return parts or ([Part("", text)] if quoted else None)


def _json(text: str, head: str) -> list[Part] | None:
    if len(text) > _MAX_JSON:
        return None
    first = head.partition("\n")[0]
    if '"version"' in first and '"width"' in first:
        return _recording(text)
    if first.startswith('{"log"') or ('"log":' in first and '"stream":' in first):
        told = [str(r.get("log", "")) for r in _records(text) if isinstance(r, dict)]
        return [Part("", "".join(told))] if told else None
    return None


def _records(text: str) -> Iterator[Any]:
    for line in text.splitlines():
        try:
            yield json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            yield None


def _recording(text: str) -> list[Part] | None:
    """asciinema: `[seconds, "o", data]` a line."""
    events = (r for r in _records(text) if isinstance(r, list) and len(r) == 3 and r[1] == "o")
    made = "".join(str(r[2]) for r in events)
    return [Part("", made.replace("\r\n", "\n"))] if made.strip() else None


def _unquoted(text: str) -> tuple[str, bool]:
    """Without the marks of a quoted mail or issue, where at least three lines in a row have one."""
    if "\n>" not in text and not text.startswith(">"):
        return text, False
    lines = text.split("\n")
    made, start, changed = list(lines), 0, False
    while start < len(lines):
        end = start
        while end < len(lines) and (_QUOTE.match(lines[end]) or (end > start and not lines[end].strip())):
            end += 1
        if end - start >= 3:
            made[start:end] = [_QUOTE.sub("", line) for line in lines[start:end]]
            changed = True
        start = max(end, start + 1)
    return "\n".join(made), changed


def _fenced(lines: list[str]) -> list[Part] | None:
    """Blocks between fences; what stands around them is prose, which may name the next block."""
    if not any("```" in line or "~~~" in line for line in lines):
        return None
    parts: list[Part] = []
    prose = list(lines)
    at, before = 0, ""
    while at < len(lines) and len(parts) < MAX_PARTS:
        found = re.match(_FENCE, lines[at])
        if not found:
            before = lines[at] if lines[at].strip() else before
            at += 1
            continue
        end = at + 1
        mark = found["mark"]
        while end < len(lines) and not re.match(rf"[ \t]{{0,8}}{mark[0]}{{{len(mark)},}}\s*$", lines[end]):
            end += 1
        body = [line.removeprefix(found["margin"]) for line in lines[at + 1 : end]]
        if any(line.strip() for line in body):
            parts += _inner(_named(before) or _LANGS.get(found["lang"].lower(), ""), body, at + 1)
        prose[at : end + 1] = [""] * (end + 1 - at)
        at, before = end + 1, ""
    if not parts:
        return None
    rest = _without_markup(prose)
    if any(line.strip() for line in rest):
        parts.append(Part("", "\n".join(rest), prose=True))
    return parts[:MAX_PARTS]


def _inner(name: str, body: list[str], line: int) -> list[Part]:
    """A block in which several files stand is split once more."""
    inner = _headed(body) if not name else None
    return [Part(p.name, p.text, p.line + line) for p in inner] if inner else [Part(name, "\n".join(body), line)]


def _named(line: str) -> str:
    """The file that a line of prose announces."""
    if len(line) > 300:
        return ""
    for pattern in (_HEADER, _COMMAND, _COLON):
        if found := re.fullmatch(pattern, line.strip()):
            return found[1]
    found = re.search(
        rf"`({_FILE})`|\*\*({_FILE})\*\*|<summary>\s*({_FILE})\s*</summary>|(?<!\S)({_FILE})[`*]*\s*[:\uff1a]?\s*$",
        line,
    )
    return next((g for g in found.groups() if g), "") if found else ""


def _without_markup(lines: Iterable[str]) -> list[str]:
    return [re.sub(r"^\s*(?:<[^<>]{1,80}>\s*)+$|^#{1,6} .*|^- \[[ xX]\] .*", "", line) for line in lines]


def headed(text: str) -> bool:
    """Whether files stand one after the other under lines that name them."""
    return len(_heads(text[:_HEAD].split("\n"))) > 0


def _heads(lines: list[str]) -> list[tuple[int, str]]:
    heads: list[tuple[int, str]] = []
    for i, line in enumerate(lines):
        text = line.strip()
        if not 3 <= len(text) <= 200 or "." not in text:
            continue
        found = re.fullmatch(_HEADER, text) or re.fullmatch(_COMMAND, text)
        if found is None and (i == 0 or not lines[i - 1].strip()):
            found = re.fullmatch(_COLON, text)
        if found:
            heads.append((i, found[1].strip()))
    return heads


def _headed(lines: list[str]) -> list[Part] | None:
    """Files one after the other, each under a line that names it."""
    heads = _heads(lines)
    if not heads or len(heads) > MAX_PARTS:
        return None
    before = lines[: heads[0][0]]
    parts = [Part("", "\n".join(before))] if any(line.strip() for line in before) else []
    for (at, name), following in zip(heads, [*(h[0] for h in heads[1:]), len(lines)], strict=True):
        body, rest = _outdented(lines[at + 1 : following])
        if any(line.strip() for line in body):
            parts.append(Part(name, "\n".join(body), at + 1))
        if any(line.strip() for line in rest):
            parts.append(Part("", "\n".join(rest), at + 1, prose=True))
    return parts or None


def _outdented(lines: list[str]) -> tuple[list[str], list[str]]:
    """The indented block at the head of these lines, and what stands below it; all of them where it is not indented."""
    told = [line for line in lines if line.strip()]
    if not told or not all(line.startswith("    ") for line in told[:2]) or all(line[4:5] == " " for line in told[:2]):
        return lines, []
    end = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("    ")), len(lines))
    return [line[4:] for line in lines[:end]], [*[""] * end, *lines[end:]]


def _margins(lines: list[str]) -> list[Part] | None:
    """Code that is indented by four blanks under prose, as question sites show it.

    A console log has indented tables, too, but none of their lines begins at the fifth column.
    """
    parts: list[Part] = []
    prose = list(lines)
    at, before = 0, ""
    while at < len(lines) and len(parts) < MAX_PARTS:
        if not lines[at].startswith("    ") or (at and lines[at - 1].strip()):
            before = lines[at] if lines[at].strip() else before
            at += 1
            continue
        end = at
        while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
            end += 1
        body = [line[4:] for line in lines[at:end]]
        told = [line for line in body if line.strip()]
        flush = sum(not line.startswith(" ") for line in told)
        if before and flush >= max(1, 0.3 * len(told)):
            parts.append(Part(_named(before), "\n".join(body), at))
            prose[at:end] = [""] * (end - at)
            before = ""
        at = end
    if not parts or any(re.match(_TOLD, line) for line in prose):
        return None  # a log in which something is indented
    rest = _without_markup(prose)
    return [*parts, Part("", "\n".join(rest), prose=True)] if any(line.strip() for line in rest) else parts
