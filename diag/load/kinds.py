"""The lines of a console log (or of a captured text) that say something known, by kind.

Wordings are those of Ultralytics, YOLOv5, PyTorch, CUDA, NCCL, Docker and the kernel, old and new.
"""

import re
from functools import cache

_PATTERNS = {
    "banner": r"^(?:\W{0,3})(?:Ultralytics|YOLOv\d|YOLOR|YOLO\b).*\b(?:torch|Python)[ -]",
    "train_start": r"Starting training for \d+ epochs|^Logging results to ",
    "completed": r"\d+ epochs completed in",
    "early_stop": r"(?:Training stopped|Stopping training) early as no improvement|EarlyStopping: ",
    "optimizer_auto": r"['`]optimizer=auto['`] found, ignoring",
    "optimizer": r"^optimizer: ?",
    "gpu_oom": r"CUDA out of memory|OutOfMemoryError: (?:CUDA|HIP)|CUBLAS_STATUS_ALLOC_FAILED"
    r"|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|cuda runtime error \(2\)|MPS backend out of memory",
    "ram_oom": r"oom-kill|Out of memory: Killed process|cgroup out of memory|\(signal: 9\)|killed by signal: Killed"
    r"|signal 9: SIGKILL|Signal 9 \(SIGKILL\) received|exitcode: -9\b|Detected \d+ oom[_-]kill event|\bOOM Killed\b"
    r"|\bOUT_OF_ME(?:MORY\b|\+)|Reason:\s+OOMKilled|systemd-oomd\b.{0,40}\bkilled"
    r"|low on resource: memory|earlyoom\b.{0,60}SIG(?:TERM|KILL)"
    r"|\bexit(?:ed with)? (?:code|status):? ?137\b|\boom_kill [1-9]|OOMKilled\W{1,4}true"
    r"|tried to allocate more memory than is available|std::bad_alloc|\bMemoryError\b|DefaultCPUAllocator: "
    r"|\(-4:Insufficient memory\)",
    "shm_small": r"insufficient shared memory|out of shared memory|Bus error.*shm"
    r"|unable to (?:open|write|mmap|allocate).*(?:shm|shared memory)"
    r"|unable to write to file </torch_\S{1,60}: No space left",
    "disk_full": r"No space left on device|Errno 28\b|Disk quota exceeded|WinError 112\b|磁盘空间不足"
    r"|not enough space on the disk|low on resource: ephemeral-storage|ephemeral local storage usage exceeds"
    r"|inline_container\.cc.{0,40}(?:unexpected pos|write failed)",
    "port_in_use": r"Address already in use|EADDRINUSE|Errno 98\b|WinError 10048\b"
    r"|(?:error|errno)\W{1,3}10048\b|Only one usage of each socket address|通常每个套接字地址",
    "autoinstall": r"AutoUpdate success|attempting AutoUpdate",
    "tensorboard_on": r"^TensorBoard: (?!['\"]?(?:false|true|null)\b)|Start Tensorboard with",
    "cache_unwritable": r"Cache directory .* is not writea?ble|cache not saved",
    "weights_missing": r"Download failure for|ConnectionError|Failed to resolve|Name or service not known"
    r"|Temporary failure in name resolution|Max retries exceeded|not connected to the internet|getaddrinfo failed"
    r"|CERTIFICATE_VERIFY_FAILED|Download error: |curl: \(\d+\)|Failed to download|Could not resolve host"
    r"|Network is unreachable|WinError 100(?:60|61)\b|urlopen error"
    r"|No such file or directory: '?[\w./\\:-]{1,200}\.pt'?",
    "no_cuda": r"Invalid CUDA 'device=|Torch not compiled with CUDA enabled|CUDA is not available"
    r"|cuda\.is_available\(\): False|NVIDIA-SMI has failed because it couldn't communicate"
    r"|No CUDA GPUs are available|Found no NVIDIA driver on your system|CUDA unavailable, invalid device"
    r"|Invalid CUDA [`'\"]?--device|on a CUDA device but torch\.cuda\.is_available\(\) is False"
    r"|No CUDA runtime is found|Unexpected error from cudaGetDeviceCount|CUDA unknown error - this may be due"
    r"|no CUDA-capable device is detected|Error 802: system not yet initialized",
    "docker_no_gpu": r"could not select device driver .*\[\[gpu\]\]|nvidia-container-cli: (?!requirement error)"
    r"|failed to discover GPU vendor|unresolvable CDI devices? nvidia|Insufficient nvidia\.com/gpu"
    r"|Failed to initialize NVML: Unknown Error"
    r"|unknown or invalid runtime name: nvidia|The NVIDIA Driver was not detected",
    "amp_failed": r"AMP: checks failed",
    "killed": r"^Killed$|^\W*已杀死|^\[\d+\]\s+\d+ killed\s",
    "error": r"^\w*(?:Error|Exception)\b.*:",
    # Beyond the run's own summary: what a line names as the cause.
    "tal_cpu": r"(?:OutOfMemory|out of memory).{0,60}(?:Assigner|assign).{0,30}using CPU",
    "pagefile": r"WinError 1455|paging file is too small|页面文件太小",
    "cannot_allocate": r"Cannot allocate memory|Errno 12\b|ENOMEM|unable to mmap|can't start new thread",
    "pin_memory": r"pin_memory|cudaHostAlloc|Pin memory thread",
    "nms_limit": r"NMS time limit .{0,20}exceeded",
    "nan_recovered": r"NaN.{0,40}(?:recover|reload)|Loss NaN/Inf|NaN persisted|(?:recover|reload)\w*.{0,40}\bNaN\b",
    "nccl_timeout": r"collective operation timeout|NCCL.{0,80}time(?:d )?out|Timed out initializing process group"
    r"|Some NCCL operations have failed or timed out|ncclSystemError|Socket Timeout",
    "nccl_system": r"ncclSystemError|unhandled system error",
    "nccl": r"NCCL INFO|NCCL WARN|\bNCCL_P2P_DISABLE\b|DDP: debug command|torch\.distributed\.(?:run|launch)",
    "no_kernel": r"no kernel image is available|CUDA capability sm_\d+ is not compatible"
    r"|sm_\d+ is not in the arch list|no longer supports this GPU because it is too old"
    r"|device kernel image is invalid|cudaErrorNoKernelImageForDevice|invalid value for --gpu-architecture",
    "driver_old": r"NVIDIA driver on your system is too old|CUDA driver version is insufficient"
    r"|unsatisfied condition: cuda|unsupported display driver / cuda driver combination"
    r"|forward compatibility was attempted on non supported|driver/library version mismatch"
    r"|PTX was compiled with an unsupported toolchain",
    "torchvision": r"torchvision::nms|Couldn't load custom C\+\+ ops|No module named 'torchvision\._C'"
    r"|PyTorch and torchvision (?:were compiled|has different) .*CUDA"
    r"|torchvision==\S{1,40} is incompatible with torch==",
    "xid": r"NVRM: Xid|\bXid \(PCI|GPU is lost\b|fallen off the bus|Unable to determine the device handle for GPU",
    "ecc": r"uncorrectable ECC error|ECC error.{0,40}uncorrect|double bit ECC|ECC_UNCORRECTABLE",
    "worker_died": r"DataLoader worker \(pid.*(?:killed|exited unexpectedly)"
    r"|before the\s+current process has finished its"
    r"|freeze_support\(\)|^EOFError: Ran out of input|Can't (?:get attribute|pickle) .*(?:main|local|lambda)",
    "open_files": r"Too many open files|Errno 24\b|received \d+ items of ancdata",
    "denied": r"PermissionError|Errno 13\b|Permission denied|Read-only file system|Errno 30\b",
    "ignored_label": r"ignoring corrupt image/label|Ignoring corrupted image and/or label"
    r"|WARNING.{0,12}Ignoring corrupt",
    "dup_labels": r"\d+ duplicate labels? removed",
    "class_oob": r"Label class \d+ exceeds|exceeds nc=|exceeds dataset class count|Target classes exceed model classes",
    "device_assert": r"device-side assert triggered|Assertion .{0,60}index out of bounds|Target \d+ is out of bounds",
    "mixed_labels": r"Box and segment counts should be equal|labels mix segment and detection rows",
    "wrong_task": r"(?:segment|OBB) dataset incorrectly formatted or is not an? (?:segment|OBB) dataset",
    "class_folders": r"requires \d+ classes, not \d+",
    "no_labels": r"No labels found|No valid images found|WARNING.{0,12}no labels"
    r"|All labels empty in |No labels in .{1,200}Can not train",
    "no_images": r"No images found|images not found|missing path|does not exist.{0,40}(?:train|val)"
    r"|Error loading data from .{1,300}does not exist|no training images found|'split=train' not found",
    "cache_created": r"New cache created: ",
    "autobatch": r"AutoBatch: ",
    "autobatch_odd": r"AutoBatch:.*(?:anomaly|WARNING|unreliable|error detected)|CUDA anomaly detected",
    "transferred": r"Transferred \d+/\d+ items",
    "resume": r"Resuming training|Resume training from|resuming from epoch",
    "rect_shuffle": r"'?rect=True'? is incompatible with",
    "interrupted": r"^\^C|KeyboardInterrupt|Terminated$|SIGTERM",
    "scheduler_order": r"lr_scheduler\.step\(\)` before `optimizer\.step",
    "traceback": r"^Traceback \(most recent call last\)",
    "nan_grad": r"grad(?:ient)?s?.{0,30}\b(?:nan|inf)\b|found_inf|GradScaler.{0,60}(?:scale|overflow)",
    "slow_access": r"Slow image access detected",
    "no_ram_cache": r"RAM required to cache images|GB RAM required.{0,80}not caching",
    "no_disk_cache": r"disk space required.{0,100}not caching|Insufficient free disk space",
    "bad_encoding": r"UnicodeDecodeError: '[\w-]{1,20}' codec can't decode",
    "weights_only": r"Weights only load failed|Unsupported global: GLOBAL ultralytics",
    "mps_pose": r"Apple MPS known Pose bug",
    "loss_scale": r"reducing loss scale to|Attempted loss scale: |loss scale already at minimum",
    "tiny_labels": r"(?:Extremely )?small objects found\W.{0,40}labels are < ?\d",
    "speed_line": r"^Speed: [\d.]+ms pre-?process",
    "no_grad_scale": r"Attempting to unscale_ FP16|scale.{0,30}underflow",
}
KINDS = tuple(_PATTERNS)
"""All kinds; a line may be of several."""


@cache
def pattern(kind: str) -> re.Pattern[str]:
    """The case-insensitive pattern of a kind, compiled when first asked for."""
    return re.compile(_PATTERNS[kind], re.I)


_WORDS = {
    "banner": "ultralytics yolo",
    "train_start": "training logging",
    "completed": "completed",
    "early_stop": "early",
    "optimizer_auto": "optimizer",
    "optimizer": "optimizer",
    "gpu_oom": "memory alloc_failed runtime\\serror",
    "ram_oom": "oom-kill memory killed signal exit oom_kill bad_alloc defaultcpuallocator out_of_me oomd earlyoom",
    "shm_small": "memory bus\\serror shm </torch_",
    "disk_full": "space errno quota winerror inline_container ephemeral 磁盘空间",
    "port_in_use": "address eaddr errno winerror socket 套接字",
    "autoinstall": "autoupdate",
    "tensorboard_on": "tensorboard",
    "cache_unwritable": "cache",
    "weights_missing": "download connection resolve name max\\sretries internet getaddrinfo certificate curl: "
    "unreachable winerror urlopen .pt",
    "no_cuda": "cuda nvidia",
    "docker_no_gpu": "[[gpu]] nvidia vendor runtime nvml",
    "amp_failed": "amp:",
    "killed": "killed 已杀死",
    "error": "error exception",
    "tal_cpu": "assign",
    "pagefile": "winerror paging 页面文件",
    "cannot_allocate": "allocate errno enomem mmap thread",
    "pin_memory": "pin_memory cudahost pin\\smemory",
    "nms_limit": "nms",
    "nan_recovered": "nan",
    "nccl_timeout": "nccl timeout timed",
    "nccl_system": "nccl unhandled",
    "nccl": "nccl ddp: distributed",
    "no_kernel": "kernel sm_ too\\sold gpu-architecture",
    "driver_old": "driver unsatisfied forward ptx",
    "torchvision": "torchvision custom",
    "xid": "xid lost fallen handle",
    "ecc": "ecc\\serror bit\\secc ecc_",
    "worker_died": "worker current\\sprocess freeze_support eoferror can't",
    "open_files": "open\\sfiles errno ancdata",
    "denied": "permission errno read-only",
    "ignored_label": "corrupt",
    "dup_labels": "duplicate",
    "class_oob": "exceed",
    "device_assert": "assert target",
    "mixed_labels": "segment",
    "wrong_task": "incorrectly",
    "class_folders": "classes",
    "no_labels": "no\\slabels no\\svalid all\\slabels",
    "no_images": "images\\sfound images\\snot missing\\spath exist split=",
    "cache_created": "cache",
    "autobatch": "autobatch",
    "autobatch_odd": "autobatch anomaly",
    "transferred": "transferred",
    "resume": "resum",
    "rect_shuffle": "rect",
    "interrupted": "^c keyboard terminated sigterm",
    "scheduler_order": "lr_scheduler",
    "traceback": "traceback",
    "nan_grad": "grad found_inf",
    "slow_access": "slow\\simage",
    "no_ram_cache": "ram\\srequired",
    "no_disk_cache": "disk\\sspace",
    "bad_encoding": "codec",
    "weights_only": "weights unsupported",
    "mps_pose": "mps",
    "loss_scale": "loss\\sscale",
    "tiny_labels": "small\\sobjects",
    "speed_line": "speed:",
    "no_grad_scale": "unscale underflow",
}
_GATE: dict[str, list[str]] = {}
for _kind, _words in _WORDS.items():
    for _word in _words.split():
        _GATE.setdefault(_word.replace("\\s", " "), []).append(_kind)
GATES: tuple[tuple[bytes, tuple[str, ...]], ...] = tuple((w.encode(), tuple(k)) for w, k in _GATE.items())
"""A lower-case word -> the kinds that a line with it may be of. Words are looked for first: most lines say nothing."""
