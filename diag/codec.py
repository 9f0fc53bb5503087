"""The only module that knows JSON, JSONL and YAML. Files are written atomically."""

import contextlib
import dataclasses
import math
import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from diag.errors import InputError

T = TypeVar("T")
MAX_YAML_BYTES = 16 * 1024 * 1024


def plain(value: Any) -> Any:
    """Dataclasses, enums, paths and tuples as JSON values; nan and inf become the strings "nan", "inf", "-inf"."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict) or hasattr(value, "items"):
        return {str(plain(k)): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str):
        return str(value.value) if hasattr(value, "value") else value
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value)


def to_json(value: Any, *, indent: int = 2) -> str:
    """One JSON document; strict JSON also for nan and inf."""
    data = msgspec.json.encode(plain(value))
    return (msgspec.json.format(data, indent=indent) if indent else data).decode()


def write_text(path: Path, text: str) -> None:
    """Write a file so that a reader or a crash sees the old or the new content, never a part."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    """`write_text` for bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.chmod(0o644)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """`to_json` into a file, atomically."""
    write_text(path, to_json(value) + "\n")


def read_json(path: Path, kind: type[T]) -> T:
    """Decode a file that a machine wrote; unknown keys are ignored (old reader, new file).

    Raises InputError that names the file and the place in it.
    """
    return decode_json(path.read_bytes(), kind, str(path))


def to_binary(value: Any) -> bytes:
    """Plain values and bytes as MessagePack: for caches, which nobody but diag reads."""
    return msgspec.msgpack.encode(value)


def from_binary(data: bytes) -> Any:
    """Decode `to_binary`. Raises InputError for anything else."""
    try:
        return msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        raise InputError(f"not readable: {error}") from error


def decode_json(data: bytes, kind: type[T], where: str) -> T:
    """Decode JSON bytes; `where` names them in the error."""
    try:
        return msgspec.json.decode(data, type=kind, strict=False)
    except (msgspec.DecodeError, ValueError) as error:
        raise InputError(f"{where}: not readable: {error}") from error
    except RecursionError as error:
        raise InputError(f"{where}: nested too deeply") from error


def read_yaml(path: Path) -> Any:
    """A YAML file that a person wrote, with plain values only (no objects).

    Raises InputError that names the file and, for a syntax error, the line.
    """
    try:
        if path.stat().st_size > MAX_YAML_BYTES:
            raise InputError(f"{path}: larger than {MAX_YAML_BYTES >> 20} MiB; this is not a configuration file")
        return parse_yaml(path.read_text(encoding="utf-8-sig"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


_NOT_YAML = (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError, TypeError, ArithmeticError)
"""PyYAML lets errors of its own conversions through: `!!int ''` is an IndexError, `!!timestamp x` an AttributeError."""


def parse_yaml(text: str, where: str) -> Any:
    """Parse YAML text; `where` names it in the error."""
    try:
        return yaml.safe_load(text)
    except _NOT_YAML as error:
        mark = getattr(error, "problem_mark", None)
        at = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(f"{where}{at}: not valid YAML: {problem}") from error


def to_yaml(value: Any) -> str:
    """A YAML document of plain values in the given key order."""
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))


def end_line(path: Path) -> None:
    """End the last line of a file that is appended to, where its writer was killed amid it. Errors are ignored."""
    with contextlib.suppress(OSError), path.open("r+b") as file:
        if file.seek(0, 2):
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.write(b"\n")
