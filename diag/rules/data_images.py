"""data.*: faults of image files, copies of images, and the folders that they are in."""

from diag.model.evidence import Dataset
from diag.model.finding import Fix, Hit, Severity, Skip, Source, Value, Verdict
from diag.rules.base import rule
from diag.rules.data_faults import fault_of, judge, only


@rule("data.corrupt_images", Severity.HIGH)
def corrupt_images(dataset: Dataset) -> Verdict:
    """Images that are empty, cut off or no images at all.

    Reported in yolov5#3450.
    """
    return judge(dataset, "corrupt_images", ("restore", "remove"))


@rule("data.image_format", Severity.LOW)
def image_format(dataset: Dataset) -> Verdict:
    """Suffix, mode or depth is not what the loader expects: PNG named .jpg, alpha, CMYK, 16 bits a channel.

    Single grey images in a set of colour images are info. A suffix that Ultralytics doesn't know is medium: the image
    is not used at all.
    """
    kinds = set(fault_of(dataset, "image_format").kinds)
    severity = Severity.INFO if kinds == {"grey"} else Severity.MEDIUM if "unknown_suffix" in kinds else None
    return judge(dataset, "image_format", ("convert",), severity=severity)


@rule("data.exif_rotated", Severity.LOW)
def exif_rotated(dataset: Dataset) -> Verdict:
    """Images that are turned by an EXIF tag: tools that ignore it drew their boxes on the unturned image."""
    return judge(dataset, "exif_rotated", ("turn",))


@rule("data.image_extreme", Severity.LOW)
def image_extreme(dataset: Dataset, *, max_ratio: float = 4.0) -> Verdict:
    """Images of extreme size, aspect or content; or all far larger than imgsz, which costs decoding time.

    max_ratio: at four times imgsz a JPEG takes about 16 times the decoding time of one at imgsz.
    """
    fault = fault_of(dataset, "image_extreme")
    ratio = dataset.measures.get("side_ratio", 0.0)
    if fault.count or not dataset.measures:
        return judge(dataset, "image_extreme", ("look",), ratio=ratio)
    if ratio <= max_ratio:
        return None
    figures = dataset.measures
    side, imgsz = int(figures.get("median_side", 0)), int(figures.get("imgsz", 0))
    values: dict[str, Value] = {"case": "oversized", "ratio": ratio, "side": side, "imgsz": imgsz}
    return Hit(values=values, fixes=(Fix("shrink"),), evidence=(Source(dataset.yaml),))


@rule("data.dup_images", Severity.MEDIUM)
def dup_images(dataset: Dataset) -> Verdict:
    """The same or nearly the same image more than once in a split; in two classes at once it is high."""
    kinds = fault_of(dataset, "dup_images").kinds
    severity = Severity.HIGH if "two_classes" in kinds else None if "bytes" in kinds else Severity.LOW
    return judge(dataset, "dup_images", ("classes",) if "two_classes" in kinds else ("drop",), severity=severity)


@rule("data.val_equals_train", Severity.HIGH)
def val_equals_train(dataset: Dataset) -> Verdict:
    """Train and val are the same images: the score says how well the model remembers.

    Reported in ultralytics#16035.
    """
    return judge(dataset, "val_equals_train", ("split",))


@rule("data.train_val_leak", Severity.HIGH, explained_by=("data.val_equals_train",))
def train_val_leak(dataset: Dataset, *, few: float = 0.01) -> Verdict:
    """The same or nearly the same image stands in two splits: the score is better than the model.

    few: below one image in a hundred of the smaller split the score hardly moves, and it is medium. The limit is a
    proposal.
    """
    fault = fault_of(dataset, "train_val_leak")
    held_out = [s.images for name, s in dataset.splits.items() if name != "train" and s.images]
    share = fault.count / min(held_out) if held_out else 0.0
    severity = Severity.MEDIUM if share < few or fault.count == 1 else None
    return judge(dataset, "train_val_leak", ("resplit",), severity=severity, share=share)


@rule("data.orphan_label", Severity.MEDIUM)
def orphan_label(dataset: Dataset) -> Verdict:
    """Files in label folders that no image asks for.

    A name that differs from the wanted one only in case or suffix is medium: that label is lost. Else it is low.
    """
    lost = only(fault_of(dataset, "orphan_label"), ("case", "suffix")).count
    return judge(dataset, "orphan_label", ("rename", "remove"), severity=None if lost else Severity.LOW)


@rule("data.duplicate_stem", Severity.MEDIUM)
def duplicate_stem(dataset: Dataset) -> Verdict:
    """Two images share one label file: a.jpg and a.png both read a.txt."""
    return judge(dataset, "duplicate_stem", ("rename",))


@rule("data.path_mismatch", Severity.CRITICAL)
def path_mismatch(dataset: Dataset) -> Verdict:
    """A split has no labels where Ultralytics looks for them, but files of the right names lie elsewhere.

    Reported in yolov5#13610.
    """
    return judge(dataset, "path_mismatch", ("layout",))


@rule("data.cls_folder_mismatch", Severity.CRITICAL)
def cls_folder_mismatch(dataset: Dataset) -> Verdict:
    """Splits of a classification set have different class folders, or images lie outside of any.

    Different folders shift the class ids of a split. An empty folder is high, a loose image is medium. Reported in
    ultralytics#13936.
    """
    if dataset.task != "classify":
        return Skip("not_classify")
    kinds = set(fault_of(dataset, "cls_folder_mismatch").kinds)
    severity = Severity.MEDIUM if kinds == {"loose"} else Severity.HIGH if kinds <= {"loose", "empty"} else None
    return judge(dataset, "cls_folder_mismatch", ("folders",), severity=severity)


@rule("data.cls_sort_order", Severity.LOW)
def cls_sort_order(dataset: Dataset) -> Verdict:
    """Class folders are numbers without leading zeros: class ids follow their order as text (0, 1, 10, 2)."""
    if dataset.task != "classify":
        return Skip("not_classify")
    return judge(dataset, "cls_sort_order", ("pad",))
