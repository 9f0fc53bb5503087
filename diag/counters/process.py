"""Start and end the counters process of one training."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from diag.codec import end_line
from diag.probe.cgroup import own_groups


def command(run_dir: Path, pid: int) -> list[str]:
    """What starts it most quickly: by its file, without site-packages, with the control groups that we know already."""
    groups = [f"--group={controller}={folder}" for controller, folder in own_groups().items()]
    return [
        sys.executable,
        "-I",
        "-S",
        str(Path(__file__).with_name("__main__.py")),
        str(run_dir),
        "--pid",
        str(pid),
        *groups,
    ]


class CountersProcess:
    """Beside a training child: `start` with its pid, `stop` when it has ended. A failure never hurts the training."""

    def __init__(self, run_dir: Path, env: Mapping[str, str]) -> None:
        self._run_dir = run_dir
        self._env = env
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, pid: int) -> None:
        """Watch the process `pid`."""
        errors = self._run_dir / "trace" / "counters.err"
        try:
            errors.parent.mkdir(parents=True, exist_ok=True)
            end_line(errors.with_name("counters.jsonl"))
            with errors.open("wb") as file:
                self._process = subprocess.Popen(
                    command(self._run_dir, pid),
                    stdin=subprocess.PIPE,  # when we end, however that happens, it reads the end of file and ends, too
                    stdout=subprocess.DEVNULL,
                    stderr=file,
                    env={**os.environ, **self._env},
                    start_new_session=True,  # Ctrl-C is for us; the counters must see how the trainer ends
                )
        except OSError as error:
            print(f"diag: no counters for this run: {error}", file=sys.stderr)

    def stop(self, *, patience_s: float = 5.0) -> None:
        """Let it write its last line and wait for it; kill it when it takes longer."""
        if self._process is None:
            return
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        errors = self._run_dir / "trace" / "counters.err"
        if errors.exists() and not errors.stat().st_size:
            errors.unlink()
