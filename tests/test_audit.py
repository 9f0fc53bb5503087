"""scripts/audit: what fails, what is accepted, what is only told; and scripts/sbom: the document and its parts."""

import importlib.util
import json
import sys
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
TODAY = date(2026, 6, 15)


def script(name: str) -> ModuleType:
    """Load scripts/NAME.py as a module."""
    spec = importlib.util.spec_from_file_location(f"script_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


audit = script("audit")
BAD = audit.Vulnerability("torch 2.0.0", frozenset({"GHSA-1", "CVE-2026-1"}), ("2.0.1",))


def run(tmp_path: Path, exceptions: str, *found: object, reach: str = "", required: bool = False) -> int:
    file = tmp_path / "exceptions.yaml"
    file.write_text(exceptions)
    return int(
        audit.main(["cu13"], exceptions=file, required=required, reach=lambda: reach, look=lambda _: found, today=TODAY)
    )


@pytest.mark.parametrize(
    ("exceptions", "found", "code", "said"),
    [
        ("[]", (), 0, "audit: no unknown vulnerability in cu13"),
        ("[]", (BAD,), 1, "audit: FAIL: torch 2.0.0: CVE-2026-1, GHSA-1 (fixed in 2.0.1)"),
        ("- {id: CVE-2026-1, reason: not used, until: 2026-06-15}", (BAD,), 0, "accepted until 2026-06-15: torch"),
        ("- {id: CVE-2026-1, reason: not used, until: 2026-06-14}", (BAD,), 1, "ran out on 2026-06-14"),
        ("- {id: CVE-2026-1, reason: not used, until: 2026-06-14}", (), 1, "ran out on 2026-06-14"),
        ("- {id: CVE-2020-9, reason: old, until: 2027-01-01}", (), 0, "exception for CVE-2020-9 is no longer needed"),
    ],
)  # fmt: skip
def test_exceptions(
    exceptions: str, found: tuple[object, ...], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, exceptions, *found) == code
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    ["- {id: C, reason: x}", "- {id: C, reason: '', until: 2026-01-01}", "- {id: C, reason: x, until: soon}", "- x"],
)
def test_an_exception_needs_a_reason_and_a_day(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, text) == 2
    assert "exception 1" in capsys.readouterr().err


def test_without_a_connection_it_says_so_and_fails_only_when_required(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "[]", reach="no route to host") == 0
    assert capsys.readouterr().out.startswith("audit: not run: the vulnerability database")
    assert run(tmp_path, "[]", reach="no route to host", required=True) == 1


def test_pip_audits_answer() -> None:
    vuln = {"id": "GHSA-1", "aliases": ["CVE-2026-1"], "fix_versions": ["2.0.1"]}
    answer = {
        "dependencies": [{"name": "torch", "version": "2.0.0", "vulns": [vuln]}, {"name": "x", "skip_reason": "y"}]
    }
    assert audit.parse(answer) == (BAD,)


def test_the_exceptions_in_the_repository_are_well_formed() -> None:
    audit.read_exceptions(audit.EXCEPTIONS.read_text())


def test_the_bill_of_materials_lists_every_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Valid against the CycloneDX schema (or it would not be printed), complete, and the same for the same input."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1750000000")
    sbom = script("sbom")
    lock = (ROOT / "configs/stacks/cu13.lock").read_text()
    debian = "tini 0.19.0-1 amd64\nlibc6 2.36-9+deb12u13 amd64\n"
    text = sbom.bill("cu13", lock, debian)
    document = json.loads(text)
    purls = {component["purl"] for component in document["components"]}
    assert {"pkg:pypi/torch@2.14.1", "pkg:deb/debian/tini@0.19.0-1?arch=amd64&distro=debian-12"} <= purls
    assert len(purls) == len(sbom.read_lock(lock)) + 2
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert text == sbom.bill("cu13", lock, debian)
