"""Runs in the peers' own environment: audits what it is asked on stdin, one JSON object a line.

Asked: `{"tool", "data"}`; answered: `{"said": [text, ...]}`, one text for each thing and file that the tool reports, or
`{"refused": text}` where it ends with an error of its own, `{"crashed": text}` where Python does.
"""

import contextlib
import io
import json
import sys
from pathlib import Path


def libreyolo(data: Path) -> dict[str, object]:
    from libreyolo import doctor

    try:
        report = doctor.diagnose(str(data)).to_dict()
    except doctor.DoctorError as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    said = []
    for finding in report["findings"]:
        more = json.dumps(finding.get("details") or {}, ensure_ascii=False)
        said.append(f"{finding['check_id']} {finding.get('split', '')} {finding['message']} {more}")
        said += [
            f"{finding['check_id']} {path} {more if len(finding['paths']) == 1 else ''}"
            for path in finding.get("paths") or ()
        ]
    return {"said": said}


def epokio(data: Path) -> dict[str, object]:
    from epokio import health

    yaml = data if data.suffix == ".yaml" else next(iter(data.glob("*.yaml")), None)
    if yaml is None:
        return {"refused": "no data.yaml"}
    report = health.check(str(yaml))
    said = [json.dumps(w, ensure_ascii=False) for w in report.get("warnings", ()) if w.get("level") != "info"]
    said += [
        f"{split} {k} {v}"
        for split, s in report.get("splits", {}).items()
        for k, v in s.items()
        if k in {"missing", "empty", "bad"}
    ]
    return {"said": said} if report.get("ok") else {"refused": str(report.get("error"))}


def cleanvision(data: Path) -> dict[str, object]:
    from cleanvision import Imagelab

    root = data.parent if data.suffix == ".yaml" else data
    lab = Imagelab(data_path=str(root))
    lab.find_issues(n_jobs=1)
    said = []
    for column in lab.issues.columns:
        if column.startswith("is_") and column.endswith("_issue"):
            said += [f"{column} {path}" for path in lab.issues.index[lab.issues[column]]]
    for kind in ("exact_duplicates", "near_duplicates"):
        for group in (lab.info.get(kind) or {}).get("sets", ()):
            said.append(f"{kind} {' '.join(map(str, sorted(group)))}")
    return {"said": said}


TOOLS = {"libreyolo": libreyolo, "epokio": epokio, "cleanvision": cleanvision}


def main() -> None:
    answers = sys.stdout
    for line in sys.stdin:
        asked = json.loads(line)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                answer = TOOLS[asked["tool"]](Path(asked["data"]))
            except Exception as error:
                answer = {"crashed": f"{type(error).__name__}: {error}"[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
