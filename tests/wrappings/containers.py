"""Wrappings of whole cases: archives, folders, names, standard input."""

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import PurePosixPath

from tests.wrappings.base import Files, Wrapping, is_label, is_log, is_results, is_table, is_text, is_yaml

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89" + b"\0" * 40


def zipped(files: Files) -> bytes:
    """A zip of these files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def tarred(files: Files) -> bytes:
    """A tar.gz of these files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def _deeper(*names: str) -> Callable[[Files], Files]:
    return lambda files: {"/".join((*names, n)): d for n, d in files.items()}


def _clutter(files: Files) -> Files:
    """What lies around beside a run."""
    return {**files, "README.md": b"# my project\nTraining a detector.\n", "requirements.txt": b"ultralytics\n"}


def _renamed(log: str, other: str) -> Callable[[Files], Files]:
    """The first log gets one name, other captures numbered ones."""

    def change(files: Files) -> Files:
        made: Files = {}
        many = sum(is_log(n, d) for n, d in files.items()) > 1
        for n, d in files.items():
            folder, used = str(PurePosixPath(n).parent), n
            if is_log(n, d) and not many:
                used = log
            elif is_text(n, d) and not is_log(n, d):
                used = other.format(len(made) + 1)
            made[n if used == n else used if folder == "." else f"{folder}/{used}"] = d
        return made

    return change


def _other_names(files: Files) -> Files:
    """Downloads, copies and exports: `results (1).csv`, `args - Kopie.yaml`."""
    made: Files = {}
    for n, d in files.items():
        path = PurePosixPath(n)
        new = path.name
        if is_results(n, d):
            new = f"{path.stem} (1).csv"
        elif is_yaml(n, d):
            new = f"{path.stem} - Kopie{path.suffix}"
        elif is_table(n, d):
            new = f"копия {path.name}"
        made[str(path.with_name(new))] = d
    return made


def _foreign_names(files: Files) -> Files:
    """Names that say nothing."""
    made: Files = {}
    for i, (n, d) in enumerate(files.items()):
        path = PurePosixPath(n)
        kind = is_results(n, d) or is_yaml(n, d) or is_table(n, d)
        made[str(path.with_name(f"文件{i}{path.suffix}")) if kind else n] = d
    return made


def _all_txt(files: Files) -> Files:
    """Sites that take only .txt."""
    return {n if is_label(n) or n.endswith(".txt") else n + ".txt": d for n, d in files.items()}


def _no_suffix(files: Files) -> Files:
    return {n.rsplit(".", 1)[0] if is_log(n, d) else n: d for n, d in files.items()}


def _inner(pack: Callable[[Files], bytes], name: str, folder: str = "") -> Callable[[Files], Files]:
    return lambda files: {name: pack({folder + n: d for n, d in files.items()})}


def _single(files: Files) -> Files:
    return files if len(files) == 1 else {}


CONTAINERS = (
    Wrapping("pack.zip", lambda f: f, pack="zip"),
    Wrapping("pack.tar_gz", lambda f: f, pack="tar.gz"),
    Wrapping("pack.zip_folder", _deeper("run 1"), pack="zip"),
    Wrapping("pack.zip_in_zip", _inner(zipped, "logs.zip"), pack="zip"),
    Wrapping("pack.tar_in_zip", _inner(tarred, "run.tar.gz", "run/"), pack="zip"),
    Wrapping("pack.zip_in_folder", _inner(zipped, "my run.zip", "my run/")),
    Wrapping("pack.deep_zip", _inner(lambda f: zipped({"b.zip": zipped({"c.zip": zipped(f)})}), "a.zip"), pack="zip"),
    Wrapping("pack.folder1", _deeper("train")),
    Wrapping("pack.folder2", _deeper("runs", "train3")),
    Wrapping("pack.folder3", _deeper("project", "runs", "train3")),
    Wrapping("pack.folder_names", _deeper("Prüfung Nr. 2", "训练 结果")),
    Wrapping("pack.clutter", _clutter),
    Wrapping("pack.screenshot", lambda f: {**f, "screenshot.png": PNG}),
    Wrapping("pack.reversed", lambda f: dict(reversed(f.items()))),
    Wrapping("name.output_txt", _renamed("output.txt", "capture{}.txt")),
    Wrapping("name.log_1", _renamed("log (1).txt", "out ({}).txt")),
    Wrapping("name.chinese", _renamed("新建文本文档.txt", "新建文本文档 ({}).txt")),
    Wrapping("name.umlaut", _renamed("Ausgabe für Jörg.log", "Auszug {}.txt")),
    Wrapping("name.paste_md", _renamed("paste.md", "paste{}.md")),
    Wrapping("name.copies", _other_names),
    Wrapping("name.nothing_said", _foreign_names),
    Wrapping("name.all_txt", _all_txt),
    Wrapping("name.no_suffix", _no_suffix),
    Wrapping("stdin.plain", _single, stdin=True),
    Wrapping("stdin.zip", lambda f: {"a.zip": zipped(f)}, stdin=True),
)
