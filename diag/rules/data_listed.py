"""data.*: what pasted listings of files say: copies, lost labels, shared label files, leaks, odd images."""

import re
from collections import defaultdict

from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Value, Verdict
from diag.model.foreign import Notes, Tables
from diag.rules.base import rule
from diag.rules.listing_facts import Entry, hashes, listing, lists, sizes, split_of


@rule("data.orphan_label@listed", Severity.MEDIUM, explained_by=("data.path_mismatch",))
def orphan_label(notes: Notes, *, min_each: int = 5, min_matched: float = 0.5) -> Verdict:
    """A listing shows label files that no listed image asks for; on Linux IMG_1 and img_1 are two names.

    min_each: images and labels that are listed at least; min_matched: of the labels do have their image, else the
    listing is of something else. A name that differs only in case or suffix is medium, else it is low. Not of a listing
    that was cut.
    """
    files = listing(notes)
    if len(files.images) < min_each or len(files.labels) < min_each:
        return Skip("no_listing")
    if files.cut:
        return None
    own = defaultdict(set)
    for image in files.images:
        own[image.split].add(image.stem)
    lost = [e for e in files.labels if e.stem not in own.get(e.split, set()) and e.split in own]
    known = sum(1 for e in files.labels if e.stem in own.get(e.split, set()))
    if not lost or known < min_matched * len(files.labels):
        return None
    lower = {split: {_plain(s) for s in stems} for split, stems in own.items()}
    near = [e for e in lost if _plain(e.stem) in lower[e.split]]
    values: dict[str, Value] = {
        "case": "case" if near else None, "count": len(lost), "of": len(files.labels), "near": len(near),
        "example": (near or lost)[0].name,
    }  # fmt: skip
    return Hit(
        values=values,
        fixes=(Fix("rename"),) if near else (Fix("remove"),),
        evidence=tuple(e.source for e in (near or lost)[:3]),
        severity=None if near else Severity.LOW,
    )


def _plain(stem: str) -> str:
    """A name without what programs change: case, a suffix that was kept (`a.jpg.txt`)."""
    return re.sub(r"\.(?:jpe?g|png|bmp|tiff?)$", "", stem.lower())


@rule("data.duplicate_stem@listed", Severity.MEDIUM)
def duplicate_stem(notes: Notes, *, min_each: int = 5) -> Verdict:
    """A listing shows a.jpg and a.png in one folder: both read the label file a.txt. min_each: images listed."""
    files = listing(notes)
    if len(files.images) < min_each:
        return Skip("no_listing")
    stems: dict[tuple[str, str], dict[str, Entry]] = defaultdict(dict)
    for image in files.images:
        stems[image.folder, image.stem].setdefault(image.suffix, image)
    shared = [found for found in stems.values() if len(found) > 1]
    if not shared:
        return None
    first = list(shared[0].values())
    return Hit(
        values={"count": len(shared), "example": ", ".join(e.name for e in first[:2])},
        fixes=(Fix("rename"),),
        evidence=tuple(e.source for e in first[:3]),
    )


@rule("data.dup_images@listed", Severity.MEDIUM)
def dup_images(notes: Notes, *, min_repeats: int = 2) -> Verdict:
    """Checksums show the same image more than once in a split, or a list names one path again and again.

    min_repeats: images that a list repeats; that may be oversampling by hand, and is low.
    """
    found = hashes(notes)
    repeated = [(e, n) for each in lists(notes).values() for e, n in _repeats(each)]
    if len(repeated) >= min_repeats:
        again = sum(n - 1 for _, n in repeated)
        return Hit(
            values={"case": "list", "count": len(repeated), "again": again, "example": repeated[0][0].name},
            fixes=(Fix("oversampled"),),
            evidence=tuple(e.source for e, _ in repeated[:3]),
            severity=Severity.LOW,
        )
    if not found:
        return Skip("no_listing")
    copies = 0
    places: list[Source] = []
    for same in found.values():
        each: dict[str, list[Source]] = defaultdict(list)
        for path, source in same:
            each[split_of(path)].append(source)
        for sources in each.values():
            copies += len(sources) - 1
            places += sources[:2] if len(sources) > 1 else []
    if not copies:
        return None
    images = sum(map(len, found.values()))
    return Hit(values={"count": copies, "of": images}, fixes=(Fix("drop"),), evidence=tuple(places[:4]))


def _repeats(entries: list[Entry]) -> list[tuple[Entry, int]]:
    """Entries of a list of paths that stand in it more than once (a listing of folders can't hold one twice)."""
    counts: dict[tuple[str, str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        if re.search(r"(?:train|val|valid|test)[\w-]*\.txt$", entry.source.file):
            counts[entry.source.file, entry.folder, entry.name].append(entry)
    return [(same[0], len(same)) for same in counts.values() if len(same) > 1]


@rule("data.train_val_leak@listed", Severity.HIGH, explained_by=("data.val_equals_train",))
def leak(notes: Notes, *, min_shared: int = 3, min_share: float = 0.03, most_frames: float = 0.5) -> Verdict:
    """The same pictures stand in train and in val: by path, by checksum, or as augmented copies of one source.

    Copies that were made before the split carry the name of their source and a hash (`a_jpg.rf.<hash>.jpg`). Equal file
    names alone prove nothing (0001.jpg), and neither do numbers of photographs that follow each other; frames of a
    video (named so) with a neighbour in train are nearly the same picture, which is medium. min_shared, min_share: of
    the validation pictures; a few names meet by chance. most_frames: of them have such a neighbour.
    """
    by_split = lists(notes)
    train, val = by_split.get("train", []), by_split.get("val", []) + by_split.get("test", [])
    kind, shared = "", []
    if train and val:
        paths = {f"{e.folder}/{e.name}" for e in train if e.folder}
        sources = {s for e in train if (s := _source(e.stem))}
        shared = [e for e in val if e.folder and f"{e.folder}/{e.name}" in paths]
        kind = "path"
        copies = [e for e in val if _source(e.stem) in sources]
        if len(copies) > len(shared):
            kind, shared = "copies", copies
        near = _neighbours(train, val)
        if not shared and len(near) >= max(min_shared, most_frames * len(val)):
            kind, shared = "frames", near
    where = [e.source for e in shared]
    total = len(val)
    for same in hashes(notes).values():
        splits = {split_of(path) for path, _ in same}
        if "train" in splits and splits & {"val", "test"}:
            kind = "bytes"
            where += [source for path, source in same if split_of(path) != "train"]
    if kind == "bytes":
        total = sum(1 for same in hashes(notes).values() for path, _ in same if split_of(path) in {"val", "test"})
    elif not train or not val:
        return Skip("no_listing")
    if len(where) < (1 if kind == "bytes" else min_shared) or len(where) < min_share * total:
        return None
    return Hit(
        values={
            "case": kind if kind != "path" else None,
            "count": len(where),
            "of": total,
            "share": len(where) / total,
        },
        fixes=(Fix("resplit"),),
        evidence=tuple(where[:3]),
        confidence=Confidence.MEDIUM if kind in {"copies", "frames"} else Confidence.HIGH,
        severity=Severity.MEDIUM if kind == "frames" else None,
    )


_FRAME = re.compile(
    r"(.*?(?:(?:^|[^a-z])(?:f|fr|frames?|vid|video|clip|seq|cam\d*)|mp4|avi|mov|mkv)[^a-z\d]{0,3})(\d{1,7})(?:_jpg|_png)?$",
    re.I,
)


def _neighbours(train: list[Entry], val: list[Entry]) -> list[Entry]:
    """Frames of val whose next or previous frame of the same video stands in train."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for entry in train:
        if frame := _FRAME.match(entry.stem):
            numbers[frame[1]].add(int(frame[2]))
    found = []
    for entry in val:
        frame = _FRAME.match(entry.stem)
        if frame and numbers.get(frame[1], set()) & {int(frame[2]) - 1, int(frame[2]) + 1}:
            found.append(entry)
    return found


def _source(stem: str) -> str:
    """The picture that an augmented copy was made of; empty if the name does not tell."""
    found = re.match(r"(.+?)[._]rf[._][0-9a-f]{8,}$", stem, re.I)
    return found[1] if found else ""


_TURNED = (
    r"^(?:\S+\s+)?(?:EXIF:|Exif\.Image\.|Image )?Orientation\s*[:=]\s*"
    r"(?:rotate|mirror|rotated|[2-8]\b|right|left|bottom|.*rotate)"
)


@rule("data.exif_rotated@listed", Severity.LOW)
def exif_rotated(notes: Notes | None, tables: Tables | None) -> Verdict:
    """exiftool or PIL say that images are turned by their EXIF tag: tools that ignore it drew boxes elsewhere."""
    table = tables.having(r"^(?:exif[:_. ]?)?orientation$") if tables else None
    if table is not None:
        cells = [c.strip() for c in table.texts(table.find(r"^(?:exif[:_. ]?)?orientation$"))]
        rows = [i for i, c in enumerate(cells, 2) if re.match(r"[2-8](?:\.0)?$|(?:rotate|mirror)", c, re.I)]
        if not rows:
            return None
        return Hit(
            values={"count": len(rows), "of": len(cells)},
            fixes=(Fix("turn"),),
            evidence=tuple(Source(table.file, i, ", ".join(table.rows[i - 2])[:120]) for i in rows[:3]),
        )
    told = notes.find(r"(?:^|\W)Orientation\s*[:=]") if notes else ()
    turned = [n for n in told if re.search(_TURNED, n.text, re.I)]
    if not told:
        return Skip("no_listing")
    if not turned:
        return None
    return Hit(
        values={"count": len(turned), "of": len(told)},
        fixes=(Fix("turn"),),
        evidence=tuple(Source(n.file, n.line, n.text) for n in turned[:3]),
    )


_LEAST_USUAL = 64
"""The usual longer side of a listing of image sizes; pairs of smaller numbers count something else."""


@rule("data.image_extreme@listed", Severity.LOW)
def image_extreme(
    notes: Notes | None, tables: Tables | None, *, min_side: int = 10, max_side: int = 8000,
    max_pixels: float = 50e6, max_aspect: float = 10.0, most: float = 0.5,
) -> Verdict:  # fmt: skip
    """Single images of a listing are extreme in size or shape.

    min_side: Ultralytics leaves smaller ones out; max_side, max_pixels, max_aspect: as in the data doctor. most: if
    more than that share of the images is so, it is their kind and no exception.
    """
    found = sizes(notes) if notes else []
    table = tables.having(r"^(?:image_)?width$|^w$", r"^(?:image_)?height$|^h$") if tables else None
    if table is not None and table.find(r"image|file|path|name"):
        wide, high = table.numbers(r"^(?:image_)?width$|^w$"), table.numbers(r"^(?:image_)?height$|^h$")
        found += [
            (int(w), int(h), Source(table.file, i)) for i, (w, h) in enumerate(zip(wide, high, strict=True), 2)
            if 0 < w < 1e6 and 0 < h < 1e6
        ]  # fmt: skip
    if not found:
        return Skip("no_listing")
    odd = []
    for width, height, source in found:
        small, large = min(width, height), max(width, height)
        if 0 < small < min_side or large > max_side or width * height > max_pixels or large > max_aspect * small:
            odd.append((f"{width} x {height}", source))
    middle = sorted(max(w, h) for w, h, _ in found)[len(found) // 2]
    if not odd or len(odd) > most * len(found) or middle < _LEAST_USUAL:
        return None
    return Hit(
        values={"count": len(odd), "of": len(found), "example": odd[0][0]},
        fixes=(Fix("look"),),
        evidence=tuple(source for _, source in odd[:3]),
    )
