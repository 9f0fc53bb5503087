"""Archives, standard input and folders of runs: unpacked within limits, never outside."""

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from diag.cli import main
from diag.engine import evaluate
from diag.errors import InputError
from diag.load import inputs, load_run, load_runs

CSV = "epoch,train/box_loss,metrics/mAP50-95(B)\n1,2.0,0.1\n2,1.5,0.2\n"
LOG = "Ultralytics 8.3.0 Python-3.11.9 torch-2.5.0 CUDA:0 (NVIDIA L4, 22491MiB)\n 1/9 5.1G 1.31 1.52 1.28 60 640: \n"


def _zip(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_a_zip_and_a_tar_are_read_like_a_folder(tmp_path: Path) -> None:
    zipped = _zip(tmp_path / "a.zip", **{"run/results.csv": CSV, "run/weights/best.pt": "x"})
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        info = tarfile.TarInfo("run/results.csv")
        info.size = len(CSV)
        archive.addfile(info, io.BytesIO(CSV.encode()))
    for path in (zipped, tmp_path / "a.tar.gz"):
        evidence = load_run(path)
        assert evidence.curves is not None
        assert evidence.curves.rows == 2
        assert evidence.path == str(path)


@pytest.mark.parametrize("name", ["../evil.csv", "/etc/evil.csv", "a/../../evil.csv", "..\\evil.csv", "C:\\evil.csv"])
def test_a_path_that_leaves_the_archive_is_left_out(tmp_path: Path, name: str) -> None:
    evidence = load_run(_zip(tmp_path / "a.zip", **{name: CSV, "results.csv": CSV}))
    assert any("leaves the archive" in item for item in evidence.skipped_files)
    assert not (tmp_path.parent / "evil.csv").exists()


def test_a_link_in_a_tar_is_not_followed(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        link = tarfile.TarInfo("results.csv")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(InputError):
        load_run(tmp_path / "a.tar")


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MAX_UNPACKED", 1000)
    with pytest.raises(InputError, match="more than"):
        load_run(_zip(tmp_path / "a.zip", **{"results.csv": "0" * 5000}))


def test_a_broken_archive_is_a_clear_line(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04 nonsense")
    with pytest.raises(InputError, match="broken"):
        load_run(tmp_path / "a.zip")


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Stdin:
        buffer = io.BytesIO(b"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")

    monkeypatch.setattr("sys.stdin", Stdin())
    assert main(["analyze", "-", "--format", "json"]) == 0
    assert '"mem.gpu_oom"' in capsys.readouterr().out


def test_run_folders_are_compared(tmp_path: Path) -> None:
    for name, version in (("run_a", "8.2.0"), ("run_b", "8.3.0")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "console.log").write_text(LOG.replace("8.3.0", version))
    peers = load_run(tmp_path).peers
    assert peers is not None
    assert [(d.what, d.values) for d in peers.differences] == [("ultralytics", ("8.2.0", "8.3.0"))]
    assert load_runs([tmp_path / "run_a", tmp_path / "run_b"]).peers is not None


def test_a_comparison_names_the_run_of_its_evidence(tmp_path: Path) -> None:
    for name, text in (("run_a", LOG), ("run_b", LOG + "OSError: [WinError 1455] The paging file is too small\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "console.log").write_text(text)
    found = {f.id: f for f in evaluate(load_run(tmp_path)).findings}
    assert found["mem.pagefile"].evidence[0].file == "run_b/console.log"


def test_two_runs_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, version in (("a.log", "8.2.0"), ("b.log", "8.3.0")):
        (tmp_path / name).write_text(LOG.replace("8.3.0", version))
    assert main(["analyze", str(tmp_path / "a.log"), str(tmp_path / "b.log")]) == 0
    out = capsys.readouterr().out
    assert "What differs" in out
    assert "8.2.0" in out


def test_an_error_names_what_was_given(tmp_path: Path) -> None:
    path = _zip(tmp_path / "a.zip", **{"README.png": "x"})
    with pytest.raises(InputError, match=r"a\.zip: no file of a training run"):
        load_run(path)


def test_a_zip_whose_member_has_no_name_is_read_without_it(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("Q", "x")
        archive.writestr("run/train.log", "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    path.write_bytes(path.read_bytes().replace(b"Q", b"\0"))  # a name ends at its first zero byte
    evidence = load_run(path)
    assert evidence.console is not None and evidence.console.lines
