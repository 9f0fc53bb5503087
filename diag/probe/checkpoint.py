"""What a model file would do when it is loaded, found out without loading it.

A PyTorch checkpoint is a pickle: a list of names to import and calls to make. Here it is played back with dolls in
place of everything that it names, so that nothing is imported and nothing is called. Never imports torch.
"""

import io
import pickle
import pickletools
import re
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

KNOWN = frozenset(
    (
        "_codecs.encode",
        "argparse.Namespace",
        "builtins.bytearray",
        "builtins.complex",
        "builtins.dict",
        "builtins.float",
        "builtins.frozenset",
        "builtins.getattr",
        "builtins.int",
        "builtins.list",
        "builtins.set",
        "builtins.slice",
        "builtins.tuple",
        "collections.OrderedDict",
        "collections.defaultdict",
        "datetime.datetime",
        "numpy.dtype",
        "numpy.ndarray",
        "numpy.core.multiarray._reconstruct",
        "numpy.core.multiarray.scalar",
        "numpy._core.multiarray._reconstruct",
        "numpy._core.multiarray.scalar",
        "pathlib.Path",
        "pathlib.PosixPath",
        "pathlib.WindowsPath",
        "pathlib._local.PosixPath",
        "pathlib._local.WindowsPath",
        "torch.Size",
        "torch.Tensor",
        "torch.device",
        "torch._utils._rebuild_parameter",
        "torch._utils._rebuild_parameter_with_state",
        "torch._utils._rebuild_tensor",
        "torch._utils._rebuild_tensor_v2",
        "torch.serialization._get_layout",
        "torch.nn.parameter.Parameter",
        "torchvision.transforms.functional.InterpolationMode",
        "types.SimpleNamespace",
        "ultralytics.utils.IterableSimpleNamespace",
        "ultralytics.yolo.utils.IterableSimpleNamespace",
    )
)
"""Names that a checkpoint of Ultralytics may hold beside model classes: what torch's own safe loading and Ultralytics'
ULTRALYTICS_SAFE_LOAD allow (torch/_weights_only_unpickler.py, ultralytics/nn/tasks.py)."""

CLASSES = re.compile(
    r"""(?x)
    (?: torch\.nn\.modules(?:\.\w+)? | ultralytics\.nn\.(?:modules(?:\.\w+)?|tasks)
      | ultralytics\.utils\.(?:loss|tal) | torchvision\.transforms\.transforms )
    \. (?:v\d+)?[A-Z]\w* """
)
"""Model classes: a name that begins with a capital letter (v10Detect) in one of the modules that hold such classes."""

STORAGES = re.compile(
    r"torch\.(?:\w+Storage|float\d\w*|bfloat16|u?int\d+|bool|half|float|double|long|storage\.\w+Storage)"
)
METHODS = re.compile(r"forward\w*|[A-Z][A-Z_]*")
"""What `getattr` may be asked for: a layer's forward method, a member of an enumeration."""

ACTIVATION = re.compile(r"(?:torch\.)?nn\.\w+\([\w=., -]*\)")
"""An activation as model yamls write it. Ultralytics gives it to `eval`, so nothing else passes."""
PARENTHESES = re.compile(rb"[\w/.:-]+\([A-Z0-9]{1,3}\)|AGPL-3\.0 License \(https://ultralytics\.com/license\)")
"""Other texts with parentheses in checkpoints: names of metrics such as metrics/mAP50(B), the licence."""

PYTHON_2 = {"__builtin__": "builtins", "copy_reg": "copyreg"}
"""PyTorch writes pickles of protocol 2, whose names are those of Python 2."""

ZIP, PICKLES_OF_OLD_FORMAT = b"PK\x03\x04", 5


class _Doll:
    """Stands for an imported class or function: notes that it was called, does nothing."""

    name = ""
    notes: list[tuple[str, tuple[Any, ...]]]

    def __new__(cls, *_: Any, **__: Any) -> "_Doll":
        return super().__new__(cls)

    def __init__(self, *args: Any, **_: Any) -> None:
        # Only a call gets here: objects that were saved are made with __new__ and get their state.
        self.notes.append((self.name, args))

    def __call__(self, *args: Any, **_: Any) -> "_Doll":
        self.notes.append((f"the result of {self.name}", args))
        return self

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, value: Any) -> None:
        """As a list that is filled."""

    def extend(self, values: Any) -> None:
        """As a list that is filled."""

    def add(self, value: Any) -> None:
        """As a set that is filled."""


class _Player(pickle.Unpickler):
    """Plays a pickle back with dolls."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self.names: set[str] = set()
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def find_class(self, module: str, name: str) -> Any:
        """Instead of an import: a doll of that name."""
        full = f"{PYTHON_2.get(module, module)}.{name}"
        self.names.add(full)
        return type("Doll", (_Doll,), {"name": full, "notes": self.calls})

    def persistent_load(self, pid: Any) -> Any:
        """A tensor's storage; its bytes are no pickle."""
        return None


def why_refuse(path: Path) -> str:
    """ "" if loading the model file builds nothing but a model; else, in one line, what it would do.

    Raises OSError when the file can't be read.
    """
    try:
        for pickled in _pickles(path):
            reason = _judge(*pickled)
            if reason:
                return reason
    except _NoCheckpointError as error:
        return str(error)
    return ""


class _NoCheckpointError(Exception):
    """The file is none that Ultralytics could train from."""


def _pickles(path: Path) -> Iterator[tuple[bytes, int]]:
    """(bytes, number of pickles in them) of a checkpoint."""
    with path.open("rb") as file:
        head = file.read(len(ZIP))
        if head != ZIP:
            if tarfile.is_tarfile(path):
                raise _NoCheckpointError("it is a tar archive, which PyTorch stopped writing in 2017")
            # The format before PyTorch 1.6: five pickles, then the numbers.
            yield head + file.read(), PICKLES_OF_OLD_FORMAT
            return
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.lower() for name in archive.namelist()]  # PyTorch's reader knows no capitals
            if len(set(names)) != len(names):
                raise _NoCheckpointError("two parts of the file have the same name, so that readers differ about it")
            if any("/code/" in f"/{name}" or name.endswith("constants.pkl") for name in names):
                raise _NoCheckpointError(
                    "it is a TorchScript archive, which is a program; training starts from a .pt checkpoint"
                )
            pickles = [name for name in archive.namelist() if name.lower().endswith(".pkl")]
            if len(pickles) != 1 or not re.fullmatch(r"[^/]+/data\.pkl", pickles[0]):
                raise _NoCheckpointError(
                    f"it is no PyTorch checkpoint: {len(pickles)} pickles in a zip archive, expected NAME/data.pkl"
                )
            yield archive.read(pickles[0]), 1
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise _NoCheckpointError(f"it is damaged or was not copied completely ({error})") from error


def _judge(data: bytes, count: int) -> str:
    file = io.BytesIO(data)
    names: set[str] = set()
    calls: list[tuple[str, tuple[Any, ...]]] = []
    failed = ""
    for number in range(count):
        player = _Player(file)
        try:
            player.load()
        except Exception as error:  # any bytes can stand there; whatever the player says, it is no checkpoint
            failed = f"{type(error).__name__}: {error}"
        names |= player.names
        calls += player.calls
        if failed:
            break
        if number == 0 and count > 1 and player.names:
            break  # not the old format's magic number; judged by its names
    unknown = sorted(name for name in names if not _known(name))
    if unknown:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        return f"loading it would run or build {unknown[0]}{more}, which is no part of a model of Ultralytics"
    if failed:
        return f"it is no PyTorch checkpoint, or is damaged ({failed})"
    for name, args in calls:
        if name.startswith("the result of ") or CLASSES.fullmatch(name):
            return f"loading it would call {name}"
        if name == "builtins.getattr" and not _harmless_getattr(args):
            return f"loading it would look up {args[1:2]} with getattr"
    return _evaluated(data[: file.tell()])


def _known(name: str) -> bool:
    return name in KNOWN or bool(CLASSES.fullmatch(name) or STORAGES.fullmatch(name))


def _harmless_getattr(args: tuple[Any, ...]) -> bool:
    return len(args) == 2 and isinstance(args[1], str) and bool(METHODS.fullmatch(args[1]))


def _evaluated(data: bytes) -> str:
    """Would Ultralytics evaluate a text of it as Python? It does so with `activation` of the model's yaml."""
    texts = []
    for opcode, argument, _ in _opcodes(data):
        if isinstance(argument, (str, bytes, bytearray)) and opcode.name not in {"GLOBAL", "INST"}:
            texts.append(argument.encode(errors="replace") if isinstance(argument, str) else bytes(argument))
    if not any(b"activation" in text for text in texts):
        return ""
    for text in texts:
        shown = text.decode(errors="replace")
        if b"(" in text and not (ACTIVATION.fullmatch(shown) or PARENTHESES.fullmatch(text)):
            return f"Ultralytics could evaluate the text {shown[:80]!r} of it as Python (activation)"
    return ""


def _opcodes(data: bytes) -> Iterator[tuple[pickletools.OpcodeInfo, Any, int | None]]:
    """The opcodes of all pickles in `data`."""
    file = io.BytesIO(data)
    while file.tell() < len(data):
        yield from pickletools.genops(file)
