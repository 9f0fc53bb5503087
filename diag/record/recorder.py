"""Which stage a boundary of the training loop closes. Knows nothing of torch, so a double can drive it."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from diag.model.trace import Stage
from diag.record.clock import StageClock
from diag.record.device import Cuda, DeviceClock
from diag.record.loader_sums import LoaderSums
from diag.record.validation import ValidationClock
from diag.record.writer import TraceWriter

_MODEL = (Stage.TRANSFER, Stage.FORWARD, Stage.BACKWARD)


class Recorder:
    """The recorder of one rank. It pickles and deep-copies as its folder name, never as open files.

    `last` is the stage that the last boundary closed; inside a batch it decides what the next one closes,
    since most batches of an accumulating run make no optimizer step.
    """

    def __init__(self, run_dir: str, rank: int, now: Callable[[], int] = time.monotonic_ns) -> None:
        self._where = (run_dir, rank)
        self._now = now
        self._writer = TraceWriter(Path(run_dir), rank)
        self._clock: StageClock | None = None
        self._in_batch = False
        self._last = Stage.STARTUP
        self._epoch = -1
        self._step = 0
        self._batch = 0
        self._between = Stage.STARTUP
        self._final = False
        self._loader = LoaderSums()
        self._device: DeviceClock | None = None
        self.validation = ValidationClock(self.validated, now)
        self.stop_requested = False

    @classmethod
    def from_environment(cls) -> "Recorder":
        """The recorder of this process: DIAG_RUN_DIR from the launcher, RANK from torchrun (absent: 0)."""
        return cls(os.environ["DIAG_RUN_DIR"], max(int(os.environ.get("RANK", "0")), 0))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Recorder, self._where)

    def __deepcopy__(self, memo: Any) -> "Recorder":
        return self

    @property
    def clock(self) -> StageClock:
        """Starts at the process start that the launcher noted (DIAG_T0_NS), so imports are counted."""
        if self._clock is None:
            start = int(os.environ.get("DIAG_T0_NS") or self._now())
            self._writer.start(start, os.getpid())
            self._clock = StageClock(start, self._now)
        return self._clock

    def watch_device(self, cuda: Cuda, device: Any) -> None:
        """Record device times, too: `cuda` is torch.cuda or a double of it."""
        self._device = DeviceClock(cuda, device, self._write_at)

    def lap(self, stage: Stage) -> None:
        """Close the running lap."""
        self.clock.lap(stage)
        self._last = stage
        if self._device is not None and (self._in_batch or stage is Stage.DATA_WAIT):
            self._device.lap(stage)

    def between(self, stage: Stage | None = None) -> None:
        """Close what ran between batches: `stage`, or startup / epoch gap / final evaluation by phase."""
        self.lap(stage or (Stage.FINAL_EVAL if self._final else self._between))
        if self._in_batch:
            return
        self._flush(-1, -1)

    def epoch_start(self, epoch: int, batch_size: int) -> None:
        """A pass over the data begins. An open batch means that Ultralytics retries after out of memory."""
        if self._in_batch:
            self._in_batch = False
            self.lap(Stage.OTHER)
            self._flush(self._epoch, self._step)
            self.mark("oom_retry", {"epoch": epoch, "batch": batch_size})
        self._flush_sums()
        self.between()
        self._epoch = epoch
        self._batch = 0
        if self._device is not None:
            self._device.restart()
        self._between = Stage.EPOCH_GAP

    def batch_start(self) -> None:
        """The batch has arrived."""
        self.lap(Stage.DATA_WAIT)
        self._in_batch = True

    def loaded(self, sums: Mapping[str, Any] | None) -> None:
        """What the loader measured for this batch; None when it is not timed."""
        if sums is not None and self._in_batch and (line := self._loader.add(sums, self._now())):
            self._write_at("loader", line)

    def transferred(self) -> None:
        """`preprocess_batch` has returned."""
        if self._in_batch:
            self.lap(Stage.TRANSFER)

    def forward_done(self) -> None:
        """The loss is there; backward comes next."""
        if self._in_batch:
            self.lap(Stage.FORWARD)

    def backward_done(self) -> None:
        """Backward has returned; ignored unless forward was the last boundary."""
        if self._in_batch and self._last is Stage.FORWARD:
            self.lap(Stage.BACKWARD)

    def optimizer_done(self) -> None:
        """`optimizer_step` has returned."""
        if self._in_batch:
            self.lap(Stage.OPTIMIZER)

    def plot_start(self) -> None:
        """A plot is about to be drawn, in a batch or between batches."""
        if self._in_batch:
            self.backward_done()
            self.lap(Stage.LOG)
        else:
            self.between()

    def plotted(self) -> None:
        """The plot is drawn (or handed to a thread that draws it)."""
        if self._in_batch:
            self.lap(Stage.PLOT)
        else:
            self.between(Stage.PLOT)

    def validated(self, parts: Mapping[str, Any]) -> None:
        """The record of one validation, from its own clock."""
        self._writer.record("val", {"e": self._epoch, **parts})

    def saved(self, ns: int, size: int) -> None:
        """A checkpoint was written to its disk: the time of the writing alone, and its bytes."""
        self._writer.record("save", {"e": self._epoch, "ns": ns, "bytes": size})

    def batch_end(self, epochs: int, batches: int) -> None:
        """The batch is done, of so many epochs and batches. Writes its laps and its line of train.log."""
        if not self._in_batch:
            return
        self.backward_done()
        self.lap(Stage.LOG)
        self._in_batch = False
        if self._device is not None:
            self._device.batch_end(self._now())
        seconds = dict.fromkeys(Stage, 0.0)
        start, laps = self.clock.take()
        for stage, ns in laps:
            seconds[stage] += ns / 1e9
        self._writer.laps(self._epoch, self._step, start, laps)
        self._step += 1
        self._batch += 1
        self._writer.log_line(
            f"{self._epoch + 1}/{epochs}",
            f"{self._batch}/{batches}",
            {
                "dataloader": seconds[Stage.DATA_WAIT],
                "model": sum(seconds[s] for s in _MODEL),
                "optimizer": seconds[Stage.OPTIMIZER],
            },
        )

    def final_eval(self) -> None:
        """Validation of best.pt begins: from here on everything is the final evaluation."""
        self.between()
        self._final = True

    @property
    def final(self) -> bool:
        """True from the final evaluation on."""
        return self._final

    def resumed(self, step: int) -> None:
        """Count steps on from `step`, the batches of the epochs that were finished before."""
        self._step = step

    def mark(self, name: str, values: Mapping[str, Any]) -> None:
        """Note an instant, e.g. `nan_recovery`."""
        self._writer.mark(name, self._now(), values)

    def end(self, reason: str) -> None:
        """The trainer returned or raised; the last lap ends here."""
        self._in_batch = False
        self._flush_sums()
        self.between()
        self.mark("end", {"reason": reason})

    def _flush_sums(self) -> None:
        """Write the sums of the loader and the device that no full second has closed."""
        if line := self._loader.flush(self._now()):
            self._write_at("loader", line)
        if self._device is not None:
            self._device.flush(self._now())

    def _write_at(self, kind: str, values: Mapping[str, Any]) -> None:
        last = self._step if self._in_batch else self._step - 1
        self._writer.record(kind, {"e": self._epoch, "n": last, **values})

    def _flush(self, epoch: int, step: int) -> None:
        start, laps = self.clock.take()
        self._writer.laps(epoch, step, start, laps)
