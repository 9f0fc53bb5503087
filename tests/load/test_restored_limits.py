"""What restoring costs: hostile texts, large documents, and looks at what did not change."""

import contextlib
import zipfile
from pathlib import Path

import pytest

from diag.errors import InputError
from diag.load import load_run
from diag.load.follow import Follower
from diag.load.restored import MAX_LOG, restored
from diag.load.staging import Made
from tests.load.test_restored import ALL, BANNER, HEAD, ROW


@pytest.mark.parametrize(
    "data",
    [
        b"> " * 250_000,
        b"```\n" * 20_000,
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"&gt;" * 200_000,
        b"<pre" * 100_000,
        b"| a " * 100_000 + b"|\n" + b"| a " * 100_000 + b"|",
        b"a.log:1:" * 100_000,
        b"==> a.txt <==\nx\n" * 5000,
        b"x" * 3_000_000,
        b"\xff\xfe" + b"\0\xd8" * 10_000,
        b"\n".join(b"x" * 80 for _ in range(20_000)),
        b" " * 2_000_000 + b"a",
        b"100% " + b"?" * 500_000,
        b"a,b\n" + b"1" * 200_000 + b"x,2\n3,4\n5,6\n7,8\n9,1\n2,3\n",
        b"Epoch gpu_mem\n" + b"x" * 80 + b"\n" + b"1" * 100_000 + b"x\n",
        b"| " + b"a" * 200_000 + b" | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n",
        b"a" * 200_000 + b";b\n1;2\n3;4\n",
        b"$ cat " + b"a/" * 100_000 + b"b.txt",
        b"-----" * 100_000 + b" a.txt",
    ],
)
def test_hostile_texts_stay_bounded(tmp_path: Path, data: bytes) -> None:
    import time

    for name in ("a.txt", "a.csv", "a.md", "a.yaml"):
        (tmp_path / name).write_bytes(data)
    began = time.process_time()
    with contextlib.suppress(InputError):
        load_run(tmp_path)
    assert time.process_time() - began < 20


def test_a_growing_log_with_a_prefix_is_read_on_from_where_it_was(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    follower = Follower()
    told = [BANNER, "Starting training for 900 epochs..."]
    for i in range(1, 500):
        told += [HEAD, ROW.replace("1/50", f"{i}/900"), ALL]
    lines = [f"trainer  | {line}\n" for line in told]
    seen = []
    for start, end in ((0, 2), (2, 100), (100, 700), (700, len(lines))):
        with log.open("a") as out:
            out.writelines(lines[start:end])
        found = load_run(log, follower).log
        seen.append(len(found.epochs) if found else 0)
    assert log.stat().st_size > 65536
    assert follower.seen is not None and log in follower.seen.plain  # it is not written anew at every look
    assert seen == [0, 33, 233, 499]


@pytest.mark.parametrize("folder", [False, True])
def test_a_wrapped_log_is_restored_again_only_when_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: bool
) -> None:
    from diag.load import restored as module

    asked: list[str] = []
    before = module._restore

    def counted(path: Path, shown: str) -> list[Made] | None:
        asked.append(shown)
        return before(path, shown)

    monkeypatch.setattr(module, "_restore", counted)
    told = [BANNER, "Starting training for 50 epochs...", HEAD, ROW, ALL]
    paste, note = tmp_path / "paste.md", tmp_path / "other.md"
    paste.write_text("My run:\n\n```\n" + "\n".join(told) + "\n```\n")
    if folder:
        note.write_text(
            "```yaml\n# args.yaml\ntask: detect\nmode: train\nepochs: 50\nmodel: yolo11n.pt\nimgsz: 640\n```\n"
        )
    follower, source = Follower(), tmp_path if folder else paste
    first = load_run(source, follower)
    assert first.log is not None and len(first.log.epochs) == 1
    looked = len(asked)
    assert load_run(source, follower) is first
    assert len(asked) == looked, "nothing changed, nothing is restored"
    paste.write_text(paste.read_text() + "```\n" + "\n".join((HEAD, ROW.replace("1/50", "2/50"), ALL)) + "\n```\n")
    again = load_run(source, follower)
    assert asked[looked:] == ["paste.md"], "only what changed is restored"
    assert again == load_run(source, Follower()), "a look that remembers sees what a first look sees"
    assert again != first
    if folder:
        note.unlink()
        assert load_run(source, follower) == load_run(source)


def document(size: int) -> str:
    """A paste of this many bytes: arguments, and a log whose bars fill the rest."""
    bar = "      1/50      2.1G      1.234      1.9        640:  50%|#####     | 10/20 [00:03<00:10, 99it/s]"
    told = [BANNER, "Starting training for 50 epochs...", HEAD, "\r".join([bar] * (size // len(bar))), ROW, ALL]
    args = "task: detect\nmode: train\nepochs: 50\nmodel: yolo11n.pt\nimgsz: 640\n"
    return f"args.yaml:\n```yaml\n{args}```\n\nconsole.log:\n```\n" + "\n".join(told) + "\n```\n"


def test_a_large_document_is_taken_apart_and_a_larger_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from diag.load import restored as module

    paste = tmp_path / "paste.md"
    paste.write_text(document(MAX_LOG))
    assert paste.stat().st_size > MAX_LOG
    found = load_run(paste)
    assert found.args is not None and found.args.get("epochs") == 50
    assert found.log is not None and len(found.log.epochs) == 1 and not found.skipped_files
    monkeypatch.setattr(module, "MAX_WHOLE", MAX_LOG)
    found = load_run(paste)
    assert found.args is None and found.log is not None and len(found.log.epochs) == 1
    assert found.skipped_files == (
        "paste.md: a document of 4 MiB is read as one text; give the files in it one by one",
    )


def test_large_documents_of_a_folder_have_one_limit_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from diag.load import restored as module

    monkeypatch.setattr(module, "MAX_LOG", 20_000)
    monkeypatch.setattr(module, "MAX_DOCUMENTS", 90_000)
    for name in ("a.md", "b.md", "c.md"):
        (tmp_path / name).write_text(document(40_000))
    (tmp_path / "small.md").write_text(document(4_000))
    with restored(tmp_path) as plain:
        whole = {name for name in plain.names.values() if name.endswith("args.yaml")}
        assert whole == {"a.md/args.yaml", "b.md/args.yaml", "small.md/args.yaml"}
        assert [line.split(":")[0] for line in plain.skipped] == ["c.md"]


def test_a_large_log_or_table_is_no_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from diag.load import restored as module

    monkeypatch.setattr(module, "MAX_LOG", 10_000)
    log = [BANNER, "Starting training for 900 epochs...", *(line for _ in range(90) for line in (HEAD, ROW, ALL))]
    (tmp_path / "console.log").write_text("\n".join(log))
    (tmp_path / "prefixed.txt").write_text("\n".join(f"trainer-1  | {line}" for line in log))
    (tmp_path / "telemetry.csv").write_text("time,gpu_util\n" + "".join(f"{i},{i % 100}\n" for i in range(5000)))
    with restored(tmp_path) as plain:
        assert not plain.changed and not plain.skipped


def test_an_archive_that_did_not_change_is_not_unpacked_again(tmp_path: Path) -> None:

    path, follower = tmp_path / "run.zip", Follower()
    for epochs in (50, 60):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(
                "console.log", "\n".join((BANNER, f"Starting training for {epochs} epochs...", HEAD, ROW, ALL))
            )
        first = load_run(path, follower)
        assert load_run(path, follower) is first
        assert first == load_run(path)


def test_what_is_kept_between_looks_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from diag.load import seen as module

    monkeypatch.setattr(module, "MAX_KEPT", 100)
    kept = module.Seen()
    for name, size in (("a", 60), ("b", 60), ("c", 30)):
        (tmp_path / name).write_text("x")
        kept.keep(tmp_path / name, module.stamp(tmp_path / name), [Made(name, name, "x" * size)])
    assert [kept.known(tmp_path / name)[0] for name in "abc"] == [True, False, True]
    (tmp_path / "a").write_text("xy")
    assert kept.known(tmp_path / "a") == (False, None)
    monkeypatch.setattr(module, "MAX_FILES", 2)
    assert module.stamps(tmp_path) is None
