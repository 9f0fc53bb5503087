"""Small data sets on disk."""

from collections.abc import Callable
from pathlib import Path

import pytest

Maker = Callable[..., Path]


@pytest.fixture
def make_set(tmp_path: Path) -> Maker:
    """make_set(rows={"train": ["0 .5 .5 .1 .1"]}, yaml="...") -> data.yaml. A row of None is an image without label."""

    def make(rows: dict[str, list[str | None]], yaml: str | None = None, root: Path = tmp_path / "set") -> Path:
        for split, labels in rows.items():
            for number, label in enumerate(labels):
                image = root / "images" / split / f"{number}.jpg"
                image.parent.mkdir(parents=True, exist_ok=True)
                image.write_bytes(b"")
                if label is not None:
                    path = root / "labels" / split / f"{number}.txt"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(label)
        content = yaml or "path: .\ntrain: images/train\nval: images/val\nnames: [cat, dog]\n"
        (root / "data.yaml").write_text(content)
        return root / "data.yaml"

    return make
