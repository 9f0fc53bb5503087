"""Lines of a console log -> the training in it: epochs, losses, metrics, scans, banner, arguments."""

import copy
import math
import re
from dataclasses import replace
from typing import Any

from diag.load.banner import banner
from diag.load.bars import Bar, bar
from diag.load.evaluations import WORDS as EVALUATION_WORDS
from diag.load.evaluations import evaluation, mark
from diag.load.read import bounded
from diag.load.scans import scan
from diag.load.streams import joined
from diag.load.words import arguments
from diag.model.columns import NUMBER
from diag.model.foreign import Evaluation, ImageCache, LogEpoch, Scan, TrainLog

_NUM = rf"(?:{NUMBER}|[+-]?(?:nan|inf))"
_EPOCH = re.compile(rf"^\s*\W{{0,3}}(\d{{1,6}})/(\d{{1,6}})\s+(\d+(?:\.\d+)?)([GM])\s+((?:{_NUM}\s+)+?)(\d+)\s*:", re.I)
_EPOCH_BARE = re.compile(rf"^\s*\W{{0,3}}(\d{{1,6}})/(\d{{1,6}})\s+(\d+(?:\.\d+)?)([GM])((?:\s+{_NUM})+)\s*:?", re.I)
_ALL = re.compile(rf"(?:^|\s)all((?:\s+{_NUM})+)\s*$", re.I)
_CLASS_ROW = re.compile(
    rf"^\s*(\S(?:.{{0,60}}?\S)?)\s+(\d{{1,7}})\s+(\d{{1,8}})(?:(?:\s+{_NUM}){{4}}){{1,2}}\s*$", re.I
)
_HEAD = re.compile(r"^\W*Epoch\s+gpu_mem\b(.*)", re.I)
_ARGS = re.compile(r"(?:engine[\\/]trainer|train|hyperparameters): (?=[\w-]+=)(.*)")
_CACHE = re.compile(r"Caching images \((\d+(?:\.\d+)?) ?GB ?(\w*)\)", re.I)
_TRANSFER = re.compile(r"Transferred (\d+)/(\d+) items")
_OPT = re.compile(r"optimizer:\W*(\w+)\(lr=([\d.eE+-]+)")
_SIMPLE = r"(?:\d+(?:\.\d+)?|\.\d+)"
_AUTOBATCH = re.compile(rf"^\s*\d{{4,}}\s+{_SIMPLE}\s+({_SIMPLE})\s+{_SIMPLE}\s+{_SIMPLE}\s+\(")
_START = re.compile(r"Starting training for (\d+) epochs", re.I)
_DONE = re.compile(r"(\d+) epochs completed in (\d+(?:\.\d+)?|\.\d+) hours", re.I)
_EARLY = re.compile(r"(?:Training stopped|Stopping training) early as no improvement", re.I)
_CLOCKED = (
    rb"[^\w\n]{0,2}(?:\d{4}-\d\d-\d\d[ t])?(\d\d):(\d\d):(\d\d)\b[^\s|]{0,12}[ \t]*\|?[ \t]*"
    rb"(?:[a-z]+ *\| *[^\s|]+ *\| *)?"
)
_ROWS = rb"[^\w\n]*(?:\d+/\d+\s|\d{4,}\s|epoch\s|all\s|class\s)"
_STAMP = re.compile(_CLOCKED)
_WANTED = re.compile(_ROWS)
_WANTED_LINES = re.compile(rb"^(?:%s)?%s" % (_CLOCKED, _ROWS), re.M)
WORDS: tuple[bytes, ...] = (
    b"scanning", b"caching", b"transferred", b"starting", b"completed", b"optimizer", b"ultralytics", b"yolo",
    b"engine", b"weights=", b"early as no", b" all  ", b"hyperparameters", b"out of memory",
    *EVALUATION_WORDS,
)  # fmt: skip
"""A lower-case line with one of these may be of use to `LogParser.feed`, whatever its numbers are."""
_NAMES = {
    "box": "box_loss", "obj": "obj_loss", "cls": "cls_loss", "loss": "loss", "seg": "seg_loss", "train_loss": "loss",
}  # fmt: skip
_NO_LOSS = {"labels", "img_size", "instances", "size", "targets", "total"}
_INLINE = {
    "val_loss": "val/loss",
    "test_loss": "val/loss",
    "top1_acc": "metrics/accuracy_top1",
    "top5_acc": "metrics/accuracy_top5",
}
"""YOLOv5's classifier prints its validation in the row of the epoch; the loss is named after the split's folder."""
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
        self.scans: dict[tuple[str, str, int], Scan] = {}
        """By split, path and training: the same folder is scanned again by the next one."""
        self.caches: dict[str, ImageCache] = {}
        self.transferred: dict[tuple[int, int], int] = {}
        self.optimizers: list[tuple[int, str, float | None]] = []
        self.facts: dict[str, Any] = {}
        self.args: dict[str, Any] = {}
        self.args_lines: dict[str, int] = {}
        self.autobatch: list[float] = []
        self.names: tuple[str, ...] = ()
        self.open: LogEpoch | None = None
        self.val_bar: Bar | None = None
        self.clock: float | None = None
        self.started = 0
        self.classes: dict[str, int] = {}
        self.table: dict[str, int] | None = None
        self.planned = 0
        self.headed = False
        self.run_args: list[dict[str, Any]] = [self.args]
        self.run_lines: list[dict[str, int]] = [self.args_lines]
        self.run_ends: list[str] = [""]
        self.run_facts: list[dict[str, Any]] = [{}]
        self.next_facts: dict[str, Any] = {}
        self.evaluations: list[Evaluation] = []
        self.said = ""
        """What was said of an evaluation since the last epoch."""
        self.head = "M"
        """The second head of a validation table: M for masks, P for poses, by its header."""

    def fork(self) -> "LogParser":
        """A copy that can be finished while this one goes on; rows are never changed in place and are shared."""
        twin = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, (list, dict)):
                setattr(twin, name, copy.copy(value))
        twin.runs = [list(run) for run in self.runs]
        twin.run_args = [dict(args) for args in self.run_args]
        twin.run_lines = [dict(lines) for lines in self.run_lines]
        twin.args, twin.args_lines = twin.run_args[-1], twin.run_lines[-1]
        return twin

    def wants(self, low: bytes) -> bool:
        """Whether a lower-case line is a table row or header or follows the row for all. Takes its time of day."""
        start = self._tick(low)
        return self.table is not None or _WANTED.match(low, start, start + 300) is not None

    def idle(self, low: bytes) -> bool:
        """Whether `wants` would hold for none of these lines. Takes the last one's time of day."""
        if self.table is not None or _WANTED_LINES.search(low):
            return False
        self._tick(low[low.rfind(b"\n", 0, -1) + 1 :])
        return True

    def _tick(self, low: bytes) -> int:
        """Take a line's time of day; returns where the line goes on."""
        stamp = _STAMP.match(low)
        if stamp is None:
            return 0
        hours, minutes, seconds = stamp.groups()
        self.clock = int(hours) * 3600.0 + int(minutes) * 60 + int(seconds)
        return stamp.end()

    def feed(self, number: int, line: str) -> None:
        """One line without control characters."""
        if len(line) > 40:
            line = _LONG.sub("999999999999999999", line)  # no number of a training has so many digits
        if (found := _EPOCH.match(line) or _EPOCH_BARE.match(line)) and len(self.parts) < _MAX_ROWS:
            self._epoch(number, line, found)
        elif self.open is not None and "Class" in line and "Images" in line:
            self.val_bar = bar(line)
            self.head = "P" if "Pose(" in line else "M" if "Mask(" in line else self.head
            rest = line.rpartition("]")[2] or line
            if found := _ALL.search(rest):
                self._metrics(found[1])
        elif found := _ALL.search(line):
            self._metrics(found[1], number)
            self.table = {}
            return
        elif self.table is not None and (found := _CLASS_ROW.match(line)) and len(self.table) < 10_000:
            if not self.table:
                self.facts["class_line"] = number
            self.table[found[1]] = int(found[3])
            self.classes = self.table
            return
        elif found := _HEAD.match(line):
            if self.open is not None and self.open.metrics:
                self._close()
            self.headed = self.open is None
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
        losses = {n: v for n, v in values.items() if n not in _NO_LOSS and n not in _INLINE}
        if not losses:
            return
        count = values.get("instances", values.get("labels", values.get("targets")))
        size = values.get("size", values.get("img_size"))
        drawn = bar(line[found.end() :])
        self._close()
        self.headed, self.said = False, ""
        row = LogEpoch(
            epoch=int(found[1]),
            planned=int(found[2]),
            line=number,
            gpu_mem_g=float(found[3]) / (1024 if found[4].upper() == "M" else 1),
            losses=losses,
            metrics={_INLINE[n]: v for n, v in values.items() if n in _INLINE},
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
        if self.said and len(values) > 2 and names is not None:
            self._evaluation(values, number)
        if names is None or (self.open is not None and self.open.metrics):
            return  # the re-validation of best.pt, or another program's table
        counts_whole = all(math.isfinite(v) and v == int(v) for v in values[:2])
        if len(values) > 2 and not (counts_whole and all(not v > 1.001 for v in values[2:])):
            return  # sar and mpstat name all CPUs so; images are whole, scores are shares
        head = "P" if {"pose_loss", "kobj_loss"} & set(self.names) else self.head
        metrics = {n.replace("(M)", f"({head})"): v for n, v in zip(names, values, strict=True) if n}
        if self.open is None and self.headed and self.planned and not any(e.losses for e in self.runs[-1][:1]):
            # Only standard output was kept: the bars with the losses went to standard error.
            done = self.runs[-1][-1].epoch if self.runs[-1] else 0
            self.open, self.headed = LogEpoch(done + 1, self.planned, number), False
        if self.open is None:
            if len(values) == 2 or self.runs[-1]:
                return
            self.open = LogEpoch(0, 0, number)  # a log that holds nothing but the result
        counts = (_whole(values[0]), _whole(values[1])) if len(values) > 2 else (None, None)
        self.open = replace(self.open, metrics=metrics, val_images=counts[0], val_instances=counts[1])

    def _evaluation(self, values: list[float], number: int) -> None:
        """A row after words that announce an evaluation."""
        if len(self.evaluations) < _MAX_ROWS and all(not v > 1.001 for v in values[2:]):
            metrics = dict(zip(_BOX, values[2:6], strict=True))
            row = LogEpoch(0, 0, number, metrics=metrics, val_images=_whole(values[0]), val_instances=_whole(values[1]))
            self.evaluations.append(evaluation(self.file, number, self.said, row))
        self.said = ""

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
            self._new_run()
        if len(self.runs[-1]) < _MAX_ROWS:
            self.runs[-1].append(row)

    def _new_run(self) -> None:
        """What follows belongs to another training; its arguments are those before it until new ones come."""
        self.runs.append([])
        self.run_args.append(self.run_args[-1])
        self.run_lines.append(self.run_lines[-1])
        self.run_ends.append("")
        self.run_facts.append(self.next_facts or self.run_facts[-1])
        self.next_facts = {}

    def _other(self, number: int, line: str) -> None:
        self.said = mark(self.said, line)
        if "out of memory" in line.lower() and "TensorBoard" not in line:
            over = self.run_ends[-1] == "completed"  # what is left is the validation of best.pt
            in_val = over or (self.val_bar is not None and self.val_bar.done < self.val_bar.total)
            self.facts.setdefault("oom_phase", "val" if in_val else "train" if self.open or self.runs[-1] else "start")
        if "Scanning" in line:
            found_scan = scan(number, line, self.file)
            if found_scan and len(self.scans) < 1000:
                self.scans[found_scan.split, found_scan.path, len(self.runs)] = found_scan
        elif found := _CACHE.search(line):
            drawn = bar(line)
            split = line.partition(":")[0] if line[:8].partition(":")[1] else str(len(self.caches))
            if drawn:
                key = f"{split} {drawn.total}"
                self.caches[key] = ImageCache(
                    found[2].lower() or "ram", float(found[1]), drawn.done, drawn.total, number
                )
        elif found := _TRANSFER.search(line):
            self.transferred.setdefault((int(found[1]), int(found[2])), number)
        elif found := _OPT.search(line):
            self.optimizers.append((number, found[1], _float(found[2])))
        else:
            self._course(number, line)

    def _course(self, number: int, line: str) -> None:
        """Where a training begins and how it ends."""
        if found := _START.search(line):
            self._close()
            self.started += 1
            self.planned, self.headed = int(found[1]) if len(found[1]) < 7 else 0, False
            if self.runs[-1]:
                self._new_run()
        elif found := _ARGS.search(line):
            words = arguments(found[1])
            if self.runs[-1] and {"epochs", "model", "weights"} & set(words):
                self._close()
                self._new_run()
                self.args = self.run_args[-1] = {}
                self.args_lines = self.run_lines[-1] = {}
            self.args |= words
            self.args_lines |= dict.fromkeys(words, number)
            self.facts |= {"windows": True} if "engine\\trainer" in line else {}
        elif found := _DONE.search(line):
            self.facts["hours"] = _float(found[2])
            self._close()
            self.run_ends[-1] = self.run_ends[-1] or "completed"
        elif _EARLY.search(line):
            self._close()
            self.run_ends[-1] = "early_stop"
        elif made := banner(line):
            self._banner(*made)

    def _banner(self, version: str, facts: dict[str, Any]) -> None:
        """The banner before a training counts; the one of the validation after it says nothing new."""
        facts = facts | ({"version": version} if version else {})
        if self.runs[-1] or self.open is not None:
            self.next_facts = facts
        elif facts:
            self.run_facts[-1] = facts

    def _span(self, judged: int) -> tuple[int, float]:
        """The lines between this training's arguments and those of the next; all lines where it has none or no rows.

        What another cell or attempt scanned, and the optimizer it built, is not this training's.
        """
        if not self.runs[judged] or not self.run_lines[judged]:
            return -1, math.inf
        own = self.run_lines[judged]
        later = [lines for lines in self.run_lines[judged + 1 :] if lines and lines is not own]
        return max(own.values()), min((min(lines.values()) for lines in later), default=math.inf)

    def finish(self, lines: int, kinds: set[str]) -> TrainLog:
        """All that was seen. `kinds` are the kinds of known lines, for how the log ended."""
        self._close()
        runs = [run for run in self.runs if run]
        judged = max(reversed(range(len(self.runs))), key=lambda i: len(self.runs[i]))
        rows = self.runs[judged]
        # A banner that another one followed before a training began is that of another program (notebooks, terminals).
        used = dict.fromkeys(f["version"] for f in (*self.run_facts, self.next_facts) if "version" in f)
        machine = {k: v for k, v in self.run_facts[judged].items() if k != "version"}
        alone = rows[0] if len(rows) == 1 and not (rows[0].planned or rows[0].losses) else None
        if alone is not None and not self.evaluations:
            self.evaluations = [evaluation(self.file, alone.line, "", alone)]
        complete = bool(rows) and rows[-1].epoch + (rows[0].epoch == 0) >= rows[-1].planned > 0
        ended = self.run_ends[judged] or ("completed" if complete else "")
        if not ended and not any(self.run_ends):
            ended = "early_stop" if "early_stop" in kinds else "completed" if "completed" in kinds else ""
        first, last = self._span(judged)
        scans = [s for s in self.scans.values() if first < s.line < last]
        if not any(s.split in {"", "train"} for s in scans):
            scans = list(self.scans.values())
        folders = {s.path.removesuffix(".cache") for s in scans}  # what another one read of the same folder counts, too
        scans = [s for s in self.scans.values() if s.path.removesuffix(".cache") in folders]
        optimizer = [o for o in self.optimizers if first < o[0] < last] or self.optimizers
        failed = kinds & {"gpu_oom", "error", "killed", "ram_oom", "shm_small", "disk_full", "traceback"}
        ended = ended or ("error" if failed else "interrupted" if "interrupted" in kinds else "cut" if rows else "")
        return TrainLog(
            file=self.file,
            epochs=next((made for run in runs if (made := joined(rows, run))), tuple(rows)),
            evaluations=tuple(self.evaluations),
            parts=tuple(self.parts),
            scans=tuple({(s.split, s.path): s for s in scans}.values()),
            optimizer=optimizer[-1][1] if optimizer else "",
            optimizer_lr=optimizer[-1][2] if optimizer else None,
            caches=tuple(self.caches.values()),
            transferred=tuple(self.transferred),
            transferred_lines=tuple(self.transferred.values()),
            versions=tuple(used),
            args=self.run_args[judged],
            args_lines=self.run_lines[judged],
            autobatch_gib=tuple(self.autobatch),
            runs=max(len(runs), self.started),
            lines=lines,
            class_instances=self.classes,
            ended=ended,
            **(machine | self.facts),
        )


def _float(text: str) -> float | None:
    try:
        return float(text.rstrip("."))
    except ValueError:
        return None


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None and value == value and abs(value) < 1e15 else None  # noqa: PLR0124
