"""The line with which Ultralytics, YOLOv5, YOLOv7 and YOLOv9 name version, torch and device."""

import re
from typing import Any

_START = re.compile(r"\W{0,3}(?:Ultralytics|YOLO)")
_VERSION = re.compile(r"Ultralytics\s+(?:YOLO\s?v?)?(\d+\.\d[\w.+-]*)|YOLO[vR]?\d*\W{1,6}v?(\d[\w.+-]*)", re.I)
_TORCH = re.compile(r"\W{0,3}YOLO\w{0,4}\W.{0,60}\btorch[ -]\d", re.I)
"""A copy without git names no version (`YOLOv5 🚀  torch 2.2.2`)."""
_CUDA = re.compile(r"CUDA:([\d.,]+) \(([^,()]+(?:\([^)]*\))?[^,()]*), ?(\d+(?:\.\d+)?)Mi?B\)")
_CARD = re.compile(r"CUDA:\d+ \(")


def banner(line: str) -> tuple[str, dict[str, Any]] | None:
    """The version (empty where none is named) and what else the line says: torch, python, gpu, gpu_mib, gpus."""
    if not _START.match(line):
        return None
    found = _VERSION.search(line)
    if not found and not _TORCH.match(line):
        return None
    facts: dict[str, Any] = {}
    for name in ("torch", "Python"):
        if said := re.search(rf"\b{name}[ -]([\w.+]+)", line):
            facts[name.lower()] = said[1]
    if card := _CUDA.search(line):
        span = card[1].split("..")
        many = int(span[1]) - int(span[0]) + 1 if len(span) == 2 and all(s.isdigit() for s in span) else 0
        many = max(many, len(_CARD.findall(line)), card[1].count(",") + 1)
        facts |= {"gpu": card[2].strip(), "gpu_mib": float(card[3].rstrip(".")), "gpus": many}
    return (found[1] or found[2]) if found else "", facts
