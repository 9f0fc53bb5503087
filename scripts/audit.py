"""Known vulnerabilities of the locked packages: audit.py STACK... Exit code 1: some, or an exception ran out."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
EXCEPTIONS = ROOT / "configs" / "audit_exceptions.yaml"
DATABASE = "api.osv.dev"


@dataclass(frozen=True)
class Accepted:
    """A vulnerability that is known and accepted until a day, that day included."""

    id: str
    reason: str
    until: date


@dataclass(frozen=True)
class Vulnerability:
    """One answer of the database."""

    package: str
    ids: frozenset[str]
    fixed: tuple[str, ...]

    def __str__(self) -> str:
        fix = f"fixed in {', '.join(self.fixed)}" if self.fixed else "no fix yet"
        return f"{self.package}: {', '.join(sorted(self.ids))} ({fix})"


def read_exceptions(text: str) -> tuple[Accepted, ...]:
    """The exceptions of a yaml list. Raises ValueError that names the entry without id, reason or day."""
    found = []
    for number, entry in enumerate(yaml.safe_load(text) or [], start=1):
        if not isinstance(entry, dict) or set(entry) != {"id", "reason", "until"}:
            raise ValueError(f"exception {number}: expected exactly id, reason and until")
        if not all(isinstance(entry[key], str) and entry[key].strip() for key in ("id", "reason")):
            raise ValueError(f"exception {number}: id and reason must be texts")
        if not isinstance(entry["until"], date):
            raise ValueError(f"exception {number} ({entry['id']}): until must be a day, e.g. 2027-01-31")
        found.append(Accepted(entry["id"], entry["reason"], entry["until"]))
    return tuple(found)


def judge(found: Iterable[Vulnerability], accepted: Sequence[Accepted], today: date) -> tuple[list[str], list[str]]:
    """(faults, remarks): what fails, and what is only told. An exception that ran out is a fault by itself."""
    valid = {one.id: one for one in accepted if one.until >= today}
    faults = [f"the exception for {one.id} ran out on {one.until}" for one in accepted if one.until < today]
    remarks, used = [], set()
    for one in found:
        known = [valid[name] for name in one.ids if name in valid]
        used |= {exception.id for exception in known}
        if known:
            remarks.append(f"accepted until {known[0].until}: {one}; {known[0].reason}")
        else:
            faults.append(str(one))
    remarks += [f"the exception for {name} is no longer needed" for name in sorted(set(valid) - used)]
    return faults, remarks


def parse(answer: dict[str, Any]) -> tuple[Vulnerability, ...]:
    """What pip-audit printed with --format json."""
    return tuple(
        Vulnerability(
            f"{package['name']} {package['version']}",
            frozenset({vuln["id"], *vuln.get("aliases", ())}),
            tuple(vuln.get("fix_versions", ())),
        )
        for package in answer["dependencies"]
        for vuln in package.get("vulns", ())
    )


def ask(lock: Path) -> tuple[Vulnerability, ...]:
    """Let pip-audit ask about every line of a lock. Raises RuntimeError with its words when it gave no answer."""
    tool = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "-s", "osv", "-r", str(lock)]
    done = subprocess.run(
        [*tool, "--format", "json", "--progress-spinner", "off"], capture_output=True, text=True, check=False
    )
    try:
        return parse(json.loads(done.stdout))
    except ValueError as error:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no answer"])[-1]) from error


def unreachable() -> str:
    """Why the database can't be reached; "" if it can."""
    try:
        socket.create_connection((DATABASE, 443), timeout=5).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def main(
    stacks: Sequence[str],
    *,
    exceptions: Path = EXCEPTIONS,
    required: bool = False,
    reach: Callable[[], str] = unreachable,
    look: Callable[[Path], tuple[Vulnerability, ...]] = ask,
    today: date | None = None,
) -> int:
    """Audit the stacks and print what was found."""
    try:
        accepted = read_exceptions(exceptions.read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError) as error:
        print(f"audit: {exceptions.name}: {error}", file=sys.stderr)
        return 2
    found: dict[Vulnerability, None] = {}
    problem = reach()
    for stack in stacks if not problem else ():
        print(f"audit: {stack} ...", file=sys.stderr)
        try:
            found |= dict.fromkeys(look(ROOT / "configs" / "stacks" / f"{stack}.lock"))
        except RuntimeError as error:
            problem = str(error)
            break
    faults, remarks = judge(found, accepted, today or datetime.now(UTC).date())
    if problem:
        # Without an answer no exception can be called unneeded; one that ran out still did.
        remarks = [f"not run: the vulnerability database {DATABASE} gave no answer ({problem})"]
        faults += ["the database gave no answer, and AUDIT_REQUIRED is set"] if required else []
    for line in remarks:
        print(f"audit: {line}")
    for line in faults:
        print(f"audit: FAIL: {line}")
    if not faults and not problem:
        print(f"audit: no unknown vulnerability in {', '.join(stacks)}")
    return 1 if faults else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], required=os.environ.get("AUDIT_REQUIRED", "").lower() in {"1", "true", "yes"}))
