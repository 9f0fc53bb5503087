"""Which difference between compared runs explains their outcomes. No rules here; the engine asks.

A difference explains an outcome where the worse run has a finding whose advice the better one followed. Without such a
finding a single difference is likely the cause, and several can't be told apart.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from diag.model.evidence import Evidence, Peers
from diag.model.finding import Finding, Severity, Value
from diag.model.outcome import Outcome, Reason

_SCORE = (
    "model", "pretrained", "epochs", "patience", "batch", "nbs", "imgsz", "optimizer", "lr0", "lrf", "cos_lr",
    "momentum", "weight_decay", "warmup_epochs", "warmup_bias_lr", "box", "cls", "dfl", "obj", "freeze", "rect",
    "single_cls", "fraction", "amp", "dropout", "multi_scale", "close_mosaic", "mosaic", "mixup", "copy_paste",
    "degrees", "translate", "scale", "shear", "perspective", "flipud", "fliplr", "hsv_h", "hsv_s", "hsv_v", "erasing",
    "auto_augment", "resume", "seed", "mask_ratio", "label_smoothing", "image_weights", "time", "ultralytics",
    "torch", "device", "gpus", "transferred", "images", "ended",
)  # fmt: skip
"""What a score may depend on."""
_SECONDS = (
    "model", "batch", "imgsz", "workers", "cache", "amp", "device", "rect", "multi_scale", "compile", "mosaic", "mixup",
    "copy_paste", "auto_augment", "ultralytics", "torch", "gpu", "gpus",
)  # fmt: skip
"""What the time of a step may depend on."""
_BY_COMPARISON = {
    "train.ddp_metrics_broken": ("gpus", "device"),
    "env.library_bug": ("ultralytics",),
    "env.version_changed": ("ultralytics",),
    "train.partial_transfer": ("transferred", "model"),
    "speed.ddp_no_scaling": ("gpus", "device"),
    "speed.ram_cache_swapping": ("cache",),
    "train.incomplete": ("ended", "epochs_run"),
}
"""Findings that are about a difference and not about an argument."""


@dataclass(frozen=True)
class _Side:
    name: str
    evidence: Evidence
    value: float
    noise: float


@dataclass(frozen=True)
class _Comparison:
    peers: Peers
    findings: Mapping[str, Sequence[Finding]]
    """Of each run by itself."""
    compared: Sequence[Finding]
    """Of all together."""


def runs_of(finding: Finding, names: Iterable[str]) -> frozenset[str]:
    """The compared runs that a finding's evidence is of; empty where it is of none in particular."""
    files = [source.file for source in finding.evidence]
    return frozenset(name for name in names if any(f == name or f.startswith(f"{name}/") for f in files))


def outcomes(
    peers: Peers, findings: Mapping[str, Sequence[Finding]], compared: Sequence[Finding]
) -> tuple[Outcome, ...]:
    """Score and step time of the best and the worst run.

    `findings` are those of each run by itself, `compared` those of all together.
    """
    runs = _Comparison(peers, findings, compared)
    return tuple(outcome for outcome in (_by_score(runs), _by_seconds(runs)) if outcome)


def _by_score(runs: _Comparison, *, errors: float = 2.0) -> Outcome | None:
    """errors: standard deviations of the noisier run that two best scores may lie apart by chance."""
    known: list[tuple[str, _Side]] = []
    for name, run in runs.peers.runs.items():
        if run.curves is not None and run.curves.best_at:
            noise = run.curves.noise if math.isfinite(run.curves.noise) else 0.0
            known.append((run.curves.metric_name, _Side(name, run, run.curves.best, noise)))
    if len(known) < 2 or len({metric for metric, _ in known}) > 1:
        return None
    worse, *_, better = sorted((side for _, side in known), key=lambda side: side.value)
    noise = errors * max(better.noise, worse.noise)
    case, reasons = "apart", _reasons(runs, better, worse, _SCORE)
    if {"data.train_val_leak", "data.val_equals_train"} & {f.id for f in runs.findings.get(better.name, ())}:
        case, reasons = "leak", ()
    elif "data" in _values(runs.peers, better, worse):
        case, reasons = "data", tuple(r for r in reasons if r.why == "fault")
    elif better.value - worse.value <= noise or better.value == worse.value:
        case, reasons = "noise", ()
    elif not reasons:
        case = "unexplained"
    return Outcome("score", case, better.name, worse.name, better.value, worse.value, known[0][0], noise, reasons)


def _by_seconds(runs: _Comparison, *, apart: float = 1.25) -> Outcome | None:
    """apart: the slower run's time over the faster one's; machines of the same kind differ by less.

    A larger batch takes longer: where batches differ, seconds are those of an image, and nothing where one is unknown.
    """
    batches = [_batch(run) for run in runs.peers.runs.values()]
    alike = len(set(batches)) == 1
    sides = [
        _Side(name, run, seconds / (1 if alike else batch or math.nan), 0.0)
        for (name, run), batch in zip(runs.peers.runs.items(), batches, strict=True)
        if (seconds := _step_seconds(run)) is not None and seconds > 0
    ]
    if len(sides) < 2 or any(math.isnan(side.value) for side in sides):
        return None
    better, *_, worse = sorted(sides, key=lambda side: side.value)
    if worse.value < apart * better.value:
        return None
    reasons = _reasons(runs, better, worse, _SECONDS)
    case, measure = "apart" if reasons else "unexplained", "seconds" if alike else "image_seconds"
    return Outcome(measure, case, better.name, worse.name, better.value, worse.value, "", 0.0, reasons)


def _batch(run: Evidence) -> int | None:
    batch = run.args.get("batch") if run.args else None
    return batch if isinstance(batch, int) and batch > 0 else None


def _step_seconds(run: Evidence) -> float | None:
    if run.steps is not None:
        return run.steps.step_s
    steps = [e.step_s for e in run.log.epochs if e.step_s] if run.log else []
    return median(steps) if steps else None


def _values(peers: Peers, better: _Side, worse: _Side) -> dict[str, tuple[str, str]]:
    """What differs between these two, each with both values; unknown ones are no difference."""
    names = list(peers.runs)
    a, b = names.index(better.name), names.index(worse.name)
    pairs = {d.what: (d.values[a], d.values[b]) for d in peers.differences}
    return {what: pair for what, pair in pairs.items() if pair[0] != pair[1] and "-" not in pair}


def _reasons(runs: _Comparison, better: _Side, worse: _Side, matters: Sequence[str]) -> tuple[Reason, ...]:
    pairs = _values(runs.peers, better, worse)
    kinds = ("train.", "num.", "data.") if matters is _SCORE else ("speed.", "mem.", "hw.")
    ours = [f for f in runs.compared if worse.name in runs_of(f, runs.peers.runs)]
    fine = {f.id for f in runs.findings.get(better.name, ())}
    told: dict[str, Reason] = {}
    for finding in (*_causes(ours), *_causes(runs.findings.get(worse.name, ()))):
        asked = {key: value for fix in finding.fixes for key, value in fix.change.items()}
        for what in (*asked, *_BY_COMPARISON.get(finding.id, ())):
            if what in pairs and what not in told and _followed(pairs[what], asked.get(what)):
                told[what] = Reason(what, *pairs[what], "finding", finding.id)
        grave = finding.severity.rank >= Severity.HIGH.rank and finding.id.startswith(kinds)
        if grave and not told and finding.id not in fine:
            told[""] = Reason("", "", "", "fault", finding.id)
    candidates = [what for what in matters if what in pairs and what not in told]
    why = "besides" if told else "only" if len(candidates) == 1 else "one_of"
    return (*told.values(), *(Reason(what, *pairs[what], why) for what in candidates))


def _causes(findings: Sequence[Finding]) -> list[Finding]:
    """Those that are no symptom of a fault, and no remarks."""
    under = {id for f in findings if f.severity is not Severity.INFO for id in f.explains}
    return [f for f in findings if f.severity is not Severity.INFO and f.id not in under]


def _followed(pair: tuple[str, str], asked: Value) -> bool:
    """The better run went where the advice to the worse one points: the same word, any weights, or towards the number.

    A difference that no argument stands for (asked is None) counts as it is.
    """
    try:
        better, worse, wanted = float(pair[0]), float(pair[1]), float(str(asked))
    except ValueError:
        weights = str(asked).endswith(".pt") and pair[0].endswith(".pt") and not pair[1].endswith(".pt")
        return asked is None or weights or pair[0].lower() == str(asked).lower()
    return (better - worse) * (wanted - worse) > 0
