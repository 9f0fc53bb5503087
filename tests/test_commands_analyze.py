"""`diag analyze`: formats, exit codes, one JSON object, reports on disk."""

import json
from pathlib import Path

import pytest

from diag.cli import main

SLOW = "".join(f"epoch 1/1 batch {i}/60 | dataloader: 0.300s, model: 0.100s, optimizer: 0.010s\n" for i in range(60))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text(SLOW)
    return path


def test_text_says_the_verdict_first(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(log)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("FAIL")
    assert "Where the time goes" in out
    assert "data-bound: dataloader > 0.15 s" in out
    assert "\x1b" not in out


def test_chinese(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(log), "--lang", "zh"]) == 0
    assert "数据加载受限" in capsys.readouterr().out


def test_json_is_one_object(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(log), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["verdict"] == "fail"
    assert {"findings", "skipped", "crashed", "passed", "steps", "run"} <= set(report)
    primary = report["findings"][0]
    assert set(primary) >= {"id", "severity", "confidence", "values", "evidence", "fixes", "explains"}
    assert primary["id"] == "speed.loader_bound"
    assert primary["fixes"][0] == {"key": "cache", "change": {"cache": "disk"}}
    assert report["steps"]["thresholds"]["dataloader_s"] == pytest.approx(0.3)


@pytest.mark.parametrize(("level", "code"), [("critical", 0), ("high", 1), ("info", 1)])
def test_fail_on(log: Path, level: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(log), "--fail-on", level]) == code
    capsys.readouterr()


def test_report_writes_both_files(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(log.parent), "--report", "--format", "markdown"]) == 0
    assert (log.parent / "report.md").read_text() == capsys.readouterr().out
    assert json.loads((log.parent / "report.json").read_text())["verdict"] == "fail"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "no PATH given; give a run folder"),
        (["nowhere"], "no such file or folder"),
        (["{log}", "--rules", "strickt"], "did you mean strict?"),
        (["{log}", "--rules", "{bad}"], "speed.loader_bund: no such rule; did you mean speed.loader_bound?"),
    ],
)
def test_input_errors(log: Path, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    bad = log.parent / "bad.yaml"
    bad.write_text("speed.loader_bund: {max_share: 1}\n")
    assert main(["analyze", *(a.format(log=log, bad=bad) for a in argv)]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("profile", ["strict", "ci", "classic"])
def test_shipped_profiles_are_valid(log: Path, profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", str(log), "--rules", profile]) == 0
    capsys.readouterr()
