"""The words that are looked for first must lose nothing of what the patterns behind them would find."""

import re
from collections import Counter
from pathlib import Path

from diag.load.console import LogReader, blocks, parse_console, parse_log
from diag.load.kinds import KINDS, pattern
from diag.load.known_lines import any_of

HERE = Path(__file__).parent
TEXTS = ("*.log", "*.txt", "*.out")


def texts() -> list[str]:
    found = [line for line in (HERE / "messages.tsv").read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    folders = (HERE.parent / "data" / "cases", HERE.parent / "cases_unseen")
    paths = sorted(path for folder in folders for glob in TEXTS for path in folder.rglob(glob))
    return ["\n".join(line.split("\t", 1)[-1] for line in found).replace(" // ", "\n")] + [
        path.read_bytes().decode("utf-8", "replace") for path in paths
    ]


def test_each_line_of_a_known_kind_passes_its_gate() -> None:
    missed: Counter[tuple[str, str]] = Counter()
    seen = set()
    for text in texts():
        for line in re.split(r"[\r\n]+", text):
            kinds = {k for k in KINDS if line.strip() and pattern(k).search(line.strip())}
            said = {found.kind for found in parse_console(line).lines}
            seen |= said
            if "%|" not in line and "it/s" not in line:  # bars are read by the parser alone
                missed.update((kind, line[:80]) for kind in kinds - said)
    assert not missed
    assert len(seen) >= len(KINDS) - 5


def test_one_pattern_for_many_words() -> None:
    words = [b"cache", b"cuda", b"cud", b"nan", b"\xe9\xa1\xb5", b".pt"]
    one = any_of(words)
    for text in (b"cached", b"no cudnn", b"banana", b"a\xe9\xa1\xb5b", b"x.pt"):
        assert one.search(text)
    for text in (b"cach", b"cu da", b"n-an", b"pt", b""):
        assert not one.search(text)


def test_a_line_without_end_comes_in_pieces(tmp_path: Path) -> None:
    losses = b"4.86G       1.39       1.57       1.22        122        640"
    bar = b"\r      1/3      " + losses + b":  50%|##### | 9/18 [00:15<00:15, 6.1it/s]"
    last = bar.replace(b" 9/18", b"18/18").replace(b"1.39", b"1.25")
    path = tmp_path / "train.log"
    path.write_bytes(b"first\n" + bar * 20_000 + last + b"\n" + b"x" * 3_000_000 + b"\nCUDA out of memory\n")
    reader = LogReader("train.log")
    with path.open("rb") as file:
        for block in blocks(file):
            assert len(block) < 3 << 20
            reader.feed(block)
    console, log = reader.finish()
    assert [(line.kind, line.line) for line in console.lines] == [("gpu_oom", 4)]
    assert log.lines == 4
    (epoch,) = log.epochs
    assert (epoch.done, epoch.total, epoch.losses["box_loss"], epoch.line) == (18, 18, 1.25, 2)


def test_a_number_with_two_points_is_no_number() -> None:
    log = parse_log(
        "      640        1.2.3     1.2.3    3.1     4.2   (16, 3, 640, 640)\n1 epochs completed in 1.2.3 hours\n"
    )[1]
    assert log.autobatch_gib == ()
