"""Disks: free space, a workspace that can be written, the file system below the data set."""

import os
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from diag.model.check import Check, Status
from diag.probe.plan import Plan
from diag.probe.units import bytes_text

GIB = 1024**3
NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "ceph", "lustre", "glusterfs", "beegfs", "afs")

# Parameters (millions) by model scale, the largest of YOLOv8/11/26 detect and segment (Ultralytics model tables).
MILLION_PARAMETERS = {"n": 4, "s": 13, "m": 28, "l": 47, "x": 73}
BYTES_PER_PARAMETER = 8  # a checkpoint holds EMA and optimizer state as 16-bit numbers: 6 bytes, and margin


@dataclass(frozen=True)
class Disk:
    """Space for this user on one file system."""

    free_bytes: int
    total_bytes: int
    free_inodes: int | None
    total_inodes: int | None


def read_disk(path: Path) -> Disk:
    """The file system that holds `path`, or its nearest ancestor that exists."""
    stat = os.statvfs(nearest(path))
    return Disk(
        free_bytes=stat.f_bavail * stat.f_frsize,
        total_bytes=stat.f_blocks * stat.f_frsize,
        free_inodes=stat.f_favail if stat.f_files else None,
        total_inodes=stat.f_files or None,
    )


def nearest(path: Path) -> Path:
    """`path` or its nearest ancestor that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def checkpoint_bytes(model: str) -> int:
    """Rough size of a training checkpoint by the scale letter in the model's name; the largest when unknown."""
    match = re.search(r"\d([nsmlx])(?:[-_.]|$)", Path(model).name)
    scale = match.group(1) if match else "x"
    return MILLION_PARAMETERS[scale] * 1_000_000 * BYTES_PER_PARAMETER


def disk_free(
    disk: Disk, plan: Plan, cache_bytes: int | None, *, low_share: float = 0.10, low_bytes: int = 5 * GIB
) -> Check:
    """Does the workspace's disk hold the checkpoints (and the image cache) of this run?

    need = (epochs / save_period + 2) x checkpoint + cache=disk. Warns below 10 % or 5 GiB free (gpud warns at
    10 %, Meta GCM at 15-20 %) when both are low, and below 5 % free inodes.
    """
    saved = plan.epochs // plan.save_period if plan.save_period > 0 else 0
    need = (saved + 2) * checkpoint_bytes(plan.model) + (cache_bytes or 0 if plan.cache == "disk" else 0)
    inodes = disk.free_inodes / disk.total_inodes if disk.total_inodes and disk.free_inodes is not None else 1.0
    value = f"{bytes_text(disk.free_bytes)} free of {bytes_text(disk.total_bytes)}"
    facts = {"free_bytes": disk.free_bytes, "need_bytes": need, "free_inodes_share": round(inodes, 3)}
    expected = f">= {bytes_text(need)} for this run"
    if not disk.total_bytes:
        return Check("disk.free", Status.UNKNOWN, reason="the workspace's file system reports no size")
    if disk.free_bytes < need:
        status, reason = Status.FAIL, "the run ends with `No space left on device`"
    elif inodes < 0.05:
        status, reason, value = Status.WARN, "the disk runs out of inodes before it is full", f"{value}, few inodes"
    elif disk.free_bytes < low_bytes and disk.free_bytes < low_share * disk.total_bytes:
        status, reason = Status.WARN, "little is left for logs, plots and other programs"
        expected = f">= {bytes_text(low_bytes)} or {low_share:.0%}"
    else:
        return Check("disk.free", Status.PASS, value, expected, facts=facts)
    remedy = "free space on the workspace's disk, or put the workspace elsewhere (--workspace DIR, $WORKSPACE)"
    return Check("disk.free", status, value, expected, reason, remedy, "hw.disk_low", facts=facts)


def workspace_writable(workspace: Path) -> Check:
    """Can a file be created, synced and removed in the workspace? A missing workspace is tried at its parent."""
    place = nearest(workspace)
    ids = f"uid {os.getuid()}, gid {os.getgid()}"
    started = time.monotonic()
    try:
        if not place.is_dir():
            raise NotADirectoryError(20, "Not a directory", str(place))
        with tempfile.NamedTemporaryFile(dir=place, prefix=".diag-check-") as file:
            file.write(b"\0" * 65536)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return Check(
            "workspace.writable",
            Status.FAIL,
            f"{workspace}: {error.strerror or error} ({ids})",
            "writable",
            reason="no checkpoint or report could be saved",
            remedy=f"make it writable for {ids} (docker: run with your own UID:GID, mount without :ro), "
            "or choose another with --workspace DIR or $WORKSPACE",
            finding="env.workspace_unwritable",
        )
    note = "" if place == workspace else " (will be created)"
    return Check(
        "workspace.writable",
        Status.PASS,
        f"{workspace}{note}",
        "writable",
        facts={"sync_s": round(time.monotonic() - started, 4)},
    )


def filesystem_of(path: Path, mountinfo: str) -> tuple[str, str]:
    """(type, mount point) of the file system that holds `path`; the last of the longest matching mounts counts."""
    best = ("", "")
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if len(fields) < 5 or not tail:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), fields[4])
        if path.is_relative_to(point) and len(point) >= len(best[1]):
            best = (tail[0], point)
    return best


def data_filesystem(dataset_dir: Path | None, root: Path = Path("/")) -> Check:
    """Where do the images lie? A network or FUSE mount, or the image's own layer, slows reading down."""
    if dataset_dir is None:
        return Check("data.filesystem", Status.SKIP, reason="no data set was given")
    if not os.access(dataset_dir, os.R_OK | os.X_OK):
        missing = "can't be read" if dataset_dir.exists() else "does not exist"
        remedy = "check the path in the data set's yaml; in a container, mount the folder"
        return Check(
            "data.filesystem",
            Status.FAIL,
            f"{dataset_dir} {missing}",
            "readable",
            remedy=remedy,
            finding="data.path_mismatch",
        )
    kind, point = filesystem_of(dataset_dir.resolve(), (root / "proc/self/mountinfo").read_text(errors="replace"))
    value, facts = f"{kind} at {point}", {"type": kind, "mount": point}
    expected = "a local disk"
    if kind == "overlay":
        reason = "the data set is in the container's own layer: slow, and lost with the container"
        remedy = "mount the data set (docker: -v /path/on/host:/data:ro)"
        return Check("data.filesystem", Status.WARN, value, expected, reason, remedy, "speed.storage_slow", facts=facts)
    if kind in NETWORK or kind.startswith("fuse"):
        reason = "read over a network or FUSE mount; copy it to a local disk if training waits for data"
        return Check(
            "data.filesystem", Status.INFO, value, expected, reason, finding="speed.storage_remote", facts=facts
        )
    return Check("data.filesystem", Status.PASS, value, expected, facts=facts)
