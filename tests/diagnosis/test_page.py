"""The page in a terminal, of every public case: it fits, and no sentence is said twice."""

import re
import unicodedata
from pathlib import Path

import pytest

from diag import messages
from diag.render import console
from tests.diagnosis.test_precision import CASES, judged


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("page")


@pytest.mark.parametrize(("lang", "width"), [("en", 80), ("zh", 80), ("zh", 120)])
def test_a_terminal_of_that_width_holds_every_line(base: Path, lang: str, width: int) -> None:
    """Only what is to be copied may be longer: commands, changes, and a table as wide as its cells."""
    wide = []
    for case in CASES:
        _, evidence, report = judged(case, base)
        text = console.report(report, evidence, lang=lang, width=width)
        prose = text.split("\n\n" + messages.text(lang, "ui", "where") + "\n")[0]
        for line in prose.splitlines()[2:]:
            copied = re.match(rf"   (?:  \S|{messages.text(lang, 'ui', 'try')}: )", line)
            columns = sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)
            if columns > width and not copied and " " in line.strip():  # one long word is a path
                wide.append(f"{case.name}: {line}")
    assert wide == []


def test_no_sentence_is_said_twice(base: Path) -> None:
    for case in CASES:
        _, evidence, report = judged(case, base)
        for lang in ("en", "zh"):
            body = console.report(report, evidence, lang=lang, width=400).split(messages.text(lang, "ui", "skipped"))[0]
            said = [line.strip() for line in body.splitlines() if len(line.strip()) > 25 and "docs/rules" not in line]
            said = [line for line in said if not line.startswith(messages.text(lang, "ui", "evidence"))]
            assert len(said) == len(set(said)), (case.name, [s for s in said if said.count(s) > 1])
