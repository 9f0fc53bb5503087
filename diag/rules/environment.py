"""env.*: what the machine, the container and the packages did to the run."""

import re

from diag.model.curves import Curves
from diag.model.evidence import Console, Dataset
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import Notes, TrainLog
from diag.model.hardware import Baseline
from diag.model.run import RunRecord, TrainArgs
from diag.rules.base import rule
from diag.rules.facts import asked_gpu, chose_cpu, noted, sources

_NOT_GIVEN = {"not_passed", "utility_only", "no_permission"}
_GPU_HERE = {"usable", "no_telemetry", "jetson", "hidden"}
_MACHINE = "baseline.json"
_NO_DEVICES = (
    r"cannot access '?/dev/nvidia|nvidia-smi: (?:command )?not found|^\[\]$|DeviceRequests\W{1,5}(?:null|\[\])"
)


@rule("env.docker_no_gpu", Severity.CRITICAL)
def docker_no_gpu(
    baseline: Baseline | None,
    args: TrainArgs | None,
    console: Console | None,
    run: RunRecord | None,
    notes: Notes | None,
) -> Verdict:
    """The host has an NVIDIA GPU, but the container was not given it.

    The runtime says so; or torch sees no CUDA, and captures tell of a container without devices and a GPU on the
    host. Reported in nvidia-docker#1591, yolov5#2406.
    """
    said = sources(console, ("docker_no_gpu",))
    blind = sources(console, ("no_cuda",)) or (console is not None and console.device == "cpu")
    bare = noted(notes, _NO_DEVICES, limit=1)
    if (
        not said
        and blind
        and bare
        and not (console is not None and "+cpu" in console.banner)
        and notes is not None
        and notes.gpus
        and noted(notes, r"docker|containerd|kubepods|lxc")
    ):
        said = bare
    triage = baseline.gpu_triage if baseline else ""
    if baseline is None and console is None:
        return Skip("no_evidence", {"missing": "baseline, console"})
    if not said and (triage not in _NOT_GIVEN or chose_cpu(args, run)):
        return None
    return Hit(
        values={"case": triage if triage in _NOT_GIVEN else "toolkit"},
        fixes=(Fix("compose_cuda"), Fix("toolkit")),
        evidence=said or (Source(_MACHINE, text=f"gpu_triage: {triage}"),),
    )


@rule(
    "env.torch_cpu",
    Severity.CRITICAL,
    explained_by=("env.no_kernel",),
    unless=("env.docker_no_gpu", "env.driver_old"),  # they say why; the wheel and the arguments are not to blame
)
def torch_cpu(
    baseline: Baseline | None, args: TrainArgs | None, console: Console | None, run: RunRecord | None
) -> Verdict:
    """Training ran on the CPU though a GPU was expected.

    Expected: a GPU was asked for, or one is usable on this machine. device=cpu is a choice and fine. Without
    machine facts a CPU build of torch is reported with low confidence. Reported in ultralytics#2285, yolov5#3012,
    yolov5#474.
    """
    if baseline is None and console is None:
        return Skip("no_evidence", {"missing": "baseline, console"})
    if chose_cpu(args, run):
        return None
    if run is not None and run.exit_cause.kind == "check_failed":
        return None  # nothing was trained; env.torch_cpu@check says what the check found
    said = sources(console, ("no_cuda",))
    software = baseline.software if baseline else None
    cpu_build = bool(software and software.torch and not software.torch_cuda) or bool(
        console and "+cpu" in console.banner
    )
    trained_on_cpu = bool(console and console.device == "cpu")
    gpu_here = baseline is not None and baseline.gpu_triage in _GPU_HERE
    if baseline is not None and not gpu_here and not said and not asked_gpu(args):
        return None  # no GPU on this machine: the CPU is all there is
    works = baseline is not None and baseline.cuda_usable is True
    if works and not trained_on_cpu:
        return None
    if not (said or cpu_build or trained_on_cpu or (baseline is not None and baseline.cuda_usable is False)):
        return None
    sure = bool(said) or gpu_here or asked_gpu(args)
    if not sure and not cpu_build:
        return None
    banner = (Source(console.file, line.line, line.text) for line in console.of("banner")[:1]) if console else ()
    case = "build" if cpu_build else "hidden" if baseline and baseline.gpu_triage == "hidden" else "device"
    return Hit(
        values={"case": case, "torch": _torch(baseline, console)},
        fixes=(Fix("cuda_build") if cpu_build else Fix("check_gpu"), Fix("device", {"device": 0})),
        evidence=(*said, *banner)
        or (Source(_MACHINE, text=f"cuda_usable: {baseline.cuda_usable if baseline else None}"),),
        confidence=Confidence.HIGH if sure else Confidence.LOW,
        severity=Severity.CRITICAL if sure else Severity.MEDIUM,
    )


@rule("env.version_drift", Severity.HIGH)
def version_drift(baseline: Baseline) -> Verdict:
    """Installed packages differ from the lock that the environment was built from."""
    drift = baseline.software.drift
    if not drift:
        return None
    return Hit(
        values={
            "case": "known" if baseline.software.stack else "unknown",
            "count": len(drift),
            "packages": "; ".join(drift[:5]),
            "stack": baseline.software.stack or None,
        },
        fixes=(Fix("rebuild"),),
        evidence=(Source(_MACHINE, text="; ".join(drift[:3])),),
    )


@rule("env.autoinstall", Severity.HIGH)
def autoinstall(console: Console) -> Verdict:
    """A package was installed at run time.

    Reported in openvino_notebooks#1797.
    """
    said = sources(console, ("autoinstall",))
    if not said:
        return None
    return Hit(values={"line": said[0].text}, fixes=(Fix("pin"), Fix("switch_off")), evidence=said)


@rule("env.tensorboard_off", Severity.LOW)
def tensorboard_off(console: Console, log: TrainLog | None, notes: Notes | None) -> Verdict:
    """TensorBoard is off in the Ultralytics settings, so nothing was logged.

    Off is the default since April 2025 (ultralytics PR#20213, 8.3.110): there it is a remark. YOLOv5 and
    YOLOv7 have no such setting. Its line stands between the banner and the first epoch, so both must be in the log, and
    something of what stands beside it (weights, label scans, where results go): people leave lines out in a paste.
    Or the settings are there and say it (`yolo settings`).
    """
    started = sources(console, ("train_start",), limit=1)
    if not started:
        return Skip("not_trained")
    if console.of("tensorboard_on") or console.tensorboard_files:
        return None
    switched = noted(notes, r"^['\"]?tensorboard['\"]?\s*[:=]\s*false\b", limit=1)
    if switched:
        return Hit(values={"case": "settings"}, fixes=(Fix("switch_on"),), evidence=(*switched, *started))
    version = _ULTRALYTICS.search(console.banner)
    if version is None:
        return Skip("excerpt") if not console.banner else None
    beside = any("Logging results" in line.text for line in console.of("train_start"))
    if not beside and (log is None or not (log.transferred or log.scans)):
        return Skip("excerpt")
    default = tuple(int(n) for n in version.groups()) >= (8, 3, 110)
    return Hit(fixes=(Fix("switch_on"),), evidence=started, severity=Severity.INFO if default else None)


_ULTRALYTICS = re.compile(r"Ultralytics\s+(?:YOLO\s?v?)?(\d+)\.(\d+)\.(\d+)")


@rule("env.cache_unwritable", Severity.INFO)
def cache_unwritable(dataset: Dataset | None, console: Console | None) -> Verdict:
    """The label index could not be saved next to the data (read-only); it is made anew at each start.

    Reported in yolov5#12838.
    """
    if dataset is None and console is None:
        return Skip("no_evidence", {"missing": "dataset, console"})
    said = sources(console, ("cache_unwritable",))
    if not said and (dataset is None or dataset.cache_writable):
        return None
    return Hit(fixes=(Fix("writable"),), evidence=said or (Source("data.json", text="cache_writable: false"),))


_TRACKERS = re.compile(r"wandb|comet|mlflow|clearml|neptune", re.I)
"""Loggers retry on their own and training goes on without them."""


@rule("env.weights_missing", Severity.HIGH)
def weights_missing(console: Console | None, run: RunRecord | None, curves: Curves | None) -> Verdict:
    """Weights or data had to be downloaded and the network was not reachable.

    Reported in ultralytics#1756, ultralytics#1180, yolov5#243.
    """
    if console is None and run is None:
        return Skip("no_evidence", {"missing": "console, run"})
    said = tuple(s for s in sources(console, ("weights_missing",)) if not _TRACKERS.search(s.text))
    if not said and run is not None and "Download failure" in run.exit_cause.detail:
        said = (Source("run.json", text=run.exit_cause.detail),)
    if not said or curves is not None:
        return None
    return Hit(values={"line": said[0].text}, fixes=(Fix("local"), Fix("offline")), evidence=said)


@rule("env.port_in_use", Severity.HIGH)
def port_in_use(console: Console, curves: Curves | None) -> Verdict:
    """The rendezvous or service port is taken.

    Reported in VLM-R1#289, mochi-xdit#22.
    """
    said = sources(console, ("port_in_use",))
    if not said or curves is not None:
        return None
    return Hit(values={"line": said[0].text}, fixes=(Fix("stale"), Fix("other_port")), evidence=said)


def _torch(baseline: Baseline | None, console: Console | None) -> str | None:
    """The version of torch from the machine facts, else from the banner."""
    if baseline is not None and baseline.software.torch:
        return baseline.software.torch
    words = console.banner.split() if console else []
    return next((word.removeprefix("torch-") for word in words if word.startswith("torch-")), None)
