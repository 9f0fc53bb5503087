"""What pasted listings (find, ls, tree, md5sum, identify, exiftool, lists of paths) say of image and label files. No
rules here."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from diag.model.finding import Source
from diag.model.foreign import Note, Notes

IMAGES = "jpg|jpeg|png|bmp|tif|tiff|webp|dng|mpo|heic"
_ENTRY = re.compile(rf"(?:^|[\s*'\"])((?:[^\s*'\"│├└|]+[\\/])?[^\s*'\"│├└|\\/]+)\.({IMAGES}|txt)(?=$|[\s'\",])", re.I)
_HEADER = re.compile(r"^(?:\./)?([\w.-]+(?:[\\/][\w. -]+)*)[\\/]?:$")
_CUT = re.compile(r"^(?:\.{3}|…|\(?(?:and )?\d+ more\b)|^\W*\.\.\.\W*$", re.I)
_NO_LABELS = {"classes", "train", "val", "valid", "test", "readme", "notes", "predefined_classes", "requirements"}
_SPLIT = re.compile(r"(?:^|[\\/])(train|val|valid|validation|test)(?=$|[\\/\d])", re.I)
_SAME = {"valid": "val", "validation": "val"}
_MIN_ENTRIES = 5
_MIN_SHARE = 0.6
"""Of a text's lines name a file: then it is a listing; a console log names files now and then."""
_FULL = 2900
"""Lines of a text from which on it was probably cut (diag/load/notes.py keeps 3000)."""


@dataclass(frozen=True)
class Entry:
    """A file that a listing names."""

    folder: str
    stem: str
    suffix: str
    split: str
    """train, val, test or empty, by the folder."""
    source: Source

    @property
    def name(self) -> str:
        """Stem and suffix."""
        return f"{self.stem}.{self.suffix}"


@dataclass
class Listing:
    """All image and label files that listings name."""

    images: list[Entry] = field(default_factory=list)
    labels: list[Entry] = field(default_factory=list)
    cut: bool = False
    """A listing says, or its length tells, that it is not all."""


def listing(notes: Notes | None) -> Listing:
    """The files that texts list, each with its folder."""
    made = Listing()
    for lines in _by_file(notes).values():
        found: list[Entry] = []
        folder, told = "", 0
        for note in lines:
            if note.text.startswith("$") or not note.text:
                continue
            if header := _HEADER.match(note.text):
                folder, told = header[1], told + 1
                continue
            entries = list(_entries(note, folder))
            told += bool(entries)
            found += entries
            made.cut |= bool(_CUT.search(note.text))
        spoken = sum(1 for n in lines if not n.text.startswith("$"))
        if len(found) < _MIN_ENTRIES or told < _MIN_SHARE * spoken:
            continue
        made.cut |= len(lines) >= _FULL
        made.images += [e for e in found if e.suffix != "txt"]
        made.labels += [
            e for e in found if e.suffix == "txt" and ("label" in e.folder.lower() or e.stem not in _NO_LABELS)
        ]
    return made


def _entries(note: Note, folder: str) -> Iterator[Entry]:
    for found in _ENTRY.finditer(note.text):
        path = found[1].replace("\\", "/")
        head, _, stem = path.rpartition("/")
        where = head or folder
        split = _SPLIT.search(where)
        name = split[1].lower() if split else ""
        yield Entry(
            where.strip("./"), stem, found[2].lower(), _SAME.get(name, name), Source(note.file, note.line, note.text)
        )


def _by_file(notes: Notes | None) -> Mapping[str, list[Note]]:
    files: dict[str, list[Note]] = defaultdict(list)
    for note in notes.lines if notes else ():
        files[note.file].append(note)
    return files


def lists(notes: Notes | None) -> dict[str, list[Entry]]:
    """Image paths by split: of lists that are called train.txt, val.txt ..., and of folders in other listings."""
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in listing(notes).images:
        base = entry.source.file.replace("\\", "/").rpartition("/")[2].lower()
        own = re.match(r"(?:auto_?split_)?(train|val|valid|validation|test)[\w-]*\.txt$", base)
        name = own[1] if own else entry.split
        if name:
            found[_SAME.get(name, name)].append(entry)
    return found


_HASH = re.compile(rf"^([0-9a-f]{{32,64}})\s+\*?(\S.*?\.(?:{IMAGES}))\s*$", re.I)


def hashes(notes: Notes | None) -> dict[str, list[tuple[str, Source]]]:
    """Paths of images by their checksum (md5sum, sha1sum, sha256sum)."""
    found: dict[str, list[tuple[str, Source]]] = defaultdict(list)
    for note in notes.lines if notes else ():
        if line := _HASH.match(note.text):
            found[line[1].lower()].append((line[2].replace("\\", "/"), Source(note.file, note.line, note.text)))
    return found


def split_of(path: str) -> str:
    """train, val or test by a folder of the path; empty without one."""
    found = _SPLIT.search(path.rpartition("/")[0])
    return _SAME.get(found[1].lower(), found[1].lower()) if found else ""


_SIZES = (
    re.compile(rf"^(\S+\.(?:{IMAGES}))\S* [A-Z]\w{{2,5}} (\d{{1,6}})x(\d{{1,6}})\b", re.I),  # identify
    re.compile(rf"^(\S+\.(?:{IMAGES})): .*?image data.*?, (\d{{1,6}}) ?x ?(\d{{1,6}})\b", re.I),  # file
    re.compile(rf"^(\S+\.(?:{IMAGES}))[\s,:]+\(?(\d{{1,6}})(?: ?[x,\u00d7] ?| +)(\d{{1,6}})\)?$", re.I),
)


def sizes(notes: Notes | None) -> list[tuple[int, int, Source]]:
    """Width and height of images, as identify, file or a plain list gives them."""
    found = []
    for note in notes.lines if notes else ():
        for pattern in _SIZES:
            if line := pattern.match(note.text):
                found.append((int(line[2]), int(line[3]), Source(note.file, note.line, note.text)))
                break
    return found


_NAME = re.compile(r"^[\s│|├└─+`\\-]*([\w][\w .&()'-]{0,60}?)[\\/]?$")
_PATH = re.compile(r"(?:^|[\\/])(train|val|valid|validation|test)[\\/]([^\\/\s]+)(?:[\\/]|$)", re.I)
_DETECTION = re.compile(r"(?:^|[\\/ │├└─])(?:images|labels|runs)(?:[\\/]|$)", re.I)
_OTHER = {"images", "labels", "annotations", "masks", "label", "image", "weights", "videos"}


def class_folders(notes: Notes | None) -> dict[str, frozenset[str]]:
    """The class folders of each split of a classification set: of `train: a b c`, of tree, of find and of ls.

    Listings that hold images/ or labels/ are of a detection set and are left out (its scenes may differ between
    splits), and so are listings that were cut, results of trainings (runs/train/exp) and texts that only name a path
    now and then.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for lines in _by_file(notes).values():
        if len(lines) >= _FULL or any(_CUT.search(n.text) or _DETECTION.search(n.text) for n in lines):
            continue
        if any(re.search("[├└]", n.text) for n in lines):
            _tree(lines, found)
            continue
        if re.search("tree|ls|dir|folder", lines[0].file, re.I):
            for note in lines:
                if line := re.match(r"(train|val|valid|validation|test)[/\\]?:(?: |$)", note.text, re.I):
                    found[line[1].lower()] |= set(note.text.partition(":")[2].replace(",", " ").split())
        base = lines[0].file.replace("\\", "/").rpartition("/")[2].lower()
        if re.search(r"^(?:train|val|test)", base):
            continue  # a list of paths of one split, not a listing of folders
        paths = [path for n in lines if " " not in n.text and (path := _PATH.search(n.text))]
        if len(paths) >= _MIN_SHARE * len(lines):
            for path in paths:
                found[path[1].lower()].add(path[2])
    clean = {s: frozenset(n for n in names if "." not in n) for s, names in found.items()}
    return {_SAME.get(s, s): names for s, names in clean.items() if len(names) > 1 and not names & _OTHER}


def _tree(lines: list[Note], found: dict[str, set[str]]) -> None:
    split = ""
    for note in lines:
        name = _NAME.match(note.text)
        if not name or re.match(r"\d+ director", note.text):
            continue
        if name[1].lower() in {"train", "val", "valid", "validation", "test"}:
            split = name[1].lower()
        elif split and re.search("[├└]", note.text):
            found[split].add(name[1])
