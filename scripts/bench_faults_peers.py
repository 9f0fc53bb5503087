"""Five faults and their healthy twins: diag on its run directory, and every tool on Ultralytics' own files alone.

Ultralytics' own files are results.csv, args.yaml and the console. A peer is right when one of its sentences speaks of
the cause (`CAUSES`, written down before any run); its words are printed, so that everybody can judge for themselves.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench_faults import one
from bench_faults_list import FIVE, Fault, known
from bench_faults_run import Place, analyze, verdict

CAUSES = {
    "slow_storage": r"data ?load|loader|input.bound|data wait|storage|dis[ck] read|I/O",
    "ram_leak": r"host memory|RAM|memory (?:leak|grow|rise)",
    "five_nan": r"learning rate|diverge",
    "five_lr1": r"diverge|unstable|learning rate|explod|grew to",
    "lr_1e-12": r"learning rate.{0,30}(?:low|zero|tiny|stuck|small|never)"
    r"|raise.{0,20}learning rate|lr.{0,9}too (?:low|small)",
}
OPPOSITE = {"lr_1e-12": r"lower the (?:lr|learning rate)|learning rate.{0,20}too high"}
EPOKIO = """
import json, sys
from pathlib import Path
from epokio.analysis import analyze
from epokio.diagnose import diagnose
folder = Path(sys.argv[1])
found = analyze(folder)
notes = [("warning", f"{seen} {todo}") for seen, todo in found.notes] if found else []
log = folder / "console.log"
errors = diagnose(log.read_text()) if log.exists() else []
notes += [("error", d.get("title", "") + ". " + d.get("fix", "")) for d in errors]
print(json.dumps(notes))
"""


def compare(place: Place, venv: Path | None, *, only_judge: bool) -> int:
    """Train what is missing, print the table; 1 unless all five are right and nothing is said of the twins."""
    rows = [known()[name] for name in FIVE]
    for number, fault in enumerate(rows, 1):
        one(fault, place, again=False, only_judge=only_judge, progress=f"{number}/{len(rows)}")
    rows = [fault for fault in rows if place.run_dir(fault).exists() and place.result(fault).exists()]
    tools: dict[str, Callable[[Path], list[tuple[str, str]]] | str] = {"diag, Ultralytics' files": analyze}
    for name, package, call in (("epokio 0.9.5", "epokio", epokio), ("runmedic 0.1.1", "runmedic", runmedic)):
        there = venv is not None and any(venv.glob(f"lib/python*/site-packages/{package}/__init__.py"))
        tools[name] = (lambda path, call=call: call(venv, path)) if there else f"not run: no {package} in {venv}"  # type: ignore[misc]
    print("| training | diag, run directory | " + " | ".join(tools) + " |\n| :-- |" + " :-- |" * (len(tools) + 1))
    scores = dict.fromkeys(["diag", *tools], 0)
    false = dict.fromkeys(["diag", *tools], 0)
    for fault in rows:
        own = verdict(fault, analyze(place.run_dir(fault)))
        loud = [id for id, severity in own["found"] if severity != "info"]
        scores["diag"] += own["right"] and not fault.healthy
        false["diag"] += bool(loud) and fault.healthy
        cells = [_cell(own["right"], ", ".join(loud) or "nothing")]
        with tempfile.TemporaryDirectory() as folder:
            files = native(place.run_dir(fault), Path(folder) / fault.name)
            for name, tool in tools.items():
                if isinstance(tool, str):
                    cells.append(tool)
                    continue
                said = [(text, level) for text, level in tool(files) if level not in {"info", "good", "ok"}]
                right = _right(fault, name, said)
                scores[name] += right and not fault.healthy
                false[name] += fault.healthy and bool(said)
                cells.append(_cell(right, "; ".join(text for text, _ in said)[:150].replace("|", "/") or "nothing"))
        print(f"| {fault.name}: {fault.what} | " + " | ".join(cells) + " |")
    faults = sum(not f.healthy for f in rows)
    line = [f"{scores[n]} of {faults}, {false[n]} false" for n in ("diag", *tools)]
    print("| **right cause, false alarms** | " + " | ".join(line) + " |")
    return 0 if scores["diag"] == faults and not false["diag"] else 1


def _cell(right: bool, text: str) -> str:
    return f"{'right' if right else 'no'}: {text}"


def _right(fault: Fault, tool: str, said: list[tuple[str, str]]) -> bool:
    if fault.healthy:
        return not said
    if tool.startswith("diag"):
        ids = [text for text, _ in said]
        return bool(set(ids) & set(fault.right)) and not set(ids) & set(fault.wrong)
    text = " ".join(t for t, _ in said)
    if fault.name in OPPOSITE and re.search(OPPOSITE[fault.name], text, re.I):
        return False
    return bool(re.search(CAUSES[fault.name], text, re.I))


def native(run_dir: Path, target: Path) -> Path:
    """A folder with only what Ultralytics wrote itself."""
    target.mkdir()
    for path in (
        run_dir / "ultralytics" / "results.csv",
        run_dir / "ultralytics" / "args.yaml",
        run_dir / "console.log",
    ):
        if path.exists():
            shutil.copy(path, target / path.name)
    return target


def epokio(venv: Path | None, path: Path) -> list[tuple[str, str]]:
    """The notes of epokio on a run folder and the errors that it knows in its console."""
    done = subprocess.run(
        [str(venv / "bin" / "python") if venv else "", "-c", EPOKIO, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return [(f"failed: {done.stderr.strip()[-100:]}", "error")]
    return [(text, level) for level, text in json.loads(done.stdout)]


def runmedic(venv: Path | None, path: Path) -> list[tuple[str, str]]:
    """The findings of `runmedic diagnose` on results.csv and on the console."""
    found: list[tuple[str, str]] = []
    for name in ("results.csv", "console.log"):
        file = path / name
        if not file.exists():
            continue
        command = [str(venv / "bin" / "runmedic") if venv else "", "diagnose", "--json", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            document = json.loads(done.stdout)
        except ValueError:
            print(f"runmedic on {name}: {done.stderr.strip()[-100:] or done.stdout[-100:]}", file=sys.stderr)
            continue
        for run in document if isinstance(document, list) else document.get("runs", [document]):
            for finding in run.get("findings", []):
                causes = finding.get("causes") or []
                text = f"{finding.get('title') or finding.get('check')}. {' '.join(map(str, causes))}"
                found.append((text, str(finding.get("severity", "warning"))))
    return found
