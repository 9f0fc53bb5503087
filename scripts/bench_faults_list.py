"""The faults: what is put into a training, which findings are right, which must not be claimed. Written before any run.

Right means: the first finding of the report is one of `right`, and none of `wrong` is in it. A look-alike without
`right` is no fault: right means that none of `wrong` is claimed.
"""

from dataclasses import dataclass

SPEED = (
    "imgsz=64",
    "batch=16",
    "nbs=16",
    "epochs=3",
    "optimizer=AdamW",
    "lr0=0.002",
    "warmup_epochs=1",
    "plots=False",
)
"""For faults of speed and surroundings: some 24 steps on 120 images."""
LEARN = (*SPEED[:3], "epochs=8", *SPEED[4:])
"""For faults of learning: as many epochs as a curve needs to be one."""
FULL = (
    "imgsz=96",
    "batch=8",
    "nbs=8",
    "epochs=20",
    "optimizer=AdamW",
    "lr0=0.002",
    "warmup_epochs=1",
    "close_mosaic=5",
    "plots=False",
)
"""For trainings that are to converge."""

NEVER = ("env.torch_cpu", "env.docker_no_gpu", "hw.thermal_throttle", "speed.amp_off", "mem.gpu_leak", "mem.gpu_oom")
"""Nothing on a chosen CPU may be blamed on a GPU."""
RATE = ("num.lr_too_high", "train.lr_stuck", "train.lr_too_low")
LOADER = ("speed.storage_slow", "speed.decode_bound", "speed.augment_bound", "speed.loader_bound")
DATA = ("data.no_labels", "data.class_oob", "data.coord_oob", "data.bad_rows", "data.train_val_leak")


@dataclass(frozen=True)
class Fault:
    """One row of the table."""

    name: str
    what: str
    right: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    words: tuple[str, ...] = SPEED
    data: str = "small"
    """A set of bench_faults_data.SETS."""
    inject: str = ""
    """BENCH_FAULT of bench_faults_inject/sitecustomize.py."""
    around: str = ""
    """What surrounds the command: a key of bench_faults_run.AROUND, with its value."""
    command: str = "train"
    env: tuple[tuple[str, str], ...] = ()
    healthy: bool = False
    fact: bool = False
    """No fault: it has to be told, not necessarily first, and nothing above low may be blamed."""


def _loader_wrong(*but: str) -> tuple[str, ...]:
    return tuple(id for id in (*LOADER[:3], *RATE, "num.nan_loss", "mem.ram_growth") if id not in but)


FAULTS = (
    Fault("slow_storage", "each file takes 40 ms to be read", ("speed.storage_slow", "speed.storage_remote"),
          _loader_wrong("speed.storage_slow"), inject="slow_read=40"),
    Fault("heavy_augmentation", "30 bilateral filters a sample", ("speed.augment_bound",),
          _loader_wrong("speed.augment_bound"), inject="heavy_augment=30"),
    Fault("huge_images", "12-megapixel JPEG files for imgsz=64", ("speed.decode_bound",),
          _loader_wrong("speed.decode_bound"), data="huge", words=(*SPEED[:3], "epochs=2", *SPEED[4:])),
    Fault("workers_0", "the training process loads images of 5 megapixels itself",
          ("speed.loader_bound", "speed.decode_bound", "speed.raise_workers"),
          ("speed.storage_slow", "speed.augment_bound", "speed.cpu_oversubscription"), (*SPEED, "mosaic=0"),
          data="photos"),
    Fault("pinned_affinity", "trainer and two workers bound to one core, as OpenMP does at import",
          ("speed.loader_single_core",), ("speed.storage_slow", "speed.raise_workers", *RATE),
          words=(*SPEED, "mosaic=0"), inject="workers=2 pin=1", command="pipeline", data="photos"),
    Fault("cpu_quota", "control group with a fifth of a CPU", ("hw.cpu_quota", "speed.cpu_oversubscription"),
          ("speed.storage_slow", "speed.augment_bound", *RATE), around="cpus=0.2", command="pipeline",
          words=(*SPEED[:3], "epochs=2", *SPEED[4:]), env=(("OMP_NUM_THREADS", "1"),)),
    Fault("oversubscription", "eight spinning threads on a quota of half a CPU", ("speed.cpu_oversubscription",),
          ("speed.storage_slow", "speed.augment_bound", *RATE), around="cpus=0.5", command="pipeline",
          words=(*SPEED[:3], "epochs=2", *SPEED[4:]), env=(("OMP_NUM_THREADS", "8"), ("OMP_WAIT_POLICY", "ACTIVE"))),
    Fault("ram_leak", "a callback keeps 30 MB a step", ("mem.ram_growth",), ("mem.ram_oom_killed", *LOADER, *RATE),
          inject="leak=30", words=(*SPEED[:3], "epochs=12", *SPEED[4:])),
    Fault("graph_kept", "a callback keeps tensors with their graph", ("mem.ram_growth",),
          ("mem.ram_oom_killed", *LOADER, *RATE), inject="graph=16", words=(*SPEED[:3], "epochs=12", *SPEED[4:])),
    Fault("shm_small", "/dev/shm of 1 MB and two workers", ("mem.shm_small",),
          ("disk.full", "mem.ram_oom_killed", "data.corrupt_images"), inject="workers=2", around="shm=1m",
          command="pipeline", words=("imgsz=160", *SPEED[1:]),
          env=(("DIAG_STALL_S", "3"), ("DIAG_STALL_ABORT", "1"))),
    Fault("memory_limit", "control group with 600 MB", ("mem.ram_oom_killed", "hw.mem_limit"),
          ("mem.shm_small", "disk.full", *RATE), around="memory=600"),
    Fault("disk_full", "workspace with room for one checkpoint", ("disk.full",),
          ("mem.shm_small", "mem.ram_oom_killed", *RATE), around="disk=12m"),
    Fault("read_only", "workspace on a read-only mount", ("env.workspace_unwritable",), ("disk.full",),
          around="readonly=1"),
    Fault("lr_10", "learning rate forced to 10 in each step", ("num.lr_too_high",),
          ("train.lr_too_low", "num.amp_overflow", "num.amp_gpu_arch", *DATA, *LOADER), LEARN, inject="lr=10"),
    Fault("lr_1e-12", "learning rate forced to 1e-12", ("train.lr_stuck", "train.lr_too_low"),
          ("num.lr_too_high", "num.diverged", *DATA, *LOADER), LEARN, inject="lr=1e-12"),
    Fault("no_scheduler", "the scheduler is never stepped", ("train.lr_stuck",),
          ("num.lr_too_high", "train.lr_too_low", *DATA, *LOADER), LEARN, inject="no_scheduler=1"),
    Fault("nan_labels", "nan in every fifth label row", ("data.bad_rows", "data.coord_oob"),
          ("num.nan_loss", "data.class_oob", *RATE), SPEED, data="nan_labels"),
    Fault("labels_in_pixels", "coordinates in pixels", ("data.coord_oob",), ("num.nan_loss", "data.class_oob", *RATE),
          SPEED, data="pixels"),
    Fault("class_ids", "class 7 of 3", ("data.class_oob",), ("num.nan_loss", "data.coord_oob", *RATE), SPEED,
          data="class_ids"),
    Fault("empty_labels", "all label files are empty", ("data.no_labels", "data.missing_labels"),
          ("num.nan_loss", "data.class_oob", *RATE), SPEED, data="empty"),
    Fault("train_is_val", "val: images/train", ("data.val_equals_train", "data.train_val_leak"),
          (*RATE, "data.no_labels", "data.val_too_small"), SPEED, data="train_is_val"),
    Fault("val_5", "five validation images", ("data.val_too_small",), (*RATE, "data.no_labels"), SPEED, data="val_5"),
    Fault("overfit_20", "20 training images, 30 epochs", ("train.overfit", "data.train_too_small"),
          (*RATE, "data.no_labels", "train.converged_ok"),
          (*SPEED[:3], "epochs=30", *SPEED[4:], "mosaic=0", "scale=0", "translate=0"), data="train_20"),
    Fault("too_few_epochs", "six epochs from scratch", ("train.undertrained",),
          (*RATE, *DATA, "train.not_learning", "train.converged_ok"),
          (*FULL[:3], "epochs=6", *FULL[4:7], "plots=False"),
          data="demo"),
    Fault("rect", "rect=True", ("train.rect_no_shuffle",), (*RATE, *DATA), (*SPEED, "rect=True")),
    Fault("frozen_scratch", "freeze=10 without pretrained weights", ("train.frozen_untrained",),
          (*RATE, *DATA, "train.converged_ok"), (*SPEED, "freeze=10")),
    Fault("warmup_bias_lr", "warmup_bias_lr forced to 10 for a fine-tune", ("num.bias_warmup_lr",),
          (*DATA, "train.lr_stuck", "train.lr_too_low", "train.converged_ok"),
          (*LEARN[:4], "optimizer=SGD", "lr0=0.001", "warmup_epochs=3", "plots=False",
           "model=WEIGHTS"), inject="bias_lr=10"),
    Fault("partial_weights", "weights of another architecture", ("train.partial_transfer",),
          (*RATE, *DATA, "train.converged_ok"), (*LEARN, "model=yolov8n.yaml", "pretrained=WEIGHTS")),
    Fault("slow_checkpoint", "checkpoints are written at 4 MB/s", ("speed.checkpoint_heavy",), (*LOADER, *RATE),
          inject="slow_save=4"),
    Fault("heavy_validation", "392 validation images for 104 training images",
          ("speed.val_dominates", "speed.val_postproc_cpu"),
          (*LOADER, *RATE), (*SPEED[:3], "epochs=12", *SPEED[4:], "val=True"), data="heavy_val"),
    Fault("killed", "SIGKILL after the third epoch", ("train.incomplete",),
          ("mem.ram_oom_killed", "num.nan_loss", "train.undertrained", *RATE), LEARN, inject="kill=3"),
    Fault("resumed", "killed by SIGKILL and resumed with resume=True (Ultralytics' own files)", ("train.resumed",),
          ("train.incomplete", "train.mixed_runs", "train.resume_fresh_lr", "train.lr_restart", *RATE),
          ("batch=16", "nbs=16", "optimizer=AdamW", "lr0=0.0005", "warmup_bias_lr=0.0005", "warmup_epochs=1",
           "imgsz=96", "epochs=10", "close_mosaic=4", "plots=False", "model=WEIGHTS"),
          inject="kill=6", command="plain_resume", fact=True),
)  # fmt: skip

TUNE = ("imgsz=96", "epochs=10", "close_mosaic=4", "plots=False", "model=WEIGHTS")
ADAM = ("optimizer=AdamW", "lr0=0.0005", "warmup_bias_lr=0.0005", "warmup_epochs=1")
_BARS = ("imgsz=64", "batch=16", "nbs=16", "epochs=20", *FULL[4:])
HEALTHY = (
    Fault("healthy_detect", "detect from scratch on the demo set", (),
          words=(*FULL[:3], "epochs=18", *FULL[4:], "cos_lr=True"), data="demo", healthy=True),
    Fault("healthy_finetune", "detect from pretrained weights, batch 16", (),
          words=("batch=16", "nbs=16", *ADAM, *TUNE), healthy=True),
    Fault("healthy_sgd", "the same with SGD, batch 32, seed 3", (),
          words=("batch=32", "nbs=32", "optimizer=SGD", "lr0=0.005", "warmup_bias_lr=0.005", *TUNE, "seed=3"),
          healthy=True),
    Fault("healthy_auto", "the same with optimizer=auto, plots", (),
          words=("batch=16", *TUNE[:3], TUNE[4], "seed=5"), healthy=True),
    Fault("healthy_ram", "the same with cache=ram, batch 4, seed 7", (),
          words=("batch=4", "nbs=16", *ADAM, *TUNE, "cache=ram", "seed=7"), healthy=True),
    Fault("healthy_cos", "the same with cos_lr and no mosaic at the end", (),
          words=("batch=8", "nbs=8", *ADAM, *TUNE, "cos_lr=True", "close_mosaic=9", "seed=1"), healthy=True),
    Fault("healthy_segment", "segment, backbone from the weights of the boxes, masks of full size", (),
          words=("imgsz=160", "mask_ratio=1", "batch=8", "nbs=8", "epochs=12", *FULL[4:], "model=yolo11n-seg.yaml",
                 "pretrained=WEIGHTS"),
          data="demo_seg", healthy=True),
    Fault("healthy_pose", "pose from scratch", (), words=(*_BARS, "model=yolo11n-pose.yaml"), data="pose",
          healthy=True),
    Fault("healthy_obb", "obb from scratch", (), words=(*_BARS, "model=yolo11n-obb.yaml"), data="obb", healthy=True),
    Fault("healthy_classify", "classify from scratch, light augmentation", (),
          words=("imgsz=64", "batch=16", "nbs=16", "epochs=20", "optimizer=AdamW", "lr0=0.002", "warmup_epochs=1",
                 "plots=False", "cos_lr=True", "auto_augment=None", "erasing=0.0", "model=yolo11n-cls.yaml"),
          data="classify", healthy=True),
)  # fmt: skip

_TWIN = ("imgsz=96", "batch=16", "nbs=16", "epochs=8", "warmup_epochs=1", "plots=False")
PEER_FAULTS = (
    Fault("five_nan", "learning rate forced to 1e4", ("num.lr_too_high", "num.nan_loss"),
          ("train.lr_too_low", "num.amp_gpu_arch", *DATA, *LOADER), (*_TWIN, "optimizer=AdamW", "lr0=0.002"),
          inject="lr=1e4"),
    Fault("five_lr1", "lr0=1.0 with SGD", ("num.lr_too_high",), ("train.lr_too_low", *DATA, *LOADER),
          (*_TWIN, "optimizer=SGD", "lr0=1.0")),
    Fault("five_twin", "AdamW, nothing injected", (), words=(*_TWIN, "optimizer=AdamW", "lr0=0.002"), healthy=True),
    Fault("five_twin_sgd", "SGD with a usual rate, nothing injected", (), words=(*_TWIN, "optimizer=SGD", "lr0=0.01"),
          healthy=True),
)  # fmt: skip
FIVE = ("slow_storage", "ram_leak", "five_nan", "five_lr1", "lr_1e-12", "five_twin", "five_twin_sgd")
"""The five faults of the comparison with other tools, and the healthy trainings beside them."""


def known() -> dict[str, Fault]:
    """All rows by name."""
    from bench_faults_alike import LOOKALIKES

    return {fault.name: fault for fault in (*FAULTS, *HEALTHY, *LOOKALIKES, *PEER_FAULTS)}
