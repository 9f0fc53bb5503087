"""Checks of CPUs, memory, shared memory and limits. Pure: facts in, one answer out."""

import math

from diag.model.check import Check, Status
from diag.probe.host import HostState
from diag.probe.plan import PREFETCH, Plan
from diag.probe.units import bytes_text, number_text

GIB = 1024**3


def cpu_effective(state: HostState, plan: Plan, *, gpu: bool) -> Check:
    """Do the loader workers fit the CPUs that this process may really use?

    More workers than CPUs gain nothing: 248 img/s with 2 workers and 241 with 8 on 2 cores (measured).
    """
    visible, effective = state.host.cpus_visible or 1, state.host.cpus_effective or 1.0
    each = plan.loader_workers(visible, gpu=gpu)
    workers = each * plan.ranks
    facts = {"visible": visible, "effective": effective, "workers": workers, "ranks": plan.ranks}
    value = f"{number_text(effective)} of {visible} CPUs usable, {workers} loader workers"
    if workers <= math.ceil(effective):
        capped = " (a container limit hides the rest)" if effective < visible else ""
        return Check("cpu.effective", Status.PASS, value + capped, "workers <= usable CPUs", facts=facts)
    fit = max(1, int(effective) // plan.ranks - 1)
    return Check(
        "cpu.effective",
        Status.WARN,
        value,
        f"at most {math.ceil(effective)} workers",
        reason="the workers take turns on the CPUs: slower start, more memory, no more images",
        remedy=f"pass workers={fit}" + (", or raise the container's CPU limit" if effective < visible else ""),
        finding="hw.cpu_quota" if effective < visible else "speed.cpu_oversubscription",
        facts=facts,
    )


def cpu_pressure(state: HostState, *, busy: float = 0.10) -> Check:
    """Is the machine already busy? Then the speeds measured here are too low.

    `busy`: share of the last 10 s in which some task waited (PSI `some avg10`). Above 10 % the decode rate
    by the wall clock moved 2.5-fold between runs, by CPU time only 7 % (measured).
    """
    kinds = {"cpu": state.cpu_pressure, "io": state.io_pressure, "memory": state.memory_pressure}
    known = {name: share for name, share in kinds.items() if share is not None}
    facts = {**known, "load_1min": state.load_1min, "throttled_s": state.limits.throttled_s}
    if not known:
        return Check("cpu.pressure", Status.SKIP, reason="this kernel reports no pressure (PSI)", facts=facts)
    value = ", ".join(f"{name} {share:.0%}" for name, share in known.items())
    if max(known.values()) <= busy:
        return Check("cpu.pressure", Status.PASS, value, f"waiting <= {busy:.0%}", facts=facts)
    return Check(
        "cpu.pressure",
        Status.WARN,
        value,
        f"waiting <= {busy:.0%}",
        reason="other work competes for the machine; speeds measured now are too low",
        remedy="end the other work, or repeat `diag check` when the machine is quiet",
        facts=facts,
    )


def memory_limit(
    state: HostState,
    plan: Plan,
    cache_bytes: int | None,
    *,
    cache_warn: float = 0.5,
    cache_fail: float = 0.8,
    least_bytes: int = GIB,
    wanted_bytes: int = 2 * GIB,
) -> Check:
    """Does the memory that is left, container limits counted, hold the training and the image cache?

    `cache_bytes` is what cache=ram would take; None when not asked for or not known. A training process of a
    nano model takes about 1 GiB (measured); the cache shares are proposals. Ultralytics sizes its cache by the
    host's memory and is killed at the container's limit.
    """
    available, host = state.memory_available_bytes, state.host
    if available is None:
        return Check("memory.limit", Status.UNKNOWN, reason="neither /proc/meminfo nor a cgroup limit is readable")
    limit = host.memory_limit_bytes
    of = f"limit {bytes_text(limit)}" if limit else f"of {bytes_text(host.memory_total_bytes or 0)}"
    value = f"{bytes_text(available)} available ({of})"
    facts = {"available_bytes": available, "limit_bytes": limit, "oom_kills": state.limits.oom_kills}
    if state.limits.oom_kills:
        value += f", {state.limits.oom_kills} earlier out-of-memory kills"
    status, expected, finding, remedy = Status.PASS, f">= {bytes_text(wanted_bytes)}", "hw.mem_limit", ""
    raise_it = "raise the container's memory limit" if limit else "end other programs"
    if available < wanted_bytes:
        status = Status.FAIL if available < least_bytes else Status.WARN
        remedy = f"{raise_it}, or train with a smaller batch and workers=1"
    if plan.cache == "ram" and cache_bytes is not None:
        facts["cache_bytes"] = cache_bytes
        value += f", image cache {bytes_text(cache_bytes)}"
        share = cache_bytes / max(1, available)
        if share > cache_warn:
            status = Status.FAIL if share > cache_fail or status is Status.FAIL else Status.WARN
            expected, finding = f"cache <= {cache_warn:.0%} of what is available", "mem.ram_cache_too_big"
            remedy = f"pass cache=disk or cache=False, or {raise_it}"
    bad = status in {Status.WARN, Status.FAIL}
    reason = "the kernel kills the training when memory runs out" if bad else ""
    return Check("memory.limit", status, value, expected, reason, remedy, finding if bad else "", facts=facts)


def shm_size(state: HostState, plan: Plan, *, gpu: bool) -> Check:
    """Does /dev/shm hold the batches that the loader workers keep ready?

    need = (workers x prefetch 4 + 1) x batch x 3 x imgsz^2 bytes; predicted 157 MB, measured 177 MB with
    2 workers, batch 16, 640 px. Fails below the need, warns below twice the need. Too little hangs training.
    """
    free = state.host.shm_free_bytes
    workers = plan.loader_workers(state.host.cpus_visible or 1, gpu=gpu)
    on_request = not gpu and plan.workers_given
    if on_request:
        workers = min(plan.workers, state.host.cpus_visible or 1)
    if free is None:
        return Check("shm.size", Status.UNKNOWN, reason="/dev/shm is missing or not readable")
    batch = max(1, plan.batch // plan.ranks)
    need = plan.ranks * (workers * PREFETCH + 1) * batch * 3 * plan.imgsz**2 if workers else 0
    facts = {"free_bytes": free, "need_bytes": need, "workers": workers, "batch": plan.batch, "imgsz": plan.imgsz}
    value = f"{bytes_text(free)} free"
    if not need:
        return Check("shm.size", Status.PASS, value, "not used: no loader workers on the CPU", facts=facts)
    expected = f">= {bytes_text(2 * need)} (2 x what {workers} workers, batch {batch}, {plan.imgsz} px need)"
    if free >= 2 * need:
        return Check("shm.size", Status.PASS, value, expected, facts=facts)
    whole_gib = math.ceil(2 * need / GIB)
    fit = max(0, int((free / 2 / plan.ranks / (batch * 3 * plan.imgsz**2) - 1) / PREFETCH))
    return Check(
        "shm.size",
        Status.FAIL if free < need and not on_request else Status.WARN,
        value,
        expected,
        reason="loader workers hang or die with a bus error when shared memory is full",
        remedy=f"docker: --shm-size={whole_gib}g (compose: SHM_SIZE={whole_gib}g), or pass workers={fit}",
        finding="mem.shm_small",
        facts=facts,
    )


def limits_pids(state: HostState, plan: Plan, *, gpu: bool, per_cpu: int = 16) -> Check:
    """May this container start enough processes and threads?

    Fails below 4 threads for each loader worker and rank plus 32; warns below 16 for each visible CPU
    (the bound that vast.ai's images use: libraries start a thread for each CPU that they see).
    """
    limits, visible = state.limits, state.host.cpus_visible or 1
    if limits.pids_max is None:
        return Check("limits.pids", Status.PASS, "no limit", f">= {per_cpu * visible}")
    workers = plan.loader_workers(visible, gpu=gpu)
    free = limits.pids_max - (limits.pids_current or 0)
    need = 32 + 4 * plan.ranks * (workers + 1)
    wanted = max(need, per_cpu * visible)
    facts = {"max": limits.pids_max, "current": limits.pids_current, "need": need}
    value = f"{free} of {limits.pids_max} left"
    if free >= wanted:
        return Check("limits.pids", Status.PASS, value, f">= {wanted}", facts=facts)
    return Check(
        "limits.pids",
        Status.FAIL if free < need else Status.WARN,
        value,
        f">= {wanted}",
        reason="threads and loader workers can't be started (Resource temporarily unavailable)",
        remedy=f"docker: --pids-limit {max(1024, 2 * wanted)} (compose: pids_limit), or fewer workers",
        facts=facts,
    )


def limits_nofile(state: HostState, *, least: int = 4096, memlock: int = 64 * 1024**2) -> Check:
    """May this process open enough files? Each batch in flight and each worker holds some.

    `least`: a proposal; torch's file_descriptor sharing of tensors fails at the usual 1024. `memlock` below
    64 MB is only told: it matters for several GPUs.
    """
    facts = {"nofile": state.nofile, "memlock_bytes": state.memlock_bytes}
    locked = state.memlock_bytes
    note = f", memlock {bytes_text(locked)}" if locked is not None and locked < memlock else ""
    value = ("no limit" if state.nofile is None else f"{state.nofile} open files") + note
    if state.nofile is None or state.nofile >= least:
        return Check("limits.nofile", Status.PASS, value, f">= {least}", facts=facts)
    return Check(
        "limits.nofile",
        Status.WARN,
        value,
        f">= {least}",
        reason="loader workers may end with `Too many open files`",
        remedy="ulimit -n 65536 before the start (docker: --ulimit nofile=65536:65536)",
        facts=facts,
    )
