"""The counters process: samples the machine beside a training, and notices when it hangs. Never imports torch.

It is a process of its own so that it survives a hung or killed trainer. It must stay small: standard library,
the cgroup and NVML readers of `diag.probe`, and pynvml only where libnvidia-ml loads.
"""
