"""Wrappings of texts: prefixes of collectors, terminals, encodings, quoting."""

import datetime
import re
import textwrap
from collections.abc import Callable

from tests.wrappings.base import Files, Wrapping, each, each_line, each_text, is_log, is_text

_START = datetime.datetime(2024, 5, 1, 12, 0, 0)


def _at(i: int) -> datetime.datetime:
    return _START + datetime.timedelta(seconds=1.7 * i)


def _iso(i: int) -> str:
    return f"{_at(i):%Y-%m-%dT%H:%M:%S}.{(i * 7919) % 1000:03d}123456Z"


PREFIXES: dict[str, Callable[[int], str]] = {
    "docker_compose": lambda i: "train-1  | ",
    "docker_compose_v1": lambda i: "trainer_1  | ",
    "kubectl_timestamps": lambda i: f"{_iso(i)} ",
    "kubectl_prefix": lambda i: "[pod/yolo-train-7d9f/trainer] ",
    "rfc5424": lambda i: f"<14>1 {_iso(i)} gpu-01 train 4242 - - ",
    "journald": lambda i: f"{_at(i):%b %d %H:%M:%S} gpu-01 train[4242]: ",
    "journald_iso": lambda i: f"{_at(i):%Y-%m-%dT%H:%M:%S}+0200 gpu-01 python[4242]: ",
    "slurm_label": lambda i: "0: ",
    "github_actions": lambda i: f"{_iso(i)[:23]}0000Z ",
    "torchrun_rank": lambda i: "[rank0]: ",
    "torchrun_default": lambda i: "[default0]:",
    "python_logging": lambda i: f"{_at(i):%Y-%m-%d %H:%M:%S},{i % 1000:03d} - INFO - ",
    "python_logging_name": lambda i: f"{_at(i):%Y-%m-%d %H:%M:%S},{i % 1000:03d} - ultralytics - INFO - ",
    "python_logging_basic": lambda i: "INFO:ultralytics:",
    "loguru": lambda i: f"{_at(i):%Y-%m-%d %H:%M:%S}.{i % 1000:03d} | INFO     | __main__:main:{10 + i % 90} - ",
    "ts_brackets": lambda i: f"[{_at(i):%Y-%m-%d %H:%M:%S}] ",
    "ts_moreutils": lambda i: f"{_at(i):%b %d %H:%M:%S} ",
    "clock_brackets": lambda i: f"[{_at(i):%H:%M:%S}] ",
    "ray": lambda i: "(RayTrainWorker pid=4242, ip=10.0.0.7) ",
    "mpirun_tag": lambda i: "[1,0]<stdout>:",
    "indent4": lambda i: "    ",
    "indent_tab": lambda i: "\t",
    "quote": lambda i: "> ",
    "quote_twice": lambda i: ">> ",
    "grep_n": lambda i: f"{i + 1}:",
    "cat_n": lambda i: f"{i + 1:6d}\t",
    "nl_dot": lambda i: f"{i + 1}. ",
    "grep_file": lambda i: r"C:\logs\train.out:",
    "grep_file_n": lambda i: f"/home/me/logs/train.out:{i + 1}:",
    "diff_plus": lambda i: "+",
    "comment": lambda i: "# ",
}
"""Name -> the prefix of line i."""


def _prefixed(name: str) -> Wrapping:
    # Only markup is put before captures such as nvidia-smi, too.
    kind = is_text if name in {"indent4", "indent_tab", "quote", "quote_twice"} else is_log
    put: Callable[[int], str] = PREFIXES[name]
    return Wrapping(f"text.{name}", each_line(kind, lambda i, line: put(i) + line))


def _bars(text: str) -> str:
    """Bars are drawn again and again with a carriage return."""
    return "\n".join(
        "\r" + line + "\x1b[K\r" + line if "%|" in line or "it/s" in line else line for line in text.split("\n")
    )


def _colours(_: int, line: str) -> str:
    found = re.match(r"(\W{0,3}\w[\w ]{0,20}: ?)(.*)", line)
    return f"\x1b[34m\x1b[1m{found[1]}\x1b[0m{found[2]}" if found else f"\x1b[39m{line}\x1b[0m"


def _script(text: str) -> str:
    body = text.replace("\n", "\r\n")
    return (
        'Script started on 2024-05-01 12:00:00+02:00 [TERM="xterm-256color" TTY="/dev/pts/3" COLUMNS="120"]\n'
        "\x1b]0;me@gpu: ~/yolo\x07\x1b[?2004h(yolo) me@gpu:~/yolo$ python train.py\r\n\x1b[?2004l\r" + body + "\r\n"
        "\x1b[?2004h(yolo) me@gpu:~/yolo$ exit\r\n\n"
        'Script done on 2024-05-01 13:00:00+02:00 [COMMAND_EXIT_CODE="0"]\n'
    )


def _wrap80(_: int, line: str) -> str:
    return "\n".join(line[i : i + 80] for i in range(0, len(line), 80)) or line


def _word_wrap(_: int, line: str) -> str:
    return "\n".join(textwrap.wrap(line, 100, drop_whitespace=True)) if len(line) > 100 else line


def _smart(text: str) -> str:
    text = re.sub(r"(?<=[\s(=\[])'|^'", "\u2018", text, flags=re.M).replace("'", "\u2019")
    return re.sub(r'(?<=[\s(=\[])"|^"', "\u201c", text, flags=re.M).replace('"', "\u201d").replace("...", "\u2026")


def _no_glyphs(text: str) -> str:
    return "".join(c if ord(c) < 0x250 else "?" for c in text)


def _no_emoji(text: str) -> str:
    return re.sub("[\U0001f300-\U0001faff\u2600-\u27bf\ufe0f] ?", "", text)


def _ends(data: bytes, head: bool) -> bytes:
    lines = data.split(b"\n")
    cut = max(1, len(lines) // 10)
    return b"\n".join(lines[cut:] if head else lines[:-cut])


def _tail_header(files: Files) -> Files:
    return {n: f"==> {n} <==\n".encode() + d if is_text(n, d) else d for n, d in files.items()}


def _gbk(data: bytes) -> bytes:
    return ("训练日志如下:\n" + data.decode("utf-8", "replace")).encode("gb18030")


def _latin1(data: bytes) -> bytes:
    return ("Trainings-Ausgabe für Prüfer:\n" + data.decode("utf-8", "replace")).encode("latin-1", "replace")


TEXTS = (
    *map(_prefixed, PREFIXES),
    Wrapping("text.redrawn_bars", each_text(is_log, _bars)),
    Wrapping("text.ansi", each_line(is_log, _colours)),
    Wrapping("text.script", each_text(is_log, _script)),
    Wrapping("text.crlf", each_line(is_text, lambda _, line: line + "\r")),
    Wrapping("text.cr_only", each_text(is_text, lambda t: t.replace("\n", "\r"))),
    Wrapping("text.utf16_le", each(is_text, lambda d: b"\xff\xfe" + d.decode("utf-8", "replace").encode("utf-16-le"))),
    Wrapping("text.utf16_be", each(is_text, lambda d: b"\xfe\xff" + d.decode("utf-8", "replace").encode("utf-16-be"))),
    Wrapping("text.utf16_bare", each(is_text, lambda d: d.decode("utf-8", "replace").encode("utf-16-le"))),
    Wrapping("text.utf8_bom", each(is_text, lambda d: b"\xef\xbb\xbf" + d)),
    Wrapping("text.latin1", each(is_text, _latin1)),
    Wrapping("text.gbk", each(is_text, _gbk)),
    Wrapping("text.hard_wrap80", each_line(is_log, _wrap80)),
    Wrapping("text.word_wrap100", each_line(is_log, _word_wrap), lossy=True),
    Wrapping("text.tabs", each_text(is_log, lambda t: re.sub(" {2,}", "\t", t))),
    Wrapping("text.single_spaces", each_text(is_log, lambda t: re.sub(" {2,}", " ", t)), lossy=True),
    Wrapping("text.nbsp", each_text(is_text, lambda t: t.replace(" ", "\u00a0"))),
    Wrapping("text.nbsp_mixed", each_text(is_text, lambda t: t.replace("  ", " \u00a0"))),
    Wrapping("text.zero_width", each_line(is_text, lambda _, line: "\u200b" + line)),
    Wrapping("text.smart_quotes", each_text(is_text, _smart)),
    Wrapping("text.no_glyphs", each_text(is_text, _no_glyphs)),
    Wrapping("text.no_emoji", each_text(is_text, _no_emoji)),
    Wrapping("text.trailing_blanks", each_line(is_text, lambda _, line: line + "   ")),
    Wrapping("text.double_spaced", each_line(is_text, lambda _, line: line + "\n")),
    Wrapping("text.tail_header", _tail_header),
    Wrapping("text.twice", each(is_log, lambda d: d.rstrip(b"\n") + b"\n" + d), lossy=True),
    Wrapping("text.no_head", each(is_log, lambda d: _ends(d, True)), lossy=True),
    Wrapping("text.no_tail", each(is_log, lambda d: _ends(d, False)), lossy=True),
)
