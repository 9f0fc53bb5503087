"""A fact that is read at most once, on its own thread, and can neither hang nor crash its readers."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class UnreadableError(Exception):
    """A fact could not be had; the message is the reason."""


class Once(Generic[T]):
    """Call it to get the value; the first call starts the read, a later one waits at most until its deadline.

    A read that hangs stays behind on a daemon thread: a dead network mount or a sick GPU can block a system
    call for ever, and no one can end that.
    """

    def __init__(self, name: str, read: Callable[[], T], *, timeout_s: float) -> None:
        self.name = name
        self._read = read
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._deadline = 0.0
        self._value: list[T] = []
        self._error: BaseException | None = None

    def start(self) -> None:
        """Begin the read, if that has not happened yet."""
        with self._lock:
            if self._thread is None:
                self._deadline = time.monotonic() + self._timeout_s
                self._thread = threading.Thread(target=self._run, name=f"probe {self.name}", daemon=True)
                self._thread.start()

    def __call__(self) -> T:
        """The value. Raises UnreadableError when the read failed or took longer than its time limit."""
        self.start()
        assert self._thread is not None
        self._thread.join(max(0.0, self._deadline - time.monotonic()))
        if self._value:
            return self._value[0]
        if isinstance(self._error, UnreadableError):
            raise self._error
        if self._error is not None:
            raise UnreadableError(f"{self.name}: {type(self._error).__name__}: {self._error}") from self._error
        raise UnreadableError(f"{self.name}: no answer within {self._timeout_s:g} s")

    def _run(self) -> None:
        try:
            self._value.append(self._read())
        except BaseException as error:  # a crash of one check must not take the others down
            self._error = error
