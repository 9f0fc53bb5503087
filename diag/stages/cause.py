"""How a training ended, in the user's terms: what the console alone does not tell."""

import os
import re
from dataclasses import replace
from pathlib import Path

from diag.model.run import ExitCause
from diag.stages.resume import GOES_ON, WITH_CHECKPOINT


def with_gpu(cause: ExitCause, lost: str) -> ExitCause:
    """A failure after a GPU was lost is that: CUDA's own words on it are any of a dozen, NVML's (`lost`) are clear."""
    if not lost or cause.kind != "failed":
        return cause
    return ExitCause("gpu_lost", cause.code, cause.signal, f"{lost}: reset it or reboot", cause.detail)


def with_resume(cause: ExitCause, saved: bool) -> ExitCause:
    """The end of an unfinished training, with a word about the next start of the same command."""
    if cause.kind not in GOES_ON and not (cause.kind in WITH_CHECKPOINT and saved):
        return cause
    what = "goes on after the last saved epoch" if saved else "begins this run again, no epoch was saved yet"
    detail = f"stopped by {cause.signal}" if cause.kind == "stopped" else cause.detail
    return replace(cause, detail=f"{detail}; the same command {what}")


def known_names(cause: ExitCause, views: Path) -> ExitCause:
    """The cause with the user's own files in place of the links to them below `views`, through which training reads."""
    pattern = re.escape(str(views)) + r"[^\s'\",:]+"

    def own(text: str) -> str:
        return re.sub(pattern, lambda link: os.path.realpath(link[0]), text)

    return replace(cause, detail=own(cause.detail), evidence=own(cause.evidence))
