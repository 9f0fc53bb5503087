"""Hostile and odd input gets a finding or is ignored; nothing crashes, hangs or escapes into a report."""

import json
import os
import signal
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diag.cli import main
from diag.dataset.audit import audit
from diag.dataset.gather import gather
from diag.dataset.headers import read_header
from diag.dataset.labels import read_rows
from diag.dataset.resolve import resolve
from tests.dataset.test_audit_images import encoded, photos, picture
from tests.dataset.test_audit_rows import BOX, audited

__all__ = ["photos"]


def test_a_loop_of_links_ends(photos: Path) -> None:
    (photos.parent / "images" / "train" / "loop").symlink_to(photos.parent / "images")
    assert audited(photos).dataset.splits["train"].images >= 6


def test_a_linked_folder_is_entered_as_ultralytics_does(photos: Path, tmp_path: Path) -> None:
    aside = tmp_path / "aside"
    aside.mkdir()
    picture(77).save(aside / "far.jpg")
    (photos.parent / "images" / "train" / "more").symlink_to(aside)
    assert audited(photos).dataset.splits["train"].images == 7


def test_a_million_lines_are_not_read(photos: Path) -> None:
    label = photos.parent / "labels" / "train" / "0.txt"
    label.write_text(f"{BOX}\n" * 1_000_000)
    found = audited(photos).faults.places["bad_rows"]
    assert [(p.file, p.kind) for p in found] == [("labels/train/0.txt", "too_large")]


@pytest.fixture
def within_a_minute() -> Iterator[None]:
    """Ends a test that hangs."""

    def late(*_: object) -> None:
        raise TimeoutError("hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("within_a_minute")
def test_pipes_are_not_waited_for(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = photos.parent
    os.mkfifo(root / "images" / "train" / "pipe.jpg")
    (root / "labels" / "train" / "0.txt").unlink()
    os.mkfifo(root / "labels" / "train" / "0.txt")
    more = ["--out", str(tmp_path / "out"), "--fix", str(tmp_path / "fixed"), "--format", "json"]
    assert main(["data", str(photos), "--no-cache", *more]) == 0
    found = {f["id"]: f["evidence"][0] for f in json.loads(capsys.readouterr().out)["findings"]}
    assert (found["data.corrupt_images"]["file"], found["data.corrupt_images"]["value"]) == (
        "images/train/pipe.jpg",
        "no regular file",
    )
    assert found["data.bad_rows"]["value"] == "not readable: no regular file"
    assert not (tmp_path / "fixed" / "images" / "train" / "0.jpg").exists()


@pytest.mark.usefixtures("within_a_minute")
def test_files_of_twenty_gigabytes_are_not_read_through(photos: Path) -> None:
    root = photos.parent
    head = (root / "images" / "train" / "1.jpg").read_bytes()
    for name in ("a", "b"):
        for path, start in ((f"images/train/{name}.jpg", b""), (f"images/train/{name}{name}.jpg", head)):
            with (root / path).open("wb") as file:
                file.write(start)
                file.truncate(20 << 30)
    with (root / "labels" / "train" / "0.txt").open("wb") as file:
        file.truncate(20 << 30)
    found = audited(photos).faults.places
    kinds = {Path(p.file).name: p.kind for p in found["corrupt_images"]}
    assert {kinds[n] for n in ("a.jpg", "b.jpg")} == {"not_image"}
    assert {kinds[n] for n in ("aa.jpg", "bb.jpg")} == {"truncated"}
    assert [(p.file, p.kind) for p in found["bad_rows"]] == [("labels/train/0.txt", "too_large")]


LAUGHS = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)


@pytest.mark.usefixtures("within_a_minute")
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (LAUGHS + "names: [*a9, cat]\n", "its aliases stand for more than 1000000 values"),
        (LAUGHS + "names: [cat, dog]\nkpt_shape: *a9\n", "its aliases stand for more than 1000000 values"),
        ("nc: 2000000000\n", "nc: 2000000000 classes can't be right"),
        ("[" * 100_000, "not valid YAML"),
    ],
    ids=["names", "kpt_shape", "nc", "deep"],
)
def test_a_yaml_that_would_fill_the_memory_is_one_line(
    photos: Path, more: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    photos.write_text(f"path: .\ntrain: images/train\nval: images/val\n{more}")
    assert main(["data", str(photos), "--no-cache"]) == 2
    told = capsys.readouterr().err.strip()
    assert said in told
    assert told.count("\n") == 0


def test_numbers_beyond_all_measure_are_named_without_a_warning(
    photos: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = "1e300 0.5 0.5 0.1 0.1\n0 1e308 1e308 1e308 1e308\n"
    (photos.parent / "labels" / "train" / "0.txt").write_text(rows)
    assert main(["data", str(photos), "--no-cache", "--format", "json", "--out", str(tmp_path / "o")]) == 1
    out, err = capfd.readouterr()
    ids = {f["id"] for f in json.loads(out)["findings"]}
    assert {"data.class_oob", "data.coord_oob"} <= ids
    assert "Warning" not in err


@pytest.mark.usefixtures("within_a_minute")
def test_a_link_to_itself_is_named(photos: Path) -> None:
    (photos.parent / "images" / "train" / "self.jpg").symlink_to("self.jpg")
    [place] = audited(photos).faults.places["corrupt_images"]
    assert (place.file, place.value) == ("images/train/self.jpg", "Too many levels of symbolic links")


def test_many_equal_rows_are_counted_and_capped(photos: Path) -> None:
    (photos.parent / "labels" / "train" / "0.txt").write_text(f"{BOX}\n" * 20_000)
    fault = audited(photos).dataset.faults["dup_labels"]
    assert (fault.count, len(fault.places)) == (19_999, 20)


def test_a_decompression_bomb_is_not_decoded(photos: Path) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    bomb = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )
    (photos.parent / "images" / "train" / "0.png").write_bytes(bomb)
    (photos.parent / "images" / "train" / "0.jpg").unlink()
    found = audited(photos, level="deep").faults.places
    assert [(p.file, p.kind) for p in found["image_extreme"]] == [("images/train/0.png", "large")]


def test_names_that_are_no_utf8_are_shown_and_named(photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"caf\xe9.jpg")
    (photos.parent / "images" / "train" / "0.jpg").rename(photos.parent / "images" / "train" / name)
    assert main(["data", str(photos), "--format", "json", "--no-cache"]) == 0
    document = json.loads(capsys.readouterr().out)
    [finding] = [f for f in document["findings"] if f["id"] == "data.encoding"]
    assert finding["evidence"][0]["file"] == "images/train/caf\\xe9.jpg"


def test_names_with_html_do_not_reach_the_page(photos: Path, tmp_path: Path) -> None:
    image = photos.parent / "images" / "train" / "0.jpg"
    image.write_bytes(b"")
    image.rename(image.with_name('"><img src=x onerror=alert(1)>.jpg'))
    photos.write_text(photos.read_text().replace("[cat, dog]", "['<script>alert(1)</script>', '\\x1b[31mred']", 1))
    assert main(["data", str(photos), "--no-cache", "--out", str(tmp_path / "out")]) in {0, 1}
    page = (tmp_path / "out" / "audit.html").read_text()
    assert "<script" not in page
    assert "onerror=alert(1)&gt;" in page
    assert "\x1b" not in page
    assert "http" not in page.replace("http-equiv", "")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.binary(max_size=300) | st.builds(lambda n: encoded(picture(1))[:n], st.integers(0, 20_000)))
def test_any_bytes_are_a_header_or_an_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.jpg"
    path.write_bytes(data)
    header = read_header(path)
    assert header.error or header.width > 0 or header.format == "HEIF"


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.binary(max_size=200) | st.text("0123456789.-+enaif ,\n\r\t#", max_size=200).map(str.encode))
def test_any_bytes_are_rows_or_flaws(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(data)
    rows = read_rows(path)
    assert len(rows.flat) == sum(rows.counts)
    assert all(abs(v) < float("inf") for v in rows.flat)


def test_a_second_audit_reads_only_what_changed(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = resolve(str(photos), "detect", cwd=Path.cwd(), datasets_dir=Path("/nowhere"))
    cache = tmp_path / "cache.bin"
    first = gather(spec, level="look", cache=cache)
    (photos.parent / "labels" / "train" / "1.txt").write_text(f"{BOX}\n{BOX}\n")
    read: list[str] = []

    def counted(path: Path) -> object:
        read.append(Path(path).name)
        return read_rows(path)

    monkeypatch.setattr("diag.dataset.gather.read_rows", counted)
    monkeypatch.setattr("diag.dataset.gather.read_header", lambda path: pytest.fail(f"{path} was read again"))
    second = gather(spec, level="look", cache=cache)
    assert read == ["1.txt"]
    assert [i.header for i in second] == [i.header for i in first]
    assert [i.look for i in second] == [i.look for i in first]
    assert [len(i.rows.lines) for i in second][:3] == [1, 2, 1]


def test_equal_sizes_are_compared_again_only_where_a_file_changed(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = resolve(str(photos), "detect", cwd=Path.cwd(), datasets_dir=Path("/nowhere"))
    train = photos.parent / "images" / "train"
    (train / "1.jpg").write_bytes((train / "0.jpg").read_bytes())
    read: list[str] = []

    def counted(path: Path) -> bytes:
        read.append(path.name)
        return path.read_bytes()

    monkeypatch.setattr("diag.dataset.copies._digest", counted)

    def copies() -> list[str]:
        read.clear()
        return [p.file for p in audit(spec, cache=tmp_path / "c.bin").faults.places.get("dup_images", [])]

    assert (copies(), sorted(read)) == (["images/train/1.jpg"], ["0.jpg", "1.jpg"])
    assert (copies(), read) == (["images/train/1.jpg"], [])
    data = bytearray((train / "1.jpg").read_bytes())
    data[-3] ^= 1
    (train / "1.jpg").write_bytes(data)
    assert (copies(), read) == ([], ["1.jpg"])


def test_a_broken_cache_is_read_anew(photos: Path, tmp_path: Path) -> None:
    spec = resolve(str(photos), "detect", cwd=Path.cwd(), datasets_dir=Path("/nowhere"))
    cache = tmp_path / "cache.bin"
    for data in (b"", b"\xff\x00garbage", b"\x92\x01\x81\xa1i\x90"):
        cache.write_bytes(data)
        assert [i.header.width for i in gather(spec, cache=cache)] == [320] * 8


def test_near_copies_come_from_the_cache_until_a_picture_changes(photos: Path, tmp_path: Path) -> None:
    spec = resolve(str(photos), "detect", cwd=Path.cwd(), datasets_dir=Path("/nowhere"))
    copied = photos.parent / "images" / "val" / "1.jpg"
    copied.write_bytes(encoded(picture(2), quality=50))

    def leaks() -> int:
        return len(audit(spec, level="look", cache=tmp_path / "c.bin").faults.places.get("train_val_leak", []))

    assert [leaks(), leaks()] == [1, 1]
    assert (tmp_path / "c.pairs").stat().st_size > 0
    copied.write_bytes(encoded(picture(60)))
    assert leaks() == 0
