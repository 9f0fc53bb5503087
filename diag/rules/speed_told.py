"""speed.*: slow reading by the library's own measurement, and an idle machine beside a starved GPU."""

import re
from statistics import median

from diag.model.evidence import Console, LoaderStats
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Verdict
from diag.model.foreign import Tables
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.facts import on_cpu, sources, table_source


@rule("speed.storage_slow@log", Severity.HIGH, explained_by=("speed.storage_remote",))
def slow_access(
    console: Console,
    loader: LoaderStats | None,
    *,
    max_mb_s: float = 10.0,
    max_ping_ms: float = 10.0,
    tiny_kb: float = 16.0,
) -> Verdict:
    """Ultralytics measured slow access to the images itself (check_file_speeds, since 8.3.110).

    max_mb_s, max_ping_ms: below the library's own limits of 50 MB/s and 10 ms; a rate between 10 and 50 MB/s is
    medium. tiny_kb: reading a tiny file is bound by opening it, so the rate says nothing there (Ultralytics leaves
    such files out since PR#25025); then only the ping counts. Five files, read once on a machine that may be busy:
    where the loader itself was timed, speed.storage_slow judges by that.
    """
    said = sources(console, ("slow_access",))
    if not said or loader is not None:
        return None
    ping, read, size = (_number(rf"{w}: (\d*\.?\d+)", said[0].text) for w in ("ping", "read", "size"))
    tiny = size is not None and size < tiny_kb
    late = ping is not None and ping > max_ping_ms
    if tiny and not late:
        return None
    slow = late or read is None or read < max_mb_s
    return Hit(
        values={"case": "known" if ping is not None and read is not None else None, "ping": ping, "read": read},
        fixes=(Fix("local_disk"), Fix("cache", {"cache": "disk"})),
        evidence=said[:2],
        severity=None if slow else Severity.MEDIUM,
    )


@rule(
    "speed.raise_workers@telemetry",
    Severity.MEDIUM,
    explained_by=("speed.loader_single_core", "speed.storage_remote", "speed.cpu_oversubscription"),
)
def raise_workers(
    tables: Tables,
    args: TrainArgs,
    console: Console | None,
    *,
    max_workers: int = 1,
    max_gpu: float = 50.0,
    max_cpu: float = 40.0,
    max_iowait: float = 10.0,
) -> Verdict:
    """The GPU starves, the CPUs are free, and none or one worker loads: more of them would help.

    max_workers: workers=0 loads in the training process itself, so loading and computing take turns
    (ultralytics#13938). max_gpu, max_cpu, max_iowait: percent in the median; a starved GPU beside busy CPUs needs
    cheaper loading, and one beside a waiting disk faster storage.
    """
    workers = args.get("workers")
    gpu, cpu, wait = (tables.series(p) for p in ("gpu_util", "cpu_util", "iowait"))
    if not isinstance(workers, int) or not gpu or not cpu:
        return Skip("no_column", {"column": "workers, gpu_util, cpu_util"})
    idle = median(gpu) <= max_gpu and median(cpu) <= max_cpu and (not wait or median(wait) <= max_iowait)
    if workers > max_workers or not idle or on_cpu(args, None, console):
        return None
    return Hit(
        values={"workers": workers, "gpu": median(gpu) / 100, "cpu": median(cpu) / 100},
        fixes=(Fix("workers", {"workers": 8}),),
        evidence=table_source(tables, "gpu_util"),
        confidence=Confidence.MEDIUM,
    )


@rule("speed.gpu_bound@telemetry", Severity.INFO, explained_by=("hw.power_throttle", "hw.thermal_throttle"))
def gpu_bound(
    tables: Tables, args: TrainArgs | None, *, min_util: float = 95.0, min_power: float = 0.85, min_rows: int = 10
) -> Verdict:
    """The GPU is the limit: it computes all the time and near its power limit.

    min_util: percent in the median; NVML counts any time with a kernel on the GPU, however small, so the power tells
    whether it works hard. min_power: of the limit in the median; the training step itself draws that much. min_rows:
    samples.
    """
    util, power, limit = (tables.series(p) for p in ("gpu_util", "power_w", "power_limit"))
    if not util or not power or not limit:
        return Skip("no_column", {"column": "gpu_util, power_w, power_limit_w"})
    if len(util) < min_rows:
        return Skip("too_few_steps", {"have": len(util), "need": min_rows})
    share = median(power) / median(limit) if median(limit) > 0 else 0.0
    if median(util) < min_util or share < min_power:
        return None
    imgsz = args.get("imgsz") if args else None
    fixes = [Fix("smaller_model")]
    if isinstance(imgsz, int) and imgsz > 320:
        fixes.append(Fix("smaller_imgsz", {"imgsz": max(320, imgsz // 64 * 32)}))
    return Hit(
        values={"util": median(util) / 100, "power": share},
        fixes=tuple(fixes),
        evidence=table_source(tables, "gpu_util"),
        confidence=Confidence.MEDIUM,
    )


def _number(pattern: str, text: str) -> float | None:
    found = re.search(pattern, text)
    return float(found[1].rstrip(".") or 0) if found else None
