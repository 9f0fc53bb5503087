"""Files that no run of diag wrote: find them in a folder, read each by its kind, add them to the evidence."""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from diag.load.args import parse_args
from diag.load.console import parse_log
from diag.load.curves import curves
from diag.load.follow import Files
from diag.load.kinds import KINDS
from diag.load.labels import MAX_FILES, parse_data_yaml, parse_labels
from diag.load.notes import MAX_NOTE_BYTES, parse_notes
from diag.load.read import UnreadableError, read_text
from diag.load.results import parse_results
from diag.load.samples import samples
from diag.load.tables import parse_results_txt, parse_table, phase_ledger, phase_steps, phases
from diag.load.trainlog import parse_trainlog
from diag.load.words import scalar
from diag.model.evidence import Console, ConsoleLine, Evidence
from diag.model.foreign import Tables, TrainLog
from diag.model.run import Epoch, Epochs, TrainArgs

T = TypeVar("T")
Read = Callable[[Path, Callable[[Path], T]], T | None]
_LOGS = {".log", ".out", ".err"}
_TEXTS = {".txt", ".json", ".md", ".ini", ".conf", ".cfg", ""}
_LABEL = re.compile(r"^\s*-?\d+(?:\.0+)?(?:\s+-?\d*\.?\d+(?:[eE][+-]?\d+)?){4,}\s*$")
_FLAG = re.compile(r"--([A-Za-z][\w-]*)(?:[ =]+(?!--)(\S+))?")
_WORD = re.compile(r"(?:^|[\s,;])([a-z_][a-z0-9_]*)=([^\s,;]+)")
_V5 = {"img": "imgsz", "img_size": "imgsz", "batch_size": "batch", "weights": "model", "cache_images": "cache"}
_ARG_FILES = {"args.yaml", "opt.yaml", "hyp.yaml", "hyp.txt", "args.txt", "opt.txt", "cmd.txt", "command.txt"}
_OWN = {
    "run.json", "baseline.json", "data.json", "report.json", "report.md", "train.log", "latest.json", "latest.md",
    "health.json", "health.md", "check.json", "smoke.json", "faults.jsonl", "changes.jsonl", "manifest.json",
}  # fmt: skip
_MAX_DEPTH = 4


@dataclass
class _Found:
    """Files by kind, while a folder is walked."""

    logs: list[Path] = field(default_factory=list)
    tables: list[Path] = field(default_factory=list)
    texts: list[Path] = field(default_factory=list)
    labels: list[Path] = field(default_factory=list)
    yamls: list[Path] = field(default_factory=list)


def add_foreign(evidence: Evidence, base: Path, read: Read[Any], name: Callable[[Path], str], files: Files) -> Evidence:
    """The evidence with the facts of all other files below `base` (`run_*` folders are left out)."""
    found = _walk(base)
    texts: list[tuple[str, str]] = []
    logs: list[tuple[Console, TrainLog]] = []
    main = base / "console.log"
    if (main.exists() or main.is_symlink()) and main not in found.logs:
        found.logs.insert(0, main)  # a folder or a dangling link: said, not read
    for path in found.logs:
        made = read(path, lambda p: files.log(p, name(p)))
        if made:
            logs.append(made)
    results: Epochs | None = None
    tables: dict[str, str] = {}
    for path in found.texts:
        text = read(path, lambda p: read_text(p, limit=MAX_NOTE_BYTES))
        if text is None:
            continue
        if path.name.startswith("results") and (rows := parse_results_txt(text, name=name(path))):
            results = rows
        elif (sampled := samples(text)) is not None:  # before logs: its rows for `all` CPUs look like scores
            tables[name(path)] = sampled
            texts.append((name(path), text))
        elif _speaks(made := parse_log(text, name=name(path))):
            logs.append(made)
            if not (made[1].epochs or made[0].banner):
                texts.append((name(path), text))  # a paste of a log and of other programs
        else:
            texts.append((name(path), text))
    return assemble(
        evidence,
        logs=logs,
        texts=texts,
        tables={name(p): t for p in found.tables if (t := read(p, lambda q: read_text(q, limit=32 << 20)))} | tables,
        labels=[(name(p), t) for p in found.labels if (t := _label_text(p)) is not None],
        yamls={name(p): t for p in found.yamls if (t := read(p, lambda q: read_text(q, limit=1 << 20)))},
        results=results,
    )


def _speaks(made: tuple[Console, TrainLog]) -> bool:
    """Whether a training speaks in this text."""
    console, log = made
    told = log.epochs or log.parts or log.scans or log.caches or log.args or log.autobatch_gib or log.transferred
    return bool(told or log.optimizer or console.banner)


def _label_text(path: Path) -> str | None:
    try:
        return read_text(path, limit=16 << 20)
    except UnreadableError as error:
        return "" if str(error) == "empty" else None


def assemble(
    evidence: Evidence,
    *,
    logs: list[tuple[Console, TrainLog]] = [],  # noqa: B006
    texts: list[tuple[str, str]] = [],  # noqa: B006
    tables: Mapping[str, str] = {},
    labels: list[tuple[str, str]] = [],  # noqa: B006
    yamls: Mapping[str, str] = {},
    results: Epochs | None = None,
) -> Evidence:
    """Evidence with these texts parsed and everything that follows from them; never replaces what is known."""
    console, log = _join(evidence, logs)
    made, epochs = [], evidence.epochs or results
    for file, text in tables.items():
        rows = parse_results(text, name=file)
        if rows is not None and rows.rows and "tail" not in file and "prev" not in file:
            epochs = epochs or rows
        elif table := parse_table(text, name=file):
            made.append(table)
    found = Tables(tuple(made)) if made else None
    data = next((d for f, t in yamls.items() if (d := _data(t, f))), None)
    notes = parse_notes(texts)
    told = {c.file for c, _ in logs}
    console = _note_kinds(console, [(file, text) for file, text in texts if file not in told])
    args = _arguments(evidence.args, log, texts)
    if epochs is None and log is not None:
        epochs = log_epochs(log)
    stages = phases(found)
    return replace(
        evidence,
        console=console,
        log=log,
        epochs=epochs,
        curves=evidence.curves or curves(epochs),
        args=args,
        tables=found,
        phases=stages,
        steps=evidence.steps or phase_steps(stages),
        ledger=evidence.ledger or phase_ledger(stages),
        notes=notes,
        labels=parse_labels(labels, data),
        data=data,
    )


def _walk(base: Path) -> _Found:
    found = _Found()
    for path in _files(base, 0):
        inside = {p.lower() for p in path.relative_to(base).parts[:-1]}
        suffix, lower = path.suffix.lower(), path.name.lower()
        if lower.startswith(".") or (lower in _OWN and not (lower == "train.log" and _is_console(path))):
            continue
        if suffix == ".txt" and (inside & {"labels", "label"} or any(p.startswith("labels") for p in inside)):
            found.labels.append(path)
        elif suffix in _LOGS:
            found.logs.append(path)
        elif suffix in {".csv", ".tsv"}:
            found.tables.append(path)
        elif suffix in {".yaml", ".yml"} and lower not in _ARG_FILES:
            found.yamls.append(path)
        elif suffix in _TEXTS and len(found.texts) < 200:
            found.texts.append(path)
    # The main log first: the one that is called so, then the others by name.
    found.logs.sort(key=lambda p: (p.name != "console.log", p.as_posix()))
    return found


def _is_console(path: Path) -> bool:
    """A train.log that is not of the classic form (times of a batch on a line) is a console log that is called so."""
    try:
        with path.open("rb") as file:
            head = file.read(1 << 16)
    except OSError:
        return False
    return b"\0" not in head and bool(head.strip()) and not parse_trainlog(head.decode("utf-8", "replace"))


def _files(folder: Path, depth: int) -> Iterator[Path]:
    names = sorted(folder.iterdir())[:MAX_FILES]
    for path in names:
        if path.is_symlink():
            continue
        if path.is_dir():
            inner = _has_run(path) or is_run_folder(path) or path.name in {"trace", "ultralytics", "weights"}
            if depth < _MAX_DEPTH and not inner:
                yield from _files(path, depth + 1)
        elif path.is_file():
            yield path


_MARKS = ("console.log", "results.csv", "run.json", "train.log", "results.txt", "args.yaml")


def is_run_folder(path: Path) -> bool:
    """A sub-folder that holds one of several runs to be compared."""
    if re.match(r"(?:run|trial)[-_ ]\w+$", path.name, re.I) is None:
        return False
    told = _LOGS | {".txt", ".md", ".csv", ""}
    return _has_run(path) or any(p.suffix.lower() in told and p.is_file() for p in path.iterdir())


def _has_run(path: Path) -> bool:
    return any((path / mark).is_file() for mark in _MARKS)


def _join(evidence: Evidence, logs: list[tuple[Console, TrainLog]]) -> tuple[Console | None, TrainLog | None]:
    """The main log with the marked lines and scans of the others."""
    kept = [(c, t) for c, t in logs if c.lines or t.epochs or t.scans or t.parts or t.caches or t.args]
    if not kept:
        return evidence.console, evidence.log
    main, log = next(((c, t) for c, t in kept if t.epochs), kept[0])
    others = [(c, t) for c, t in kept if c.file != main.file]
    lines = (*main.lines, *(replace(line, file=c.file) for c, _ in others for line in c.lines))
    joined = evidence.console or main
    if others or joined is main:
        joined = replace(joined, lines=lines)
    versions = dict.fromkeys(v for _, t in kept for v in t.versions)
    scans = tuple(s for _, t in [(main, log), *others] for s in t.scans)
    return joined, replace(log, scans=scans, versions=tuple(versions))


def _note_kinds(console: Console | None, texts: list[tuple[str, str]]) -> Console | None:
    """Known lines of captured texts (dmesg, docker output) count like those of the console."""
    lines: list[ConsoleLine] = []
    for file, text in texts:
        found, _ = parse_log(text, name=file)
        lines += [replace(line, file=file) for line in found.lines if line.kind in _NOTED]
    if not lines:
        return console
    base = console or Console(file=lines[0].file)
    return replace(base, lines=(*base.lines, *lines))


_NOTED = set(KINDS) - {"banner", "train_start", "completed", "early_stop", "optimizer", "killed", "interrupted", "nccl"}


def _data(text: str, file: str) -> Any:
    try:
        return parse_data_yaml(text, name=file)
    except UnreadableError:
        return None


def _arguments(args: TrainArgs | None, log: TrainLog | None, texts: list[tuple[str, str]]) -> TrainArgs | None:
    """The arguments of args.yaml, else of the console; words of a captured command line fill gaps."""
    raw: dict[str, Any] = {_V5.get(k, k): v for k, v in log.args.items()} if log else {}
    if args is not None:
        raw = {**raw, **args.raw}
    for file, text in texts:
        if Path(file).name.lower() in _ARG_FILES:
            words = {m[1].replace("-", "_"): m[2] or "True" for m in _FLAG.finditer(text[:8000])}
            words |= dict(_WORD.findall(text[:8000]))
            with contextlib.suppress(UnreadableError):
                words = words or {k: str(v) for k, v in parse_args(text).items()}
            raw = {**{_V5.get(k, k): scalar(str(v)) for k, v in words.items()}, **raw}
    return TrainArgs(raw) if raw else args


def log_epochs(log: TrainLog) -> Epochs | None:
    """The epochs of a console log as rows of a results.csv."""
    rows = [e for e in log.epochs if e.losses or e.metrics]
    rows = [e for i, e in enumerate(rows) if i == 0 or e.epoch > rows[i - 1].epoch]
    if not rows or not rows[0].losses:
        return None
    made = tuple(
        Epoch(e.line - 1, float(e.epoch), {**{f"train/{n}": v for n, v in e.losses.items()}, **e.metrics}) for e in rows
    )
    columns = dict.fromkeys(n for row in made for n in row.values)
    return Epochs(made, tuple(columns), 0, log.file)
