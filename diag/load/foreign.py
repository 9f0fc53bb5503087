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
from diag.load.listings import is_listing, listing_tables
from diag.load.notes import MAX_NOTE_BYTES, parse_notes
from diag.load.rates import with_rates
from diag.load.read import UnreadableError, read_text
from diag.load.results import parse_results
from diag.load.stage_tables import epoch_phases, table_steps, turned
from diag.load.staging import CAPTURES
from diag.load.streams import joined as both_streams
from diag.load.tables import parse_results_txt, parse_table, phase_ledger, phase_steps, phases
from diag.load.trainlog import parse_trainlog
from diag.load.words import scalar
from diag.model.evidence import Console, ConsoleLine, Evidence
from diag.model.foreign import Tables, TrainLog
from diag.model.run import Epoch, Epochs, TrainArgs

T = TypeVar("T")
Read = Callable[[Path, Callable[[Path], T]], T | None]
_LOGS = {".log", ".out", ".err", ".ipynb"}
_LABEL = re.compile(r"^\s*-?\d+(?:\.0+)?(?:\s+-?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?){4,}\s*$")
_FLAG = re.compile(r"--([A-Za-z][\w-]*)(?:[ =]+(?!--)(\S+))?")
_WORD = re.compile(r"(?:^|[\s,;])([a-z_][a-z0-9_]*)=([^\s,;]+)")
_V5 = {"img": "imgsz", "img_size": "imgsz", "batch_size": "batch", "weights": "model", "cache_images": "cache"}
_ARG_FILES = {"args.yaml", "opt.yaml", "hyp.yaml", "hyp.txt", "args.txt", "opt.txt", "cmd.txt", "command.txt"}
_OWN = {
    "run.json", "baseline.json", "data.json", "report.json", "report.md", "train.log", "latest.json", "latest.md",
    "health.json", "health.md", "check.json", "smoke.json", "faults.jsonl", "changes.jsonl", "manifest.json",
}  # fmt: skip
_MAX_DEPTH = 4
_MAX_NUMBERED = 4


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
    for path in found.texts:
        text = read(path, lambda p: read_text(p, limit=MAX_NOTE_BYTES))
        if text is None:
            continue
        if path.name.startswith("results") and (rows := parse_results_txt(text, name=name(path))):
            results = rows
        elif is_listing(text):  # before logs: its rows for `all` CPUs look like scores
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
        tables={name(p): t for p in found.tables if (t := read(p, lambda q: read_text(q, limit=32 << 20)))},
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
    made += listing_tables(texts)
    found = turned(Tables(tuple(made))) if made else None
    data = next((d for f, t in yamls.items() if (d := _data(t, f))), None)
    notes = parse_notes(texts)
    told = {c.file for c, _ in logs}
    console = _note_kinds(console, [(file, text) for file, text in texts if file not in told])
    args = _arguments(evidence.args, log, texts)
    if epochs is None and log is not None:
        epochs = log_epochs(log)
    rated = with_rates(epochs, found)
    stages = phases(found) or epoch_phases(found)
    return replace(
        evidence,
        console=console,
        log=log,
        epochs=rated,
        curves=(evidence.curves if rated is epochs else None) or curves(rated),
        args=args,
        tables=found,
        phases=stages,
        steps=evidence.steps or phase_steps(stages) or table_steps(found),
        ledger=evidence.ledger or phase_ledger(stages),
        notes=notes,
        labels=parse_labels(labels, data, _task(args)),
        data=data,
    )


def _walk(base: Path) -> _Found:
    found = _Found()
    for path in _files(base, 0):
        inside = {p.lower() for p in path.relative_to(base).parts[:-1]}
        suffix, lower = path.suffix.lower(), path.name.lower()
        if lower.startswith(".") or (lower in _OWN and not (lower == "train.log" and _is_console(path))):
            continue
        if suffix == ".txt" and any(p.startswith("label") for p in inside):
            found.labels.append(path)
        elif suffix in _LOGS:
            found.logs.append(path)
        elif suffix in {".csv", ".tsv"}:
            found.tables.append(path)
        elif suffix in {".yaml", ".yml"} and lower not in _ARG_FILES:
            found.yamls.append(path)
        elif suffix in CAPTURES and len(found.texts) < 200:
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


def run_folders(base: Path) -> list[Path]:
    """The sub-folders to be compared, by name: run_a, trial-2, or two to four of train, train2, exp3 as Ultralytics and

    YOLOv5 number them. More of those are an archive of runs and no comparison; a single one has nothing to compare.
    """
    inner = sorted(d for d in base.iterdir() if d.is_dir())
    named = [d for d in inner if is_run_folder(d)]
    numbered = [d for d in inner if re.match(r"(?:train|exp|run)-?\d{0,3}$", d.name, re.I) and _has_run(d)]
    return named or (numbered if 2 <= len(numbered) <= _MAX_NUMBERED else [])


def _has_run(path: Path) -> bool:
    return any((path / mark).is_file() for mark in _MARKS)


def _join(evidence: Evidence, logs: list[tuple[Console, TrainLog]]) -> tuple[Console | None, TrainLog | None]:
    """The main log with the marked lines and scans of the others, and with epochs of those that go on after it."""
    kept = [(c, t) for c, t in logs if c.lines or t.epochs or t.scans or t.parts or t.caches or t.args]
    if not kept:
        return evidence.console, evidence.log
    trained = [(c, t) for c, t in kept if any(e.planned or e.losses for e in t.epochs)]
    main, log = next(((c, t) for c, t in [*trained, *kept] if t.epochs), kept[0])
    others = [(c, t) for c, t in kept if c.file != main.file]
    log = _continued(log, [t for _, t in others])
    lines = (*main.lines, *(replace(line, file=c.file) for c, _ in others for line in c.lines))
    joined = evidence.console or main
    if others or joined is main:
        joined = replace(joined, lines=lines)
    versions = dict.fromkeys(v for _, t in kept for v in t.versions)
    scans = tuple(s for _, t in [(main, log), *others] for s in t.scans)
    died = next((t for c, t in others if t.ended == "error" and c.of("resume")), None)  # it went on in another file
    if died is not None and not log.oom_phase:
        log = replace(log, oom_phase=died.oom_phase, ended=died.ended, parts=(*log.parts, *died.parts))
    rows = next((made for _, t in others if (made := both_streams(log.epochs, t.epochs))), log.epochs)
    evaluations = tuple(e for _, t in [(main, log), *others] for e in t.evaluations)
    return joined, replace(log, scans=scans, versions=tuple(versions), epochs=rows, evaluations=evaluations)


def _continued(log: TrainLog, others: list[TrainLog]) -> TrainLog:
    """The log with the epochs of logs that resumed it (same plan, next epoch); the file is then named by both."""
    for other in others:
        if not log.epochs or not other.epochs or other.epochs[-1].planned != log.epochs[-1].planned:
            continue
        if not other.epochs[-1].planned:
            continue
        first, second = (log, other) if log.epochs[-1].epoch < other.epochs[0].epoch else (other, log)
        if first.epochs[-1].epoch + 1 != second.epochs[0].epoch:
            continue
        after = _below(second, first.lines)
        log = replace(
            after if second is log else log, file=f"{first.file}, {second.file}", ended=second.ended,
            epochs=(*first.epochs, *after.epochs), parts=(*first.parts, *after.parts), lines=first.lines + second.lines,
            joined=(*_files_of(first), *_files_of(second)),
        )  # fmt: skip
    return log


def _files_of(log: TrainLog) -> tuple[tuple[str, int], ...]:
    return log.joined or ((log.file, log.lines),)


def _below(log: TrainLog, lines: int) -> TrainLog:
    """The log as if it stood below another one of so many lines."""
    return replace(
        log,
        epochs=tuple(replace(e, line=e.line + lines) for e in log.epochs),
        parts=tuple(replace(e, line=e.line + lines) for e in log.parts),
        caches=tuple(replace(c, line=c.line + lines) for c in log.caches),
        transferred_lines=tuple(n + lines for n in log.transferred_lines),
        args_lines={name: n + lines for name, n in log.args_lines.items()},
        class_line=log.class_line and log.class_line + lines,
    )


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
    places = {_V5.get(k, k): (log.file, n, f"{k}={log.args[k]}") for k, n in log.args_lines.items()} if log else {}
    if args is not None:
        raw = {**raw, **args.raw}
        places = {**{k: p for k, p in places.items() if k not in args.raw}, **args.places}
    for file, text in texts:
        if Path(file).name.lower() in _ARG_FILES:
            words = {m[1].replace("-", "_"): m[2] or "True" for m in _FLAG.finditer(text[:8000])}
            words |= dict(_WORD.findall(text[:8000]))
            with contextlib.suppress(UnreadableError):
                words = words or {k: str(v) for k, v in parse_args(text).items()}
            rows = text[:8000].splitlines()
            at = {k: next((i for i, row in enumerate(rows, 1) if re.search(_spelled(k), row)), 0) for k in words}
            places = {**{_V5.get(k, k): (file, n, rows[n - 1].strip()) for k, n in at.items() if n}, **places}
            raw = {**{_V5.get(k, k): scalar(str(v)) for k, v in words.items()}, **raw}
    return TrainArgs(raw, places) if raw else args


def _spelled(name: str) -> str:
    """A pattern for an argument of a command line or a YAML file, whatever its dashes."""
    return rf"(?:^|[\s,;-]){re.escape(name).replace('_', '[_-]')}(?:[\s=:]|$)"


def _task(args: TrainArgs | None) -> str:
    """The task by the arguments: `task`, else by the model's name (`yolo11n-obb.pt`); empty if they don't tell."""
    if args is None:
        return ""
    named = re.search(r"-(seg|pose|obb|cls)\b", str(args.get("model", "")))
    words = {"seg": "segment", "pose": "pose", "obb": "obb", "cls": "classify"}
    return str(args.get("task") or (words[named[1]] if named else ""))


def log_epochs(log: TrainLog) -> Epochs | None:
    """The epochs of a console log as rows of a results.csv."""
    rows = [e for e in log.epochs if e.losses or e.metrics]
    rows = [e for i, e in enumerate(rows) if i == 0 or e.epoch > rows[i - 1].epoch]
    if any(e.losses for e in rows):
        rows = [e for e in rows if e.losses]
    if not rows or not rows[0].planned:  # a result alone is no curve
        return None
    made = tuple(
        Epoch(e.line - 1, float(e.epoch), {**{f"train/{n}": v for n, v in e.losses.items()}, **e.metrics}) for e in rows
    )
    columns = dict.fromkeys(n for row in made for n in row.values)
    return Epochs(made, tuple(columns), 0, log.file)
