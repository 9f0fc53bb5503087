"""Hints at label noise for `diag data --with RUN`: the run's weights predict on every image, in a child process."""

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diag import codec
from diag.child import Stopper, run_child
from diag.dataset.audit import Audit
from diag.dataset.hints import Hints, Predicted, as_predicted, label_hints
from diag.dataset.walk import is_utf8
from diag.errors import InputError
from diag.screen import Screen
from diag.stages.environment import child_env

PLACES = ("ultralytics/weights", "weights", ".")
"""Where weights lie in a run of diag, in one of Ultralytics, and in a folder of weights."""


def find_weights(given: str) -> tuple[Path, bool]:
    """The weights of a run, and whether it is a run of diag. Raises InputError that says where was looked."""
    path = Path(given).expanduser().resolve()
    if path.is_file():
        if path.suffix != ".pt":
            raise InputError(f"--with {given}: not weights; give a run folder or its best.pt")
        return path, any((parent / "run.json").is_file() for parent in list(path.parents)[:3])
    if not path.is_dir():
        raise InputError(f"--with {given}: no such run folder or file")
    for name in ("best.pt", "last.pt"):
        for place in PLACES:
            if (weights := path / place / name).is_file():
                return weights, (path / "run.json").is_file()
    raise InputError(f"--with {given}: no best.pt or last.pt in {', '.join(PLACES[:2])} of it; has it been trained?")


def add_hints(found: Audit, given: str, workspace: Path, screen: Screen) -> tuple[Audit, dict[str, Any]]:
    """The audit with the finding `label_noise`, and what is told of the pass: `weights`, `images`, or `skipped`.

    Raises InputError if there are no such weights; everything else that goes wrong is a reason under `skipped`.
    """
    weights, own = find_weights(given)
    indexes = [k for k, i in enumerate(found.items) if not i.header.error and is_utf8(str(i.real))]
    folder = workspace / "cache" / "hints"
    folder.mkdir(parents=True, exist_ok=True)
    request, answer = folder / f"{time.time_ns()}.json", folder / f"{time.time_ns()}.jsonl"
    classify = found.dataset.task == "classify"
    images = [str(found.items[k].real) for k in indexes]
    console = folder / "console.log"
    console.unlink(missing_ok=True)
    codec.write_json(request, {"weights": str(weights), "own": own, "classify": classify, "images": images})
    started = time.monotonic()
    try:
        with Stopper() as stopper:
            ended = run_child(
                "diag.record.predict",
                [str(request), str(answer)],
                console=console,
                env=child_env(workspace, stopper),
                stopper=stopper,
                cwd=folder,
                on_tick=lambda: screen.progress(f"predicting on {len(images)} images: {_last(console)}"),
            )
            if stopper.signal:
                raise KeyboardInterrupt
        lines = [codec.decode_json(line.encode(), dict, str(answer)) for line in _text(answer).splitlines()]
    finally:
        request.unlink(missing_ok=True)
        answer.unlink(missing_ok=True)
    told: dict[str, Any] = {"weights": str(weights)}
    if ended.cause.kind != "finished":
        return found, told | {"skipped": f"the pass of the model ended: {ended.cause.detail}; see {console}"}
    head: dict[str, Any] = lines[0] if lines else {"refused": f"no answer; see {console}"}
    if "refused" in head:
        return found, told | {"skipped": head["refused"]}
    to_set, unknown = class_map(head["names"], found.dataset.names)
    if not to_set:
        mine = ", ".join(list(unknown)[:5])
        return found, told | {"skipped": f"the model knows other classes ({mine}) than the data set"}
    predicted: dict[int, Predicted] = {
        indexes[int(line["i"])]: as_predicted(line, to_set) for line in lines[1:] if "error" not in line
    }
    hints = label_hints(found, predicted)
    told |= {
        "loaded": head["loaded"],
        "imgsz": head["imgsz"],
        "images": hints.images,
        "support": round(hints.support, 4),
    }
    told |= {"seconds": round(time.monotonic() - started, 1)}
    names = found.dataset.names
    told["left_out"] = {
        names.get(c, str(c)): f"skipped: the model finds only {share:.0%} of its labels"
        for c, share in sorted(hints.left_out.items())
    }
    not_known = [n for i, n in names.items() if i not in to_set.values()]
    told["left_out"] |= dict.fromkeys(not_known, "skipped: the model does not know this class")
    return with_hints(found, hints), told


def class_map(model: Mapping[Any, str], names: Mapping[int, str]) -> tuple[dict[int, int], list[str]]:
    """Model class -> class of the data set, by name; and the model's names that the set does not have."""
    ids = {name: i for i, name in names.items()}
    known = {int(k): ids[name] for k, name in model.items() if name in ids}
    return known, [name for name in model.values() if name not in ids]


def with_hints(found: Audit, hints: Hints) -> Audit:
    """The audit with a fault `label_noise`, worst first, and the figures of the pass."""
    for hint in hints.found:
        item = hint.item
        file = item.label if hint.line is not None else item.image
        found.faults.add(
            "label_noise",
            hint.kind,
            file,
            hint.line,
            hint.value,
            split=item.split,
            score=hint.score,
            confidence=hint.confidence,
            box=hint.box,
        )
    figures = {**found.dataset.measures, "hint_images": float(hints.images), "hint_support": hints.support}
    dataset = dataclasses.replace(found.dataset, faults=found.faults.summary(), measures=figures)
    return dataclasses.replace(found, dataset=dataset)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _last(console: Path) -> str:
    """The child's last word about its progress."""
    lines = [line for line in _text(console).splitlines() if line.startswith("images ")]
    return lines[-1].removeprefix("images ") if lines else "loading the model"
