"""What is left to say on a full disk, and where it is said."""

from pathlib import Path

from diag.load.console import read_log
from diag.stages.train import write_rest


def test_the_last_lines_reach_the_console_log_once_there_is_room(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    log.write_text("Epoch 1/3\nhalf a li")
    write_rest(log, ())
    assert log.read_text() == "Epoch 1/3\nhalf a li"
    write_rest(log, ("OSError: [Errno 28] No space left on device",))
    assert log.read_text() == "Epoch 1/3\nhalf a li\nOSError: [Errno 28] No space left on device\n"
    assert [line.line for line in read_log(log)[0].of("disk_full")] == [3]


def test_a_disk_that_is_still_full_is_no_error() -> None:
    if Path("/dev/full").exists():
        write_rest(Path("/dev/full"), ("line",))
