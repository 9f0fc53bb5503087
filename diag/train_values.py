"""Would Ultralytics take this value? Asked before anything is created, with its own tables (diag/train_tables.py)."""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from diag.errors import InputError
from diag.train_tables import Tables

STRIDE = 32
"""Ultralytics rounds imgsz up to a multiple of the model's largest stride, which is at least 32 (utils/checks.py)."""
_TRUE, _FALSE = {"1", "yes", "on", "y"}, {"0", "no", "off", "n"}
_CACHE = ("True", "False", "ram", "disk")
_WORDS: Mapping[str, tuple[str, ...]] = {
    "copy_paste_mode": ("flip", "mixup"),
    "auto_augment": ("randaugment", "autoaugment", "augmix"),
    "split": ("val", "test", "train"),
}
"""Texts that Ultralytics asserts or branches on; anything else fails late or does nothing."""


def check_value(key: str, value: Any, known: Tables) -> None:
    """Raise InputError, with what is allowed, for a value that Ultralytics would refuse or silently misread."""
    if value is None:
        if known.none_refused and key in {*known.typed, "amp", "compile", "scale"} and known.defaults.get(key):
            raise InputError(f"{key}=None: must have a value; leave it out for the default, {known.defaults[key]}")
        return
    if check := _OWN.get(key):
        check(value, known)
        return
    _check_type(key, value, known)
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{key}={value}: must be a finite number")
    number = value if isinstance(value, (int, float)) else None
    if key in known.fractions and number is not None and not 0 <= number <= 1:
        raise InputError(f"{key}={value}: must be between 0 and 1{_percent(key, number)}")
    least = {**_LEAST, **known.least}.get(key)
    if least is not None and number is not None and number < least:
        raise InputError(f"{key}={value}: must be at least {least}")
    if (words := _WORDS.get(key)) and isinstance(value, str) and value not in words:
        raise InputError(f"{key}={value}: one of {', '.join(words)}{_mean(key, value, words)}")


_LEAST = {"epochs": 1, "workers": 0, "time": 0, "patience": 0, "nbs": 1, "mask_ratio": 1, "max_det": 1, "seed": 0}
"""For releases without CFG_INT_MIN, which fail late or not at all; workers and time in all of them."""


def notes(args: Mapping[str, Any]) -> list[str]:
    """What Ultralytics makes of values that it takes and changes: one line each."""
    told: list[str] = []
    size = args.get("imgsz")
    sizes = [s for s in (size if isinstance(size, (list, tuple)) else [size]) if isinstance(s, int)]
    one = max(sizes, default=0)
    if len(sizes) > 1:
        told.append(f"imgsz={sizes}: training images are square, so Ultralytics takes {one}")
    if one % STRIDE:
        told.append(f"imgsz={one} is no multiple of {STRIDE}; Ultralytics rounds it up to {-(-one // STRIDE) * STRIDE}")
    warm, epochs = args.get("warmup_epochs"), args.get("epochs")
    if isinstance(warm, (int, float)) and isinstance(epochs, int) and warm >= epochs > 0:
        told.append(f"warmup_epochs={warm} is not less than epochs={epochs}: all of it is warm-up")
    return told


def _check_type(key: str, value: Any, known: Tables) -> None:
    if key in known.booleans:
        if not isinstance(value, bool):
            word = str(value).lower()
            meant = "True" if word in _TRUE else "False" if word in _FALSE else ""
            raise InputError(f"{key}={value}: must be True or False" + (f"; write {key}={meant}" if meant else ""))
        return
    allowed = known.types.get(key, ())
    if key in known.integers:
        allowed = (int,)
    elif (key in known.floats or key in known.fractions) and float not in allowed:
        allowed = (*allowed, float, int)
    wrong_bool = isinstance(value, bool) and allowed and bool not in allowed
    if allowed and (wrong_bool or not isinstance(value, allowed)):
        names = " or ".join(dict.fromkeys(t.__name__ for t in allowed))
        raise InputError(f"{key}={value}: expected {names}{_written(key, value, allowed)}")


def _written(key: str, value: Any, allowed: tuple[type, ...]) -> str:
    """How it was probably meant."""
    text = str(value)
    if isinstance(value, float) and value.is_integer() and int in allowed:
        return f"; write {key}={int(value)}"
    if float in allowed and re.fullmatch(r"[-+]?\d+,\d+", text):
        return f"; decimals have a point: {key}={text.replace(',', '.')}"
    if int in allowed and re.fullmatch(r"\d{1,3}([,_ ']\d{3})+", text):
        return f"; write {key}={re.sub('[^0-9]', '', text)}"
    number = re.match(r"([-+]?\d+(?:\.\d+)?)\s*(?:%|px|s|h|gb|epochs?)$", text, re.I)
    return f"; without a unit: {key}={number[1]}" if number and "%" not in text else ""


def _percent(key: str, number: float) -> str:
    if key.startswith(("lr", "warmup", "momentum", "weight")):
        return ""
    return f" (a fraction; {number:g} % is {number / 100:g})" if 1 < number <= 100 and number == int(number) else ""


def _mean(key: str, value: object, words: Iterable[str]) -> str:
    by_lower = {w.lower(): w for w in words}
    near = difflib.get_close_matches(str(value).lower(), by_lower, n=1)
    return f"; did you mean {key}={by_lower[near[0]]}?" if near else ""


def _batch(value: Any, known: Tables) -> None:
    if not isinstance(value, float):
        _check_type("batch", value, known)
    share = isinstance(value, float) and 0 < value < 1
    whole = math.isfinite(value) and value == int(value) and (value >= 1 or value == -1)
    if not share and not whole:
        ways = "a whole number from 1 on, -1 (AutoBatch) or, on a GPU, a share of its memory between 0 and 1"
        raise InputError(f"batch={value}: must be {ways}")


def _imgsz(value: Any, known: Tables) -> None:
    _check_type("imgsz", value, known)
    sizes = value if isinstance(value, (list, tuple)) else [value]
    good = 1 <= len(sizes) <= 2 and all(isinstance(s, int) and not isinstance(s, bool) for s in sizes)
    if not good:
        raise InputError(f"imgsz={value}: one number of pixels, as imgsz=640")
    if min(sizes) < 1:
        raise InputError(f"imgsz={value}: must be at least 1")


def _fraction(value: Any, known: Tables) -> None:
    """Newer releases also take a count above 1 and [train, val, test]."""
    _check_type("fraction", value, known)
    more = list in known.types.get("fraction", ())
    if isinstance(value, list):
        fits = (
            len(value) in {2, 3}
            and all(value[:2])
            and all((isinstance(v, int) and v >= 0) or (isinstance(v, float) and 0 <= v <= 1) for v in value)
        )
    else:
        fits = 0 < value <= 1 or (more and isinstance(value, int) and value > 1)
    if not fits:
        ways = "a share above 0, up to 1" + (", a count above 1, or [train, val] of them" if more else "")
        raise InputError(f"fraction={value}: must be {ways}")


def _scale(value: Any, known: Tables) -> None:
    """A gain in 0..1; newer releases also take a (min, max) pair."""
    _check_type("scale", value, known)
    if isinstance(value, (list, tuple)):
        if len(value) != 2 or not all(isinstance(v, (int, float)) for v in value):
            raise InputError(f"scale={value}: a pair is (min, max), as scale=(0.5,2.0)")
    elif not 0 <= value <= 1:
        pair = ", or a pair (min, max)" if tuple in known.types.get("scale", ()) else ""
        raise InputError(f"scale={value}: must be between 0 and 1{pair}")


def _device(value: Any, known: Tables) -> None:
    """cpu, mps, cuda, 0, 0,1, [0,1], cuda:0; in newer releases also -1 (an idle GPU), npu:0, xpu:0 ..."""
    comment = known.comments.get("device", "")
    text = re.sub(r"[\s()\[\]'\"]", "", str(value).lower())
    idle = "-1" in comment
    good: object = text in {"", "none", "cpu", "mps", "mps:0", "cuda"} or re.fullmatch(
        r"(cuda:)?\d+(,(cuda:)?\d+)*,?", text
    )
    good = good or (idle and re.fullmatch(r"-1(,-1)*", text))
    others = [n for n in ("npu", "xpu", "tpu", "intel", "vulkan") if n in comment or n in {"tpu", "intel", "vulkan"}]
    good = good or re.fullmatch(rf"({'|'.join(others)})(:[\w,.]+)?", text)
    if isinstance(value, (bool, float)) or not good:
        number = re.fullmatch(r"(?:gpu|cuda|nvidia)[:_-]?(\d+)", text)
        meant = number[1] if number else {"gpu": "0", "nvidia": "0", "gpu0": "0", "auto": "", "all": "0,1"}.get(text)
        hint = f"; did you mean device={meant}?" if meant else "; leave it out for the first GPU" if meant == "" else ""
        ways = "cpu, mps, 0, 0,1 or cuda:0" + (", -1 for an idle GPU" if idle else "")
        raise InputError(f"device={value}: no device; use {ways}{hint}")
    indices = [part for part in text.replace("cuda:", "").split(",") if part.isdigit()]
    if len(set(indices)) < len(indices):
        raise InputError(f"device={value}: names a GPU twice")


def _optimizer(value: Any, known: Tables) -> None:
    """The names in the comment of default.yaml; older releases want their exact letters."""
    _check_type("optimizer", value, known)
    comment = known.comments.get("optimizer", "")
    names = re.findall(r"\b(MuSGD|SGD|Adam\w*|[NR]Adam|RMSProp|auto|Lion|Muon)\b", comment)
    lower = {name.lower() for name in names}
    if names and value not in names and not (known.any_case and value.lower() in lower):
        raise InputError(
            f"optimizer={value}: one of {', '.join(dict.fromkeys(names))}{_mean('optimizer', value, names)}"
        )


def _cache(value: Any, _: Tables) -> None:
    """Other texts are no error in Ultralytics; they just cache nothing."""
    if isinstance(value, bool) or str(value).lower() in {"ram", "disk"}:
        return
    word = str(value).lower()
    meant = "True" if word in _TRUE else "False" if word in _FALSE else ""
    hint = f"; write cache={meant}" if meant else _mean("cache", value, _CACHE)
    raise InputError(f"cache={value}: one of {', '.join(_CACHE)}{hint}")


def _amp(value: Any, known: Tables) -> None:
    """True or False; newer releases also fp16, bf16 and fp32."""
    words = [w for w in ("fp16", "bf16", "fp32") if w in known.comments.get("amp", "")]
    if isinstance(value, bool) or str(value).lower() in words:
        return
    word = str(value).lower()
    meant = "True" if word in _TRUE else "False" if word in _FALSE else ""
    raise InputError(
        f"amp={value}: one of {', '.join(['True', 'False', *words])}" + (f"; write amp={meant}" if meant else "")
    )


def _quantize(value: Any, known: Tables) -> None:
    if known.quantize and str(value).lower() not in known.quantize:
        raise InputError(f"quantize={value}: one of {', '.join(sorted(known.quantize))}")


def _freeze(value: Any, known: Tables) -> None:
    _check_type("freeze", value, known)
    if isinstance(value, int) and value < 0:
        raise InputError(f"freeze={value}: the number of first layers, or a list of layers, as freeze=[0,1,2]")


_OWN: Mapping[str, Callable[[Any, Tables], None]] = {
    "amp": _amp,
    "batch": _batch,
    "cache": _cache,
    "device": _device,
    "fraction": _fraction,
    "freeze": _freeze,
    "imgsz": _imgsz,
    "optimizer": _optimizer,
    "quantize": _quantize,
    "scale": _scale,
}
