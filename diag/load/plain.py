"""A text as the program printed it: decoded, unescaped, without margins, prefixes and the folds of a terminal."""

import html
import re

from diag.load.prefix import prefixes_of, stripped

_TAG = re.compile(r"<(?:/?(?:html|body|pre|code|p|br|div|span|table|tr|td|b|i|a)\b[^<>\n]{0,200})>", re.I)
_ENTITY = re.compile(r"&(?:gt|lt|amp|quot|nbsp|#39|#x27|#34|#\d{2,5});")
_SPACES = str.maketrans({
    "\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u3000": " ", "\u200b": None, "\u200c": None, "\u200d": None,
    "\u2060": None, "\ufeff": None, "\u200e": None, "\u200f": None,
    "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"',
    "\uff1a": ":", "\uff0c": ",",
})  # fmt: skip
_ODD = "[\u00a0\u2007\u202f\u200b-\u200f\u2060\ufeff\u2018\u2019\u201c\u201d\u2026]"
_LOST_BAR = re.compile(r"(\d% ?)([?\ufffd]{3,})")
"""A bar whose characters the encoding did not have."""
_BAR_TAB = re.compile(r"[%|,]\t")
"""Blanks within a bar that became tabs."""
_WIDTHS = (79, 80, 100, 120, 132)
_MIN_FOLDS = 3
_SHORT = 12
_BAR_BEGUN = r"\d%(?:\||\s?[\u2500-\u259f])[^\]]*$"
"""Compiled where it is needed, which is seldom: a wide range of characters takes a millisecond."""
_BAR_ENDS = re.compile(r"[^\s\]][^\]]{0,79}(?:it/s|s/it)|[^\s\]][^\]]{0,40}\|? ?\d+/\d+ ")
"""A bar that a line begins and the next one ends."""
_REST = re.compile(r"\s*\d+(?:\.\d*)?(?:\s+\d+(?:\.\d*)?){0,3}\s*")
"""The end of a row of figures."""
_HAN = "[\u4e00-\u9fff]"
_LINES = re.compile(r"\r\n|\n|\r(?=\r\n)")


def decode(data: bytes) -> str | None:
    """Text of bytes: UTF-8, UTF-16 with or without a BOM, the encodings of Chinese and of Western Windows.

    None for bytes that are no text.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace").replace("\0", "")
    head = data[:4096]
    if b"\0" in head:
        for encoding, odd in (("utf-16-le", 1), ("utf-16-be", 0)):
            zeros = head[odd::2].count(0)
            if zeros > 0.8 * len(head[odd::2]) and head[1 - odd :: 2].count(0) < 0.05 * len(head):
                return data.decode(encoding, "replace")
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start > len(data) - 4 or data.count(b"\xef\xbf\xbd"):
            return data.decode("utf-8-sig", "replace")  # cut within a character
    try:
        text = data.decode("gb18030")
    except UnicodeDecodeError:
        return data.decode("utf-8-sig", "replace")
    return text if len(re.findall(_HAN, text[:65536])) >= 2 else data.decode("utf-8-sig", "replace")


def plain(text: str, *, unfold: bool = True) -> str:
    """The text without what a page, a mail, a collector or a terminal put around its lines; as many lines as before.

    `unfold` joins lines that a terminal of a usual width broke; what is joined leaves empty lines behind it.
    """
    if _ENTITY.search(text) and len(_ENTITY.findall(text[:200_000])) >= 1:
        text = html.unescape(text)
    if not text.isascii() and re.search(_ODD, text):
        text = text.translate(_SPACES)
    if _LOST_BAR.search(text):
        text = _LOST_BAR.sub(lambda m: m[1] + "\u2501" * len(m[2]), text)
    if _BAR_TAB.search(text):
        text = text.replace("\t", "  ")
    lines = _LINES.split(text)
    before = len(lines)
    if unfold:
        lines = unfolded(lines)  # a fold after the prefixes were there, and below one before
    if prefixes := prefixes_of(lines):
        lines = list(stripped(lines, prefixes))
    lines = _without_margin(lines)
    if unfold:
        lines = unfolded(lines)
    assert len(lines) == before
    return "\n".join(lines).replace("\u2026", "...")  # last: it makes lines longer than the terminal was


def without_tags(text: str) -> str:
    """The text of a page: what stands in `pre`, else everything, each tag that breaks a line as an end of a line."""
    blocks = re.findall(r"<pre\b[^>]{0,200}>(.*?)(?:</pre>|\Z)", text, re.S | re.I)
    inner = "\n".join(blocks) if blocks else re.sub(r"<(?:br|/p|/div|/tr)\b[^<>]{0,50}>", "\n", text, flags=re.I)
    return html.unescape(_TAG.sub("", inner))


def is_page(text: str) -> bool:
    """HTML, as saved from a browser or copied with its markup."""
    head = text[:2000].lstrip().lower()
    return head.startswith(("<!doctype html", "<html", "<pre", "<body", "<div")) or "<pre" in head


def _without_margin(lines: list[str]) -> list[str]:
    """Blanks that stand before every line."""
    sample = [line for line in lines[:2000] if line.strip()]
    if not sample:
        return lines
    margin = min(len(line) - len(line.lstrip(" \t")) for line in sample)
    common = sample[0][:margin]
    if not margin or not all(line.startswith(common) for line in sample):
        return lines
    return [line.removeprefix(common) for line in lines]


def _shape(line: str) -> str:
    """How a line begins, whatever its numbers are."""
    return re.sub(r"\d+", "0", line[:16])[:6]


def unfolded(lines: list[str]) -> list[str]:
    """Lines joined again that a terminal of a usual width broke, in the middle of words.

    A log whose lines happen to be as wide as a terminal is left alone: at a fold, blanks stand on neither side of most
    breaks, and what follows does not begin like the line before, as the rows of one kind do.
    """
    width = max(map(len, lines), default=0)
    if width not in _WIDTHS:
        return lines
    full = [i for i, line in enumerate(lines[:-1]) if len(line) == width and lines[i + 1].strip()]
    within = [i for i in full if not lines[i].endswith(" ") and not lines[i + 1].startswith(" ")]
    words = [i for i in within if lines[i][-1].islower() and lines[i + 1][0].islower()]
    alike = [i for i in within if _shape(lines[i]) == _shape(lines[i + 1])]
    broken = set(within)
    rests = [i for i in full if i not in broken and _REST.fullmatch(lines[i + 1])]
    bars = [i for i in full if re.search(_BAR_BEGUN, lines[i]) and _BAR_ENDS.match(lines[i + 1])]
    few = (len(lines) <= _SHORT and bool(words) and len(words) == len(full)) or len(bars) >= max(1, 0.1 * len(full))
    short = len(lines) <= _SHORT and len(within) >= max(2, 0.6 * len(full)) and not alike
    few = few or (short and not any(lines[i + 1][0].isupper() for i in within))
    many = len(within) + len(rests) >= max(_MIN_FOLDS, 0.1 * len(full)) and len(alike) <= 0.5 * len(within)
    if not (few or many):
        return lines
    made: list[str] = []
    blanks = 0
    open_line = False
    for line in lines:
        apart = line.startswith("    ") and not _REST.fullmatch(line)  # a table's next row, under one that was cut
        if open_line and line and not apart and not (made[-1].endswith("]") and line.startswith(" ")):
            made[-1] += line
            blanks += 1
        else:
            made += [""] * blanks
            blanks = 0
            made.append(line)
        open_line = len(line) == width and len(made[-1]) < 20_000
    return made + [""] * blanks
