"""env.torch_cpu where captures or telemetry show the GPU that the training left aside."""

import re

from diag.model.evidence import Console
from diag.model.finding import Fix, Hit, Severity, Source, Verdict
from diag.model.foreign import Notes, Tables, TrainLog
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.facts import chose_cpu, noted, sources, table_source

_HIDES = r"CUDA_VISIBLE_DEVICES['\"\]]{0,3} ?[=:] ?['\"]?(?:-1|NoDevFiles)?['\"]?$"
"""No device is visible: -1, nothing after the sign, or Slurm's word for a job without one."""


@rule(
    "env.torch_cpu@listed",
    Severity.CRITICAL,
    explained_by=("env.no_kernel",),
    unless=("env.docker_no_gpu", "env.driver_old"),
)
def gpu_left_aside(
    console: Console, notes: Notes | None, tables: Tables | None, log: TrainLog | None, args: TrainArgs | None
) -> Verdict:
    """Training ran on the CPU though nvidia-smi or telemetry shows a GPU in the machine.

    The banner says CPU, or without one every row says 0G of GPU memory (yolov5 PR#722: 0G, 8.35 s a step, workers
    made no difference). device=cpu is a choice and fine.
    """
    zero = [e.gpu_mem_g == 0 for e in (*log.parts, *log.epochs) if e.gpu_mem_g is not None] if log else []
    on_cpu = console.device == "cpu" or (not console.banner and bool(zero) and all(zero))
    if not on_cpu or chose_cpu(args, None):
        return None
    listed: tuple[Source, ...] = ()
    if notes is not None and notes.gpus:
        listed = noted(notes, re.escape(notes.gpus[0].name), limit=1)
    elif tables is not None and max(tables.series("^gpu_mem_total_mib$"), default=0.0) > 0:
        listed = table_source(tables, "^gpu_mem_total_mib$")
    if not listed:
        return None
    masked = noted(notes, _HIDES, limit=1)
    fixes = (Fix("unset"), Fix("device", {"device": 0})) if masked else (Fix("check_gpu"), Fix("device", {"device": 0}))
    return Hit(
        values={"case": "hidden" if masked else None},
        fixes=fixes,
        evidence=(*listed, *masked, *sources(console, ("banner",), limit=1)),
    )
