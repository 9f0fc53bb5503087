"""Splits one validation into its parts. One cursor, as for laps: the parts add up to the validation's length.

The seams are methods that every validator of Ultralytics calls on itself; they are hung on the instance, by name, so
that it pickles. Inference and loss have no call between them: Ultralytics' own profiler tells them apart at the end.
"""

import time
from collections.abc import Callable
from typing import Any

PARTS = ("setup", "wait", "preprocess", "inference", "loss", "postprocess", "metrics", "plots")
_AFTER = {
    # method -> (part that ends where it is called, part that it is)
    "preprocess": ("wait", "preprocess"),
    "postprocess": ("inference", "postprocess"),
    "update_metrics": ("metrics", "metrics"),
    "plot_val_samples": ("metrics", "plots"),
    "plot_predictions": ("metrics", "plots"),
    "get_stats": ("metrics", "metrics"),
    "finalize_metrics": ("metrics", "plots"),
}
_EVENTS = {
    "on_val_start": "setup",
    "on_val_batch_start": "wait",
    "on_val_batch_end": "metrics",
    "on_val_end": "metrics",
}


class ValidationClock:
    """The parts of the running validation in nanoseconds; `done` hands them over."""

    def __init__(self, done: Callable[[dict[str, Any]], None], now: Callable[[], int] = time.monotonic_ns) -> None:
        self._done = done
        self._now = now
        self._start: int | None = None
        self._cursor = 0
        self._parts: dict[str, int] = {}
        self._batches = 0
        self._final = False

    def begin(self, *, final: bool = False) -> None:
        """A validation begins; the final one is ended by its last event."""
        self._start = self._cursor = self._now()
        self._parts, self._batches, self._final = dict.fromkeys(PARTS, 0), 0, final

    def lap(self, part: str) -> None:
        """Everything since the last boundary was this part."""
        if self._start is not None:
            now = self._now()
            self._parts[part] += now - self._cursor
            self._cursor = now

    def event(self, name: str, validator: Any) -> None:
        """A callback event of the validator has been handled."""
        if name == "on_val_start" and self._start is None:
            self.begin(final=True)
        if name in _EVENTS:
            self.lap(_EVENTS[name])
            self._batches += name == "on_val_batch_end"
        if name == "on_val_end" and self._final:
            self.end(validator)

    def end(self, validator: Any) -> None:
        """Hand over the record of this validation; nothing when none is running."""
        if self._start is None:
            return
        self.lap("metrics")
        images = len(validator.dataloader.dataset)
        # Milliseconds per image; only rank 0 fills it in. It is measured inside what we call inference.
        loss = min(round(float(validator.speed.get("loss", 0.0)) * images * 1e6), self._parts["inference"])
        self._parts["loss"] += loss
        self._parts["inference"] -= loss
        start, self._start = self._start, None
        self._done(
            {"t": start, "final": self._final, "images": images, "batches": self._batches, "ns": dict(self._parts)}
        )

    def attach(self, validator: Any) -> Any:
        """Hang the seams on a validator."""
        for name in _AFTER:
            setattr(validator, name, _Seam(self, validator, name))
        validator.run_callbacks = _Seam(self, validator, "run_callbacks")
        return validator

    def __reduce__(self) -> tuple[Any, ...]:
        return (ValidationClock, (_forget,))  # a copy in another process measures nothing of ours


def _forget(record: dict[str, Any]) -> None:
    """Where a copy's records go."""


class _Seam:
    """A method of a validator between two boundaries. It calls the class's own, since it hides it on the instance."""

    def __init__(self, clock: ValidationClock, validator: Any, name: str) -> None:
        self._clock, self._validator, self._name = clock, validator, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        method = getattr(type(self._validator), self._name)
        if self._name == "run_callbacks":
            if args[0] == "on_val_batch_start":
                self._clock.lap("wait")
            result = method(self._validator, *args, **kwargs)
            self._clock.event(args[0], self._validator)
            return result
        before, part = _AFTER[self._name]
        self._clock.lap(before)
        result = method(self._validator, *args, **kwargs)
        self._clock.lap(part)
        return result
