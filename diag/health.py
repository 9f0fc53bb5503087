"""The health summary: `health/latest.{json,md}` of the workspace and `health.json` of the run, after every stage."""

import dataclasses
import fcntl
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from diag import codec
from diag.errors import InputError
from diag.model.check import StageResult, Status, worst
from diag.model.finding import Severity
from diag.model.run import Attempt, ExitCause, Resumed, RunRecord
from diag.render.health import markdown

SCHEMA_VERSION = 1
LOCK = ".lock"
"""File in a run directory that its living process keeps locked."""

STAGES = ("check", "data", "smoke", "train", "analyze", "report")


def now() -> str:
    """The time as ISO 8601 with zone, to the second."""
    return datetime.now().astimezone().isoformat(timespec="seconds")


class Health:
    """Collects what is known and writes it. A stage that was not reached is `skip`, one that runs is `unknown`."""

    def __init__(self, workspace: Path, run_dir: Path | None, overrides: dict[str, Any]) -> None:
        self._workspace = workspace
        self._run_dir = run_dir
        self._written = self._warned = False
        self.document: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "updated": "",
            "verdict": "running",
            "run": {
                "id": run_dir.name if run_dir else None,
                "dir": str(run_dir) if run_dir else None,
                "started": now(),
                "ended": None,
                "pid": os.getpid(),
                "overrides": overrides,
            },
            "environment": {},
            **{name: {"status": Status.SKIP, "reason": "not reached"} for name in STAGES},
            "findings": [],
            "exit_cause": ExitCause("running"),
        }

    def goes_on(self, record: RunRecord) -> None:
        """The run was started before: its first start and its attempts until now."""
        self.document["run"] |= {"started": record.started, "attempts": record.attempts[:-1]}

    def begin(self, stage: str) -> None:
        """A stage starts: if nothing more is ever written, the summary says that it was running."""
        self.document[stage] = {"status": Status.UNKNOWN, "reason": "running"}
        self.write()

    def update(self, stage: str, **values: Any) -> None:
        """More of a running stage (progress), and write."""
        self.document[stage] |= values
        self.write()

    def end(self, result: StageResult) -> None:
        """A stage has ended."""
        self.document[result.name] = {
            "status": result.status,
            "reason": result.reason,
            "seconds": round(result.seconds, 3),
            **result.details,
        }
        self.write()

    def finish(self, cause: ExitCause, findings_verdict: str = "") -> str:
        """The run is over: set the verdict (pass, warn, fail, unknown) and the exit cause; returns the verdict.

        findings_verdict: of the stage `analyze`; without it the findings told while training count.
        """
        findings_verdict = findings_verdict or _verdict_of(self.document["findings"])
        statuses = [Status(self.document[name]["status"]) for name in STAGES]
        verdict = worst(statuses)
        if cause.kind != "finished":
            verdict = Status.FAIL
        elif findings_verdict in {Status.FAIL, Status.WARN}:
            verdict = worst([verdict, Status(findings_verdict)])
        self.document["verdict"] = {Status.INFO: "pass", Status.SKIP: "unknown"}.get(verdict, verdict.value)
        self.document["exit_cause"] = cause
        self.document["run"]["ended"] = now()
        self.write()
        return str(self.document["verdict"])

    def write(self) -> None:
        """Write all copies atomically.

        Raises InputError when even the first one can't be written; later a full disk is said once, and the last
        summary that could be written stays.
        """
        self.document["updated"] = now()
        folder = self._workspace / "health"
        try:
            codec.write_json(folder / "latest.json", self.document)
            codec.write_text(folder / "latest.md", markdown(codec.plain(self.document)))
            self._written = True
            if self._run_dir:
                codec.write_json(self._run_dir / "health.json", self.document)
        except OSError as error:
            what = f"can't be written: {error.strerror or error} ({error.filename or self._workspace})"
            if not self._written:
                raise InputError(
                    f"the workspace {self._workspace} {what}; "
                    "check its owner and free space, or choose another with --workspace DIR"
                ) from error
            if not self._warned:
                self._warned = True
                print(f"diag: the health summary {what}; training goes on", file=sys.stderr)


def _verdict_of(findings: Sequence[Mapping[str, Any]]) -> str:
    """What findings in their written form come to, as `Report.verdict` has it; empty if nothing is worse than low."""
    worst_one = max((Severity(f["severity"]) for f in findings), key=lambda s: s.rank, default=Severity.INFO)
    return "fail" if worst_one.rank >= Severity.HIGH.rank else "warn" if worst_one is Severity.MEDIUM else ""


def hold(run_dir: Path) -> IO[str] | None:
    """Lock the run directory as long as the returned file is open, or the process lives: the sign of a living run.

    A lock and no pid, because pids start over in every container. None where the file system has no locks.
    """
    try:
        file = (run_dir / LOCK).open("w")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return None
    return file


def close_vanished(workspace: Path) -> str | None:
    """If the latest summary says "running" but its process is gone, set its cause to `killed`.

    Returns the id of the run that vanished (power cut, kill -9 of the container), else None.
    """
    path = workspace / "health" / "latest.json"
    try:
        document = codec.read_json(path, dict)
    except (OSError, InputError):
        return None
    run, cause = document.get("run"), document.get("exit_cause")
    if not isinstance(run, dict) or not isinstance(cause, dict) or cause.get("kind") != "running":
        return None
    run_dir = Path(str(run.get("dir") or "/nonexistent"))
    if is_held(run_dir):
        return None
    document["exit_cause"] = ExitCause(
        "killed", detail="the process went away without a word (kill -9, power, container)"
    )
    document["verdict"] = "fail"
    codec.write_json(path, document)
    if os.path.isdir(run_dir):  # noqa: PTH112 # a name that is no name is no folder, and no error
        codec.write_json(run_dir / "health.json", document)
        mark_run(run_dir, document["exit_cause"], str(document.get("updated") or ""))
    return str(run.get("id"))


def mark_run(run_dir: Path, cause: ExitCause, ended: str = "") -> None:
    """Set how a run and its last attempt ended in run.json; a run without one, or a full disk, is left alone."""
    path = run_dir / "run.json"
    ended = ended or now()
    try:
        record = codec.read_json(path, RunRecord)
        attempts = attempts_with(run_dir, record, cause, ended)
        codec.write_json(path, dataclasses.replace(record, exit_cause=cause, ended=ended, attempts=attempts))
    except OSError:
        return  # the summary says it


def attempts_with(run_dir: Path, record: RunRecord, cause: ExitCause, ended: str) -> tuple[Attempt, ...]:
    """The attempts of a run, the last one closed: how it ended, and from resume.json how it had gone on."""
    *before, last = record.attempts or (Attempt(record.started),)
    return (*before, dataclasses.replace(last, exit_cause=cause, ended=ended, resumed=read_resumed(run_dir)))


def read_resumed(run_dir: Path) -> Resumed | None:
    """How the last attempt went on; None before it has chosen a checkpoint."""
    try:
        return codec.read_json(run_dir / "resume.json", Resumed)
    except (OSError, InputError):
        return None


def is_held(run_dir: Path) -> bool:
    """True if a living process holds the run directory."""
    try:
        with (run_dir / LOCK).open("r") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
