"""Write the bundle: a tar.gz with the run's files, the machine's captures and MANIFEST.json."""

import io
import os
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diag import __version__
from diag.codec import to_json
from diag.collect.files import Absent, Taken
from diag.collect.redact import Redactor
from diag.errors import InputError

MANIFEST = "MANIFEST.json"
SCHEMA_VERSION = 1
MAX_TOTAL = 256 * 1024 * 1024


@dataclass
class Bundle:
    """What went in: `files` as in the manifest, `absent` with reasons, `bytes` before compression."""

    files: list[dict[str, Any]] = field(default_factory=list)
    absent: list[dict[str, str]] = field(default_factory=list)
    bytes: int = 0


def write_bundle(out: Path, top: str, items: Iterable[Taken | Absent], redactor: Redactor, *, source: str) -> Bundle:
    """Redact and pack everything into `out`, which appears complete or not at all (mode 0600).

    Raises InputError where it can't be written.
    """
    made = Bundle()
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.", suffix=".tmp")
    except OSError as error:
        raise InputError(f"{out}: can't be written: {error.strerror}") from error
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as archive:
            for item in items:
                _pack(archive, top, item, redactor, made)
            _add(archive, f"{top}/{MANIFEST}", to_json(_manifest(made, redactor, source)) + "\n")
        part.replace(out)
    except OSError as error:
        raise InputError(f"{out}: can't be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    return made


def _pack(archive: tarfile.TarFile, top: str, item: Taken | Absent, redactor: Redactor, made: Bundle) -> None:
    if isinstance(item, Taken) and made.bytes + len(item.text) > MAX_TOTAL:
        item = Absent(item.name, f"the bundle holds {MAX_TOTAL >> 20} MiB already")
    if isinstance(item, Absent):
        made.absent.append({"name": redactor.text(item.name), "reason": redactor.text(item.reason)})
        return
    before = Counter(redactor.counts)
    name, text = redactor.text(item.name), redactor.text(item.text)
    size = _add(archive, f"{top}/{name}", text)
    made.bytes += size
    made.files.append(
        {"name": name, "bytes": size, "left_out": item.left_out, "redacted": dict(redactor.counts - before)}
    )


def _manifest(made: Bundle, redactor: Redactor, source: str) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "diag": __version__,
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "source": redactor.text(source),
        "files": made.files,
        "absent": made.absent,
        "redacted": dict(redactor.counts),
    }


def _add(archive: tarfile.TarFile, name: str, text: str) -> int:
    data = text.encode("utf-8", errors="replace")
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = len(data), int(time.time()), 0o644
    archive.addfile(info, io.BytesIO(data))
    return len(data)
