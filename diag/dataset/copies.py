"""Equal and nearly equal images, within a split and across splits."""

import contextlib
import hashlib
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from diag import codec
from diag.dataset.faults import Faults
from diag.dataset.gather import Item, stamp_of
from diag.dataset.looks import Pair, as_floats, similar
from diag.dataset.resolve import DataSpec
from diag.errors import InputError

CHUNK = 1 << 20
HALF = 32 << 20


class Group(NamedTuple):
    """Images that hold the same picture; `how` is `file`, `bytes`, or how two near copies differ."""

    first: int
    other: int
    how: str
    score: float


def find_copies(items: Sequence[Item], cache: Path | None = None) -> list[Group]:
    """All copies: the same file listed twice, the same bytes, and near copies among images that have a look."""
    groups = [*_same_file(items), *_same_bytes(items, cache)]
    told = {g.other for g in groups}
    seen = [k for k, item in enumerate(items) if item.look.thumb and k not in told]
    if len(seen) > 1:
        for pair in _similar([items[k] for k in seen], cache):
            groups.append(Group(seen[pair.a], seen[pair.b], pair.how, pair.score))
    return groups


def _similar(items: Sequence[Item], cache: Path | None) -> list[Pair]:
    """Near copies; a set whose pictures have not changed is not compared again."""
    digest = hashlib.blake2b(digest_size=16)
    for item in items:
        digest.update(f"{item.image}\0{item.header.bytes}\0".encode("utf-8", "surrogateescape") + item.look.thumb)
    if cache is not None:
        try:
            known, stored = codec.from_binary(cache.with_suffix(".pairs").read_bytes())
            if known == digest.digest():
                return [Pair(*pair) for pair in stored]
        except (OSError, InputError, ValueError, TypeError):
            pass
    pairs = similar(as_floats([i.look for i in items]), [i.real for i in items])
    if cache is not None:
        with contextlib.suppress(OSError):  # a full or read-only disk costs only the cache
            codec.write_bytes(cache.with_suffix(".pairs"), codec.to_binary([digest.digest(), [list(p) for p in pairs]]))
    return pairs


def _same_file(items: Sequence[Item]) -> list[Group]:
    """One file that stands in two splits."""
    first: dict[Path, int] = {}
    return [
        Group(first[item.image], k, "file", 1.0) for k, item in enumerate(items) if first.setdefault(item.image, k) != k
    ]


def _same_bytes(items: Sequence[Item], cache: Path | None) -> list[Group]:
    """Different files of the same bytes: only files of one size are read, and of these only what changed."""
    by_size: dict[int, list[int]] = defaultdict(list)
    paths: set[Path] = set()
    for k, item in enumerate(items):
        if item.header.bytes and item.header.error != "not_image" and item.image not in paths:
            paths.add(item.image)
            by_size[item.header.bytes].append(k)
    groups = []
    known = _known_digests(cache)
    fresh: Digests = {}
    for size in sorted(by_size):
        first: dict[bytes, int] = {}
        alike = by_size[size]
        for k in alike if len(alike) > 1 else ():
            digest = fresh[str(items[k].real)] = _digest_once(items[k].real, known)
            if digest[1] and first.setdefault(digest[1], k) != k:
                groups.append(Group(first[digest[1]], k, "bytes", 1.0))
    if cache is not None and fresh != known:
        with contextlib.suppress(OSError, ValueError, TypeError):  # a full disk, or a name that is no text
            codec.write_bytes(cache.with_suffix(".digests"), codec.to_binary({k: list(v) for k, v in fresh.items()}))
    return groups


Digests = dict[str, tuple[list[int], bytes]]
"""Stamp and digest of each file whose content was read."""


def _known_digests(cache: Path | None) -> Digests:
    if cache is None:
        return {}
    try:
        stored = codec.from_binary(cache.with_suffix(".digests").read_bytes())
        return {str(path): (list(stamp), bytes(digest)) for path, (stamp, digest) in stored.items()}
    except (OSError, InputError, ValueError, TypeError, AttributeError):
        return {}


def _digest_once(path: Path, known: Digests) -> tuple[list[int], bytes]:
    try:
        stamp = stamp_of(path)
    except OSError:
        return [], b""
    old = known.get(str(path))
    return old if old is not None and old[0] == stamp else (stamp, _digest(path))


def _digest(path: Path) -> bytes:
    """Digest of the content; of a file of more than 2 x HALF only of both ends (a sparse file may be endless)."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            for start, end in ((0, size),) if size <= 2 * HALF else ((0, HALF), (size - HALF, size)):
                file.seek(start)
                left = end - start
                while left > 0 and (part := file.read(min(CHUNK, left))):
                    left -= len(part)
                    digest.update(part)
    except OSError:
        return b""
    return digest.digest()


def copy_faults(items: Sequence[Item], spec: DataSpec, faults: Faults, cache: Path | None = None) -> None:
    """Report copies: across splits as a leak, within a split as duplicates; train = val once as a whole."""
    groups = find_copies(items, cache)
    leaked = {(items[g.first].split, items[g.other].split) for g in groups}
    whole = ""
    if ("train", "val") in leaked:
        sure = {
            g.other
            for g in groups
            if g.how in {"file", "bytes"} and items[g.first].split == "train" and items[g.other].split == "val"
        }
        val = [k for k, item in enumerate(items) if item.split == "val"]
        if len(sure) == len(val) > 0:
            whole = "val"
            value = f"{len(sure)} of {len(val)}"
            faults.add("val_equals_train", "all", spec.source, None, value, fix="split", split="val")
    for g in groups:
        a, b = items[g.first], items[g.other]
        if whole and {a.split, b.split} == {"train", "val"}:
            continue
        across = a.split != b.split
        fault = "train_val_leak" if across else "dup_images"
        kind = g.how
        if spec.task == "classify" and a.image.parent.name != b.image.parent.name and not across:
            kind = "two_classes"
        other = a.image
        value = f"{g.score:.3f}" if g.how not in {"file", "bytes"} else ""
        drop = "drop_image" if across or kind == "bytes" else ""
        # the copy in the training split is the one to leave out: the validation score stays comparable
        place, other, split = (b.image, a.image, b.split)
        if across and b.split != "train" and a.split == "train":
            place, other, split = (a.image, b.image, a.split)
        faults.add(fault, kind, place, None, value, fix=drop, split=split, other=faults.name(other))
