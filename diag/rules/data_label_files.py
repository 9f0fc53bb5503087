"""data.*: faults in label files and in what the loader says of them."""

import re

from diag.model.evidence import Console
from diag.model.finding import Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.foreign import DataYaml, LabelFiles
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.facts import described, sources
from diag.rules.label_facts import problems


def _count(
    labels: LabelFiles | None,
    count: int,
    words: str,
    fixes: tuple[Fix, ...],
    *,
    of: int | None = None,
    severity: Severity | None = None,
) -> Verdict:
    if labels is None:
        return Skip("no_evidence", {"missing": "labels"})
    if not count:
        return None
    return Hit(
        values={"count": count, "of": of if of is not None else labels.rows},
        fixes=fixes,
        evidence=problems(labels, words),
        severity=severity,
    )


@rule("data.zero_area@foreign", Severity.MEDIUM)
def zero_area(labels: LabelFiles) -> Verdict:
    """Boxes with zero or negative width or height."""
    return _count(labels, labels.zero_area, "width", (Fix("drop"),))


@rule("data.tiny_boxes@foreign", Severity.LOW)
def tiny_boxes(labels: LabelFiles, *, min_share: float = 0.3) -> Verdict:
    """Many boxes are under half a percent of the image's side: about three pixels at 640. min_share: of all boxes."""
    if labels.tiny < min_share * max(1, labels.rows):
        return None
    return _count(labels, labels.tiny, "tiny", (Fix("imgsz"), Fix("tile")))


@rule("data.box_over_border@foreign", Severity.MEDIUM)
def over_border(labels: LabelFiles, *, many: float = 0.3) -> Verdict:
    """Boxes lie within 0..1 but hang over the border, or x1 y1 x2 y2 were written as centre and size. many.

    A share that speaks for the latter. The limit is a proposal.
    """
    swapped = labels.over_border > many * max(1, labels.rows)
    return _count(labels, labels.over_border, "border", (Fix("exporter" if swapped else "clip"),))


@rule("data.dup_labels@foreign", Severity.LOW)
def dup_labels(labels: LabelFiles | None, console: Console | None) -> Verdict:
    """The same row stands twice in a label file; the loader drops it (yolov5 PR#5210)."""
    said = sources(console, ("dup_labels",))
    if not said and labels is None:
        return Skip("no_evidence", {"missing": "labels, console"}) if console is None else None
    count = labels.duplicates if labels else 0
    if not said and not count:
        return None
    return Hit(
        values={"case": "count" if count else None, "count": count or len(said)},
        fixes=(Fix("drop"),),
        evidence=(*said, *problems(labels, "rows twice"))[:3],
    )


@rule("data.dup_same_bbox@foreign", Severity.MEDIUM)
def dup_same_bbox(labels: LabelFiles) -> Verdict:
    """Different polygons with one bounding box: the loader takes them for duplicates and drops all but one."""
    return _count(labels, labels.same_bbox, "box of another", (Fix("merge"),))


def _wrong_task(console: Console | None, task: str) -> tuple[Source, ...]:
    """Where the loss refuses the labels because they are of another task."""
    return tuple(
        s for s in sources(console, ("wrong_task",)) if f"not a {task}" in s.text or f"not an {task}" in s.text
    )


@rule("data.mixed_seg_box@foreign", Severity.CRITICAL)
def mixed_seg_box(labels: LabelFiles | None, console: Console | None, args: TrainArgs | None) -> Verdict:
    """Box rows stand among polygon rows: the loader then drops all polygons and treats the set as boxes.

    For the task detect that is what is wanted anyway (ultralytics/data/dataset.py, get_labels: "only boxes will be
    used"), as long as no single file mixes both: low. A set of boxes alone stops a segmentation with "is not a segment
    dataset" (utils/loss.py). Reported in ultralytics#21620.
    """
    said = (*sources(console, ("mixed_labels",)), *_wrong_task(console, "segment"))
    if labels is None and console is None:
        return Skip("no_evidence", {"missing": "labels, console"})
    mixed = labels is not None and labels.box_rows > 0 and labels.polygon_rows > 0 and labels.kpt_rows == 0
    if not said and not mixed:
        return None
    counts = re.search(r"len\(segments\) = (\d{1,9}), len\(boxes\) = (\d{1,9})", said[0].text) if said else None
    boxes, polygons = (labels.box_rows, labels.polygon_rows) if labels is not None and mixed else (None, None)
    if counts and boxes is None:
        boxes, polygons = int(counts[2]) - int(counts[1]), int(counts[1])
    detect = args is not None and args.get("task") == "detect" and not (labels and labels.mixed_files)
    return Hit(
        values={
            "case": "detect" if detect else "count" if boxes is not None else None,
            "boxes": boxes,
            "polygons": polygons,
        },
        fixes=(Fix("convert"), Fix("remove")),
        evidence=(*said[:1], *problems(labels, "boxes among")),
        severity=Severity.LOW if detect else None,
    )


@rule("data.polygon_invalid@foreign", Severity.MEDIUM)
def polygon_invalid(labels: LabelFiles, *, few: float = 0.03) -> Verdict:
    """Polygons with fewer than three different points, that cross themselves or enclose nothing, or that begin with

    their box: `class x y w h *points` (the layout of other programs) is read as two more corners (ultralytics#741).
    few: COCO itself has 1.5 % of crossing ones; below twice that they are low.
    """
    kinds = {
        "few": labels.few_points, "box_first": labels.box_first, "crossed": labels.crossed,
        "collapsed": labels.collapsed,
    }  # fmt: skip
    count = sum(kinds.values())
    if not count:
        return None
    case = max(kinds, key=lambda kind: kinds[kind])
    tested = labels.polygon_rows if case in {"few", "box_first"} else labels.outlines
    rare = kinds["crossed"] == count and count < few * tested
    return Hit(
        values={"case": case if case != "few" else None, "count": count, "of": tested},
        fixes=(Fix("repair"),) if case == "few" else (Fix("drop_box"),) if case == "box_first" else (Fix("order"),),
        evidence=problems(labels, "different points|before the points|(?:crossed|collapsed) corners"),
        severity=Severity.LOW if rare else Severity.CRITICAL if case == "box_first" else None,
    )


@rule("data.obb_invalid@foreign", Severity.MEDIUM)
def obb_invalid(labels: LabelFiles | None, console: Console | None) -> Verdict:
    """Oriented boxes whose corners cross or fall together: minAreaRect makes another box of them.

    Or upright boxes of five columns where class and four corners belong; the loss refuses them with "is not a OBB
    dataset" (ultralytics/utils/loss.py), so this is high.
    """
    said = _wrong_task(console, "OBB")
    if said or (labels is not None and labels.obb_flat):
        return Hit(
            values={"case": "flat", "count": labels.obb_flat if labels else 0},
            fixes=(Fix("convert"), Fix("detect")),
            evidence=(*said[:1], *problems(labels, "without corners")),
            severity=Severity.HIGH,
        )
    if labels is None:
        return Skip("no_evidence", {"missing": "labels"})
    count = labels.obb_crossed + labels.obb_collapsed
    return _count(labels, count, "corners", (Fix("corners"),), of=labels.polygon_rows)


@rule("data.fullimage_boxes@foreign", Severity.INFO)
def fullimage_boxes(labels: LabelFiles, *, many: float = 0.5, min_rows: int = 3) -> Verdict:
    """Boxes of a detection set are the whole image: close-ups, or dummies of a classification set (yolov5#10114).

    many: from half of all boxes on (min_rows of them at least) they are dummies, and it is medium. With keypoints it is
    data.pose_fullimage_boxes.
    """
    if labels.kpt_rows:
        return None
    dummies = labels.full_boxes >= max(min_rows, many * labels.rows)
    return _count(
        labels,
        labels.full_boxes,
        "the whole image",
        (Fix("draw"),),
        severity=Severity.MEDIUM if dummies else Severity.INFO,
    )


@rule("data.double_annotation@foreign", Severity.MEDIUM)
def double_annotation(labels: LabelFiles, *, min_share: float = 0.01) -> Verdict:
    """The same object is annotated twice: boxes of one class that overlap by 0.9 and more. min_share.

    Of the rows; a single pair in many is chance. The limits are those of data.double_annotation.
    """
    if labels.doubles < max(1.0, min_share * labels.rows):
        return None
    return _count(labels, labels.doubles, "annotated twice", (Fix("drop"),))


@rule("data.pose_fullimage_boxes@foreign", Severity.CRITICAL)
def fullimage(labels: LabelFiles, *, min_share: float = 0.8, min_rows: int = 3) -> Verdict:
    """Pose boxes are dummies of the whole image: the assignment and the keypoint score (OKS) use the box.

    min_share: of the rows with keypoints, min_rows of them at least; a single close-up may fill its image.
    ultralytics#16035: all boxes 0.5 0.5 1 1.
    """
    if not labels.kpt_rows:
        return Skip("no_keypoints")
    if labels.full_image < min_rows or labels.full_image < min_share * labels.kpt_rows:
        return None
    return Hit(
        values={"count": labels.full_image, "of": labels.kpt_rows},
        fixes=(Fix("boxes"),),
        evidence=problems(labels, "a box for form's sake"),
    )


@rule("data.kpt_sparse@foreign", Severity.MEDIUM)
def kpt_sparse(labels: LabelFiles, *, max_hidden: float = 0.5) -> Verdict:
    """Keypoints are mostly missing or invisible. max_hidden: more than half have visibility 0.

    The limit is a proposal.
    """
    if not labels.kpt_points:
        return Skip("no_keypoints")
    share = labels.kpt_hidden / labels.kpt_points
    return (
        Hit(
            values={"share": share, "count": labels.kpt_hidden},
            fixes=(Fix("annotate"),),
            evidence=problems(labels, "points without a place"),
        )
        if share > max_hidden
        else None
    )


@rule("data.kpt_out@foreign", Severity.MEDIUM)
def kpt_out(labels: LabelFiles, *, min_far: float = 0.02) -> Verdict:
    """Keypoints outside the image or far from their box, or a kpt_shape that fits none of the rows.

    A wrong kpt_shape costs all rows and is critical. min_far: of the points lie further outside their box than it is
    large; a single one is a slip.
    """
    if labels.kpt_fields:
        need, found = labels.kpt_fields
        return Hit(
            values={"case": "shape", "need": need, "found": found},
            fixes=(Fix("shape"),),
            evidence=problems(labels, "fields") or (Source("labels"),),
            severity=Severity.CRITICAL,
        )
    if not labels.kpt_points:
        return Skip("no_keypoints")
    if labels.kpt_out or labels.kpt_far < min_far * labels.kpt_points:
        return _count(labels, labels.kpt_out, "keypoint", (Fix("repair"),), of=labels.kpt_points)
    return Hit(
        values={"case": "far", "count": labels.kpt_far, "of": labels.kpt_points},
        fixes=(Fix("frame"),),
        evidence=problems(labels, "far from its box"),
    )


@rule("data.flip_idx_missing@foreign", Severity.MEDIUM)
def flip_idx(data: DataYaml, args: TrainArgs | None) -> Verdict:
    """Several keypoints and flip augmentation without flip_idx.

    Left and right are mixed up, or Ultralytics switches flips off. A flip_idx that maps each point to itself does the
    same where the points' names tell left from right (ultralytics#19619; without such names it may be meant, as in
    tiger-pose.yaml), as does one that is no exchange of pairs.
    """
    if not data.kpt_shape:
        return Skip("no_keypoints")
    flips = [args.get(n, d) if args else d for n, d in (("fliplr", 0.5), ("flipud", 0.0))]
    case = _flip_fault(data)
    if case is None or data.kpt_shape[0] < 2 or not any(isinstance(v, (int, float)) and v > 0 for v in flips):
        return None
    return Hit(
        values={"case": case or None, "points": data.kpt_shape[0]},
        fixes=(Fix("add"), Fix("no_flip", {"fliplr": 0.0})),
        evidence=described(data, "flip_idx", "kpt_shape"),
    )


def _flip_fault(data: DataYaml) -> str | None:
    """What is wrong with flip_idx: empty when there is none, `same`, `invalid`; None when it may be right."""
    flip, points = data.flip_idx, range(data.kpt_shape[0])
    if not flip:
        return ""
    if sorted(flip) != list(points) or any(flip[flip[k]] != k for k in points):
        return "invalid"
    sides = {
        side for name in data.kpt_names for side in ("left", "right") if side in re.split(r"[^a-z]+", name.lower())
    }
    return "same" if list(flip) == list(points) and len(sides) > 1 else None
