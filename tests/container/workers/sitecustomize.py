"""Loader workers on the CPU, for tests: Ultralytics sets them to 0 there, and `workers=` is of no use.

Python imports this at its start because its folder is on PYTHONPATH; the trainer is changed when it is imported.
"""

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

TRAINER = "ultralytics.engine.trainer"


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != TRAINER:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path)
        loader: Any = spec.loader if spec else None
        execute = loader.exec_module

        def load(module: Any) -> None:
            execute(module)
            original = module.BaseTrainer.run_callbacks

            def run_callbacks(trainer: Any, event: str) -> None:
                original(trainer, event)
                if event == "on_pretrain_routine_start":  # after the constructor, before the loaders are built
                    trainer.args.workers = int(os.environ["TEST_WORKERS"])

            module.BaseTrainer.run_callbacks = run_callbacks

        loader.exec_module = load
        return spec


if "TEST_WORKERS" in os.environ:
    sys.meta_path.insert(0, _Finder())
