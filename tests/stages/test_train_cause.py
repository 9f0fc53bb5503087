"""What the stage `train` makes of an end."""

from pathlib import Path

from diag.model.run import ExitCause
from diag.stages.cause import known_names


def test_a_cause_names_the_users_own_file(tmp_path: Path) -> None:
    images, views = tmp_path / "mine/images", tmp_path / "views"
    images.mkdir(parents=True)
    (views / "data-1/images").mkdir(parents=True)
    (views / "data-1/images/000-train").symlink_to(images)
    line = f"FileNotFoundError: Image Not Found {views}/data-1/images/000-train/gone.jpg"
    cause = known_names(ExitCause("failed", 1, "", line, line), views)
    assert cause.detail == cause.evidence == f"FileNotFoundError: Image Not Found {images}/gone.jpg"
    other = ExitCause("failed", 1, "", "ValueError: bad", "")
    assert known_names(other, views) == other
