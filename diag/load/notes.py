"""Captured texts (env, nvidia-smi, df, dmesg, mounts, package lists, listings) -> Notes."""

import re
from collections.abc import Iterable
from dataclasses import replace

from diag.model.foreign import Disk, Note, NotedGpu, Notes

MAX_NOTE_BYTES = 4 * 1024 * 1024
_MAX_LINES = 3000
_MAX_TEXT = 400
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_GPU = re.compile(
    r"^\W*(?:GPU\s*)?(\d{1,3})\W{1,4}\s*((?:NVIDIA|Tesla|GeForce|Quadro|RTX|GTX|A\d|H\d|L\d|T4|V100|P100|K80|Titan)"
    r"[^,|(\n]*?)(?=\s+\d+ ?Mi?B|\s+util|\s*[,|(]|\s{2,}|$)",
    re.I,
)
_MEMORY = re.compile(r"(?:/\s*)?(\d{3,7}) ?Mi?B(?!.*\d{3,7} ?Mi?B)", re.I)
_DRIVER = re.compile(r"\bDriver(?: Version)?[:\s]+v?(\d{3}(?:\.\d+)+)", re.I)
_CUDA = re.compile(r"CUDA Version[:\s]+(\d+\.\d+)", re.I)
_PACKAGE = re.compile(r"^([A-Za-z][\w.-]{1,60})\s*(?:==|\s)\s*v?(\d+\.\d[\w.+!-]*)\s*(?:$|[#;])")
_MOUNT = re.compile(r"^(\S+)(?: on)? (/\S*)(?: type)? ([a-z][\w.]{1,30})(?: |$)")
_DF = re.compile(r"^\S+\s.*?(\d[\d.]*[KMGTP]?i?B?)\s+(\d{1,3})%\s+(/\S*|[A-Z]:\\?\S*)\s*$")
_DF_TYPE = re.compile(r"^\S+\s+([a-z][\w.]{1,30})\s+\d[\d.,]*[KMGTPE]?\s.*\d%\s+(/\S*)\s*$")
_FINDMNT = re.compile(r"^[^\w/]*(/\S*)\s+(?=\S*[:/\w])\S+\s+([a-z][\w.]{1,30})\s+(?:rw|ro)\b")
_DRIVE = re.compile(r"^(?:\w{2,20}\s+)?([A-Z]:)\s+(?:4\s+)?\\\\[\w.-]")
"""A drive letter of a share, by `net use`, `Get-SmbMapping` or `wmic logicaldisk` (drive type 4)."""
_HELD = re.compile(r"(\d{1,7}) ?MiB ?/ ?(\d{3,7}) ?MiB")
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}


def parse_notes(files: Iterable[tuple[str, str]]) -> Notes | None:
    """Facts of all texts, given as (file name, content). None without a line."""
    lines: list[Note] = []
    gpus: dict[int, NotedGpu] = {}
    facts: dict[str, str] = {}
    mounts: dict[str, str] = {}
    disks: list[Disk] = []
    packages: dict[str, str] = {}
    for file, text in files:
        card = -1
        for number, raw in enumerate(text.splitlines()[:_MAX_LINES], 1):
            line = _ANSI.sub("", raw[:4000]).strip()
            if not line or len(lines) >= 4 * _MAX_LINES:
                continue
            lines.append(Note(file, number, line[:_MAX_TEXT]))
            card = _card(line, gpus, card)
            if found := _DRIVER.search(line):
                facts.setdefault("driver", found[1])
            if found := _CUDA.search(line):
                facts.setdefault("driver_cuda", found[1])
            if found := _PACKAGE.match(line):
                packages[found[1].lower().replace("_", "-")] = found[2]
            if found := _DF.match(line):
                disks.append(Disk(found[3], int(found[2]) / 100, _bytes(found[1])))
                if kind := _DF_TYPE.match(line):
                    mounts[kind[2]] = kind[1]
            elif found := _MOUNT.match(line):
                mounts[found[2]] = found[3]
            elif found := _FINDMNT.match(line):
                mounts[found[1]] = found[2]
            elif found := _DRIVE.match(line):
                mounts[found[1]] = "smb"
    if not lines:
        return None
    return Notes(tuple(lines), tuple(gpus.values()), mounts=mounts, disks=tuple(disks), packages=packages, **facts)


def _card(line: str, gpus: dict[int, NotedGpu], open_: int) -> int:
    """Takes up a GPU of a listing, and its memory from the same row or the one below its name.

    Returns the index of the GPU whose memory is still to come, or -1.
    """
    if found := _GPU.match(line):
        memory = _MEMORY.search(line)
        open_ = int(found[1])
        gpus.setdefault(open_, NotedGpu(open_, found[2].strip(), float(memory[1]) if memory else None))
    if (held := _HELD.search(line)) and open_ in gpus:
        gpu = gpus[open_]
        gpus[open_] = replace(gpu, memory_mib=gpu.memory_mib or float(held[2]), used_mib=float(held[1]))
        return -1
    return open_


def captured(text: str) -> bool:
    """Whether a single text is the output of nvidia-smi or df, which needs no log beside it to tell something."""
    made = parse_notes([("", text)])
    return made is not None and bool(made.gpus or made.driver or made.disks)


def _bytes(size: str) -> float | None:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTP]?)i?B?", size)
    if not found:
        return None
    # df without -h counts KiB.
    return float(found[1]) * (_UNITS[found[2]] if found[2] else 1 if float(found[1]) == 0 else 1024)
