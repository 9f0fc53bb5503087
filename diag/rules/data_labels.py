"""data.*: faults of label rows: boxes, polygons, oriented boxes, keypoints."""

from diag.model.evidence import Dataset
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Value, Verdict
from diag.model.run import TrainArgs
from diag.rules.base import rule
from diag.rules.data_faults import fault_of, judge, share


@rule("data.encoding", Severity.MEDIUM)
def encoding(dataset: Dataset) -> Verdict:
    """Label files with a byte-order mark, in UTF-16 or with commas, and names that are no UTF-8.

    UTF-16 and commas cost the whole image and are high; a byte-order mark is read by current versions and is low.
    Reported in yolov5#1669.
    """
    kinds = fault_of(dataset, "encoding").kinds
    costly = {"utf16", "separator"} & set(kinds)
    severity = Severity.HIGH if costly else Severity.LOW if set(kinds) == {"bom"} else None
    return judge(dataset, "encoding", ("rewrite",), severity=severity)


@rule("data.zero_area", Severity.MEDIUM)
def zero_area(dataset: Dataset) -> Verdict:
    """Boxes and polygons without width or height: they teach nothing and stay in the count of objects."""
    return judge(dataset, "zero_area", ("drop",))


@rule("data.box_over_border", Severity.MEDIUM)
def box_over_border(dataset: Dataset, *, few: float = 0.01) -> Verdict:
    """Boxes that hang over the image border, or x1 y1 x2 y2 written where x y w h belongs.

    few: below one box in a hundred it is low; an exporter that mixes formats touches far more. The limit is a
    proposal.
    """
    fault = fault_of(dataset, "box_over_border")
    return judge(
        dataset,
        "box_over_border",
        ("exporter", "clip") if fault.main_kind == "corners" else ("clip",),
        severity=Severity.LOW if share(dataset, fault) < few else None,
    )


@rule("data.tiny_boxes", Severity.LOW)
def tiny_boxes(dataset: Dataset) -> Verdict:
    """Boxes under two pixels at the training size (Ultralytics' augmentation drops them: box_candidates, wh_thr=2)."""
    return judge(dataset, "tiny_boxes", ("larger", "drop"), imgsz=int(dataset.measures.get("imgsz", 640)))


@rule("data.fullimage_boxes", Severity.INFO)
def fullimage_boxes(dataset: Dataset, *, many: float = 0.5) -> Verdict:
    """Boxes as large as the whole image: a close-up, or a dummy of an export without real boxes.

    many: from half of all objects on they are dummies, and it is medium.
    """
    severity = Severity.MEDIUM if share(dataset, fault_of(dataset, "fullimage_boxes")) >= many else None
    return judge(dataset, "fullimage_boxes", ("look",), severity=severity)


@rule("data.label_noise", Severity.LOW)
def label_noise(dataset: Dataset, *, few: float = 0.005, sure: float = 0.9) -> Verdict:
    """Labels that a trained model contradicts (`diag data --with RUN`). Hints: a person has to look.

    few: below one in two hundred objects it is info. sure: of a model that finds fewer of the labels, many
    contradictions are its own mistakes; info, too.
    """
    if "hint_images" not in dataset.measures:
        return Skip("no_predictions")
    support = dataset.measures.get("hint_support", 0.0)
    rare = share(dataset, fault_of(dataset, "label_noise")) < few
    return judge(
        dataset,
        "label_noise",
        ("look", "relabel"),
        severity=Severity.INFO if rare or support < sure else None,
        confidence=Confidence.MEDIUM if support >= sure else Confidence.LOW,
        support=support,
    )


@rule("data.dup_labels", Severity.LOW)
def dup_labels(dataset: Dataset) -> Verdict:
    """The same row stands twice in a file; Ultralytics drops the copy and says so for every such file.

    Reported in ultralytics#8515.
    """
    return judge(dataset, "dup_labels", ("drop",))


@rule("data.double_annotation", Severity.MEDIUM)
def double_annotation(dataset: Dataset, *, few: float = 0.01) -> Verdict:
    """One object annotated twice: two boxes of a class in a file with an IoU of 0.90 or more.

    few: below one object in a hundred it is low. Ultralytics' own NMS joins boxes from an IoU of 0.7 on
    (default.yaml); the limit for low is a proposal.
    """
    fault = fault_of(dataset, "double_annotation")
    return judge(
        dataset, "double_annotation", ("drop",), severity=Severity.LOW if share(dataset, fault) < few else None
    )


@rule("data.dup_same_bbox", Severity.MEDIUM)
def dup_same_bbox(dataset: Dataset) -> Verdict:
    """Different polygons of one class with the same bounding box: older Ultralytics versions keep only one of them."""
    return judge(dataset, "dup_same_bbox", ("merge",))


@rule("data.mixed_seg_box", Severity.CRITICAL)
def mixed_seg_box(dataset: Dataset) -> Verdict:
    """Box rows among polygon rows: Ultralytics drops such a file, and refuses a set or ignores all its polygons.

    In a set for detect only the files that mix both are lost, which is high. Reported in ultralytics#21620.
    """
    severity = Severity.HIGH if dataset.task == "detect" else None
    return judge(dataset, "mixed_seg_box", ("convert", "drop"), severity=severity)


@rule("data.polygon_invalid", Severity.MEDIUM)
def polygon_invalid(dataset: Dataset, *, few: float = 0.03) -> Verdict:
    """Polygons without area, or whose lines cross so that the mask covers another area than the outline.

    few: COCO itself has 1.5 % of them (parts of one object joined by a line); below twice that it is low.
    """
    fault = fault_of(dataset, "polygon_invalid")
    severity = Severity.LOW if share(dataset, fault) < few and "collapsed" not in fault.kinds else None
    return judge(dataset, "polygon_invalid", ("order",), severity=severity)


@rule("data.obb_invalid", Severity.MEDIUM)
def obb_invalid(dataset: Dataset) -> Verdict:
    """Oriented boxes with crossed, collapsed or slanted corners (more than 15 degrees from square, in pixels)."""
    return judge(dataset, "obb_invalid", ("corners",))


@rule("data.kpt_out", Severity.MEDIUM)
def kpt_out(dataset: Dataset) -> Verdict:
    """Keypoints outside the image or far from their box, odd visibility values, or a kpt_shape that fits no row.

    Points outside the image cost the whole image and are high; a wrong kpt_shape costs all of them and is critical.
    """
    kinds = fault_of(dataset, "kpt_out").kinds
    severity = Severity.CRITICAL if "kpt_shape" in kinds else Severity.HIGH if "outside" in kinds else None
    return judge(dataset, "kpt_out", ("shape",) if "kpt_shape" in kinds else ("points",), severity=severity)


@rule("data.kpt_sparse", Severity.MEDIUM)
def kpt_sparse(dataset: Dataset, *, min_share: float = 0.30, min_rows: int = 20) -> Verdict:
    """Most keypoints are not annotated at all.

    min_share: a guess, from half of what is usual for people in photographs; with less than a third most points are
    hardly ever trained. min_rows: a handful of rows says little.
    """
    if dataset.task != "pose" or "kpt_visible" not in dataset.measures:
        return Skip("no_keypoints")
    rows, seen = dataset.measures.get("kpt_rows", 0.0), dataset.measures["kpt_visible"]
    if rows < min_rows or seen >= min_share:
        return None
    values: dict[str, Value] = {"share": seen, "rows": int(rows)}
    return Hit(values=values, fixes=(Fix("annotate"),), evidence=(Source(dataset.yaml),))


@rule("data.pose_fullimage_boxes", Severity.CRITICAL)
def pose_fullimage_boxes(dataset: Dataset, *, min_share: float = 0.5) -> Verdict:
    """Boxes of a pose set that are dummies of the full image.

    min_share: single close-ups are right; from half of all rows on the boxes are no boxes. Reported in
    ultralytics#6394, ultralytics#16035.
    """
    if dataset.task != "pose":
        return Skip("no_keypoints")
    fault = fault_of(dataset, "pose_fullimage_boxes")
    if share(dataset, fault) < min_share:
        return None
    return judge(dataset, "pose_fullimage_boxes", ("from_points",), share=share(dataset, fault))


@rule("data.flip_idx_missing", Severity.MEDIUM)
def flip_idx_missing(dataset: Dataset, args: TrainArgs | None) -> Verdict:
    """Keypoints without a usable flip_idx while images are mirrored: left and right are mixed up.

    Without flip_idx Ultralytics switches mirroring off (low); a flip_idx that is no exchange of pairs is medium.
    """
    if dataset.task != "pose":
        return Skip("no_keypoints")
    if args is not None and args.get("fliplr", 0.5) == 0:
        return None
    missing = fault_of(dataset, "flip_idx_missing").main_kind == "missing"
    return judge(dataset, "flip_idx_missing", ("add",), severity=Severity.LOW if missing else None)
