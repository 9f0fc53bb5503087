"""The command line: help is quick and free of torch, errors have their exit codes."""

import subprocess
import sys

import pytest

from diag.cli import COMMANDS, main


def test_help_imports_neither_torch_nor_anything_heavy() -> None:
    code = (
        "import sys; from diag.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'ultralytics', 'numpy', 'yaml', 'msgspec', 'psutil', 'pynvml'} & set(sys.modules)\n"
        "raise SystemExit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["chekc"])
    assert stop.value.code == 2
    assert "chekc" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert f"diag {command}" in capsys.readouterr().out.split("examples:")[1]
