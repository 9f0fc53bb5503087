"""What Ultralytics' checkpoint leaves out and a resumed training needs to go on bit for bit.

Ultralytics saves the averaged weights in half precision and the optimizer in half precision, and nothing of the live
weights, of gradients that wait for the next optimizer step, or of any random number generator. This state is plain
tensors, numbers, strings and lists, so that it loads with `weights_only=True`.
"""

import contextlib
import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ultralytics import __version__

from diag.record.files import sync, write_part

VERSION = 1
State = dict[str, Any]


def capture(trainer: Any, last_step: int, elapsed_s: float, *, small: bool = False) -> State:
    """The state at the end of an epoch, when its checkpoint is saved.

    last_step: batch number of the last optimizer step; elapsed_s: the `time` column's clock; small: leave the tensors
    out, and with them the bits.
    """
    model = bare(trainer.model)
    csv = Path(trainer.csv)
    state: State = {
        "version": VERSION,
        "ultralytics": __version__,
        "torch": str(torch.__version__),
        "epoch": int(trainer.epoch),
        "done": bool(trainer.stop),
        "elapsed_s": float(elapsed_s),
        "csv": csv.read_text(encoding="utf-8") if csv.exists() else "",
        "stopper": {k: _plain(v) for k, v in vars(trainer.stopper).items()},
        "best_fitness": _plain(trainer.best_fitness),
        "last_step": last_step,
        "batches": len(trainer.train_loader),
        "images": len(trainer.train_loader.dataset),
    }
    if small or hasattr(model, "teacher_model") or getattr(trainer.args, "quantize", None) == 8:
        return state  # the checkpoint of a distilled or quantized model has a form of its own
    grads = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return state | {
        "model": model.state_dict(),
        "ema": trainer.ema.ema.state_dict(),
        "updates": int(trainer.ema.updates),
        "optimizer": _plain(trainer.optimizer.state_dict()),
        "scaler": _plain(trainer.scaler.state_dict()),
        "grads": grads,
        "random": random_state(trainer.train_loader),
        "buffer": mosaic_buffer(trainer.train_loader.dataset),
    }


def save(state: State, path: Path) -> Path:
    """Write the state into a part file beside `path` and return that. Raises OSError; then the part is gone."""
    part = write_part(path)
    try:
        torch.save(state, str(part))
        sync(part)
    except RuntimeError as error:  # torch's writer says so when the disk is full
        part.unlink(missing_ok=True)
        raise OSError(f"{path.name} can't be written: {str(error).splitlines()[0]}") from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return part


def load(path: Path) -> State | None:
    """The state in a file, without running anything that is in it; None when it is absent, damaged or foreign."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # whatever is wrong with it: training goes on the Ultralytics way
        return None
    return state if isinstance(state, dict) and state.get("version") == VERSION else None


def why_not(trainer: Any, state: Mapping[str, Any]) -> str:
    """Why the rest of the run can't be the same bit for bit; empty when it is."""
    if "model" not in state:
        return "full-precision weights were not kept (EXACT_RESUME=0, or a distilled or quantized model)"
    for name, now in (("ultralytics", __version__), ("torch", str(torch.__version__))):
        if state[name] != now:
            return f"{name} was {state[name]} and is {now}"
    if not same_batches(trainer, state):
        return "the batch size or the number of images has changed"
    if ranks() > 1:
        return "with several ranks the random states of the other ranks are not kept"
    if workers := trainer.train_loader.num_workers:
        return f"{workers} loader workers draw random numbers in processes of their own and fetch ahead"
    if trainer.args.time:
        return "a time limit decides how many epochs there are"
    if trainer.device.type != "cpu":
        return f"kernels on {trainer.device.type} need not give the same bits twice"
    return ""


def same_batches(trainer: Any, state: Mapping[str, Any]) -> bool:
    """True if an epoch still is as many batches of as many images, so that batch numbers mean the same."""
    now = len(trainer.train_loader), len(trainer.train_loader.dataset)
    return (state.get("batches", now[0]), state.get("images", now[1])) == now


def restore(trainer: Any, state: Mapping[str, Any]) -> None:
    """Weights, average, optimizer, scaler and early stopping, after Ultralytics loaded its own checkpoint."""
    trainer.best_fitness = state["best_fitness"]
    trainer.stopper.__dict__.update(state["stopper"])
    trainer.stopper.patience = trainer.args.patience or float("inf")  # may be changed on resume
    if "model" not in state:
        return
    bare(trainer.model).load_state_dict(state["model"])
    if trainer.ema:
        trainer.ema.ema.load_state_dict(state["ema"])
        trainer.ema.updates = state["updates"]
    trainer.optimizer.load_state_dict(state["optimizer"])
    if state["scaler"]:
        trainer.scaler.load_state_dict(state["scaler"])


def restore_grads(trainer: Any, state: Mapping[str, Any]) -> None:
    """Gradients of batches since the last optimizer step; after the trainer has emptied them."""
    grads = state.get("grads") or {}
    for name, p in bare(trainer.model).named_parameters():
        if name in grads:
            p.grad = grads[name].to(p.device, p.dtype).clone()


def random_state(loader: Any) -> dict[str, Any]:
    """Python, NumPy, torch, each GPU, and the generator that shuffles."""
    version, words, gauss = random.getstate()
    name, keys, pos, has_gauss, cached = np.random.get_state(legacy=True)
    generator = getattr(loader, "generator", None)
    return {
        "python": [version, list(words), gauss],
        "numpy": [str(name), torch.tensor(np.asarray(keys, dtype=np.int64)), int(pos), int(has_gauss), float(cached)],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "loader": generator.get_state() if generator is not None else None,
    }


def restore_random(loader: Any, state: Mapping[str, Any]) -> None:
    """Set all generators, with the loader's sampler where it was: at the end of a pass.

    Making the iterator draws a number, and torch's RandomSampler draws one more permutation (of which it uses nothing)
    when a pass is over, so both must have happened as often as in the run that went on.
    """
    if getattr(loader, "iterator", 0) is None:
        loader.iterator = loader._get_iterator()
    iterator = getattr(loader, "iterator", None)
    if iterator is not None and not hasattr(iterator, "_workers"):
        for _ in range(len(loader)):
            iterator._next_index()
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, pos, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), pos, has_gauss, cached))
    torch.set_rng_state(state["torch"])
    if state["cuda"] and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
    if state["loader"] is not None and getattr(loader, "generator", None) is not None:
        loader.generator.set_state(state["loader"])


def mosaic_buffer(dataset: Any) -> list[int]:
    """The images that a mosaic may take, in their order; empty for a data set that keeps none."""
    buffer = getattr(dataset, "buffer", None)
    return [int(i) for i in buffer] if isinstance(buffer, list) else []


def restore_buffer(dataset: Any, indices: list[int]) -> None:
    """Load these images again in this order, so that the next mosaic chooses among the same."""
    if not indices or not isinstance(getattr(dataset, "buffer", None), list) or max(indices) >= len(dataset):
        return
    for i in indices:
        if dataset.ims[i] is None:
            dataset.get_image_and_label(i)
    dataset.buffer[:] = indices


def after_reset(loader: Any, then: Callable[[], None]) -> None:
    """Call `then` once, after the loader's next reset."""
    original = loader.reset

    def reset() -> None:
        with contextlib.suppress(AttributeError):
            del loader.reset
        original()
        then()

    loader.reset = reset


def ranks() -> int:
    """How many processes train together, as torchrun says (8.3.9 keeps it in no attribute)."""
    return int(os.environ.get("WORLD_SIZE") or 1)


def bare(model: Any) -> Any:
    """The model itself, without what wraps it for several GPUs or compilation."""
    for name in ("module", "_orig_mod"):
        model = getattr(model, name, model)
    return model


def _plain(value: Any) -> Any:
    """Numbers of NumPy as those of Python, containers as dicts, lists and tuples."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(v) for v in value)
    return value
