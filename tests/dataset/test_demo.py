"""The demo set is the same bytes everywhere, and its labels lie on its shapes."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diag.dataset.audit import audit
from diag.dataset.demo import COUNTS, HEIGHT, WIDTH, make_demo
from diag.dataset.resolve import resolve
from diag.dataset.view import make_view

DIGESTS = {
    "detect": "61c91128a1a54027e201d63ca0dcc9b84ecd72812a0a8a1c40a316bcde75086f",
    "segment": "4995a54c3ef2a0487e05e697baf45c4eeb2f58e4802b81ef47e3e39550e9a020",
}


@pytest.fixture(scope="module", params=list(DIGESTS))
def demo(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, make_demo(tmp_path_factory.mktemp("demo") / request.param, request.param)


def test_it_is_byte_identical(demo: tuple[str, Path]) -> None:
    task, yaml = demo
    digest = hashlib.sha256()
    for path in sorted(yaml.parent.rglob("*.*")):
        digest.update(path.relative_to(yaml.parent).as_posix().encode() + b"\0" + path.read_bytes())
    assert digest.hexdigest() == DIGESTS[task]


def test_it_has_no_fault(demo: tuple[str, Path]) -> None:
    task, yaml = demo
    dataset = audit(resolve(str(yaml), task, cwd=Path.cwd(), datasets_dir=Path("/nowhere"))).dataset
    assert {n: s.images for n, s in dataset.splits.items()} == COUNTS
    assert dataset.problems == ()
    assert all(s.background == s.missing_labels == 0 for s in dataset.splits.values())
    assert min(dataset.class_counts.values()) > 150


def test_shapes_are_brighter_than_the_ground_inside_their_boxes(demo: tuple[str, Path]) -> None:
    task, yaml = demo
    for image in sorted((yaml.parent / "images" / "val").iterdir())[:10]:
        pixels = np.asarray(Image.open(image).convert("L"), dtype=float)
        for row in (yaml.parent / "labels" / "val" / f"{image.stem}.txt").read_text().splitlines():
            values = [float(v) for v in row.split()[1:]]
            if task == "segment":
                x, y = float(np.mean(values[0::2])), float(np.mean(values[1::2]))
            else:
                x, y = values[:2]
            assert pixels[int(y * HEIGHT), int(x * WIDTH)] > np.median(pixels) + 20


def test_it_is_not_drawn_again(demo: tuple[str, Path]) -> None:
    task, yaml = demo
    before = yaml.stat().st_mtime_ns
    assert make_demo(yaml.parent, task) == yaml
    assert yaml.stat().st_mtime_ns == before


def test_two_trainings_may_draw_it_and_link_it_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diag.dataset.demo.COUNTS", {"train": 3, "val": 2})
    folder = tmp_path / "datasets/demo"

    def draw_and_link(_: int) -> Path:
        return make_view(
            resolve(str(make_demo(folder)), "detect", cwd=tmp_path, datasets_dir=tmp_path), tmp_path / "views"
        )

    with ThreadPoolExecutor(6) as pool:
        made = set(pool.map(draw_and_link, range(6)))
    assert len(made) == 1
    assert len(list((folder / "images/train").iterdir())) == 3
    # Nothing half-made is left, neither of the set nor of the links.
    assert [path.name for path in folder.parent.iterdir()] == ["demo"]
    links = [path for path in (tmp_path / "views").rglob("*") if path.is_symlink()]
    assert len(links) == 4 and not [path for path in links if path.name.startswith(".")]
