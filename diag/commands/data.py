"""`diag data`: resolve a data set and count it."""

import argparse
import sys

EXAMPLES = """examples:
  diag data my/data.yaml
  diag data my/data.yaml --task pose
  diag data my/photos --task classify
  diag data my/data.yaml --format json | jq .splits

exit codes: 0 usable (warnings included), 1 a training on it can't work, 2 not found or not readable"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("data", metavar="DATA", help="a data.yaml, or for classify a folder with train/ and val/")
    parser.add_argument("--task", default="detect", choices=("detect", "segment", "pose", "obb", "classify"))
    parser.add_argument("--workspace", metavar="DIR", help="default: $WORKSPACE, else ./workspace")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(args: argparse.Namespace) -> int:
    """Print counts and findings; 1 if a training on this data can't work."""
    from pathlib import Path

    from diag import settings
    from diag.codec import to_json
    from diag.dataset.resolve import resolve
    from diag.dataset.scan import scan
    from diag.engine import evaluate
    from diag.errors import EXIT_FAILED, EXIT_OK
    from diag.model.check import StageResult, Status
    from diag.model.evidence import Evidence
    from diag.render import jsonfile
    from diag.render.words import story
    from diag.screen import Screen
    from diag.stages.data import judge

    data = str(args.data).removeprefix("data=")
    screen = Screen(sys.stderr if args.format == "json" else sys.stdout)
    spec = resolve(data, args.task, cwd=Path.cwd(), datasets_dir=settings.workspace(args.workspace) / "datasets")
    dataset = scan(spec, progress=screen.progress)
    status, reason = judge(dataset)
    evidence = Evidence(dataset=dataset)
    report = evaluate(evidence)
    if args.format == "json":
        document = jsonfile.report_dict(report, evidence)
        findings = [f for f in document["findings"] if f["id"].startswith("data.")]
        print(
            to_json({"verdict": status, "splits": dataset.splits, "findings": findings, "problems": dataset.problems})
        )
    else:
        screen.result(StageResult("data", status, reason))
        for finding in report.findings:
            if finding.id.startswith("data."):
                screen.line(f"      {finding.severity}: {story(finding, 'en').title}")
        for problem in dataset.problems[:10]:
            screen.line(f"      {problem}")
        if len(dataset.problems) > 10:
            screen.line(f"      ... {len(dataset.problems) - 10} more; --format json lists up to 50")
    return EXIT_FAILED if status is Status.FAIL else EXIT_OK
