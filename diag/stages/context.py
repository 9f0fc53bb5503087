"""What the stages of one run share, and how a run directory begins."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from diag import codec, settings
from diag.child import Stopper
from diag.dataset.catalog import is_shipped_model, shipped_dataset
from diag.dataset.demo import make_demo
from diag.dataset.resolve import DataSpec, resolve
from diag.errors import InputError
from diag.health import Health, hold, is_held, now
from diag.model.hardware import Baseline
from diag.model.run import Attempt, RunRecord
from diag.probe.checkpoint import why_refuse
from diag.screen import Screen
from diag.stages import resume
from diag.train_args import default_model, load_defaults, parse_overrides, task_of
from diag.train_values import notes

RUN_SCHEMA_VERSION = 1
WEIGHT_SUFFIXES = {".pt", ".pth"}


@dataclass
class Context:
    """One run while its stages work on it. `args` is what training will be called with."""

    workspace: Path
    run_dir: Path
    overrides: dict[str, Any]
    task: str
    args: dict[str, Any]
    screen: Screen
    stopper: Stopper
    health: Health
    cwd: Path
    spec: DataSpec | None = None
    baseline: Baseline | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    """What one stage leaves for a later one, e.g. the exit cause of training."""
    attempts: tuple[Attempt, ...] = ()
    """Of a run that goes on: all its starts, this one included; empty for a new run."""

    @property
    def demo(self) -> bool:
        """True when the user named no data: the built-in set is used."""
        return not self.overrides.get("data")


def begin(
    words: list[str],
    workspace: Path,
    screen: Screen,
    stopper: Stopper,
    *,
    cwd: Path,
    summary: bool = True,
    trains: bool = False,
    fresh: bool = False,
) -> Context:
    """Parse the user's arguments and create the run directory with its run.json, or go on with an unfinished one.

    Raises InputError before anything is created when an argument is wrong. `summary`: write the health summary, too.
    `trains`: it is a training, so that an unfinished run with the same arguments goes on, unless `fresh`.
    """
    overrides = parse_overrides(words)
    wish = overrides.pop("resume", None)
    if wish and (fresh or not trains):
        raise InputError("resume= and --fresh exclude each other" if fresh else "resume=: this command does not train")
    if wish:
        found = resume.named(workspace, wish, overrides.get("model"))
        assert found.run_dir and found.record
        changed = resume.changes(found.record, overrides)
        asked = dict(found.record.overrides)
        args = {**found.record.args, **changed}
        if (data := str(asked.get("data") or "")) and (cwd / data).exists():
            args["data"] = data  # the record names the view of it; from another folder, that has to do
        return _go_on(
            Context(
                workspace, found.run_dir, asked, found.record.task, args, screen, stopper,
                Health(workspace, found.run_dir, asked), cwd,
            ),
            found.record, summary=summary, changed=changed,
        )  # fmt: skip
    task = task_of(overrides)
    model = overrides.get("model") or default_model(task)
    defaults = load_defaults(settings.CONFIGS / "train" / ("default.yaml" if overrides.get("data") else "demo.yaml"))
    args = {
        **defaults,
        "model": _model_path(str(model), cwd, workspace),
        **{k: v for k, v in overrides.items() if k != "model"},
    }
    args.pop("task", None)
    for note in notes(args):
        screen.line(f"note: {note}")
    _weights_here(args, cwd)
    _trust(args, cwd, workspace)
    name = str(args.pop("name", "") or "")
    key = resume.key_of(args, task, name, cwd) if trains else ""
    if trains:
        found = resume.find(workspace, key, args)
        if found.run_dir and found.record and not fresh and wish is not False:
            health = Health(workspace, found.run_dir, overrides)
            context = Context(workspace, found.run_dir, overrides, task, args, screen, stopper, health, cwd)
            return _go_on(context, found.record, summary=summary)
        if found.run_dir:
            screen.line(f"note: run {found.run_dir.name} with the same arguments is unfinished; a fresh one begins")
        elif found.note:
            screen.line(f"note: {found.note}")
    run_dir = _new_run_dir(workspace, name)
    stack, sha256 = settings.stack()
    health = Health(workspace, run_dir, overrides)
    context = Context(workspace, run_dir, overrides, task, args, screen, stopper, health, cwd)
    context.facts["lock"] = hold(run_dir)
    if summary:
        health.write()
    started = now()
    record = RunRecord(
        run_dir.name, RUN_SCHEMA_VERSION, started, overrides, args, task, stack, sha256, pid=os.getpid(), key=key,
        attempts=(Attempt(started, machine=resume.machine()),),
    )  # fmt: skip
    codec.write_json(run_dir / "run.json", record)
    return context


def _go_on(
    context: Context, record: RunRecord, *, summary: bool, changed: Mapping[str, Any] = MappingProxyType({})
) -> Context:
    """Begin the next attempt of an unfinished run. Raises InputError when another process was quicker."""
    run_dir = context.run_dir
    context.facts["lock"] = hold(run_dir)
    if context.facts["lock"] is None and is_held(run_dir):
        raise InputError(f"run {run_dir.name} was just taken up by another process; --fresh starts a new run")
    why = record.exit_cause.detail or record.exit_cause.kind
    stack, sha256 = settings.stack()
    record = replace(
        resume.next_attempt(run_dir, record, changed), args=context.args, pid=os.getpid(), stack=stack,
        lock_sha256=sha256,
    )  # fmt: skip
    context.health.goes_on(record)
    context.attempts = record.attempts
    if summary:
        context.health.write()
    codec.write_json(run_dir / "run.json", record)
    context.screen.line(
        f"run {run_dir.name} goes on, start {len(record.attempts)} (the one before: {why}); --fresh starts a new run"
    )
    return context


def save_args(context: Context) -> None:
    """Renew the arguments in run.json."""
    path = context.run_dir / "run.json"
    record = codec.read_json(path, RunRecord)
    codec.write_json(path, RunRecord(**{**vars(record), "args": context.args}))


def resolve_data(context: Context) -> DataSpec:
    """The data set of this run, drawn first if it is the demo. Raises InputError."""
    if context.spec is None:
        data = str(context.args.get("data"))
        if context.demo:
            if context.task not in {"detect", "segment"}:
                raise InputError(f"the demo data set has no {context.task} labels; give your own with data=")
            data = str(make_demo(context.workspace / "datasets" / f"demo-{context.task}", context.task))
        elif not (context.cwd / data).exists() and (shipped := shipped_dataset(data)):
            data = str(shipped)
        context.spec = resolve(data, context.task, cwd=context.cwd, datasets_dir=context.workspace / "datasets")
    return context.spec


def _model_path(model: str, cwd: Path, workspace: Path) -> str:
    """An existing local file as an absolute path; anything else as it is, for Ultralytics to find or fetch."""
    path = Path(model).expanduser()
    path = path if path.is_absolute() else cwd / path
    if path.is_file():
        return str(path.resolve())
    if len(Path(model).parts) > 1:
        raise InputError(f"model={model}: no such file")
    if Path(model).suffix not in {".yaml", ".yml", *WEIGHT_SUFFIXES}:
        raise InputError(f"model={model}: expected a .yaml (from scratch) or .pt (weights), e.g. model=yolo11n.pt")
    if path.suffix in {".yaml", ".yml"} and not is_shipped_model(model):
        raise InputError(f"model={model}: no such file, and Ultralytics ships no model of this name")
    if path.suffix in WEIGHT_SUFFIXES and (workspace / "weights" / model).is_file():
        return str(workspace / "weights" / model)
    if path.suffix in WEIGHT_SUFFIXES and settings.offline():
        raise InputError(f"model={model}: not here, and OFFLINE is set; put it into {workspace / 'weights'}")
    return model


def _weights_here(args: Mapping[str, Any], cwd: Path) -> None:
    """Raise InputError for weights that pretrained= or distill_model= names by a path where nothing is."""
    for key in ("pretrained", "distill_model"):
        value = args.get(key)
        if not isinstance(value, str) or not value:
            continue
        path = Path(value).expanduser()
        if len(path.parts) > 1 and not (cwd / path).is_file():
            raise InputError(f"{key}={value}: no such file")
        if path.suffix not in {*WEIGHT_SUFFIXES, ".yaml", ".yml"}:
            raise InputError(f"{key}={value}: expected True, False or weights (.pt)")


def _trust(args: dict[str, Any], cwd: Path, workspace: Path) -> None:
    """Raise InputError for a model file that would do more than build a model when loaded, unless it is trusted."""
    if settings.trusts_checkpoints():
        return
    for key in ("model", "pretrained"):
        path = Path(str(args.get(key) or ""))
        if path.suffix not in WEIGHT_SUFFIXES:
            continue
        places = (cwd, workspace / "weights")
        for file in {place / path.expanduser() for place in places if (place / path.expanduser()).is_file()}:
            try:
                reason = why_refuse(file)
            except OSError as error:
                raise InputError(f"{key}={path}: can't be read: {error.strerror or error}") from error
            if reason:
                raise InputError(f"{key}={path}: {reason}. If you trust its maker: TRUST_CHECKPOINT=1")


def _new_run_dir(workspace: Path, name: str) -> Path:
    """Create `workspace/runs/<name or time>`; a taken name gets -2, -3 ..."""
    if name and (Path(name).name != name or name.startswith(".")):
        raise InputError(f"name={name}: must be a plain folder name")
    base = name or datetime.now().strftime("%Y%m%d-%H%M%S")
    runs = workspace / "runs"
    for number in range(1, 1000):
        run_dir = runs / (base if number == 1 else f"{base}-{number}")
        try:
            runs.mkdir(parents=True, exist_ok=True)
            run_dir.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise InputError(
                f"the workspace {workspace} can't be written: {error.strerror or error} ({error.filename}); "
                f"it belongs to uid {_owner(workspace)}, this is uid {os.getuid()}; "
                "chown it or choose another with --workspace DIR"
            ) from error
        return run_dir
    raise InputError(f"{runs}: a thousand runs are named {base}; choose another name=")


def _owner(path: Path) -> str:
    for place in (path, *path.parents):
        try:
            return str(place.stat().st_uid)
        except OSError:
            continue
    return "unknown"
