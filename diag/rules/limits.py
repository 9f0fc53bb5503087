"""What captures of containers and schedulers say a job may use. No rules here."""

import re
from itertools import pairwise

from diag.model.foreign import Note, Notes, Tables

_ALLOWED = (
    (r"cpu\.max\D{0,4}(\d+)[ /]+(\d+)", 0.0),
    (r"^(\d{4,7}) (\d{4,7})$", 0.0),
    (r"\"?NanoCpus\"?: (\d{8,14})", 1e9),
    (r"--cpus[= ](\d+(?:\.\d+)?)\b", 1.0),
    (r"(?:SLURM_CPUS_PER_TASK|SLURM_CPUS_ON_NODE|--cpus-per-task)[= ](\d+)", 1.0),
    (r"\bNumCPUs=(\d+)", 1.0),
)
_VISIBLE = (r"\bnproc(?: --all)?\W{1,4}(\d{1,4})\b", r"^CPU\(s\):\s+(\d{1,4})\b", r"cpu_count\(\)\W{1,6}(\d{1,4})\b",
            r"logical (?:cpus|cores|processors)\W{1,4}(\d{1,4})\b")  # fmt: skip
_CPU_WORDS = re.compile(r"(?:nproc(?: --all)?|cpu_count\(\)|sched_getaffinity\(0\)\))\s*$")
_SIZES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "KI": 2.0**10, "MI": 2.0**20, "GI": 2.0**30, "TI": 2.0**40}


def cpus_allowed(notes: Notes | None, tables: Tables | None = None) -> float:
    """CPUs by a control group, Docker, Slurm or the limits of a pod; 0 where nothing limits them."""
    for pattern, unit in _ALLOWED:
        for note in notes.find(pattern) if notes is not None else ():
            found = re.search(pattern, note.text, re.I)
            if found and float(found[1]) > 0:
                return float(found[1]) / (unit or float(found[2]) or 1.0)
    quota, period = _number(notes, r"cfs_quota_us\D{1,4}(\d+)"), _number(notes, r"cfs_period_us\D{1,4}(\d+)")
    quota = quota or _number(notes, r"\"CpuQuota\": ([1-9]\d+)")
    if quota:
        return quota / (period or 100000.0)
    pod = pod_limits(notes).get("cpu", "")
    if found := re.fullmatch(r"(\d+(?:\.\d+)?)(m?)", pod):
        return float(found[1]) / (1000 if found[2] else 1)
    column = r"cpus?(?:_quota|_effective|_limit)|cores_(?:quota|limit)"
    return max(tables.series(column) if tables else (), default=0.0)


def cpus_visible(notes: Notes | None) -> float:
    """CPUs that programs see, by nproc, lscpu or os.cpu_count(); 0 where nothing tells."""
    for pattern in _VISIBLE:
        if value := _number(notes, pattern):
            return value
    lines = notes.lines if notes is not None else ()
    for asked, told in pairwise(lines):
        if asked.file == told.file and _CPU_WORDS.search(asked.text) and told.text.isdigit():
            return float(told.text)
    return 0.0


def pod_limits(notes: Notes | None) -> dict[str, str]:
    """The limits of the first container of a `kubectl describe pod`, by resource."""
    found: dict[str, str] = {}
    for note in _pod(notes):
        if re.fullmatch(r"(?:Requests|Environment|Mounts|Conditions|Volumes|Events|QoS Class):.*", note.text) and found:
            break
        if cell := re.fullmatch(r"(cpu|memory|[\w.]+/[\w.-]+):\s+(\S+)", note.text):
            found.setdefault(cell[1], cell[2])
    return found


def _pod(notes: Notes | None) -> tuple[Note, ...]:
    lines = notes.lines if notes is not None else ()
    for i, note in enumerate(lines):
        if note.text == "Limits:" and any(n.text == "Containers:" for n in lines[:i] if n.file == note.file):
            return tuple(n for n in lines[i + 1 :] if n.file == note.file)
    return ()


def pod_file(notes: Notes | None) -> str:
    """The capture that describes a pod; empty without one."""
    lines = notes.lines if notes is not None else ()
    found = next((n.file for n in lines if n.text == "Containers:"), "")
    return found if any(re.fullmatch(r"(?:Limits|Requests|State):.*", n.text) for n in lines if n.file == found) else ""


def memory_limit(notes: Notes | None) -> float:
    """Bytes that the job may use: memory.max, limit_in_bytes, Docker's Memory, the pod's limit; 0 without one."""
    lines = notes.lines if notes is not None else ()
    for note in lines:
        if re.search(r"memory[._](?:max|limit_in_bytes)$", note.file, re.I) and note.text.isdigit():
            return float(note.text) if float(note.text) < 2**60 else 0.0
    for pattern in (r"memory\.max\D{1,4}(\d{7,18})\b", r"limit_in_bytes\D{1,4}(\d{7,18})\b", r"\"Memory\": ([1-9]\d+)"):
        if value := _number(notes, pattern):
            return value if value < 2**60 else 0.0
    return size(pod_limits(notes).get("memory", ""))


def size(text: str) -> float:
    """`32Gi`, `500M`, `33552400K` in bytes; 0 for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?i?)B?", text)
    return float(found[1]) * _SIZES.get(found[2].upper(), 0.0) if found else 0.0


def _number(notes: Notes | None, pattern: str) -> float:
    for note in notes.find(pattern) if notes is not None else ():
        if found := re.search(pattern, note.text, re.I):
            return float(found[1])
    return 0.0
