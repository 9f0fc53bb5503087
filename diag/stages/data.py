"""Stage `data`: resolve the data set, count it, and make the view that training reads."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from diag import codec, settings
from diag.child import run_child
from diag.dataset.audit import audit
from diag.dataset.catalog import shipped_dataset
from diag.dataset.report import cache_file, judge, write_faults
from diag.dataset.resolve import DataSpec
from diag.dataset.view import make_view
from diag.errors import InputError
from diag.model.check import StageResult
from diag.stages.context import Context, resolve_data, save_args
from diag.stages.environment import child_env

WHAT = "find the images and labels, count them, look for faults that stop a training"


def peek(context: Context) -> None:
    """Raise InputError at once for data that neither exists nor can be fetched, before anything slow is started."""
    try:
        resolve_data(context)
    except InputError:
        if context.demo or not can_fetch(str(context.args.get("data")), context.task, context.cwd):
            raise


def run(context: Context) -> StageResult:
    """Write data.json and the view; set `data` of the training arguments.

    A critical `data.*` finding fails the stage. Raises InputError for a data set that can't be resolved.
    """
    start = time.monotonic()
    context.screen.progress("reading the data set")
    spec = _resolve_or_fetch(context)
    imgsz = context.args.get("imgsz")
    found = audit(
        spec,
        imgsz=imgsz if isinstance(imgsz, int) and imgsz > 0 else 640,
        cache=cache_file(spec, context.workspace),
        progress=context.screen.progress,
    )
    dataset = replace(found.dataset, faults_file=write_faults(found.faults, context.run_dir / "faults.jsonl"))
    changed = _changed(context, codec.plain(dataset))
    codec.write_json(context.run_dir / "data.json", dataset)
    context.args["data"] = str(make_view(spec, context.workspace / "cache" / "views"))
    save_args(context)
    status, reason = judge(dataset)
    details = codec.plain(dataset)
    if spec.lost_links:
        details["lost_links"] = {str(k): str(v) for k, v in spec.lost_links.items()}
    if changed:
        context.screen.line(f"      {changed}")
        details["changed"] = changed
    return StageResult("data", status, reason, time.monotonic() - start, details)


def _changed(context: Context, dataset: Mapping[str, Any]) -> str:
    """What is other in the data since the start before of a run that goes on; empty when nothing is."""
    path = context.run_dir / "data.json"
    if not context.attempts or not path.exists():
        return ""
    try:
        before, now = codec.read_json(path, dict).get("splits"), dataset.get("splits")
    except InputError:
        return ""
    if before == now:
        return ""
    return "the data set has changed since this run was started: the rest of it learns from other images or labels"


def can_fetch(data: str, task: str, cwd: Path) -> bool:
    """True for a data set that Ultralytics would download: one it ships by name, or a yaml with a `download:` address.

    A `download:` script in a user's yaml is not run: Ultralytics would execute it as Python.
    """
    if shipped_dataset(data):
        return True
    path = cwd / data
    if task == "classify":
        return not path.exists() and Path(data).name == data
    if not path.is_file():
        return False
    content = codec.read_yaml(path)
    return isinstance(content, dict) and str(content.get("download") or "").startswith("http")


def _resolve_or_fetch(context: Context) -> DataSpec:
    """Resolve; if files are missing and the set can be fetched, do that in a child and resolve again."""
    data = str(context.args.get("data"))
    try:
        return resolve_data(context)
    except InputError as error:
        if context.demo or not can_fetch(data, context.task, context.cwd):
            raise
        if settings.offline():
            folder = context.workspace / "datasets"
            raise InputError(f"{error}; it is not downloaded because OFFLINE is set: put it into {folder}") from error
    console = context.run_dir / "fetch.log"
    context.screen.line(f"      fetching {data} with Ultralytics, log in {console}")
    ended = run_child(
        "diag.record.fetch",
        [str(context.cwd / data) if (context.cwd / data).exists() else data, context.task],
        console=console,
        env=child_env(context.workspace, context.stopper),
        stopper=context.stopper,
        screen=context.screen.stream,
    )
    if ended.cause.kind != "finished":
        raise InputError(f"data={data}: could not be fetched: {ended.cause.detail}; see {console}")
    if context.task == "classify":
        context.args["data"] = str(context.workspace / "datasets" / data)
    return resolve_data(context)
