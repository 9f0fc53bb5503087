"""What other programs call the columns of the cases, and in which unit they give them."""

from collections.abc import Callable


def _same(v: float) -> str:
    return f"{v:g}"


def _times(factor: float) -> Callable[[float], str]:
    return lambda v: f"{v * factor:.6g}"


_GIB, _MIB = 2**30, 2**20
NAMES: dict[str, dict[str, tuple[str, Callable[[float], str]]]] = {
    "percent_as_share": {
        "cpu_util_pct": ("cpu_util", _times(0.01)),
        "gpu_util_pct": ("gpu_util", _times(0.01)),
        "iowait_pct": ("iowait", _times(0.01)),
        "ram_used_pct": ("ram_used", _times(0.01)),
    },
    "gigabytes": {
        "gpu_mem_mib": ("gpu_mem_gb", _times(1 / 1024)),
        "gpu_mem_total_mib": ("gpu_mem_total_gb", _times(1 / 1024)),
    },
    "mebibytes": {
        "ram_used_gb": ("ram_used_mib", _times(1024)),
        "ram_total_gb": ("ram_total_mib", _times(1024)),
        "swap_used_gb": ("swap_used_mib", _times(1024)),
        "gpu_mem_g": ("gpu_mem_mib", _times(1024)),
    },
    "nvidia_smi": {
        "gpu_util_pct": ("utilization.gpu [%]", lambda v: f"{v:g} %"),
        "gpu_mem_mib": ("memory.used [MiB]", lambda v: f"{v:g} MiB"),
        "gpu_mem_total_mib": ("memory.total [MiB]", lambda v: f"{v:g} MiB"),
        "power_w": ("power.draw [W]", lambda v: f"{v:g} W"),
        "power_limit_w": ("power.limit [W]", lambda v: f"{v:g} W"),
    },
    "gpustat_words": {
        "gpu_util_pct": ("GPU-Util", lambda v: f"{v:g}%"),
        "gpu_mem_mib": ("Memory-Usage", lambda v: f"{v:g}MiB"),
        "cpu_util_pct": ("CPU%", _same),
        "power_w": ("Power Draw (W)", _same),
        "power_limit_w": ("Power Limit (W)", _same),
        "iowait_pct": ("IO Wait (%)", _same),
        "ram_used_gb": ("RAM Used (GB)", _same),
        "ram_total_gb": ("RAM Total (GB)", _same),
        "swap_used_gb": ("Swap Used (GB)", _same),
        "t_s": ("Time (s)", _same),
    },
    "snake_words": {
        "gpu_util_pct": ("gpu_utilization", _same),
        "cpu_util_pct": ("cpu_percent", _same),
        "gpu_mem_mib": ("gpu_memory_used_mb", _same),
        "gpu_mem_total_mib": ("gpu_memory_total_mb", _same),
        "ram_used_gb": ("memory_used_gb", _same),
        "ram_total_gb": ("memory_total_gb", _same),
        "swap_used_gb": ("swap_gb", _same),
        "iowait_pct": ("cpu_iowait", _same),
        "power_w": ("power_draw", _same),
        "disk_read_mb_s": ("disk_read_mbps", _same),
    },
    "dcgm": {
        "gpu_util_pct": ("DCGM_FI_DEV_GPU_UTIL", _same),
        "gpu_mem_mib": ("DCGM_FI_DEV_FB_USED", _same),
        "power_w": ("DCGM_FI_DEV_POWER_USAGE", _same),
        "power_limit_w": ("DCGM_FI_DEV_POWER_MGMT_LIMIT", _same),
        "ram_total_gb": ("node_memory_MemTotal_bytes", _times(_GIB)),
        "cpu_util_pct": ("node_cpu_utilization_percent", _same),
    },
    "wandb_system": {
        "gpu_util_pct": ("system.gpu.0.gpu", _same),
        "gpu_mem_mib": ("system.gpu.0.memoryAllocatedBytes", _times(_MIB)),
        "power_w": ("system.gpu.0.powerWatts", _same),
        "power_limit_w": ("system.gpu.0.enforcedPowerLimitWatts", _same),
        "cpu_util_pct": ("system.cpu", _same),
        "t_s": ("_runtime", _same),
    },
    "psutil": {
        "cpu_util_pct": ("cpu_percent", _same),
        "ram_used_gb": ("virtual_memory.used", _times(_GIB)),
        "ram_total_gb": ("virtual_memory.total", _times(_GIB)),
        "swap_used_gb": ("swap_memory.used", _times(_GIB)),
        "iowait_pct": ("cpu_times_percent.iowait", _same),
    },
    "milliseconds": {
        f"{c}_s": (f"{c}_ms", _times(1000))
        for c in (
            "data_wait",
            "h2d",
            "forward",
            "loss",
            "backward",
            "optim",
            "postproc",
            "metrics",
            "other",
            "wall",
        )
    },
}
"""Other tool's names: column -> (its name there, its cell there)."""
