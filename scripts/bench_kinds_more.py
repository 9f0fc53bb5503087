"""The kinds of defects of segment, pose, obb and classify."""

from collections.abc import Callable

from bench_kinds import Kind, f
from bench_mutations import Bench, Expected

SEGMENT: dict[str, Kind] = {}
POSE: dict[str, Kind] = {}
OBB: dict[str, Kind] = {}
CLASSIFY: dict[str, Kind] = {}


# -- segment --------------------------------------------------------------------------------------
def _ring(r: list[str]) -> list[list[str]]:
    return [r[k : k + 2] for k in range(1, len(r), 2)]


def _big(change: Callable[[list[str]], list[str]]) -> Kind:
    """Only polygons with enough corners and size, so that the defect is one."""

    def mutate(b: Bench) -> Expected:
        for _ in range(200):
            label = b.label()
            lines = label.read_text().splitlines()
            fits = [k for k, line in enumerate(lines) if len(line.split()) >= 25 and _extent(line.split()) > 0.1]
            if fits:
                break
        at = b.rng.choice(fits)
        lines[at] = " ".join(change(lines[at].split()))
        b.write(label, "\n".join(lines) + "\n")
        return Expected({b.name(label)}, at + 1)

    return mutate


def _extent(r: list[str]) -> float:
    xs, ys = [float(v) for v in r[1::2]], [float(v) for v in r[2::2]]
    return min(max(xs) - min(xs), max(ys) - min(ys))


def _crossed(r: list[str]) -> list[str]:
    """Corners in an order that goes to and fro: each third one, three times around."""
    ring = _ring(r)
    return [r[0], *(v for point in ring[::3] + ring[1::3] + ring[2::3] for v in point)]


SEGMENT["seg_box_row"] = lambda b: b.row(lambda r: [r[0], "0.5", "0.5", "0.2", "0.2"])
SEGMENT["seg_2pt_polygon"] = lambda b: b.row(lambda r: r[:5])
SEGMENT["seg_self_intersect"] = _big(_crossed)
SEGMENT["seg_odd_coords"] = lambda b: b.row(lambda r: r[:-1])
SEGMENT["seg_coord_out"] = lambda b: b.row(lambda r: [*r[:1], "1.2", *r[2:]])
SEGMENT["seg_dup_polygon"] = lambda b: b.row(lambda r: [r, r])
SEGMENT["seg_zero_area"] = lambda b: b.row(lambda r: [r[0], *(["0.3", "0.4"] * 4)])
SEGMENT["seg_line"] = lambda b: b.row(lambda r: [r[0], "0.3", "0.3", "0.4", "0.4", "0.5", "0.5", "0.4", "0.4"])
SEGMENT["seg_cls_eq_nc"] = lambda b: b.row(lambda r: ["80", *r[1:]])


def _only_row(b: Bench) -> Expected:
    label = b.label()
    b.write(label, " ".join(label.read_text().split()[:5]) + "\n")
    return Expected({b.name(label)}, 1)


SEGMENT["seg_2pt_only_row"] = _only_row

# -- pose -----------------------------------------------------------------------------------------
POSE["pose_kpt_out"] = lambda b: b.row(lambda r: [*r[:5], "1.3", *r[6:]])
POSE["pose_wrong_kpt_shape"] = lambda b: b.yaml(lambda c: c.update(kpt_shape=[4, 3], flip_idx=[0, 2, 1, 3]))
POSE["pose_missing_col"] = lambda b: b.row(lambda r: r[:-1])
POSE["pose_vis_3"] = lambda b: b.row(lambda r: [*r[:7], "3", *r[8:]])
POSE["pose_kpt_far_from_box"] = lambda b: b.row(lambda r: [*r[:5], "0.02" if float(r[1]) > 0.5 else "0.98", *r[6:]])
POSE["pose_flip_idx_bad"] = lambda b: b.yaml(lambda c: c.update(flip_idx=[1, 2, 0]))

# -- obb ------------------------------------------------------------------------------------------
OBB["obb_crossed"] = lambda b: b.row(lambda r: [*r[:3], *r[5:7], *r[3:5], *r[7:]])
OBB["obb_outside"] = lambda b: b.row(lambda r: [r[0], "1.3", *r[2:]])
OBB["obb_zero_area"] = lambda b: b.row(lambda r: [r[0], *r[1:3], *r[1:3], *r[5:7], *r[5:7]])
OBB["obb_not_rectangle"] = lambda b: b.row(_sheared)
OBB["obb_5col_row"] = lambda b: b.row(lambda r: [r[0], "0.5", "0.5", "0.1", "0.1"])


def _sheared(r: list[str]) -> list[str]:
    """One corner moved towards the middle by a third of the diagonal."""
    x, y, a, b = (float(r[k]) for k in (1, 2, 5, 6))
    return [r[0], *f([x + (a - x) / 3, y + (b - y) / 3]), *r[3:]]


# -- classify -------------------------------------------------------------------------------------
def _folder(b: Bench, split: str, name: str, new: str) -> Expected:
    path = b.root / split / name
    path.rename(path.with_name(new))
    b.moved.append((path.with_name(new), path))
    return Expected({f"{split}/{name}", f"{split}/{new}"})


def _gone(b: Bench) -> Expected:
    return _moved(b, b.root / "val" / "WBC")


def _moved(b: Bench, path: object) -> Expected:
    target = b.root.parent / "aside"
    path.rename(target)  # type: ignore[attr-defined]
    b.moved.append((target, path))  # type: ignore[arg-type]
    return Expected({"val/WBC"})


def _emptied(b: Bench) -> Expected:
    _gone(b)
    (b.root / "val" / "WBC").mkdir()
    return Expected({"val/WBC"})


def _crop(b: Bench, split: str, name: str) -> bytes:
    return b.rng.choice(sorted((b.root / split / name).glob("*.jpg"))).read_bytes()


def _into(b: Bench, place: str, data: bytes) -> Expected:
    b.write(b.root / place, data)
    return Expected({place})


CLASSIFY["cls_folder_mismatch"] = lambda b: _folder(b, "val", "WBC", "wbc")
CLASSIFY["cls_folder_missing_val"] = _gone
CLASSIFY["cls_folder_empty"] = _emptied
CLASSIFY["cls_loose_image"] = lambda b: _into(b, "train/loose.jpg", _crop(b, "train", "WBC"))
CLASSIFY["cls_truncated"] = lambda b: _into(b, "train/WBC/cut.jpg", _crop(b, "train", "WBC")[:-900])
CLASSIFY["cls_dup_two_classes"] = lambda b: _into(b, "train/RBC/dup.jpg", _crop(b, "train", "WBC"))
CLASSIFY["cls_dup_train_val"] = lambda b: _into(b, "val/WBC/dup.jpg", _crop(b, "train", "WBC"))
