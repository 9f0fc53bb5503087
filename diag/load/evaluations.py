"""Rows for `all` classes of evaluations outside of a training: val.py, test.py, `yolo val`, best.pt at the end."""

import re

from diag.model.foreign import Evaluation, LogEpoch

_MARK = re.compile(
    r"^\W*Validating \S|\b(?:val|test): (?=\w+=)|\byolo\b.{0,60}\bval\b|\b(?:val|test)\.py\b|\.val\("
    r"|\bfor .{1,30} inference\b|\bNamespace\(.*task='(?:val|test)'",
    re.I,
)
_EXPORT = re.compile(r"\b(engine|onnx|openvino|tflite|torchscript|coreml|mlpackage|mlmodel|int8|pb|ncnn|rknn)\b", re.I)
_SIZE = re.compile(r"\b(?:imgsz|img_size|img-size|img)[=\s]+(?:\[)?(\d{2,5})\b")
_MAX = 1000
WORDS: tuple[bytes, ...] = (b"validating", b"val.py", b"test.py", b"inference", b".val(", b"val: ", b"test: ")
"""Lower-case words of lines that `mark` looks at."""


def mark(said: str, line: str) -> str:
    """What was said of the evaluation that comes, with this line if it speaks of one."""
    return f"{said} {line[:_MAX]}".strip()[-2 * _MAX :] if _MARK.search(line) else said


def evaluation(file: str, line: int, said: str, row: LogEpoch) -> Evaluation:
    """The row as an evaluation; `said` are the marks before it, `row` holds its metrics and counts."""
    exported, size = _EXPORT.search(re.sub(r"[\w./\\-]*\.pt\b", "", said)), _SIZE.search(said)
    return Evaluation(
        file=file,
        line=line,
        score50=row.metrics.get("metrics/mAP50(B)", float("nan")),
        images=row.val_images,
        instances=row.val_instances,
        said=said,
        size=int(size[1]) if size else None,
        export=exported[1].lower() if exported else "",
    )
