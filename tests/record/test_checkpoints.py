"""Checkpoints on the disk: all or nothing, and the choice of the one to go on from."""

import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

HEADER = "epoch,time,train/box_loss\n"


@pytest.fixture
def yolo(tmp_path: Path) -> Path:
    """The folder that Ultralytics writes to."""
    (tmp_path / "weights").mkdir()
    return tmp_path


def checkpoint(epoch: int, **more: Any) -> dict[str, Any]:
    full: dict[str, Any] = {"epoch": epoch, "model": None, "ema": {"w": torch.ones(3)}, "optimizer": {"state": {}}}
    return {**full, "best_fitness": 0.5, "train_metrics": {"fitness": 0.4}, **more}


def put(yolo: Path, name: str, content: dict[str, Any]) -> str:
    """Write a file of weights/ and return its checksum."""
    path = yolo / "weights" / name
    torch.save(content, path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def put_state(yolo: Path, name: str, digest: str, **more: Any) -> None:
    plain = {"version": 1, "checkpoint": digest, "done": False, "csv": f"{HEADER}1,2.5,0.25\n", **more}
    torch.save(plain, yolo / "weights" / name)


def plan(yolo: Path, epochs: int | None = 5) -> Any:
    from diag.record import checkpoints

    return checkpoints.plan(yolo, epochs)


def damage(yolo: Path, name: str) -> None:
    path = yolo / "weights" / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_nothing_saved_starts_and_forgets_rows(yolo: Path) -> None:
    (yolo / "results.csv").write_text(f"{HEADER}1,2.5,0.25\n")
    made = plan(yolo)
    assert (made.how, made.epoch) == ("start", 0)
    assert "trained again" in made.notes[0]
    assert not (yolo / "results.csv").exists()


def test_the_state_brings_its_rows_along(yolo: Path) -> None:
    put_state(yolo, "resume_state.pt", put(yolo, "last.pt", checkpoint(0)))
    (yolo / "results.csv").write_text(f"{HEADER}1,2.5,0.25\n2,5.0,0.1\n3,7")
    made = plan(yolo)
    assert (made.how, made.epoch, made.notes) == ("exact", 1, ())
    assert (yolo / "results.csv").read_text() == f"{HEADER}1,2.5,0.25\n"


def test_without_a_state_rows_beyond_the_checkpoint_are_cut(yolo: Path) -> None:
    put(yolo, "last.pt", checkpoint(1))
    (yolo / "results.csv").write_text(f"{HEADER}1,2.5,0.25\n2,5.0,0.1\n3,7.5,0.1\n4,9")
    made = plan(yolo)
    assert (made.how, made.epoch) == ("plain", 2)
    assert "2 rows" in made.notes[0]
    assert "not bit for bit" in made.notes[1]
    assert (yolo / "results.csv").read_text() == f"{HEADER}1,2.5,0.25\n2,5.0,0.1\n"


def test_a_state_of_another_checkpoint_is_not_used(yolo: Path) -> None:
    put(yolo, "last.pt", checkpoint(1))
    put_state(yolo, "resume_state.pt", "0" * 64)
    assert plan(yolo).how == "plain"
    assert not (yolo / "weights" / "resume_state.pt").exists()


def test_killed_between_the_two_renames_uses_the_state_before(yolo: Path) -> None:
    put_state(yolo, "resume_state.prev.pt", put(yolo, "last.pt", checkpoint(0)))
    put_state(yolo, "resume_state.pt", "0" * 64, csv="rows of the epoch that was not saved")
    assert (plan(yolo).how, (yolo / "results.csv").read_text()) == ("exact", f"{HEADER}1,2.5,0.25\n")
    assert not (yolo / "weights" / "resume_state.prev.pt").exists()


def test_a_state_that_would_run_code_is_not_loaded(yolo: Path) -> None:
    put(yolo, "last.pt", checkpoint(0))
    torch.save({"version": 1, "checkpoint": "x", "evil": Path("/")}, yolo / "weights" / "resume_state.pt")
    assert plan(yolo).how == "plain"


def test_a_damaged_checkpoint_falls_back_to_the_one_before(yolo: Path) -> None:
    put(yolo, "last.pt", checkpoint(2))
    put_state(yolo, "resume_state.prev.pt", put(yolo, "last.prev.pt", checkpoint(1)))
    damage(yolo, "last.pt")
    made = plan(yolo)
    assert (made.how, made.epoch) == ("exact", 2)
    assert made.notes[0].startswith("last.pt is damaged (")
    assert "last.prev.pt" in made.notes[1]
    assert torch.load(yolo / "weights" / "last.pt", weights_only=False)["epoch"] == 1
    assert (yolo / "weights" / "last.damaged.pt").exists()


@pytest.mark.parametrize("missing", ["optimizer", "ema"])
def test_a_checkpoint_without_what_a_resume_needs_is_damaged(yolo: Path, missing: str) -> None:
    put(yolo, "last.pt", checkpoint(2, **{missing: None}))
    put(yolo, "last.prev.pt", checkpoint(1))
    assert f"no {missing} in it" in plan(yolo).notes[0]


def test_both_damaged_is_an_error_that_names_the_way_out(yolo: Path) -> None:
    from diag.record.checkpoints import CheckpointError

    for name in ("last.pt", "last.prev.pt"):
        put(yolo, name, checkpoint(2))
        damage(yolo, name)
    with pytest.raises(CheckpointError, match="--fresh"):
        plan(yolo)
    assert (yolo / "weights" / "last.pt").exists()


@pytest.mark.parametrize(
    ("content", "state", "epochs"),
    [
        (checkpoint(-1, model={"w": 1}, optimizer=None, ema=None), None, 5),  # stripped
        (checkpoint(4), None, 5),  # the last epoch
        (checkpoint(2), {"done": True}, 5),  # stopped early by patience
    ],
)
def test_all_epochs_done_leaves_the_final_evaluation(
    yolo: Path, content: dict[str, Any], state: dict[str, Any] | None, epochs: int
) -> None:
    (yolo / "results.csv").write_text(f"{HEADER}1,2.5,0.25\n")
    digest = put(yolo, "last.pt", content)
    if state:
        put_state(yolo, "resume_state.pt", digest, **state)
    assert plan(yolo, epochs).how == "final"


def test_best_is_made_again_when_it_was_not_written_any_more(yolo: Path) -> None:
    put(yolo, "last.pt", checkpoint(1, train_metrics={"fitness": 0.5}))
    put(yolo, "best.pt", checkpoint(0))
    plan(yolo)
    assert (yolo / "weights" / "best.pt").read_bytes() == (yolo / "weights" / "last.pt").read_bytes()


def test_leftovers_of_a_killed_write_are_removed(yolo: Path) -> None:
    (yolo / "weights" / ".last.pt.abc.part").write_bytes(b"half")
    plan(yolo)
    assert not list((yolo / "weights").glob(".*.part"))


def test_a_full_disk_leaves_the_checkpoint_before(yolo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from diag.record.files import AtomicPath, LastPath

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for path in (LastPath(yolo / "weights" / "last.pt"), AtomicPath(yolo / "weights" / "best.pt")):
        path.write_bytes(b"whole")
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(OSError, match="No space"):
                path.write_bytes(b"new and too long")
        assert Path(path).read_bytes() == b"whole"
    assert sorted(p.name for p in (yolo / "weights").iterdir()) == ["best.pt", "last.pt"]


def test_generations_of_checkpoint_and_state_stay_together(yolo: Path) -> None:
    from diag.record.files import LastPath, write_part

    last = LastPath(yolo / "weights" / "last.pt")
    state = Path(last).with_name("resume_state.pt")
    last.companion = lambda digest: write_part(state, digest.encode())
    for content in (b"one", b"two", b"three"):
        last.write_bytes(content)
    for names, content in (
        (("last.pt", "resume_state.pt"), b"three"),
        (("last.prev.pt", "resume_state.prev.pt"), b"two"),
    ):
        kept, its_state = (state.with_name(name).read_bytes() for name in names)
        assert (kept, its_state.decode()) == (content, hashlib.sha256(content).hexdigest())


def test_paths_below_stay_atomic(yolo: Path) -> None:
    from diag.record.files import AtomicPath

    assert isinstance(AtomicPath(yolo) / "epoch3.pt", AtomicPath)
