"""Message texts in the wild and the finding that each must lead to, when it is all that a user pastes."""

from pathlib import Path

import pytest

from diag.engine import evaluate
from diag.errors import InputError
from diag.load import load_run
from diag.model.finding import Severity

LINES = (Path(__file__).parent / "messages.tsv").read_text(encoding="utf-8").splitlines()
MESSAGES = [tuple(line.split("\t", 1)) for line in LINES if line and not line.startswith("#")]


def found(folder: Path, message: str) -> dict[str, Severity]:
    (folder / "pasted.log").write_text(message.replace(" // ", "\n") + "\n", encoding="utf-8")
    try:
        result = evaluate(load_run(folder / "pasted.log"))
    except InputError:
        return {}
    assert not result.crashed
    return {f.id: f.severity for f in result.findings}


@pytest.mark.parametrize(("finding", "message"), MESSAGES)
def test_a_message_leads_to_its_finding(tmp_path: Path, finding: str, message: str) -> None:
    said = found(tmp_path, message)
    if finding == "-":
        assert not said
    else:
        assert finding in said
        rivals = {i for i, severity in said.items() if severity in {Severity.CRITICAL, Severity.HIGH}} - {finding}
        assert not rivals
