"""`diag data`: audit a data set: structure, labels, images, distribution."""

import argparse
import sys

EXAMPLES = """examples:
  diag data my/data.yaml
  diag data my/data.yaml --task pose --imgsz 960
  diag data my/photos --task classify --deep
  diag data my/data.yaml --out report          page with pictures, all places in faults.jsonl
  diag data my/data.yaml --fix corrected       a corrected copy and a log of every change
  diag data my/data.yaml --with workspace/runs/20260102-030405 --out report     also labels that its model contradicts
  diag data my/data.yaml --format json | jq '.findings[] | {id, values, evidence}'

exit codes: 0 usable (warnings included), 1 a training on it can't work, 2 not found or not readable"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("data", metavar="DATA", help="a data.yaml, or for classify a folder with train/ and val/")
    parser.add_argument("--task", default="detect", choices=("detect", "segment", "pose", "obb", "classify"))
    parser.add_argument("--imgsz", type=int, default=640, help="training size that tiny boxes are judged by")
    depth = parser.add_mutually_exclusive_group()
    depth.add_argument("--quick", action="store_true", help="headers only: no near copies, as the pipeline does")
    depth.add_argument("--deep", action="store_true", help="decode every pixel, to find damage inside of images")
    parser.add_argument("--out", metavar="DIR", help="write audit.html, audit.json and faults.jsonl there")
    parser.add_argument("--fix", metavar="OUT", help="write a corrected copy there; the source is never written")
    parser.add_argument(
        "--with",
        dest="run",
        metavar="RUN",
        help="hints at wrong labels from a pass of this run's best.pt (a run of diag or Ultralytics, or a .pt file)",
    )
    parser.add_argument("--no-cache", action="store_true", help="read every file again")
    parser.add_argument("--workspace", metavar="DIR", help="default: $WORKSPACE, else ./workspace")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--lang", choices=("en", "zh"), default="en")


def run(args: argparse.Namespace) -> int:
    """Audit and tell; 1 if a training on this data can't work."""
    from pathlib import Path

    from diag import settings
    from diag.codec import to_json
    from diag.dataset.audit import audit
    from diag.dataset.report import cache_file, console, document, full_list, write_report
    from diag.dataset.resolve import resolve
    from diag.errors import EXIT_FAILED, EXIT_OK, InputError
    from diag.model.check import Status
    from diag.screen import Screen

    if args.run:
        from diag.stages.hints import find_weights

        find_weights(args.run)  # a slip is told before the audit
    if args.imgsz < 1:
        raise InputError(f"--imgsz {args.imgsz}: must be at least 1")
    data = str(args.data).removeprefix("data=")
    screen = Screen(sys.stderr if args.format == "json" else sys.stdout)
    workspace = settings.workspace(args.workspace)
    spec = resolve(data, args.task, cwd=Path.cwd(), datasets_dir=workspace / "datasets")
    level = "header" if args.quick else "deep" if args.deep else "look"
    cache = None if args.no_cache else cache_file(spec, workspace)
    found = audit(spec, level=level, imgsz=args.imgsz, cache=cache, progress=screen.progress)
    hints = None
    if args.run:
        from diag.stages.hints import add_hints

        found, hints = add_hints(found, args.run, workspace, screen)
    full = cache_file(spec, workspace).with_suffix(".jsonl")
    written = (
        write_report(found, Path(args.out), lang=args.lang, hints=hints) if args.out else full_list(found.faults, full)
    )
    if hints is not None:
        written["hints"] = hints
    if args.fix:
        from diag.dataset.repair import write_fixed

        written["fixed"] = str(Path(args.fix).resolve())
        written["changes"] = write_fixed(spec, found, Path(args.fix), progress=screen.progress)
    result = document(found, written)
    if args.format == "json":
        print(to_json(result))
    else:
        console(found, written, screen, lang=args.lang)
    return EXIT_FAILED if result["verdict"] == Status.FAIL else EXIT_OK
