"""Find the files of a run in what the user pointed at, and read each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from diag.codec import decode_json, to_json
from diag.errors import InputError
from diag.load.args import read_args
from diag.load.compare import compare
from diag.load.curves import curves
from diag.load.follow import Files
from diag.load.foreign import add_foreign, assemble, run_folders
from diag.load.inputs import unpacked
from diag.load.notebook import is_notebook
from diag.load.notes import captured
from diag.load.read import MAX_BYTES, UnreadableError, read_bytes, read_text
from diag.load.restored import restored
from diag.load.results import read_results
from diag.load.seen import stamps
from diag.load.summary import TraceSummary
from diag.load.tables import parse_results_txt
from diag.load.trainlog import parse_trainlog, read_trainlog
from diag.model.check import Check, Checks
from diag.model.evidence import Dataset, Evidence, Ranks
from diag.model.hardware import Baseline
from diag.model.profile import Profile
from diag.model.run import RunRecord, TrainArgs
from diag.stats import step_stats

T = TypeVar("T")
_MAX_RUNS = 50
ACCEPTED = (
    "a run folder of diag (run.json, trace/), an Ultralytics run folder (results.csv, args.yaml), "
    "a results.csv, a train.log, a console.log or a notebook with its outputs, a folder of `run_*` folders, "
    "a zip or tar of one, or - for standard input"
)


@dataclass
class _Reader:
    """Reads files below one folder and keeps what could not be read."""

    base: Path
    skipped: list[str] = field(default_factory=list)
    names: Mapping[Path, str] = field(default_factory=dict)
    """What files are called that are no longer where the user has them."""

    def name(self, path: Path) -> str:
        if path in self.names:
            return self.names[path]
        return path.relative_to(self.base).as_posix() if path.is_relative_to(self.base) else path.name

    def read(self, path: Path | None, how: Callable[[Path], T]) -> T | None:
        if path is None:
            return None
        try:
            return how(path)
        except RecursionError:
            self.skipped.append(f"{self.name(path)}: nested too deeply")
            return None
        except (UnreadableError, InputError) as error:
            self.skipped.append(f"{self.name(path)}: {str(error).removeprefix(f'{path}: ')}")
            return None


def load_run(path: Path, files: Files | None = None) -> Evidence:
    """All that can be known of a run from its files. Raises InputError when `path` holds nothing of a run.

    `path` may be an archive, `-` for standard input, or a folder of run folders, which are compared. `files` reads
    what grows; a `Follower` that is kept reads only what is new.
    """
    path = Path(path)
    files = files or Files()
    try:
        if str(path) != "-" and not path.exists():
            raise InputError(f"{path}: no such file or folder; give {ACCEPTED}")
        seen = files.seen
        now = stamps(path) if seen is not None and str(path) != "-" else None
        if seen is not None and seen.whole is not None and seen.whole[0] == now:
            return seen.whole[1]
        with unpacked(path) as (inner, left_out), restored(inner, seen) as plain:
            read = Files() if plain.changed else files  # what was written anew is read anew
            load = _load_folder if plain.path.is_dir() else _load_file
            try:
                evidence = load(plain.path, read, plain.names)
            except InputError as error:  # people know what they gave, not where it was unpacked
                said = str(error).replace(str(plain.path), str(path)).replace(str(inner), str(path))
                raise InputError(said) from error
            skipped = (*evidence.skipped_files, *plain.skipped, *left_out)
            wrapped = plain.changed or inner != path
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    evidence = replace(evidence, path=str(path), skipped_files=skipped)
    if seen is not None:  # a plain folder is followed instead
        seen.whole = (now, evidence) if now is not None and wrapped else None
    return evidence


def load_runs(paths: Sequence[Path]) -> Evidence:
    """One run, or several that are compared."""
    if len(paths) == 1:
        return load_run(paths[0])
    names = [str(p) for p in paths]
    unique = names if len(set(names)) == len(names) else [f"{n} ({i})" for i, n in enumerate(names, 1)]
    runs = {name: load_run(path) for name, path in zip(unique, paths, strict=True)}
    return Evidence(peers=compare(runs), path=" ".join(names))


def _load_file(path: Path, files: Files, names: Mapping[Path, str]) -> Evidence:
    """A single file: its neighbours are not looked at, except the args.yaml beside a results.csv."""
    reader = _Reader(path.parent, names=names)
    name = reader.name(path)
    if path.suffix.lower() == ".csv":
        epochs = reader.read(path, lambda p: read_results(p, name=name))
        args = reader.read(_first(path.parent, "args.yaml"), lambda p: read_args([p], name=reader.name))
        evidence = Evidence(epochs=epochs, args=args, curves=curves(epochs))
        if epochs is None and (text := reader.read(path, read_text)) is not None:
            evidence = assemble(evidence, tables={name: text})
    elif path.suffix.lower() == ".jsonl":
        evidence = _of_trace(reader.read(path, lambda p: files.trace(p, name)))
    else:
        log = reader.read(path, lambda p: files.log(p, name))
        # What a notebook's cells printed is a log; its JSON is no text to look for notes or step times in.
        small = not is_notebook(path) and path.is_file() and path.stat().st_size < MAX_BYTES
        laps = reader.read(path, read_trainlog) or () if small else ()
        table = path.name.startswith("results")  # a results.txt looks like a log without a header
        text = reader.read(path, read_text) if small and log and (table or not log[1].epochs) else None
        rows = parse_results_txt(text, name=name) if text else None
        told = log is not None and not rows and bool(log[0].lines or log[1].epochs or log[1].scans or log[1].parts)
        texts = [(name, text)] if text and not rows and captured(text) else []
        if laps or told or rows or texts:
            reader.skipped.clear()  # it is one of the kinds; that it is not the others is no fault
        evidence = Evidence(steps=step_stats(laps, file=name))
        if (log and told) or rows or texts:
            evidence = assemble(evidence, logs=[log] if log and told else [], texts=texts, results=rows)
    if evidence == Evidence():
        why = "; ".join(dict.fromkeys(reader.skipped)) or "nothing in it is known"
        raise InputError(f"{path}: {why.removeprefix(f'{name}: ')}; give {ACCEPTED}")
    return replace(evidence, skipped_files=tuple(reader.skipped))


def _load_folder(base: Path, files: Files, names: Mapping[Path, str]) -> Evidence:
    reader = _Reader(base, names=names)
    yolo = next((d for d in (base / "ultralytics", base) if _first(d, "results.csv", "args.yaml", "opt.yaml")), base)

    run = reader.read(_first(base, "run.json"), lambda p: decode_json(read_bytes(p), RunRecord, str(p)))
    baseline = reader.read(_first(base, "baseline.json"), lambda p: decode_json(read_bytes(p), Baseline, str(p)))
    if baseline is None:  # `diag collect` checks the machine of a run that was trained without diag
        baseline = reader.read(_first(base / "machine", "check.json"), _checked)
    checks = reader.read(_first(base, "check.json", "machine/check.json"), lambda p: _checks(p, reader.name(p)))
    dataset = reader.read(_first(base, "data.json"), lambda p: decode_json(read_bytes(p), Dataset, str(p)))
    trace = reader.read(_first(base / "trace", "rank0.jsonl"), lambda p: files.trace(p, reader.name(p)))
    csv = _first(yolo, "results.csv")
    epochs = reader.read(csv, lambda p: read_results(p, name=reader.name(p)))
    args_files = [p for name in ("args.yaml", "opt.yaml", "hyp.yaml") if (p := _first(yolo, name))]
    args = reader.read(args_files[0], lambda _: read_args(args_files, name=reader.name)) if args_files else None
    if args is None and run is not None and run.args:
        args = TrainArgs(dict(run.args))
    measured = replace(_of_trace(trace), ranks=_ranks(reader, base / "trace", trace, files))
    steps = measured.steps
    if steps is None:
        trainlog = _first(base, "train.log") or _step_log(base)
        steps = step_stats(reader.read(trainlog, read_trainlog) or (), file=trainlog.name if trainlog else "")
    if trace and trace.lost_lines:
        reader.skipped.append(f"trace/rank0.jsonl: {trace.lost_lines} half-written or unknown lines left out")
    counted = _first(base / "trace", "counters.jsonl")
    steady = trace.steady_part() if trace else None
    counters = reader.read(counted, lambda p: files.counters(p, steady)) if counted else None
    if counters and counters.lost_lines:
        reader.skipped.append(f"trace/counters.jsonl: {counters.lost_lines} half-written or unknown lines left out")
    evidence = replace(
        measured,
        baseline=baseline,
        checks=checks,
        run=run,
        args=args,
        steps=steps,
        epochs=epochs,
        curves=curves(epochs),
        dataset=dataset,
        counters=counters,
        profile=reader.read(
            _first(base / "profile", "profile.json"), lambda p: decode_json(read_bytes(p), Profile, str(p))
        ),
    )
    evidence = add_foreign(evidence, base, reader.read, reader.name, files)
    _forgive_train_log(reader, evidence)
    if evidence.console:
        evidence = replace(evidence, console=replace(evidence.console, tensorboard_files=_has_events(yolo)))
    inner_runs = run_folders(base)
    if run is None and epochs is None and inner_runs:
        runs: dict[str, Evidence] = {}
        for folder in inner_runs[:_MAX_RUNS]:
            if made := reader.read(folder, lambda p: _load_folder(p, files, names)):
                runs[folder.name] = made
        if runs:
            evidence = replace(evidence, peers=compare(runs))
    if evidence == Evidence():
        if inner := _runs_below(base):
            raise InputError(f"{base}: holds runs and is none itself; give one of them: {', '.join(inner)}")
        why = "; ".join(dict.fromkeys(reader.skipped)) or "no file of a training run in it"
        raise InputError(f"{base}: {why}; give {ACCEPTED}")
    return replace(evidence, skipped_files=tuple(reader.skipped))


def _forgive_train_log(reader: _Reader, evidence: Evidence) -> None:
    """A console log that is called train.log holds no steps, and that is no fault of it."""
    if "train.log" in {log.file for log in (evidence.log, evidence.console) if log}:
        reader.skipped = [s for s in reader.skipped if not s.startswith("train.log: ")]


def _checked(path: Path) -> Baseline | None:
    """The baseline in the answer of `diag check --format json`."""
    answer = decode_json(read_bytes(path), dict, str(path))
    found = answer.get("baseline")
    return decode_json(to_json(found).encode(), Baseline, str(path)) if isinstance(found, dict) else None


def _checks(path: Path, name: str) -> Checks | None:
    """check.json of a run directory (a bare list in older ones) or the answer that `diag collect` packed.

    None if it holds no answers; raises UnreadableError or InputError as every reader here.
    """
    found = decode_json(read_bytes(path), object, str(path))
    head = found if isinstance(found, dict) else {"checks": found}
    if not isinstance(head.get("checks"), list):
        return None
    checks = decode_json(to_json(head["checks"]).encode(), tuple[Check, ...], str(path))
    created, machine = (str(head.get(key) or "") for key in ("created", "machine"))
    return Checks(checks, name, created, machine, later=name.startswith("machine/")) if checks else None


def _of_trace(trace: TraceSummary | None) -> Evidence:
    """What a trace tells."""
    if trace is None:
        return Evidence()
    return Evidence(
        steps=trace.steps(),
        ledger=trace.ledger(),
        loader=trace.loader(),
        validation=trace.validation(),
        saves=trace.saves(),
        device=trace.device(),
    )


def _ranks(reader: _Reader, folder: Path, first: TraceSummary | None, files: Files) -> Ranks | None:
    """The steps of all ranks; None for a run of one process."""
    found = {0: first.steps()} if first else {}
    for path in folder.glob("rank*.jsonl"):
        number = path.stem.removeprefix("rank")
        if number.isdecimal() and int(number) > 0:
            summary = reader.read(path, lambda p: files.trace(p, reader.name(p)))
            found[int(number)] = summary.steps() if summary else None
    steps = {rank: stats for rank, stats in sorted(found.items()) if stats is not None}
    return Ranks(steps) if len(steps) > 1 else None


def _first(folder: Path, *names: str) -> Path | None:
    """The first of these names that exists in the folder (a dangling link exists, too, and is reported)."""
    return next((p for name in names if (p := folder / name).exists() or p.is_symlink()), None)


def _step_log(folder: Path, *, most: int = 20, lines: int = 20) -> Path | None:
    """A log of another name that names the times of a batch on its lines; this many of its first ones must."""
    for path in sorted(p for p in folder.iterdir() if p.suffix.lower() in {".log", ".txt", ".out", ".md", ""})[:most]:
        if not path.is_file() or path.is_symlink():
            continue
        with path.open("rb") as file:
            head = [line for line in file.read(1 << 16).decode("utf-8", "replace").split("\n") if line.strip()][:lines]
        if head and all(parse_trainlog(line) for line in head):
            return path
    return None


def _runs_below(base: Path, *, limit: int = 5) -> list[str]:
    """Folders directly below that look like runs, newest first."""
    marks = ("run.json", "results.csv", "train.log", "console.log")
    found = [d for d in base.iterdir() if d.is_dir() and any((d / mark).exists() for mark in marks)]
    found.sort(key=lambda d: d.stat().st_mtime, reverse=True)
    return [str(d) for d in found[:limit]]


def _has_events(folder: Path) -> bool:
    return next(folder.glob("events.out.tfevents.*"), None) is not None
