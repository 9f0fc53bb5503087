"""What peers say of the same single defects: file and line, file, only a count, or nothing."""

import json
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random

import bench_kinds as kinds
from bench_mutations import Bench, Expected

WORKER = Path(__file__).with_name("bench_data_peer_worker.py")
_SEEN = """
jpeg_truncated image_zero_byte image_html png_named_jpg image_gray image_rgba_png image_16bit_png image_cmyk_jpg
exif_rotated image_huge image_8px image_flat image_ext_upper same_stem_two_ext exact_dup_across near_dup_reencoded
near_dup_resized near_dup_flipped near_dup_cropped cls_truncated cls_dup_two_classes cls_dup_train_val
"""
IMAGES = frozenset(_SEEN.split())
"""Kinds that a tool which reads images only can see."""

KEYS = {"names": "name", "nc_": "nc", "val_path": "val", "flip_idx": "flip", "kpt_shape": "kpt"}
"""What a report has to speak of where the yaml is wrong."""

LEGEND = {
    "L": "file and line",
    "F": "file",
    "C": "a count",
    "S": "nothing",
    "X": "crash",
    "R": "refuses the task",
    "-": "n/a",
}


class Peer:
    """One tool in a process of its own, restarted if it dies."""

    def __init__(self, tool: str, python: str) -> None:
        self.tool, self.python = tool, python
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [self.python, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, data: Path) -> dict[str, object]:
        """Its answer; a dead process is a crash."""
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps({"tool": self.tool, "data": str(data)}) + "\n")
            self.process.stdin.flush()
            if line := self.process.stdout.readline():
                answer: dict[str, object] = json.loads(line)
                return answer
        except (BrokenPipeError, ValueError):
            pass
        self.process.kill()
        self.process = self._start()
        return {"crashed": "the process died"}


def compare(
    plan: dict[str, tuple[str, dict[str, Callable[[Bench], Expected]], Callable[[Path], Path]]],
    folder: Path,
    pythons: dict[str, str],
    only: set[str],
) -> int:
    """Print a table of kinds by tool, and its sums. `pythons` maps a tool to the interpreter that has it."""
    peers = {tool: Peer(tool, python) for tool, python in pythons.items()}
    table: dict[str, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    print("codes: " + ", ".join(f"{k} {v}" for k, v in LEGEND.items()))
    for name, (task, mutations, make) in plan.items():
        if (only and name not in only) or name == "coco128":
            continue
        data = make(folder / name)
        before = {tool: peer.ask(data) for tool, peer in peers.items()}
        for tool, answer in before.items():
            if "said" not in answer:
                print(f"{name}: {tool} on the unchanged set: {answer}")
        for kind, change in mutations.items():
            bench = Bench(data, Random(f"{name} {kind} 0"))
            expected = change(bench)
            try:
                for tool, peer in peers.items():
                    if tool == "cleanvision" and kind not in IMAGES:
                        code = "-"
                    elif "said" not in before[tool]:
                        code = "R"
                    else:
                        code = grade(before[tool], peer.ask(data), expected, kind)
                    table[task][kind][tool] = code
            finally:
                bench.undo()
            print(f"{name:12} {kind:24} " + " ".join(f"{t}={table[task][kind][t]}" for t in peers), flush=True)
    for tool, peer in peers.items():
        peer.process.kill()
        for task, rows in table.items():
            codes = Counter(codes[tool] for kind, codes in rows.items() if kind not in kinds.CONTROLS)
            print(f"{tool:12} {task:9} " + ", ".join(f"{k} {codes[k]}" for k in LEGEND if codes[k]))
    return 0


def grade(before: dict[str, object], after: dict[str, object], expected: Expected, kind: str) -> str:
    """A code of LEGEND for what is newly said."""
    if "crashed" in after:
        return "X"
    said = set(after["said"] if "said" in after else [after.get("refused", "")])  # type: ignore[call-overload]
    new = [str(text) for text in said - set(before.get("said") or ())]  # type: ignore[call-overload]
    if not new:
        return "S"
    key = next((word for start, word in KEYS.items() if start in kind), "")
    if key and any(file.endswith(".yaml") for file in expected.files):
        return "F" if any(key in text.lower() for text in new) else "C"
    names = {Path(file).name for file in expected.files}
    named = [text for text in new if any(n in text for n in names)]
    if not named:  # what names other files only is said of something else
        return "C" if any(not re.search(r"\.(?:jpe?g|png|txt|jfif)\b", text, re.I) for text in new) else "S"
    lines = rf"(?:line\D{{0,4}}|:|row\D{{0,4}}){expected.line}\b"
    return "L" if expected.line is not None and any(re.search(lines, t) for t in named) else "F"
