"""The kinds of defects by task; names as in the peers' table."""

import io
import os
from collections.abc import Callable

from bench_mutations import Bench, Expected, encoded
from PIL import Image, ImageDraw

Kind = Callable[[Bench], Expected]
DETECT: dict[str, Kind] = {}
CONTROLS = {"label_crlf", "image_ext_upper"}


def f(values: list[float]) -> list[str]:
    return [f"{v:.6f}" for v in values]


# -- rows -----------------------------------------------------------------------------------------
DETECT["cls_eq_nc"] = lambda b: b.row(lambda r: ["80" if max_class(b) > 3 else "3", *r[1:]])
DETECT["cls_negative"] = lambda b: b.row(lambda r: ["-1", *r[1:]])
DETECT["cls_float"] = lambda b: b.row(lambda r: ["0.5", *r[1:]])
DETECT["cols_4"] = lambda b: b.row(lambda r: r[:4])
DETECT["cols_6"] = lambda b: b.row(lambda r: [*r, "0.9"])
DETECT["text_in_row"] = lambda b: b.row(lambda r: ["cell", *r[1:]])
DETECT["coord_1_2"] = lambda b: b.row(lambda r: [r[0], "1.2", *r[2:]])
DETECT["coord_neg_0_1"] = lambda b: b.row(lambda r: [r[0], "-0.1", *r[2:]])
DETECT["coord_1_005"] = lambda b: b.row(lambda r: [r[0], "1.005", *r[2:]])
DETECT["pixel_coords"] = lambda b: b.row(lambda r: [r[0], *(f"{float(v) * 640:.1f}" for v in r[1:])])
DETECT["xyxy_row"] = lambda b: b.row(_xyxy)
DETECT["box_beyond_border"] = lambda b: b.row(lambda r: [r[0], "0.97", r[2], "0.2", r[4]])
DETECT["zero_width"] = lambda b: b.row(lambda r: [*r[:3], "0", r[4]])
DETECT["negative_height"] = lambda b: b.row(lambda r: [*r[:4], f"-{r[4]}"])
DETECT["nan_row"] = lambda b: b.row(lambda r: [*r[:3], "nan", r[4]])
DETECT["inf_row"] = lambda b: b.row(lambda r: [*r[:3], "inf", r[4]])
DETECT["dup_row"] = lambda b: b.row(lambda r: [r, r])
DETECT["near_dup_row"] = lambda b: b.row(lambda r: [r, [r[0], *f([float(r[1]) + 0.001, *map(float, r[2:])])]])
DETECT["full_image_box"] = lambda b: b.row(lambda r: [r[0], "0.5", "0.5", "1", "1"])
DETECT["tiny_box_half_px"] = lambda b: b.row(lambda r: [*r[:3], "0.0008", "0.0008"])
DETECT["comma_separators"] = lambda b: b.row(",".join)


def max_class(b: Bench) -> int:
    return 79 if "coco" in b.root.name else 2


def _xyxy(r: list[str]) -> list[str]:
    """Corners where centre and size belong. The lower right quarter of the image, where it can be told at all."""
    w, h = float(r[3]), float(r[4])
    x, y = max(float(r[1]), 0.62 + w / 2), max(float(r[2]), 0.62 + h / 2)
    x, y = min(x, 1 - w / 2), min(y, 1 - h / 2)
    return [r[0], *f([x - w / 2, y - h / 2, x + w / 2, y + h / 2])]


# -- label files ----------------------------------------------------------------------------------
def _file(change: Callable[[bytes], bytes]) -> Kind:
    def mutate(b: Bench) -> Expected:
        label = b.label()
        b.write(label, change(label.read_bytes()))
        return Expected({b.name(label)})

    return mutate


DETECT["label_bom"] = _file(lambda d: b"\xef\xbb\xbf" + d)
DETECT["label_crlf"] = _file(lambda d: d.replace(b"\n", b"\r\n"))
DETECT["label_utf16"] = _file(lambda d: d.decode().encode("utf-16"))
DETECT["empty_label"] = _file(lambda d: b"")


def _named(change: Callable[[Bench], tuple[set[str], None]]) -> Kind:
    return lambda b: Expected(change(b)[0])


def _missing(b: Bench) -> Expected:
    label = b.label()
    b.remove(label)
    return Expected({b.name(label), b.name(b.image_of(label))})


def _orphan(b: Bench) -> Expected:
    label = b.label()
    b.write(label.with_name("nobody.txt"), label.read_bytes())
    return Expected({b.name(label.with_name("nobody.txt"))})


def _renamed(change: Callable[[str], str]) -> Kind:
    def mutate(b: Bench) -> Expected:
        label = b.label()
        target = b.rename(label, change(label.name))
        return Expected({b.name(target), b.name(label), b.name(b.image_of(label))})

    return mutate


DETECT["missing_label"] = _missing
DETECT["orphan_label"] = _orphan
DETECT["label_ext_upper"] = _renamed(lambda n: n.replace(".txt", ".TXT"))


def _stem_case(b: Bench) -> Expected:
    """Names of digits have no case: then both files get a name first."""
    label = b.label()
    image = b.image_of(label)
    if label.stem.isdigit():
        image = b.rename(image, f"x{label.stem}.jpg")
    target = b.rename(label, f"{image.stem.swapcase()}.txt")
    return Expected({b.name(target), b.name(image)})


DETECT["label_stem_case"] = _stem_case


# -- images ---------------------------------------------------------------------------------------
def _png(data: bytes, mode: str) -> bytes:
    return encoded(data, "PNG", mode=mode)


def _as_png(b: Bench, make: Callable[[bytes], bytes]) -> Expected:
    image = b.image_of(b.label())
    target = image.with_suffix(".png")
    b.write(target, make(image.read_bytes()))
    b.remove(image)
    return Expected({b.name(target)})


def _sixteen(data: bytes) -> bytes:
    out = io.BytesIO()
    grey = Image.open(io.BytesIO(data)).convert("L")
    Image.frombytes("I;16", grey.size, b"".join(bytes((0, v)) for v in grey.tobytes())).save(out, "PNG")
    return out.getvalue()


def _exif(data: bytes) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded(data, exif=exif.tobytes())


DETECT["jpeg_truncated"] = lambda b: b.picture(lambda p, d: d[: len(d) // 2])
DETECT["image_zero_byte"] = lambda b: b.picture(lambda p, d: b"")
DETECT["image_html"] = lambda b: b.picture(lambda p, d: b"<!DOCTYPE html><html><body>404</body></html>")
DETECT["png_named_jpg"] = lambda b: b.picture(lambda p, d: _png(d, "RGB"))
DETECT["image_gray"] = lambda b: b.picture(lambda p, d: encoded(d, mode="L"))
DETECT["image_rgba_png"] = lambda b: _as_png(b, lambda d: _png(d, "RGBA"))
DETECT["image_16bit_png"] = lambda b: _as_png(b, _sixteen)
DETECT["image_cmyk_jpg"] = lambda b: b.picture(lambda p, d: encoded(d, mode="CMYK"))
DETECT["exif_rotated"] = lambda b: b.picture(lambda p, d: _exif(d))
DETECT["image_huge"] = lambda b: b.picture(lambda p, d: encoded(d, size=(12000, 9000)))
DETECT["image_8px"] = lambda b: b.picture(lambda p, d: encoded(d, size=(8, 8)))
DETECT["image_flat"] = lambda b: b.picture(lambda p, d: _flat())


def _flat() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (640, 480), (90, 90, 90)).save(out, "JPEG")
    return out.getvalue()


def _image_named(name: Callable[[str], str]) -> Kind:
    def mutate(b: Bench) -> Expected:
        image = b.image_of(b.label())
        return Expected({b.name(b.rename(image, name(image.stem)))})

    return mutate


DETECT["image_ext_upper"] = _image_named(lambda stem: f"{stem}.JPG")
DETECT["image_bad_ext"] = _image_named(lambda stem: f"{stem}.jfif")


def _in_labels(b: Bench) -> Expected:
    label = b.label()
    b.write(label.with_suffix(".jpg"), b.image_of(label).read_bytes())
    return Expected({b.name(label.with_suffix(".jpg"))})


def _same_stem(b: Bench) -> Expected:
    image = b.image_of(b.label())
    drawn = Image.open(io.BytesIO(b.image_of(b.label()).read_bytes())).convert("RGB").resize((400, 300))
    ImageDraw.Draw(drawn).rectangle((60, 40, 340, 260), fill=(200, 30, 30))
    out = io.BytesIO()
    drawn.save(out, "PNG")
    b.write(image.with_suffix(".png"), out.getvalue())
    return Expected({b.name(image), b.name(image.with_suffix(".png"))})


def _nonutf8(b: Bench) -> Expected:
    label = b.label()
    image = b.image_of(label)
    stem = os.fsdecode(b"caf\xe9") + label.stem
    b.rename(label, f"{stem}.txt")
    target = b.rename(image, f"{stem}.jpg")
    return Expected({b.name(target).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")})


DETECT["image_in_labels_dir"] = _in_labels
DETECT["same_stem_two_ext"] = _same_stem
DETECT["nonutf8_filename"] = _nonutf8


def _copied(change: Callable[[bytes], bytes], *, across: bool = True) -> Kind:
    def mutate(b: Bench) -> Expected:
        train, val = b.splits()[0], b.splits()[-1]
        label = b.label(train)
        target = b.root / "images" / (val if across else train) / "copied.jpg"
        b.write(target, change(b.image_of(label).read_bytes()))
        b.write(b.root / "labels" / target.parent.name / "copied.txt", label.read_bytes())
        return Expected({b.name(target), b.name(b.image_of(label)), f"labels/{target.parent.name}/copied.txt"})

    return mutate


DETECT["exact_dup_across"] = _copied(lambda d: d)
DETECT["near_dup_reencoded"] = _copied(lambda d: encoded(d, quality=60))
DETECT["near_dup_resized"] = _copied(lambda d: encoded(d, size=(320, 240)))
DETECT["near_dup_flipped"] = _copied(lambda d: encoded(d, turn=Image.Transpose.FLIP_LEFT_RIGHT))
DETECT["near_dup_cropped"] = _copied(lambda d: encoded(d, box=(0.05, 0.05, 0.95, 0.95)))

# -- splits and yaml ------------------------------------------------------------------------------
DETECT["train_eq_val"] = lambda b: b.yaml(lambda c: c.update(val=c["train"]))
DETECT["val_path_missing"] = lambda b: b.yaml(lambda c: c.update(val="images/nowhere"))
DETECT["names_noncontiguous"] = lambda b: b.yaml(lambda c: c["names"].update({99: c["names"].pop(max(c["names"]))}))
DETECT["names_short"] = lambda b: b.yaml(lambda c: c["names"].pop(max_used(b)) and _contiguous(c))
DETECT["names_duplicate"] = lambda b: b.yaml(lambda c: c["names"].update({1: c["names"][0]}))
DETECT["nc_mismatch"] = lambda b: b.yaml(lambda c: c.update(nc=len(c["names"]) + 1))


def max_used(b: Bench) -> int:
    return max_class(b)


def _contiguous(c: dict[str, object]) -> None:
    c["names"] = dict(enumerate(c["names"].values()))  # type: ignore[attr-defined]
