"""While a training runs: `diag watch` beside it, and each new finding told once, on the screen and in the summary."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from diag import codec
from diag.errors import InputError
from diag.health import Health
from diag.screen import Screen

EVERY_S = 30.0
"""Seconds between looks (DIAG_WATCH_S changes it, 0 switches watching off); the end of an epoch is looked at, too."""
FILE = "live.jsonl"
_TOLD = {"medium", "high", "critical"}


class Warner:
    """Starts the watching process and reads what it says.

    It is a process of its own at the lowest priority, so that judging never holds up the training, nor the process
    that moves its output. Whatever goes wrong with it, the training does not notice.
    """

    def __init__(self, run_dir: Path, env: Mapping[str, str]) -> None:
        self._run_dir, self._env, self._every_s = run_dir, env, _every_s()
        self._process: subprocess.Popen[bytes] | None = None
        self._file: IO[bytes] | None = None
        self._rest = b""
        self.first_seen: dict[str, dict[str, Any]] = {}
        """When each finding first appeared, by id: `time`, `epoch`, `elapsed_s`."""
        self.cost: dict[str, Any] = {}
        """`looks` and `cpu_s` of the watching process, once it has ended."""
        self._findings: dict[str, dict[str, Any]] = {}

    def start(self) -> None:
        """Begin to watch."""
        if not self._every_s:
            return
        path = self._run_dir / FILE
        command = [sys.executable, "-m", "diag", "watch", str(self._run_dir), "--format", "json", "--background"]
        try:
            with path.open("wb") as out:
                self._process = subprocess.Popen(
                    [*command, "--interval", f"{self._every_s:g}"],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, **self._env},
                    start_new_session=True,  # Ctrl-C is for us
                )
            self._file = path.open("rb")
        except OSError as error:
            print(f"diag: no findings while this run trains: {error}", file=sys.stderr)

    def tell(self, health: Health, screen: Screen) -> None:
        """Say what is new since the last call: once on the screen, and in the summary as long as it holds."""
        changed = False
        for event in self._events():
            finding = event.get("finding") or {}
            id = str(finding.get("id") or event.get("id"))
            match event.get("event"):
                case "finding":
                    self.first_seen[id] = event["first_seen"]
                    self._findings[id] = {**finding, "first_seen": event["first_seen"]}
                    if finding["severity"] in _TOLD and not event["explained"] and not id.startswith("data."):
                        self._show(finding, event["first_seen"], screen)
                case "changed":
                    self._findings[id] = {**finding, "first_seen": event["first_seen"]}
                case "gone":
                    self._findings.pop(id, None)
                case "end":
                    self.cost = {"looks": event["looks"], "cpu_s": event["cpu_s"]}
                    continue
                case _:
                    continue
            changed = True
        if changed:
            health.document["findings"] = list(self._findings.values())
            health.write()

    def stop(self, health: Health, screen: Screen, *, patience_s: float = 10.0) -> None:
        """End the watching and take in its last lines."""
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.tell(health, screen)
        if self._file is not None:
            self._file.close()

    def _show(self, finding: Mapping[str, Any], first: Mapping[str, Any], screen: Screen) -> None:
        where = f"epoch {first['epoch']}" if first.get("epoch") else "before the first epoch"
        screen.notice(f"NEW {finding['severity']}: {finding['title']}  ({finding['id']}, {where})")
        for sentence in list(finding.get("advice") or ())[:1]:
            screen.notice(f"    -> {sentence}")

    def _events(self) -> list[dict[str, Any]]:
        """The complete lines that were written since the last call."""
        if self._file is None:
            return []
        try:
            *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        except OSError:
            return []
        events = []
        for line in lines:
            with contextlib.suppress(InputError):
                events.append(codec.decode_json(line, dict, FILE))
        return events


def _every_s() -> float:
    try:
        value = float(os.environ.get("DIAG_WATCH_S") or EVERY_S)
    except ValueError:
        return EVERY_S
    return value if 0 <= value < 1e6 else EVERY_S
