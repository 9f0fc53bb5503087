"""Several runs side by side: in what they differ."""

import math
from collections.abc import Callable, Mapping
from statistics import median

from diag.model.evidence import Evidence, Peers
from diag.model.foreign import Difference

_IGNORED = {"name", "project", "save_dir", "exist_ok", "mode", "verbose", "resume_from", "log_imgs"}
_MAX_ARGUMENTS = 40


def compare(runs: Mapping[str, Evidence]) -> Peers:
    """The runs with what differs between them in arguments, versions, data, speed and outcome."""
    found = _arguments(runs)
    for what, read in _FACTS.items():
        values = [read(run) for run in runs.values()]
        told = [_word(v) for v in values]
        if len({word for word in told if word != "-"}) > 1:  # what one of two does not say is no difference
            found.append(Difference(what, tuple(told)))
    return Peers(dict(runs), tuple(found))


def _arguments(runs: Mapping[str, Evidence]) -> list[Difference]:
    raws = [run.args.raw if run.args else {} for run in runs.values()]
    if not all(raws):
        return []
    # An argument that one release does not know yet is no difference; one that is null there is.
    names = dict.fromkeys(n for n in raws[0] if n not in _IGNORED and all(n in raw for raw in raws))
    changed = [n for n in names if len({_word(raw.get(n)) for raw in raws}) > 1]
    return [Difference(n, tuple(_word(raw.get(n)) for raw in raws)) for n in changed[:_MAX_ARGUMENTS]]


def step_seconds(run: Evidence) -> float | None:
    """Seconds a batch: from the trace, else the median of the log's bars."""
    if run.steps is not None:
        return run.steps.step_s
    steps = [e.step_s for e in (*run.log.epochs, *run.log.parts) if e.step_s] if run.log else []
    return median(steps) if steps else None


def epoch_seconds(run: Evidence) -> float | None:
    """Seconds of training per epoch, by the log's bars or the time column."""
    times = [e.train_s for e in run.log.epochs if e.train_s] if run.log else []
    return median(times) if times else None


def best_score(run: Evidence) -> float | None:
    """The best score of the curves, else of the log."""
    if run.curves is not None and run.curves.best_at:
        return run.curves.best
    found = [m for e in (run.log.epochs if run.log else ()) if (m := e.metrics.get("metrics/mAP50-95(B)")) is not None]
    return max(found, default=None)


def _version(run: Evidence) -> str:
    if run.log and run.log.versions:
        return run.log.versions[0]
    return run.baseline.software.ultralytics or "" if run.baseline else ""


def _images(run: Evidence) -> int | None:
    scan = next((s for s in run.log.scans if s.split in {"", "train"}), None) if run.log else None
    if scan:
        return scan.total
    return run.dataset.splits["train"].images if run.dataset and "train" in run.dataset.splits else None


_FACTS: dict[str, Callable[[Evidence], str | int | float | None]] = {
    "ultralytics": _version,
    "torch": lambda r: r.log.torch if r.log else "",
    "device": lambda r: r.console.device if r.console else "",
    "gpu": lambda r: r.log.gpu if r.log else "",
    "gpus": lambda r: r.log.gpus or None if r.log else None,
    "transferred": lambda r: "/".join(map(str, r.log.transferred[0])) if r.log and r.log.transferred else "",
    "images": _images,
    "step_s": step_seconds,
    "epoch_s": epoch_seconds,
    "score": best_score,
    "epochs_run": lambda r: r.curves.rows if r.curves else None,
    "train_loss": lambda r: r.curves.train_last if r.curves and math.isfinite(r.curves.train_last) else None,
    "ended": lambda r: r.log.ended if r.log else "",
}


def _word(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value) or "-"
