"""Every file in every layer of an image, also those that a later layer hides."""

import json
import os
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tests.container.engine import docker
from tests.processes import ended

SMALL = 64 << 10
"""Keys and tokens are small; larger files are named only."""


def files(image: str) -> Iterator[tuple[str, bytes]]:
    """(path, content) of each regular file; the content of a large one is left out.

    Reads the folders of the overlay2 driver where it may (seconds), else what `docker save` writes (minutes).
    """
    driver = json.loads(docker("image", "inspect", "-f", "{{json .GraphDriver}}", image))
    data = driver["Data"] or {}
    folders = [Path(part) for part in f"{data.get('UpperDir', '')}:{data.get('LowerDir', '')}".split(":") if part]
    if driver["Name"] == "overlay2" and folders and all(os.access(folder, os.R_OK) for folder in folders):
        for folder in folders:
            yield from _folder(folder)
    else:
        yield from _saved(image)


def _folder(folder: Path) -> Iterator[tuple[str, bytes]]:
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            if path.is_file() and not path.is_symlink():
                yield f"/{path.relative_to(folder)}", path.read_bytes() if path.stat().st_size <= SMALL else b""


def _saved(image: str) -> Iterator[tuple[str, bytes]]:
    with ended(subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE), limit=600) as process:
        assert process.stdout
        with tarfile.open(fileobj=process.stdout, mode="r|") as outer:
            for blob in outer:
                content = outer.extractfile(blob) if blob.isfile() else None
                if content and blob.size > 512:
                    yield from _layer(content)


def _layer(content: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(fileobj=content, mode="r|*") as layer:
            for member in layer:
                small = layer.extractfile(member) if member.isfile() and member.size <= SMALL else None
                if member.isfile():
                    yield f"/{member.name.lstrip('./')}", small.read() if small else b""
    except tarfile.ReadError:
        return  # a manifest or a configuration
