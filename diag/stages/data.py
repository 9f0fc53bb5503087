"""Stage `data`: resolve the data set, count it, and make the view that training reads."""

import time

from diag import codec
from diag.dataset.scan import scan
from diag.dataset.view import make_view
from diag.engine import evaluate
from diag.model.check import StageResult, Status
from diag.model.evidence import Dataset, Evidence
from diag.model.finding import Severity
from diag.render.words import story
from diag.stages.context import Context, resolve_data, save_args

WHAT = "find the images and labels, count them, look for faults that stop a training"


def run(context: Context) -> StageResult:
    """Write data.json and the view; set `data` of the training arguments.

    A critical `data.*` finding fails the stage. Raises InputError for a data set that can't be resolved.
    """
    start = time.monotonic()
    context.screen.progress("reading the data set")
    spec = resolve_data(context)
    dataset = scan(spec, progress=context.screen.progress)
    codec.write_json(context.run_dir / "data.json", dataset)
    context.args["data"] = str(make_view(spec, context.workspace / "cache" / "views"))
    save_args(context)
    status, reason = judge(dataset)
    details = codec.plain(dataset)
    if spec.lost_links:
        details["lost_links"] = {str(k): str(v) for k, v in spec.lost_links.items()}
    return StageResult("data", status, reason, time.monotonic() - start, details)


def judge(dataset: Dataset) -> tuple[Status, str]:
    """Status and one line: the counts, and the worst finding about the data if there is one."""
    counts = ", ".join(f"{name} {s.images} images / {s.instances} objects" for name, s in dataset.splits.items())
    line = f"{counts}; {len(dataset.names)} classes"
    findings = [f for f in evaluate(Evidence(dataset=dataset)).findings if f.id.startswith("data.")]
    if not findings:
        return Status.PASS, line
    worst = findings[0]
    title = story(worst, "en").title
    status = Status.FAIL if worst.severity is Severity.CRITICAL else Status.WARN
    if worst.severity.rank < Severity.MEDIUM.rank:
        status = Status.PASS
    return status, f"{line}. {title}"
