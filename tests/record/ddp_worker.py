"""One rank of a real two-process training on the CPU: `torchrun --nproc_per_node 2 ddp_worker.py DATA SLOW_RANK`.

Ultralytics starts several processes for CUDA devices only. What differs here is the device: gloo instead of NCCL,
and the model is not bound to a GPU. The recorder, the trainer and its loop are the real ones.
"""

import os
import sys
import time
from typing import Any

import torch
from torch import distributed

RANK = int(os.environ["RANK"])
SLEEP_S = 0.08


def main(data: str, slow_rank: int) -> None:
    """Train two epochs; rank `slow_rank` sleeps before each forward pass, in preprocess_batch."""
    from ultralytics.engine import trainer as engine
    from ultralytics.engine import validator as validator_module

    from diag.record.trainer import ProfiledDetectionTrainer

    parallel = torch.nn.parallel.DistributedDataParallel
    engine.nn.parallel.DistributedDataParallel = lambda model, device_ids=None, **kwargs: parallel(model, **kwargs)
    validator_module.select_device = lambda *args, **kwargs: torch.device("cpu")

    class Trainer(ProfiledDetectionTrainer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.world_size = int(os.environ["WORLD_SIZE"])

        def _setup_ddp(self) -> None:
            self.device = torch.device("cpu")
            distributed.init_process_group("gloo", rank=RANK, world_size=self.world_size)

        def preprocess_batch(self, batch: Any) -> Any:
            if slow_rank == RANK:
                time.sleep(SLEEP_S)
            return super().preprocess_batch(batch)

        def final_eval(self) -> None:
            """It asks for a CUDA device in the validator."""

    Trainer(
        overrides={
            "model": "yolo11n.yaml", "data": data, "imgsz": 32, "epochs": 2, "batch": 4, "device": "cpu", "workers": 0,
            "plots": False, "project": os.environ["DIAG_RUN_DIR"], "name": "ultralytics", "exist_ok": True, "seed": 0,
        }
    ).train()  # fmt: skip
    distributed.barrier()  # gloo aborts a rank whose peer leaves while it still talks
    distributed.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], int(sys.argv[2]))
