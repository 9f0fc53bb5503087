"""Single defects, one a kind: each changes a copy of a set and says which file (and line) must be named."""

import io
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import yaml
from PIL import Image


@dataclass
class Expected:
    """What a report has to name: one of these files, and the line if there is one."""

    files: set[str]
    line: int | None = None


@dataclass
class Bench:
    """A set that is changed and put back."""

    data: Path
    rng: Random
    saved: dict[Path, bytes | None] = field(default_factory=dict)
    moved: list[tuple[Path, Path]] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.data if self.data.is_dir() else self.data.parent

    def keep(self, path: Path) -> Path:
        """Remember a file's bytes before it is changed."""
        self.saved.setdefault(path, path.read_bytes() if path.is_file() else None)
        return path

    def write(self, path: Path, data: bytes | str) -> None:
        self.keep(path).write_bytes(data.encode() if isinstance(data, str) else data)

    def remove(self, path: Path) -> None:
        self.keep(path).unlink()

    def rename(self, path: Path, name: str) -> Path:
        """Move a file within its folder."""
        target = path.with_name(name)
        data = self.keep(path).read_bytes()
        path.unlink()
        self.write(target, data)
        return target

    def undo(self) -> None:
        for path, data in self.saved.items():
            if data is None:
                path.unlink(missing_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        for now, before in reversed(self.moved):
            if before.exists():
                shutil.rmtree(before)
            now.rename(before)
        self.saved.clear()
        self.moved.clear()

    def name(self, path: Path) -> str:
        return str(path).removeprefix(f"{self.root}/")

    def label(self, split: str = "", *, rows: int = 3) -> Path:
        """A label file with enough rows, of an image that exists."""
        split = split or self.rng.choice(self.splits())
        folder = self.root / "labels" / split
        fits = [
            p for p in sorted(folder.glob("*.txt")) if p.read_text().count("\n") >= rows and self.image_of(p).exists()
        ]
        return self.rng.choice(fits)

    def image_of(self, label: Path) -> Path:
        return self.root / "images" / label.parent.name / f"{label.stem}.jpg"

    def splits(self) -> list[str]:
        return sorted(p.name for p in (self.root / "labels").iterdir() if p.name.startswith(("train", "val")))

    def row(self, change: Callable[[list[str]], list[str] | str | list[list[str]]], *, rows: int = 3) -> Expected:
        """Change one row of a file; a list of rows puts them in its place, and the last of them is expected."""
        sound: list[int] = []
        while not sound:
            label = self.label(rows=rows)
            lines = label.read_text().splitlines()
            sound = [k for k, line in enumerate(lines) if self.usable(line.split())]
        at = self.rng.choice(sound)
        new = change(lines[at].split())
        if isinstance(new, str):
            lines[at], line = new, at + 1
        elif new and isinstance(new[0], list):
            lines[at : at + 1] = [" ".join(r) for r in new]
            line = at + len(new)
        else:
            lines[at], line = " ".join(map(str, new)), at + 1
        self.write(label, "\n".join(lines) + "\n")
        return Expected({self.name(label)}, line)

    @staticmethod
    def usable(fields: list[str]) -> bool:
        """A box that is neither empty nor at the border, so that one defect stays one."""
        if len(fields) != 5:
            return True
        _, x, y, w, h = map(float, fields)
        return 0.03 < w < 0.6 and 0.03 < h < 0.6 and w / 2 < x < 1 - w / 2 and h / 2 < y < 1 - h / 2

    def picture(self, change: Callable[[Path, bytes], bytes | None]) -> Expected:
        """Change the bytes of one image."""
        image = self.image_of(self.label())
        data = change(image, image.read_bytes())
        if data is not None:
            self.write(image, data)
        return Expected({self.name(image)})

    def yaml(self, change: Callable[[dict[str, Any]], None]) -> Expected:
        content = yaml.safe_load(self.data.read_text())
        change(content)
        self.write(self.data, yaml.safe_dump(content, sort_keys=False))
        return Expected({self.data.name, str(self.data)})


def encoded(data: bytes, form: str = "JPEG", **how: Any) -> bytes:
    """An image's bytes after `mode`, `size`, `box`, `turn` changes."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    if "box" in how:
        w, h = image.size
        a, b, c, d = how.pop("box")
        image = image.crop((round(a * w), round(b * h), round(c * w), round(d * h)))
    if "size" in how:
        image = image.resize(how.pop("size"))
    if "turn" in how:
        image = image.transpose(how.pop("turn"))
    if "mode" in how:
        image = image.convert(how.pop("mode"))
    out = io.BytesIO()
    image.save(out, form, **({"quality": 90} if form == "JPEG" else {}) | how)
    return out.getvalue()
