"""Ultralytics trainers that record their stages: one mixin, one importable class per task.

The seams are methods, since Ultralytics fires no event between forward, backward and optimizer. The mixin
owns one attribute, `_diag`, because the trainer's own names (last, stop, plots ...) are easy to overwrite.
"""

import os
import sys
from pathlib import Path
from typing import Any

import torch
from ultralytics.models.rtdetr.train import RTDETRTrainer
from ultralytics.models.yolo.classify import ClassificationTrainer
from ultralytics.models.yolo.detect import DetectionTrainer
from ultralytics.models.yolo.obb import OBBTrainer
from ultralytics.models.yolo.pose import PoseTrainer
from ultralytics.models.yolo.segment import SegmentationTrainer

from diag.model.run import Resumed
from diag.model.trace import Stage
from diag.record import files, loader
from diag.record.checkpoints import note
from diag.record.recorder import Recorder
from diag.record.resumable import Resumable


class Profiled(Resumable):
    """Mixin that turns the training loop's boundaries into laps."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._diag = Recorder.from_environment()
        self._diag.between(Stage.STARTUP)
        super().__init__(*args, **kwargs)

    def train(self) -> Any:
        if getattr(self, "ddp", False):  # this process only starts the ranks; each of them records itself
            return super().train()
        try:
            result = super().train()
        except BaseException as error:
            self._diag.end(type(error).__name__)
            raise
        self._diag.end("finished")
        return result

    def run_callbacks(self, event: str) -> None:
        diag = self._diag
        if event == "on_train_epoch_start":
            diag.epoch_start(self.epoch, self.batch_size)
        elif event == "on_train_batch_start":
            diag.batch_start()
        super().run_callbacks(event)
        if event == "on_train_batch_end":
            diag.batch_end(self.epochs, len(self.train_loader))
            self._diag_stop()
        elif event in {"on_train_epoch_end", "on_fit_epoch_end", "on_train_end"}:
            diag.between()
            if event == "on_fit_epoch_end" and not diag.final:
                self._diag_stop()  # here the epoch is validated and saved
        elif event == "on_train_start":
            diag.between()
            diag.mark("train_start", self._diag_facts())
            self._diag_resumed()
            self._diag_stop()

    def build_dataset(self, img_path: Any, mode: str = "train", batch: Any = None) -> Any:
        # Here and not at the loader: 8.3.9 starts its workers while it builds the loader.
        dataset = super().build_dataset(img_path, mode, batch)
        return loader.attach(dataset) if mode == "train" else dataset

    def preprocess_batch(self, batch: Any) -> Any:
        self._diag.loaded(loader.take(batch))
        batch = super().preprocess_batch(batch)
        self._diag.transferred()
        return batch

    def _setup_train(self, *args: Any) -> None:
        super()._setup_train(*args)
        # `scaler.scale(loss)` is the only call between forward and backward, in every release and precision.
        scale, recorder = self.scaler.scale, self._diag

        def scale_and_record(outputs: Any) -> Any:
            recorder.forward_done()
            return scale(outputs)

        self.scaler.scale = scale_and_record
        if self.device.type == "cuda":
            recorder.watch_device(torch.cuda, self.device)

    def _get_memory(self, *args: Any, **kwargs: Any) -> Any:
        # Called for the progress bar: the first thing after backward in a batch without an optimizer step.
        self._diag.backward_done()
        return super()._get_memory(*args, **kwargs)

    def optimizer_step(self) -> None:
        self._diag.backward_done()
        super().optimizer_step()
        self._diag.optimizer_done()

    def get_validator(self) -> Any:
        return self._diag.validation.attach(super().get_validator())

    def plot_training_samples(self, batch: Any, ni: int) -> None:
        self._diag.plot_start()
        super().plot_training_samples(batch, ni)
        self._diag.plotted()

    def plot_training_labels(self) -> None:
        self._diag.plot_start()
        super().plot_training_labels()
        self._diag.plotted()

    def plot_metrics(self) -> None:
        self._diag.plot_start()
        super().plot_metrics()
        self._diag.plotted()

    def validate(self) -> Any:
        self._diag.between()
        self._diag.validation.begin()
        result = super().validate()
        self._diag.validation.end(self.validator)
        self._diag.between(Stage.VALIDATE)
        return result

    def save_model(self) -> Any:
        self._diag.between()
        files.take_written()
        result = super().save_model()
        if (written := files.take_written())[1]:
            self._diag.saved(*written)
        self._diag.between(Stage.CHECKPOINT)
        return result

    def _handle_nan_recovery(self, epoch: int) -> bool:
        recovered = bool(super()._handle_nan_recovery(epoch))
        if recovered:
            self._diag.mark("nan_recovery", {"epoch": epoch})
        return recovered

    def final_eval(self) -> None:
        self._diag.final_eval()
        super().final_eval()
        self._diag.between()

    def _diag_facts(self) -> dict[str, Any]:
        return {
            "batches": len(self.train_loader),
            "images": len(self.train_loader.dataset),
            "workers": self.train_loader.num_workers,
            "batch": self.batch_size,
            "device": str(self.device),
            "amp": bool(self.amp),
            "accumulate": self.accumulate,
        }

    def _diag_resumed(self) -> None:
        """Note how the training goes on, in the trace and in resume.json."""
        kept = self._kept
        if kept.how not in {"exact", "plain", "final"}:
            return
        epoch = self.epochs if kept.how == "final" else self.start_epoch
        why = kept.why_not or ("" if kept.how != "plain" else "Ultralytics saves weights in half precision")
        exact = kept.how == "final" or not why
        self._diag.resumed(epoch * len(self.train_loader))
        self._diag.mark("resume", {"epoch": epoch, "how": kept.how, "exact": exact, "why_not": why})
        if max(int(os.environ.get("RANK", "-1")), 0) == 0:
            note(Path(os.environ["DIAG_RUN_DIR"]), Resumed(kept.how, epoch, exact, why, kept.notes))
            print(f"diag: {'bit for bit' if exact else f'not bit for bit: {why}'}", file=sys.stderr)

    def _diag_stop(self) -> None:
        """Leave at a boundary after SIGTERM. `trainer.stop = True` would strip the optimizer from last.pt."""
        if self._diag.stop_requested:
            what = f"{Path(self.last).name} can be resumed" if Path(self.last).exists() else "nothing to resume yet"
            print(f"diag: stopped by SIGTERM at a batch boundary; {what}", file=sys.stderr)
            sys.exit(143)


class ProfiledDetectionTrainer(Profiled, DetectionTrainer):
    """detect"""


class ProfiledSegmentationTrainer(Profiled, SegmentationTrainer):
    """segment"""


class ProfiledPoseTrainer(Profiled, PoseTrainer):
    """pose"""


class ProfiledOBBTrainer(Profiled, OBBTrainer):
    """obb"""


class ProfiledClassificationTrainer(Profiled, ClassificationTrainer):
    """classify"""


class ProfiledRTDETRTrainer(Profiled, RTDETRTrainer):
    """RT-DETR detect"""

    def run_callbacks(self, event: str) -> None:
        super().run_callbacks(event)
        if event == "on_train_start":
            # TensorBoard's graph is traced in inference mode; the decoder keeps the anchors of that pass and the first
            # backward fails on them ("Inference tensors cannot be saved", 8.4.190). Forget them.
            for module in self.model.modules():
                if hasattr(module, "valid_mask"):
                    module.shapes = None


_TRAINERS = {
    "detect": ProfiledDetectionTrainer,
    "segment": ProfiledSegmentationTrainer,
    "pose": ProfiledPoseTrainer,
    "obb": ProfiledOBBTrainer,
    "classify": ProfiledClassificationTrainer,
}


def trainer_for(model: Any) -> type[Profiled]:
    """The recording trainer class for an Ultralytics model object."""
    if type(model).__name__ == "RTDETR":
        return ProfiledRTDETRTrainer
    return _TRAINERS[model.task]
