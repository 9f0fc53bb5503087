"""What the command says and writes: JSON for programs, lines for people, exit codes."""

import json
from pathlib import Path

import pytest

from diag.cli import main
from diag.model.audit import MAX_PLACES
from tests.dataset.conftest import Maker
from tests.dataset.test_audit_images import encoded, photos, picture
from tests.dataset.test_audit_rows import BOX

__all__ = ["photos"]


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    result: dict[str, object] = json.loads(capsys.readouterr().out)
    return result


def test_json_names_file_line_and_value_and_exits_1_on_a_critical_finding(
    photos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (photos.parent / "labels" / "train" / "0.txt").write_text(f"{BOX}\n7 0.2 0.2 0.1 0.1\n")
    assert main(["data", str(photos), "--format", "json", "--no-cache"]) == 1
    result = document(capsys)
    assert result["verdict"] == "fail"
    [finding] = [f for f in result["findings"] if f["id"] == "data.class_oob"]  # type: ignore[attr-defined]
    assert finding["values"]["count"] == 1
    assert {"file": "labels/train/0.txt", "line": 2, "value": "class 7, but names has 2 classes"}.items() <= finding[
        "evidence"
    ][0].items()


def test_places_are_capped_in_json_and_complete_in_the_file(
    make_set: Maker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    yaml = make_set({"train": ["0 0.5 0.5 0 0.1\n" * 60, BOX], "val": [BOX]})
    assert main(["data", str(yaml), "--format", "json", "--no-cache", "--out", str(tmp_path / "out")]) == 0
    result = document(capsys)
    [finding] = [f for f in result["findings"] if f["id"] == "data.zero_area"]  # type: ignore[attr-defined]
    assert (finding["values"]["count"], len(finding["evidence"])) == (60, MAX_PLACES)
    lines = [json.loads(line) for line in Path(str(result["faults_file"])).read_text().splitlines()]
    assert sum(line["id"] == "data.zero_area" for line in lines) == 60


def test_quick_finds_equal_files_only(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (photos.parent / "images" / "val" / "1.jpg").write_bytes(encoded(picture(2), quality=50))
    seen = []
    for more in (["--quick"], []):
        main(["data", str(photos), "--format", "json", "--no-cache", *more])
        seen.append("data.train_val_leak" in str(document(capsys)["findings"]))
    assert seen == [False, True]


def test_people_read_it_in_their_language(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (photos.parent / "images" / "train" / "0.jpg").write_bytes(b"")
    assert main(["data", str(photos), "--no-cache", "--lang", "zh"]) == 0
    text = capsys.readouterr().out
    assert "1 幅图像已损坏" in text
    assert "images/train/0.jpg" in text
    assert "Ultralytics 会丢弃 1 幅图像" in text


@pytest.mark.parametrize("more", [["--imgsz", "0"], ["--fix", "."], ["--out", "/dev/null/no"]], ids=" ".join)
def test_wrong_arguments_are_one_line(
    photos: Path, more: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photos.parent)
    assert main(["data", str(photos), "--no-cache", *more]) == 2
    assert capsys.readouterr().err.strip().count("\n") == 0
