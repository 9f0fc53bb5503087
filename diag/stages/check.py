"""Stage `check`: can this machine train, with these arguments, on this data?"""

import os
import time
from pathlib import Path

from diag import codec
from diag.errors import InputError
from diag.health import now
from diag.model.check import Check, StageResult, Status, worst
from diag.probe import CheckRequest, run_checks
from diag.render.checks import lines
from diag.stages import resume
from diag.stages.context import Context, resolve_data
from diag.train_args import is_cpu

WHAT = "can this machine train? GPU, driver, CPUs, memory, shm, disk, numerics, speed"
SHOWN = {Status.FAIL, Status.WARN, Status.UNKNOWN}


def run(context: Context) -> StageResult:
    """Ask every check; write check.json and baseline.json. A failed check fails the stage."""
    start = time.monotonic()
    images: tuple[Path, ...] = ()
    try:
        spec = resolve_data(context)
        images = tuple(spec.real(path) for path in spec.images)
    except InputError:
        pass  # stage `data` reports it; the machine can be checked without
    folder = Path(os.path.commonpath([p.parent for p in images])) if images else None
    seen = 0

    def on_check(check: Check) -> None:
        nonlocal seen
        seen += 1
        if check.status in SHOWN:
            for line in lines(check, colour=context.screen.colour, width=0):
                context.screen.line("      " + line)
        else:
            context.screen.progress(f"{seen} checks answered, last {check.id}")

    request = CheckRequest(context.workspace, context.args, images, folder)
    checks, baseline = run_checks(request, on_check=on_check)
    context.baseline = baseline
    codec.write_json(context.run_dir / "baseline.json", baseline)
    codec.write_json(context.run_dir / "check.json", {"created": now(), "machine": resume.machine(), "checks": checks})
    context.health.document["environment"] = codec.plain(baseline)
    limit_workers(context)
    status = worst([check.status for check in checks])
    status = status if status in {Status.FAIL, Status.WARN} else Status.PASS
    return StageResult("check", status, _line(checks), time.monotonic() - start, {"checks": codec.plain(checks)})


def _line(checks: tuple[Check, ...]) -> str:
    counts = [(status.value, sum(c.status is status for c in checks)) for status in Status]
    failed = [c for c in checks if c.status is Status.FAIL]
    told = ", ".join(f"{n} {name}" for name, n in counts if n)
    return f"{told}. {failed[0].id}: {failed[0].reason or failed[0].value}" if failed else told


def limit_workers(context: Context) -> None:
    """Set `workers` by the CPUs that this process may really use, unless the user chose a number.

    Ultralytics takes min(os.cpu_count(), 8) and sees no cgroup quota (data/build.py).
    """
    host = context.baseline.host if context.baseline else None
    if host is None or host.cpus_effective is None or host.cpus_visible is None or is_cpu(context.args.get("device")):
        return
    if host.cpus_effective < host.cpus_visible and "workers" not in context.overrides:
        context.args["workers"] = max(1, min(8, int(host.cpus_effective) - 1))
