"""Loader workers on the CPU, for tests: Ultralytics sets them to 0 there, and `workers=` is of no use.

Python imports this at its start because its folder is on PYTHONPATH; the trainer is changed when it is imported.
"""

import importlib.abc
import importlib.machinery
import os
import sys

TRAINER = "ultralytics.engine.trainer"


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != TRAINER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def load(module):
            execute(module)
            original = module.BaseTrainer.run_callbacks

            def run_callbacks(trainer, event):
                original(trainer, event)
                if event == "on_pretrain_routine_start":  # after the constructor, before the loaders are built
                    trainer.args.workers = int(os.environ["TEST_WORKERS"])

            module.BaseTrainer.run_callbacks = run_callbacks

        spec.loader.exec_module = load
        return spec


if "TEST_WORKERS" in os.environ:
    sys.meta_path.insert(0, _Finder())
