"""Starts `python -m diag.record.bench` and hands out its sections as they arrive. The parent never imports torch."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from diag.probe.once import UnreadableError
from diag.probe.plan import Kind, Plan

LIMIT_S = 120.0
"""The child is ended after this time: a healthy one takes 8 to 12 s, on a busy machine up to 40 s."""


@dataclass(frozen=True)
class Section:
    """One part of the measurement. `error` is empty when it worked."""

    name: str
    seconds: float = 0.0
    error: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


def command(plan: Plan) -> list[str]:
    """The child's command line for this plan."""
    device = {Kind.CPU: "cpu", Kind.OTHER: "cpu", Kind.CUDA: "cuda:0", Kind.AUTO: ""}[plan.kind]
    if plan.gpus:
        device = f"cuda:{plan.gpus[0]}"
    ask = {
        "device": device,
        "imgsz": plan.imgsz,
        # What AutoBatch would choose is not known here: few images, so that the step can't run out of memory.
        "batch": max(1, min(plan.batch // plan.ranks, 4 if plan.auto_batch else 16)),
        "model": local_yaml(plan.model),
        "amp": plan.amp,
    }
    return [sys.executable, "-m", "diag.record.bench", json.dumps(ask)]


def local_yaml(model: str) -> str:
    """The detection model that stands for the user's: its yaml at the same scale, else yolo11n.yaml."""
    path = Path(model)
    if path.suffix == ".yaml" and path.is_file():
        return model
    stem = path.stem.split("-")[0]
    plain = "-" not in path.stem and len(stem) >= 6 and stem.startswith("yolo") and stem[-1] in "nsmlx"
    known = stem.removeprefix("yolo").removeprefix("v")[:-1] in {"5", "8", "9", "10", "11", "12", "26"}
    return f"{stem}.yaml" if plain and known else "yolo11n.yaml"


class Child:
    """The running measurement. Use it as a context manager: leaving it ends the process and all it started."""

    def __init__(self, argv: Sequence[str], *, limit_s: float = LIMIT_S, env: Mapping[str, str] = os.environ) -> None:
        self._limit_s = limit_s
        self._sections: dict[str, Section] = {}
        self._current = "start"
        self._ended = ""
        self._news = threading.Condition()
        self._scratch = tempfile.TemporaryDirectory(prefix="diag-check-")
        # Ultralytics writes settings when it is imported; a check leaves nothing behind.
        own = {"YOLO_CONFIG_DIR": self._scratch.name, "MPLCONFIGDIR": self._scratch.name, "YOLO_VERBOSE": "false"}
        self._errors = (Path(self._scratch.name) / "stderr").open("w+")
        self._deadline = time.monotonic() + limit_s
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            # Threads that spin while they wait make a step 10 times slower on a busy machine (1.3 against 0.13 img/s).
            env={"OMP_WAIT_POLICY": "PASSIVE", **env, **own},
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._timer = threading.Timer(limit_s, self._kill)
        self._timer.daemon = True
        self._timer.start()
        threading.Thread(target=self._read, args=(self._process.stdout,), name="probe child", daemon=True).start()

    def section(self, name: str) -> Section:
        """Wait for a section. Raises UnreadableError when the child ended, crashed or hung before it."""
        with self._news:
            while name not in self._sections:
                if self._ended:
                    raise UnreadableError(self._ended)
                if not self._news.wait(timeout=max(0.1, self._deadline + 5 - time.monotonic())):
                    raise UnreadableError(f"the measuring process gave no answer within {self._limit_s:g} s")
            return self._sections[name]

    @property
    def current(self) -> str:
        """The section that is being worked on."""
        return self._current

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            with self._news:
                self._current = message.get("begin", self._current)
                if "section" in message:
                    part = Section(message["section"], message["seconds"], message["error"], message["values"])
                    self._sections[part.name] = part
                self._news.notify_all()
        code = self._process.wait()
        with self._news:
            self._ended = self._why(code)
            self._news.notify_all()

    def _why(self, code: int) -> str:
        if time.monotonic() >= self._deadline:
            return f"`{self._current}` did not finish within {self._limit_s:g} s"
        if code < 0:
            name = signal.Signals(-code).name
            hint = " (out of memory?)" if -code == signal.SIGKILL else ""
            return f"the measuring process died of {name} in `{self._current}`{hint}"
        return "not measured" if code == 0 else f"the measuring process failed: {self._last_error()}"

    def _last_error(self) -> str:
        self._errors.flush()
        lines = [line for line in Path(self._errors.name).read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].strip()[:300] if lines else "no message"

    def _kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._kill()
        self._process.wait()
        self._errors.close()
        self._scratch.cleanup()
