"""The counters process: samples the machine beside a training, and notices when it hangs. Never imports torch.

It is a process of its own so that it survives a hung or killed trainer. It must stay small and start quickly: what it
imports at its start is built into the interpreter (no typing, dataclasses, pathlib, json, re, enum: they were four
fifths of its start), files stay open between looks, and pynvml comes only where libnvidia-ml is.
"""
