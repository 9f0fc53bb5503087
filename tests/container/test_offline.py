"""check, smoke and train without a network: not one connection, datagram or name look-up is even tried.

Two witnesses: an audit hook in every Python process, and a library before libc in every process, which also sees what
native code tries. A last, deliberate attempt shows that both would have told.
"""

from pathlib import Path

import pytest

from tests.container.engine import OWNER, ROOT, Engine
from tests.container.faults import summary
from tests.container.test_faults import compile_c

pytestmark = [pytest.mark.container, pytest.mark.slow]


def test_check_smoke_and_train_try_no_connection(
    engine: Engine, workspace: Path, as_owner: tuple[str, ...], tmp_path: Path
) -> None:
    library = compile_c(ROOT / "tests/container/audit/connect.c", tmp_path / "connect.so")
    python = ("-v", f"{ROOT}/tests/container/audit:/audit:ro", "-e", "PYTHONPATH=/audit")
    native = ("-v", f"{library}:/connect.so:ro", "-e", "LD_PRELOAD=/connect.so")
    options = (
        "-v",
        f"{workspace}:/workspace",
        *python,
        *native,
        "-e",
        "OFFLINE=1",
        "-e",
        "OMP_WAIT_POLICY=PASSIVE",
        *as_owner,
    )
    assert "none" in as_owner  # no network at all
    # Plots on: they are what asks for fonts.
    container = engine.start(*options, args=("train", "epochs=1", "imgsz=64", "batch=8", "plots=True", "fraction=0.1"))
    done = container.wait(900)
    assert done.code == 0, done.out + done.err
    told = summary(workspace)
    stages = {name: told[name]["status"] for name in ("check", "data", "smoke", "train", "analyze", "report")}
    assert set(stages.values()) <= {"pass", "warn"}, stages
    assert told["exit_cause"]["kind"] == "finished"
    assert {path.lstat().st_uid for path in workspace.rglob("*")} == {OWNER}

    attempts = workspace / "attempts.txt"
    assert not attempts.exists(), attempts.read_text()
    watched = (workspace / "watched.txt").read_text().splitlines()
    pythons = [line for line in watched if line.startswith("watching python")]
    for part in ("diag', 'pipeline'", "diag.record.bench", "diag.record.launch", "'watch'"):
        assert any(part in line for line in pythons), (part, pythons)
    natives = [line for line in watched if line.startswith("watching libc")]
    # The counters start without site-packages, so that no hook of Python's sees them.
    assert any("diag/counters/__main__.py" in line for line in natives), natives
    assert len(natives) >= len(pythons)
    print(f"offline: 0 attempts of {len(pythons)} Python and {len(natives)} processes in all")

    script = (
        "import socket\n"
        "for ask in (lambda: socket.getaddrinfo('example.org', 80), "
        "lambda: socket.create_connection(('192.0.2.1', 80), 1)):\n"
        "    try: ask()\n"
        "    except OSError as error: print(error)\n"
    )
    shell = engine.run(*options, args=("bash", "-c", f'exec 3<>/dev/tcp/192.0.2.2/80; python -c "{script}"'))
    seen = attempts.read_text()
    python_saw = ("look-up example.org", "connect ('192.0.2.1', 80)")
    for attempt in (*python_saw, "connect 192.0.2.1 by python", "connect 192.0.2.2 by bash"):
        assert attempt in seen, (seen, shell)
