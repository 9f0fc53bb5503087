"""What the stages of one run share, and how a run directory begins."""

import os
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from diag import codec, settings
from diag.child import Stopper
from diag.dataset.catalog import is_shipped_model, shipped_dataset
from diag.dataset.demo import make_demo
from diag.dataset.resolve import DataSpec, resolve
from diag.errors import InputError
from diag.health import Health, hold, now
from diag.model.hardware import Baseline
from diag.model.run import RunRecord
from diag.probe.checkpoint import why_refuse
from diag.screen import Screen
from diag.train_args import default_model, load_defaults, parse_overrides, task_of

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

    @property
    def demo(self) -> bool:
        """True when the user named no data: the built-in set is used."""
        return not self.overrides.get("data")


def begin(
    words: list[str], workspace: Path, screen: Screen, stopper: Stopper, *, cwd: Path, summary: bool = True
) -> Context:
    """Parse the user's arguments and create the run directory with its run.json.

    Raises InputError before anything is created when an argument is wrong. `summary`: write the health summary, too.
    """
    overrides = parse_overrides(words)
    task = task_of(overrides)
    model = overrides.get("model") or default_model(task)
    defaults = load_defaults(settings.CONFIGS / "train" / ("default.yaml" if overrides.get("data") else "demo.yaml"))
    args = {
        **defaults,
        "model": _model_path(str(model), cwd, workspace),
        **{k: v for k, v in overrides.items() if k != "model"},
    }
    args.pop("task", None)
    _trust(args, cwd, workspace)
    run_dir = _new_run_dir(workspace, str(args.pop("name", "") or ""))
    stack, sha256 = settings.stack()
    health = Health(workspace, run_dir, overrides)
    context = Context(workspace, run_dir, overrides, task, args, screen, stopper, health, cwd)
    context.facts["lock"] = hold(run_dir)
    if summary:
        health.write()
    record = RunRecord(run_dir.name, RUN_SCHEMA_VERSION, now(), overrides, args, task, stack, sha256, pid=os.getpid())
    codec.write_json(run_dir / "run.json", record)
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
