"""console.log -> the lines that say something known. Kinds are the keys of `KINDS`."""

import re
from pathlib import Path

from diag.load.read import read_text
from diag.model.evidence import Console, ConsoleLine

KINDS: dict[str, re.Pattern[str]] = {
    kind: re.compile(pattern, re.I)
    for kind, pattern in {
        "banner": r"^(Ultralytics|YOLOv\d).*\b(torch|Python)-",
        "train_start": r"Starting training for \d+ epochs|^Logging results to ",
        "completed": r"\d+ epochs completed in",
        "early_stop": r"Training stopped early as no improvement|EarlyStopping: ",
        "optimizer_auto": r"'optimizer=auto' found, ignoring",
        "optimizer": r"^optimizer: ",
        "gpu_oom": r"CUDA out of memory|OutOfMemoryError: (CUDA|HIP)|CUBLAS_STATUS_ALLOC_FAILED",
        "ram_oom": r"oom-kill|Out of memory: Killed process|\(signal: 9\)|killed by signal: Killed",
        "shm_small": r"insufficient shared memory|out of shared memory|Bus error.*shm"
        r"|unable to (open|write|mmap|allocate).*(shm|shared memory)",
        "disk_full": r"No space left on device|Errno 28\b|Disk quota exceeded",
        "port_in_use": r"Address already in use|EADDRINUSE|Errno 98\b",
        "autoinstall": r"AutoUpdate success|attempting AutoUpdate",
        "tensorboard_on": r"^TensorBoard: |Start Tensorboard with",
        "cache_unwritable": r"Cache directory .* is not writable|is not writeable.*cache not saved|cache not saved",
        "weights_missing": r"Download failure for|ConnectionError|Failed to resolve|Name or service not known"
        r"|Temporary failure in name resolution|Max retries exceeded|not connected to the internet",
        "no_cuda": r"Invalid CUDA 'device=|Torch not compiled with CUDA enabled|CUDA is not available",
        "docker_no_gpu": r"could not select device driver .*\[\[gpu\]\]|nvidia-container-cli: |"
        r"unknown or invalid runtime name: nvidia",
        "amp_failed": r"AMP: checks failed",
        "killed": r"^Killed$",
        "error": r"^\w*(Error|Exception)\b.*:",
    }.items()
}
"""Case-insensitive patterns, tried in this order on each line; a line may be of several kinds."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_MAX_TEXT = 300
_MAX_PER_KIND = 20


def read_console(path: Path, *, name: str = "console.log") -> Console:
    """The known lines of a console log."""
    return parse_console(read_text(path), name=name)


def parse_console(text: str, *, name: str = "console.log") -> Console:
    """Parse a log with ANSI codes and `\\r` progress bars. At most 20 lines of a kind are kept."""
    found: list[ConsoleLine] = []
    counts: dict[str, int] = {}
    for number, raw in enumerate(text.split("\n"), 1):
        for part in raw.split("\r"):
            line = _ANSI.sub("", part[:4000]).strip()
            if not line:
                continue
            for kind, pattern in KINDS.items():
                if counts.get(kind, 0) < _MAX_PER_KIND and pattern.search(line):
                    counts[kind] = counts.get(kind, 0) + 1
                    found.append(ConsoleLine(kind, number, line[:_MAX_TEXT]))
    banner = next((line.text for line in found if line.kind == "banner"), "")
    return Console(tuple(found), _device(banner), banner, name)


def _device(banner: str) -> str:
    if "CUDA:" in banner:
        return "cuda"
    if re.search(r"\bMPS\b", banner):
        return "mps"
    return "cpu" if re.search(r"\bCPU\b", banner) else ""
