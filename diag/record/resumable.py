"""A trainer whose checkpoints survive a kill, and which goes on from one as if it had never stopped.

A mixin for Ultralytics' trainers, 8.3 and 8.4. It owns one attribute, `_kept`.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ultralytics.engine.trainer as engine
from ultralytics.engine.trainer import BaseTrainer

from diag.record import exact
from diag.record.checkpoints import CHECKPOINT
from diag.record.files import STATE, AtomicPath, LastPath, replacing, sha256, sync

KEEP = "DIAG_KEEP_STATE"
"""`full`: write resume_state.pt beside last.pt; `small`: without its tensors. Set by the launcher; absent: neither."""

CHANGED = "DIAG_RESUME_CHANGED"
"""Names of the arguments that the user gave anew with `resume=`. Set by the launcher."""


class Kept:
    """What a trainer must know of its past. Plain values only: Ultralytics copies trainers."""

    def __init__(self) -> None:
        self.how, *notes = os.environ.get(CHECKPOINT, "").split("\n")
        self.notes = tuple(notes)
        self.keeps = os.environ.get(KEEP, "")
        self.state: exact.State | None = None
        self.why_not = ""
        self.last_step = -1
        """Number of the batch after which the optimizer was stepped last, over the whole run; -1 for none."""
        self.batch = -1
        self.in_epoch = False
        self.held: int | None = None
        """The true `accumulate` while a larger one keeps the optimizer waiting."""
        self.waits = False
        """The loop's own count of the last step was lost; ours decides until the first step."""
        self.failed = False


class Resumable(BaseTrainer):
    """Mixin: atomic checkpoints, a state of its own beside last.pt, and the way back."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._kept = Kept()
        super().__init__(*args, **kwargs)
        self.wdir: Path = AtomicPath(self.save_dir / "weights")
        self.last, self.best = LastPath(self.wdir / "last.pt"), AtomicPath(self.wdir / "best.pt")

    def check_resume(self, overrides: Any) -> None:
        here = self.args.data
        super().check_resume(overrides)
        if self._kept.how in {"exact", "plain", "final"} and self.resume:
            # The checkpoint knows where it was written; the workspace may have moved since.
            run_dir = Path(os.environ["DIAG_RUN_DIR"])
            self.args.project, self.args.name, self.args.exist_ok = str(run_dir), "ultralytics", True
            self.args.save_dir = str(run_dir / "ultralytics")
            self.args.data = here or self.args.data

    def resume_training(self, ckpt: Any) -> None:
        kept = self._kept
        if kept.how == "final":
            return
        super().resume_training(ckpt)
        if kept.how != "exact":
            return
        kept.state = exact.load(Path(self.last).with_name(STATE))
        if kept.state is None or kept.state.get("checkpoint") != sha256(Path(self.last)):
            kept.state, kept.how, kept.why_not = None, "plain", f"{STATE} does not belong to last.pt"
            return
        exact.restore(self, kept.state)
        kept.why_not = exact.why_not(self, kept.state)
        if changed := os.environ.get(CHANGED):
            kept.why_not = f"changed with resume=: {changed}"
        if exact.same_batches(self, kept.state):
            kept.last_step, kept.waits = kept.state["last_step"], "model" in kept.state

    def _do_train(self, *args: Any) -> None:
        if self._kept.how == "final":
            self._diag_finish(*args)
        else:
            super()._do_train(*args)

    def _diag_finish(self, *args: Any) -> None:
        """The end of Ultralytics' own training loop, for a run whose epochs are all done."""
        self._setup_train(*args)
        self.epoch = self.start_epoch = self.epochs - 1
        self.epoch_time, self.epoch_time_start, self.train_time_start = None, time.time(), time.time()
        self.run_callbacks("on_train_start")
        self.final_eval()
        if self.args.plots:
            self.plot_metrics()
        self.run_callbacks("on_train_end")

    def run_callbacks(self, event: str) -> None:
        kept = self._kept
        if event == "on_train_start" and kept.state and not self.args.time:
            self.train_time_start -= kept.state["elapsed_s"]  # the `time` column goes on
        elif event == "on_train_epoch_start":
            self._diag_epoch()
        elif event == "on_train_batch_start":
            kept.batch += 1
        elif event == "on_train_batch_end" and kept.held is not None:
            self.accumulate, kept.held = kept.held, None
        elif event == "on_train_epoch_end":
            kept.in_epoch = False
        super().run_callbacks(event)

    def _diag_epoch(self) -> None:
        """Before an epoch: the first one after a resume gets back what the startup has used up."""
        kept = self._kept
        if kept.in_epoch:  # a retry after out of memory: Ultralytics counts anew
            kept.last_step, kept.waits = -1, False
        kept.in_epoch, kept.batch = True, -1
        state, kept.state = kept.state, None
        if state is None or "model" not in state:
            return
        exact.restore_grads(self, state)
        if exact.ranks() > 1:
            return
        exact.restore_buffer(self.train_loader.dataset, state["buffer"])

        def randomness() -> None:
            exact.restore_random(self.train_loader, state["random"])

        randomness()
        if self.args.close_mosaic and self.start_epoch > self.epochs - self.args.close_mosaic:
            # Mosaic was closed before: 8.4 closes it again and makes a new iterator, which draws numbers.
            exact.after_reset(self.train_loader, randomness)

    def preprocess_batch(self, batch: Any) -> Any:
        kept = self._kept
        if kept.waits and kept.in_epoch and kept.held is None:
            behind = self._diag_step() - kept.last_step
            if behind < self.accumulate:
                # The loop's own count says -1, so that it would step at once.
                kept.held, self.accumulate = self.accumulate, self._diag_step() + 2
        return super().preprocess_batch(batch)

    def optimizer_step(self) -> None:
        super().optimizer_step()
        self._kept.last_step, self._kept.waits = self._diag_step(), False

    def _diag_step(self) -> int:
        """The number of this batch over the whole run."""
        return self._kept.batch + len(self.train_loader) * int(self.epoch)

    def _handle_nan_recovery(self, epoch: int) -> bool:
        recovered = bool(super()._handle_nan_recovery(epoch))
        if recovered:
            self._kept.last_step, self._kept.waits = -1, False
        return recovered

    def save_model(self) -> Any:
        sync(Path(self.csv))  # its row is there before the checkpoint says so
        if self._kept.keeps:
            self.last.companion = self._diag_companion
        try:
            return super().save_model()
        finally:
            self.last.companion = None

    def _diag_companion(self, digest: str) -> Path | None:
        """Write the state that belongs to a checkpoint; without it a run can still be resumed the Ultralytics way."""
        kept = self._kept
        try:
            state = exact.capture(
                self, kept.last_step, time.time() - self.train_time_start, small=kept.keeps == "small"
            )
            return exact.save({**state, "checkpoint": digest}, Path(self.last).with_name(STATE))
        except (OSError, RuntimeError, AttributeError, KeyError) as error:
            if not kept.failed:
                print(f"diag: {STATE} is not saved, a resume will not be bit for bit: {error}", flush=True)
            kept.failed = True
            return None

    def final_eval(self) -> None:
        original = engine.strip_optimizer
        engine.strip_optimizer = atomic(original)
        try:
            super().final_eval()
        finally:
            engine.strip_optimizer = original


def atomic(strip: Callable[..., Any]) -> Callable[..., Any]:
    """Ultralytics' strip_optimizer, which writes in place, all or nothing."""

    def stripped(f: Any, s: Any = "", updates: Any = None) -> Any:
        target = Path(s or f)
        with replacing(target) as part:
            result = strip(f, str(part), updates=updates)
            if not part.stat().st_size:  # no checkpoint of Ultralytics: it is left as it is
                part.write_bytes(target.read_bytes())
        return result

    return stripped
