"""Which run a start goes on with: the newest one with the same arguments, when it is unfinished."""

import dataclasses
import hashlib
import json
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diag import codec, settings
from diag.errors import InputError
from diag.health import LOCK, attempts_with, is_held, now
from diag.model.run import Attempt, ExitCause, RunRecord

GOES_ON = {
    "running",
    "stopped",
    "killed",
    "stalled",
    "ram_oom",
    "gpu_oom",
    "disk_full",
    "shm_small",
    "gpu_lost",
    "thread_limit",
}
"""Ends after which the same start goes on. `running` without a living process is a power cut."""
WITH_CHECKPOINT = {"failed", "internal_error"}
"""Ends that go on only when an epoch was saved: before that, nothing is lost and the fault is likely in the input."""
MAY_CHANGE = frozenset(
    {"imgsz", "batch", "device", "close_mosaic", "augmentations", "save_period", "workers", "cache", "patience"}
    | {"time", "freeze", "val", "plots", "channels_last"}
)
"""Arguments that Ultralytics takes anew on a resume (`check_resume`, 8.4.190; 8.3.9 takes the first four)."""


@dataclass(frozen=True)
class Found:
    """A run to go on with, or None and a word why a new one begins (empty when that is plain)."""

    run_dir: Path | None = None
    record: RunRecord | None = None
    note: str = ""


def key_of(args: Mapping[str, Any], task: str, name: str, cwd: Path) -> str:
    """Digest of what makes it the same training: every argument, the paths of local files made absolute."""
    data = args.get("data")
    if isinstance(data, str) and (cwd / data).exists():
        args = {**args, "data": str((cwd / data).resolve())}
    text = json.dumps([codec.plain(args), task, name], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def machine() -> str:
    """Digest of image and hardware: stack, lock, CPU model, GPUs."""
    cpu = ""
    with suppress(OSError, IndexError):
        info = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        cpu = next(line for line in info.splitlines() if line.startswith("model name"))
    with suppress(StopIteration, OSError):
        cpu += " ".join(sorted(p.name for p in Path("/proc/driver/nvidia/gpus").iterdir()))
    return hashlib.sha256(repr((settings.stack(), platform.machine(), cpu)).encode()).hexdigest()[:16]


def find(workspace: Path, key: str, args: Mapping[str, Any]) -> Found:
    """The newest run with this key, if it is unfinished and not alive."""
    runs = [(run_dir, record) for run_dir, record in _runs(workspace) if record.key]
    same = next(((run_dir, record) for run_dir, record in runs if record.key == key), None)
    if same is None:
        if runs and unfinished(*runs[0]) and not is_held(runs[0][0]):
            run_dir, record = runs[0]
            return Found(
                note=f"the last run {run_dir.name} is unfinished ({record.exit_cause.kind}) but has other arguments "
                f"({_differences(record.args, args)}): a new run begins; resume=True goes on with {run_dir.name}"
            )
        return Found()
    run_dir, record = same
    if is_held(run_dir):
        return Found(note=f"run {run_dir.name} with the same arguments is still training: a new run begins")
    return Found(run_dir, record) if unfinished(run_dir, record) else Found()


def named(workspace: Path, resume: Any, model: Any) -> Found:
    """The run that `resume=True` or `resume=path/to/last.pt` means. Raises InputError when there is none."""
    path = resume if isinstance(resume, str) else model if str(model or "").endswith("last.pt") else None
    if path is None:
        for run_dir, record in _runs(workspace):
            if record.key and unfinished(run_dir, record) and not is_held(run_dir):
                return Found(run_dir, record)
        raise InputError(f"resume=True: no unfinished run in {workspace / 'runs'}")
    last = Path(path).expanduser().resolve()
    run_dir = last.parent.parent.parent
    if run_dir.parent != (workspace / "runs").resolve() or last.name != "last.pt" or not last.is_file():
        raise InputError(
            f"resume={path}: not the last.pt of a run in {workspace / 'runs'}; "
            f"to train on from other weights give model={path}"
        )
    record = codec.read_json(run_dir / "run.json", RunRecord)
    if is_held(run_dir):
        raise InputError(f"resume={path}: run {run_dir.name} is still training")
    if record.exit_cause.kind == "finished":
        raise InputError(f"resume={path}: run {run_dir.name} is finished, nothing to resume")
    return Found(run_dir, record)


def changes(record: RunRecord, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments beside `resume=` that differ from the run's own. Raises InputError for one that can't change."""
    differ = {k: v for k, v in overrides.items() if k not in {"model", "data"} and record.args.get(k) != v}
    if fixed := sorted(differ.keys() - MAY_CHANGE):
        raise InputError(
            f"{fixed[0]}={differ[fixed[0]]}: a resumed run keeps its own {fixed[0]} "
            f"({record.args.get(fixed[0])}); drop it, or start a new run without resume="
        )
    return differ


def unfinished(run_dir: Path, record: RunRecord) -> bool:
    """True if a start may go on with this run."""
    kind = record.exit_cause.kind
    return kind in GOES_ON or (kind in WITH_CHECKPOINT and last_pt(run_dir).exists())


def last_pt(run_dir: Path) -> Path:
    """The checkpoint of a run."""
    return run_dir / "ultralytics" / "weights" / "last.pt"


def next_attempt(run_dir: Path, record: RunRecord, changed: Mapping[str, Any]) -> RunRecord:
    """The record of a run that goes on: the attempt before is closed, a new one begins."""
    vanished = ExitCause("killed", detail="the process went away without a word (kill -9, power, container)")
    cause = vanished if record.exit_cause.kind == "running" else record.exit_cause
    before = attempts_with(run_dir, record, cause, record.ended or now())
    (run_dir / "resume.json").unlink(missing_ok=True)
    return dataclasses.replace(
        record,
        attempts=(*before, Attempt(now(), machine=machine(), changed=changed)),
        exit_cause=ExitCause("running"),
        ended="",
    )


def _runs(workspace: Path) -> Iterator[tuple[Path, RunRecord]]:
    """All runs of the workspace that have a readable run.json, the last started first."""
    found = []
    for path in (workspace / "runs").glob("*/run.json"):
        with suppress(OSError, InputError):
            record = codec.read_json(path, RunRecord)
            started = record.attempts[-1].started if record.attempts else record.started
            found.append((started, (path.parent / LOCK).stat().st_mtime_ns, path.parent, record))
    for _, _, run_dir, record in sorted(found, key=lambda item: item[:2], reverse=True):
        yield run_dir, record


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    names = [n for n in sorted({*before, *after}) if before.get(n) != after.get(n) and n != "data"]
    return ", ".join(f"{n} {before.get(n)} -> {after.get(n)}" for n in names[:4]) or "the data or the name"
