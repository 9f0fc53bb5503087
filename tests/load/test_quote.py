"""Evidence that names a line gets its words; a table's row, a missing file and a link out of the folder do not."""

from pathlib import Path

import pytest

from diag.load.quote import quoted
from diag.model.finding import Confidence, Finding, Report, Severity, Source


def quote(path: Path, *sources: Source) -> list[str]:
    finding = Finding("a.b", Severity.LOW, Confidence.HIGH, {}, sources, ())
    return [s.text for s in quoted(Report((finding,), (), (), ()), path).findings[0].evidence]


def test_a_line_is_quoted_as_it_looked_in_the_end(tmp_path: Path) -> None:
    (tmp_path / "console.log").write_bytes(
        b"first\n\x1b[34mscan:\x1b[0m 1/9\rscan: 9/9 \xe2\x9c\x85  done\r\n\xff\xfe broken\n"
    )
    lines = [Source("console.log", n) for n in (1, 2, 3, 4)]
    assert quote(tmp_path, *lines) == ["first", "scan: 9/9 ✅ done", "\ufffd\ufffd broken", ""]
    assert quote(tmp_path / "console.log", Source("console.log", 1)) == ["first"]


def test_what_has_words_or_no_line_stays(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x\n")
    (tmp_path / "results.csv").write_text("a,b\n1,2\n")
    told = (Source("a.log", 1, "said"), Source("a.log"), Source("results.csv", 2), Source("gone.log", 1))
    assert quote(tmp_path, *told) == ["said", "", "", ""]


@pytest.mark.parametrize("name", ["../secret.log", "link.log", "/etc/hostname", "folder"])
def test_nothing_outside_of_the_folder_is_read(tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    (run / "folder").mkdir(parents=True)
    (tmp_path / "secret.log").write_text("secret\n")
    (run / "link.log").symlink_to(tmp_path / "secret.log")
    assert quote(run, Source(name, 1)) == [""]
