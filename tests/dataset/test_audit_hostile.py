"""Hostile and odd input gets a finding or is ignored; nothing crashes, hangs or escapes into a report."""

import json
import os
import struct
import zlib
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
