"""Lines of a console log -> the training in it: epochs, losses, metrics, scans, banner, arguments."""

import copy
import math
import re
from dataclasses import replace
from typing import Any

from diag.load.bars import Bar, bar
from diag.load.read import bounded
from diag.load.words import arguments
from diag.model.foreign import ImageCache, LogEpoch, Scan, TrainLog

_NUM = r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|nan|inf)"
_EPOCH = re.compile(rf"^\s*\W{{0,3}}(\d{{1,6}})/(\d{{1,6}})\s+(\d+(?:\.\d+)?)([GM])\s+((?:{_NUM}\s+)+?)(\d+)\s*:", re.I)
_EPOCH_BARE = re.compile(rf"^\s*\W{{0,3}}(\d{{1,6}})/(\d{{1,6}})\s+(\d+(?:\.\d+)?)([GM])((?:\s+{_NUM})+)\s*:?", re.I)
_ALL = re.compile(rf"(?:^|\s)all((?:\s+{_NUM})+)\s*$", re.I)
_CLASS_ROW = re.compile(rf"^\s*(\S(?:.{{0,60}}?\S)?)\s+(\d{{1,7}})\s+(\d{{1,8}})((?:\s+{_NUM}){{4,8}})\s*$", re.I)
_HEAD = re.compile(r"^\W*Epoch\s+gpu_mem\b(.*)", re.I)
_BANNER = re.compile(r"Ultralytics\s+(?:YOLO\s?v?)?(\d+\.\d[\w.+-]*)|YOLOv?\d*\W{1,6}v?(\d[\w.+-]*)", re.I)
_CUDA = re.compile(r"CUDA:([\d.,]+) \(([^,()]+(?:\([^)]*\))?[^,()]*), ?(\d+(?:\.\d+)?)Mi?B\)")
_CARD = re.compile(r"CUDA:\d+ \(")
_ARGS = re.compile(r"(?:engine[\\/]trainer|train|hyperparameters): (?=[\w-]+=)(.*)")
_SCAN = re.compile(r"^(?:(\w+): ?)?\W{0,12}Scanning\s+(.*?)(?:\.\.\.|: )\s*(.*)", re.I)
_SCAN_NEW = re.compile(r"(\d+) images, (\d+) backgrounds?, (\d+) corrupt", re.I)
_SCAN_OLD = re.compile(r"(\d+) found, (\d+) missing, (\d+) empty, (\d+) corrupt", re.I)
_CACHE = re.compile(r"Caching images \((\d+(?:\.\d+)?) ?GB ?(\w*)\)", re.I)
_TRANSFER = re.compile(r"Transferred (\d+)/(\d+) items")
_OPT = re.compile(r"optimizer:\W*(\w+)\(lr=([\d.eE+-]+)")
_AUTOBATCH = re.compile(r"^\s*\d{4,}\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s+[\d.]+\s+\(")
_START = re.compile(r"Starting training for (\d+) epochs", re.I)
_DONE = re.compile(r"(\d+) epochs completed in ([\d.]+) hours", re.I)
_CLOCK = re.compile(r"^\W{0,2}(?:\d{4}-\d\d-\d\d[ T])?(\d\d):(\d\d):(\d\d)\b")
_WANTED = re.compile(
    rb"(?:\x1b\[[\d;]*m|\W)*(?:\d+/\d+\s|\d{4,}\s|\d\d:\d\d:\d\d|\d{4}-\d\d-\d\d|epoch\s|all\s|class\s)"
)
_WORDS: tuple[bytes, ...] = (
    b"scanning", b"caching", b"transferred", b"starting", b"completed", b"optimizer", b"ultralytics", b"yolo",
    b"engine", b"weights=", b" all  ", b"hyperparameters", b"out of memory",
)  # fmt: skip
_NAMES = {"box": "box_loss", "obj": "obj_loss", "cls": "cls_loss", "loss": "loss", "seg": "seg_loss"}
_NO_LOSS = {"labels", "img_size", "instances", "size", "targets", "total", "top1_acc", "top5_acc"}
_BOX = ("metrics/precision(B)", "metrics/recall(B)", "metrics/mAP50(B)", "metrics/mAP50-95(B)")
_METRICS = {
    2: ("metrics/accuracy_top1", "metrics/accuracy_top5"),
    6: ("", "", *_BOX),
    10: ("", "", *_BOX, *(n.replace("(B)", "(M)") for n in _BOX)),
}
_DEFAULT = ("box_loss", "cls_loss", "dfl_loss")
_MAX_ROWS = 100_000
_LONG = re.compile(r"\d{20,}")


class LogParser:
    """Fed line by line; `finish` gives what was seen."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.runs: list[list[LogEpoch]] = [[]]
        self.parts: list[LogEpoch] = []
        self.scans: dict[tuple[str, str], Scan] = {}
        self.caches: dict[str, ImageCache] = {}
        self.transferred: dict[tuple[int, int], None] = {}
        self.versions: dict[str, None] = {}
        self.facts: dict[str, Any] = {}
        self.args: dict[str, Any] = {}
        self.autobatch: list[float] = []
        self.names: tuple[str, ...] = ()
        self.open: LogEpoch | None = None
        self.val_bar: Bar | None = None
        self.clock: float | None = None
        self.started = 0
        self.classes: dict[str, int] = {}
        self.table: dict[str, int] | None = None

    def fork(self) -> "LogParser":
        """A copy that can be finished while this one goes on; rows are never changed in place and are shared."""
        twin = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, (list, dict)):
                setattr(twin, name, copy.copy(value))
        twin.runs = [list(run) for run in self.runs]
        return twin

    def knows(self, low: bytes) -> bool:
        """Whether a word of this lower-case line may be of use to `feed`, whatever its numbers are."""
        return any(word in low for word in _WORDS)

    def wants(self, low: bytes) -> bool:
        """Whether the line is a table row, a header or a time stamp, or follows a row for all classes."""
        return self.table is not None or _WANTED.match(low, 0, 300) is not None

    def feed(self, number: int, line: str) -> None:
        """One line without control characters."""
        if len(line) > 40:
            line = _LONG.sub("999999999999999999", line)  # no number of a training has so many digits
        if (found := _EPOCH.match(line) or _EPOCH_BARE.match(line)) and len(self.parts) < _MAX_ROWS:
            self._epoch(number, line, found)
        elif self.open is not None and "Class" in line and "Images" in line:
            self.val_bar = bar(line)
            rest = line.rpartition("]")[2] or line
            if found := _ALL.search(rest):
                self._metrics(found[1])
        elif found := _ALL.search(line):
            self._metrics(found[1], number)
            self.table = {}
            return
        elif self.table is not None and (found := _CLASS_ROW.match(line)) and len(self.table) < 10_000:
            self.table[found[1]] = int(found[3])
            self.classes = self.table
            return
        elif found := _HEAD.match(line):
            self.names = tuple(_NAMES.get(n.lower(), n.lower()) for n in found[1].split(":")[0].split())
        elif found := _AUTOBATCH.match(line):
            self.autobatch.append(float(found[1]))
        else:
            self._other(number, line)
        self.table = None

    def _epoch(self, number: int, line: str, found: re.Match[str]) -> None:
        cells = [bounded(float(n)) for n in found[5].split()]
        tail = [int(found[6])] if found.re is _EPOCH else []
        names = self.names
        if not names:
            names = (*_DEFAULT, "instances", "size") if len(cells) + len(tail) == 5 else ()
            names = names or (
                *tuple(f"loss_{i}" for i in range(max(0, len(cells) + len(tail) - 2))),
                "instances",
                "size",
            )
        values = dict(zip(names, [*cells, *map(float, tail)], strict=False))
        losses = {n: v for n, v in values.items() if n not in _NO_LOSS}
        if not losses:
            return
        count = values.get("instances", values.get("labels", values.get("targets")))
        size = values.get("size", values.get("img_size"))
        drawn = bar(line[found.end() :])
        self._close()
        row = LogEpoch(
            epoch=int(found[1]),
            planned=int(found[2]),
            line=number,
            gpu_mem_g=float(found[3]) / (1024 if found[4].upper() == "M" else 1),
            losses=losses,
            instances=_whole(count),
            size=_whole(size),
            done=drawn.done if drawn else None,
            total=drawn.total if drawn else None,
            train_s=drawn.seconds if drawn else None,
            step_s=drawn.step_s if drawn else None,
            clock_s=self.clock,
        )
        self.open, self.val_bar = row, None

    def _metrics(self, cells: str, number: int = 0) -> None:
        values = [bounded(float(n)) for n in cells.split()]
        names = _METRICS.get(len(values))
        if names is None or (self.open is not None and self.open.metrics):
            return  # the re-validation of best.pt, or another program's table
        counts_whole = all(math.isfinite(v) and v == int(v) for v in values[:2])
        if len(values) > 2 and not (counts_whole and all(not v > 1.001 for v in values[2:])):
            return  # sar and mpstat name all CPUs so; images are whole, scores are shares
        metrics = {n: v for n, v in zip(names, values, strict=True) if n}
        if self.open is None:
            if len(values) == 2 or self.runs[-1]:
                return
            self.open = LogEpoch(0, 0, number)  # a log that holds nothing but the result
        counts = (_whole(values[0]), _whole(values[1])) if len(values) > 2 else (None, None)
        self.open = replace(self.open, metrics=metrics, val_images=counts[0], val_instances=counts[1])

    def _close(self) -> None:
        if self.open is None:
            return
        row = self.open
        if self.val_bar is not None:
            row = replace(row, val_s=self.val_bar.seconds)
        self.open, self.val_bar = None, None
        if not row.complete:
            self.parts.append(row)
            return
        run = self.runs[-1]
        if run and row.epoch == run[-1].epoch and row.planned == run[-1].planned:
            if not run[-1].metrics:
                self.parts.append(run.pop())
        elif run and (row.epoch < run[-1].epoch or row.planned != run[-1].planned):
            self.runs.append([])
        if len(self.runs[-1]) < _MAX_ROWS:
            self.runs[-1].append(row)

    def _other(self, number: int, line: str) -> None:
        if found := _CLOCK.match(line):
            self.clock = int(found[1]) * 3600.0 + int(found[2]) * 60 + int(found[3])
        if "out of memory" in line.lower() and "TensorBoard" not in line:
            in_val = self.val_bar is not None and self.val_bar.done < self.val_bar.total
            self.facts.setdefault("oom_phase", "val" if in_val else "train" if self.open or self.runs[-1] else "start")
        if "Scanning" in line:
            self._scan(number, line)
        elif found := _CACHE.search(line):
            drawn = bar(line)
            split = line.partition(":")[0] if line[:8].partition(":")[1] else str(len(self.caches))
            if drawn:
                key = f"{split} {drawn.total}"
                self.caches[key] = ImageCache(
                    found[2].lower() or "ram", float(found[1]), drawn.done, drawn.total, number
                )
        elif found := _TRANSFER.search(line):
            self.transferred[int(found[1]), int(found[2])] = None
        elif found := _START.search(line):
            self._close()
            self.started += 1
            if self.runs[-1]:
                self.runs.append([])
        elif found := _ARGS.search(line):
            self.args |= arguments(found[1])
            self.facts |= {"windows": True} if "engine\\trainer" in line else {}
        elif found := _OPT.search(line):
            self.facts |= {"optimizer": found[1], "optimizer_lr": _float(found[2])}
        elif found := _DONE.search(line):
            self.facts["hours"] = _float(found[2])
        elif re.match(r"\W{0,3}(?:Ultralytics|YOLO)", line) and (found := _BANNER.search(line)):
            self._banner(line, found[1] or found[2])

    def _banner(self, line: str, version: str) -> None:
        self.versions[version] = None
        for name in ("torch", "Python"):
            if found := re.search(rf"\b{name}[ -]([\w.+]+)", line):
                self.facts.setdefault(name.lower(), found[1])
        if found := _CUDA.search(line):
            self.facts.setdefault("gpu", found[2].strip())
            self.facts.setdefault("gpu_mib", _float(found[3]))
            span = found[1].split("..")
            many = int(span[1]) - int(span[0]) + 1 if len(span) == 2 and all(s.isdigit() for s in span) else 0
            self.facts.setdefault("gpus", max(many, len(_CARD.findall(line)), found[1].count(",") + 1))

    def _scan(self, number: int, line: str) -> None:
        found = _SCAN.match(line)
        if not found:
            return
        split, path, drawn = found[1] or "", found[2], bar(line)
        total = drawn.total if drawn else 0
        done, seconds = (drawn.done, drawn.seconds) if drawn else (None, None)
        path = re.sub(r"'? for images and labels", "", path).strip(" '\"")
        if new := _SCAN_NEW.search(line):
            labelled, background, corrupt = map(int, new.groups())
            counts: tuple[int, int, int | None, int, int] = (
                total or labelled + background, labelled, None, background, corrupt,
            )  # fmt: skip
        elif old := _SCAN_OLD.search(line):
            labelled, missing, empty, corrupt = map(int, old.groups())
            counts = (total or labelled + missing, labelled, missing, empty, corrupt)
        elif drawn and drawn.seconds is not None:
            counts = (total, total, None, 0, 0)
        else:
            return
        scan = Scan(split.lower(), *counts, number, path, seconds, done, self.file)
        if len(self.scans) < 1000:
            self.scans[split, path] = scan

    def finish(self, lines: int, kinds: set[str]) -> TrainLog:
        """All that was seen. `kinds` are the kinds of known lines, for how the log ended."""
        self._close()
        runs = [run for run in self.runs if run]
        rows = max(reversed(runs), key=len, default=[])
        complete = bool(rows) and rows[-1].epoch + (rows[0].epoch == 0) >= rows[-1].planned > 0
        ended = "early_stop" if "early_stop" in kinds else "completed" if "completed" in kinds or complete else ""
        failed = kinds & {"gpu_oom", "error", "killed", "ram_oom", "shm_small", "disk_full", "traceback"}
        ended = ended or ("error" if failed else "interrupted" if "interrupted" in kinds else "cut" if rows else "")
        return TrainLog(
            file=self.file,
            epochs=tuple(rows),
            parts=tuple(self.parts),
            scans=tuple(self.scans.values()),
            caches=tuple(self.caches.values()),
            transferred=tuple(self.transferred),
            versions=tuple(self.versions),
            args=self.args,
            autobatch_gib=tuple(self.autobatch),
            runs=max(len(runs), self.started),
            lines=lines,
            class_instances=self.classes,
            ended=ended,
            **self.facts,
        )


def _float(text: str) -> float | None:
    try:
        return float(text.rstrip("."))
    except ValueError:
        return None


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None and value == value and abs(value) < 1e15 else None  # noqa: PLR0124
