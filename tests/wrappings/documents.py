"""Wrappings that put files into a document: issues, notebooks, recordings, one long paste."""

import html
import json
import textwrap
from pathlib import PurePosixPath

from tests.wrappings.base import Files, Wrapping, is_label, is_log, is_text, suffix

_PROSE_EN = """### Search before asking

- [X] I have searched the issues and found no similar bug report.

### Question

Hi, thanks for the great work! I train on my own data with the command from the docs and something is off.
Could somebody have a look? Here is what I get:
"""
_END_EN = (
    "\nAny help is appreciated. It worked for a friend of mine on another machine.\n\n### Additional\n\n_No response_\n"
)
_PROSE_ZH = "### 问题描述\n\n大家好，我用自己的数据集训练的时候遇到了问题，日志如下，请大神帮忙看看：\n"  # noqa: RUF001
_END_ZH = "\n环境是按照文档装的，之前没有遇到过。谢谢！\n"  # noqa: RUF001
_LANGS = {".yaml": "yaml", ".yml": "yaml", ".csv": "csv", ".log": "", ".txt": "text", ".md": ""}


def _plain(data: bytes) -> str:
    return data.decode("utf-8", "replace").rstrip("\n")


def _fence(text: str, lang: str = "") -> str:
    return f"```{lang}\n{text}\n```\n"


def _flat(files: Files) -> bool:
    """One run: several ones in one paste are told apart by nobody."""
    return not any(is_label(n) for n in files) and all("/" not in n for n in files)


def _issue(prose: str, end: str):  # type: ignore[no-untyped-def]
    def change(files: Files) -> Files:
        return {
            (str(PurePosixPath(n).with_suffix(".md")) if is_log(n, d) else n): (
                (prose + "\n" + _fence(_plain(d), "shell") + end).encode() if is_log(n, d) else d
            )
            for n, d in files.items()
        }

    return change


def _details(files: Files) -> Files:
    return {
        n: (
            f"Full log:\n\n<details>\n<summary>Click here</summary>\n\n{_fence(_plain(d))}\n</details>\n\nThanks.\n"
        ).encode()
        if is_log(n, d)
        else d
        for n, d in files.items()
    }


def _pre(files: Files) -> Files:
    return {
        n: (
            f"<html><body><p>My log:</p><pre class='lang-none'><code>{html.escape(_plain(d))}</code></pre>"
            "<p>What is wrong?</p></body></html>\n"
        ).encode()
        if is_log(n, d)
        else d
        for n, d in files.items()
    }


def _entities(files: Files) -> Files:
    return {n: html.escape(_plain(d)).encode() if is_log(n, d) else d for n, d in files.items()}


def _fenced(files: Files) -> Files:
    return {n: _fence(_plain(d)).encode() if is_text(n, d) else d for n, d in files.items()}


def _notebook(files: Files) -> Files:
    made: Files = {}
    for n, d in files.items():
        if not is_log(n, d):
            made[n] = d
            continue
        lines = (_plain(d) + "\n").splitlines(keepends=True)
        half = len(lines) // 2
        outputs = [
            {"name": "stdout", "output_type": "stream", "text": lines[:half]},
            {"name": "stdout", "output_type": "stream", "text": lines[half:]},
        ]
        cell = {
            "cell_type": "code",
            "execution_count": 1,
            "metadata": {},
            "source": ["!yolo train data=coco8.yaml\n"],
            "outputs": outputs,
        }
        prose = {"cell_type": "markdown", "metadata": {}, "source": ["# Train\n", "The model is trained here."]}
        book = {"cells": [prose, cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        made[str(PurePosixPath(n).with_suffix(".ipynb"))] = json.dumps(book, indent=1).encode()
    return made


def _cast(files: Files) -> Files:
    made: Files = {}
    for n, d in files.items():
        if not is_log(n, d):
            made[n] = d
            continue
        text = (_plain(d) + "\n").replace("\n", "\r\n")
        rows = [json.dumps({"version": 2, "width": 120, "height": 40, "timestamp": 1714550400})]
        rows += [json.dumps([i * 0.1, "o", text[at : at + 57]]) for i, at in enumerate(range(0, len(text), 57))]
        made[str(PurePosixPath(n).with_suffix(".cast"))] = ("\n".join(rows) + "\n").encode()
    return made


def _json_log(files: Files) -> Files:
    """What Docker's json-file driver writes."""
    made: Files = {}
    for n, d in files.items():
        lines = (_plain(d) + "\n").splitlines(keepends=True)
        rows = [
            json.dumps({"log": line, "stream": "stdout", "time": "2024-05-01T12:00:00.123456789Z"}) for line in lines
        ]
        made[n] = ("\n".join(rows) + "\n").encode() if is_log(n, d) else d
    return made


def _pasted(fences: bool, head: str, name: str):  # type: ignore[no-untyped-def]
    def change(files: Files) -> Files:
        if not _flat(files):
            return files
        parts = [_PROSE_EN] if fences else []
        for n, d in files.items():
            body = _plain(d)
            parts.append(head.format(n) + "\n" + (_fence(body, _LANGS.get(suffix(n), "")) if fences else body + "\n"))
        return {name: ("\n".join(parts) + (_END_EN if fences else "")).encode()}

    return change


def _untitled(files: Files) -> Files:
    """An issue in which no block says what it is."""
    if not _flat(files):
        return files
    told = [f"And this:\n\n{_fence(_plain(d))}" for d in files.values()]
    return {"issue.md": (_PROSE_EN + "\n".join(told) + _END_EN).encode()}


def _indented(files: Files) -> Files:
    if not _flat(files):
        return files
    told = [f"{n}:\n\n{textwrap.indent(_plain(d), '    ', lambda _: True)}\n" for n, d in files.items()]
    return {"question.md": (_PROSE_EN + "\n" + "\n".join(told) + _END_EN).encode()}


def _list_item(files: Files) -> Files:
    """A fence within a list item is indented."""
    if not _flat(files):
        return files
    told = [f"- {n}\n\n{textwrap.indent(_fence(_plain(d)), '  ')}" for n, d in files.items()]
    return {"issue.md": (_PROSE_EN + "\n".join(told) + _END_EN).encode()}


def _mail(files: Files) -> Files:
    if not _flat(files):
        return files
    told = [f"----- {n} -----\n{_fence(_plain(d))}" for n, d in files.items()]
    lines = "\n".join(told).split("\n")
    return {"re.txt": ("On Wed, Ana wrote:\n" + "\n".join("> " + line for line in lines) + "\n\nsame here\n").encode()}


DOCUMENTS = (
    Wrapping("doc.fence", _fenced),
    Wrapping("doc.issue_en", _issue(_PROSE_EN, _END_EN)),
    Wrapping("doc.issue_zh", _issue(_PROSE_ZH, _END_ZH)),
    Wrapping("doc.details", _details),
    Wrapping("doc.html_pre", _pre),
    Wrapping("doc.entities", _entities),
    Wrapping("doc.notebook", _notebook),
    Wrapping("doc.cast", _cast),
    Wrapping("doc.docker_json", _json_log),
    Wrapping("doc.paste_md", _pasted(True, "### {}", "paste.md")),
    Wrapping("doc.paste_md_bold", _pasted(True, "**{}**", "paste.md")),
    Wrapping("doc.paste_md_code", _pasted(True, "`{}`:", "issue.txt")),
    Wrapping("doc.paste_cat", _pasted(False, "$ cat {}", "terminal.txt")),
    Wrapping("doc.paste_tail", _pasted(False, "==> {} <==", "all.txt")),
    Wrapping("doc.paste_rule", _pasted(False, "===== {} =====", "all.txt")),
    Wrapping("doc.paste_head", _pasted(False, "## {}", "all.md")),
    Wrapping("doc.paste_colon", _pasted(False, "{}:", "all.txt")),
    Wrapping("doc.untitled", _untitled),
    Wrapping("doc.indented", _indented),
    Wrapping("doc.list_item", _list_item),
    Wrapping("doc.mail", _mail),
)
