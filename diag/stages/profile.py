"""`diag profile`: torch.profiler over a few batches, in a child process; not a stage of the pipeline."""

import json
from pathlib import Path

from diag.child import Stopper, run_child
from diag.codec import read_json
from diag.errors import DiagError, InputError
from diag.health import mark_run
from diag.model.profile import Profile
from diag.screen import Screen
from diag.stages import data
from diag.stages.context import Context, begin, save_args
from diag.stages.environment import child_env


def prepare(words: list[str], workspace: Path, screen: Screen, stopper: Stopper, *, cwd: Path) -> Context:
    """A new run directory for `key=value` words, its data resolved. The health summary is left as it is."""
    context = begin(words, workspace, screen, stopper, cwd=cwd, summary=False)
    data.peek(context)
    data.run(context)
    save_args(context)
    return context


def run_profile(
    run_dir: Path, workspace: Path, screen: Screen, stopper: Stopper, *, steps: int, warmup: int, new: bool
) -> Profile:
    """Profile the training that run.json describes. Raises DiagError when it failed, InputError without run.json."""
    if not (run_dir / "run.json").is_file():
        raise InputError(f"{run_dir}: no run.json; give a run of `diag train`, or key=value arguments")
    folder = run_dir / "profile"
    folder.mkdir(exist_ok=True)
    for name in ("profile.json", "trace.json"):
        (folder / name).unlink(missing_ok=True)
    weights = workspace / "weights"
    weights.mkdir(parents=True, exist_ok=True)
    ended = run_child(
        "diag.record.profile",
        [str(run_dir), str(steps), str(warmup)],
        console=folder / "console.log",
        env=child_env(workspace, stopper),
        stopper=stopper,
        cwd=weights,
        on_tick=lambda: screen.progress("profiling"),
    )
    if new:
        mark_run(run_dir, ended.cause)
    if ended.cause.kind != "finished" or not (folder / "profile.json").exists():
        detail = ended.cause.detail or "training ended before the profiled batches"
        raise DiagError(f"no profile: {detail}; see {folder / 'console.log'}")
    check_trace(folder / "trace.json")
    return read_json(folder / "profile.json", Profile)


def check_trace(path: Path) -> int:
    """How many events the Chrome trace holds. Raises DiagError unless it is one that Perfetto opens."""
    try:
        document = json.loads(path.read_bytes())
        events = document["traceEvents"]
        broken = next((e for e in events if not isinstance(e, dict) or "ph" not in e), None)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DiagError(f"{path}: not a Chrome trace: {error}") from error
    if not events or broken is not None:
        raise DiagError(f"{path}: not a Chrome trace: {'no events' if not events else broken}")
    return len(events)
