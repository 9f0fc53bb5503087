"""Disks, data set, lock and downloads."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from diag.model.check import Status
from diag.probe import images, network, stack, storage
from diag.probe.plan import make_plan

GIB = 1024**3


def disk(free: int, total: int = 100 * GIB, inodes: int | None = 900) -> storage.Disk:
    return storage.Disk(free, total, inodes, None if inodes is None else 1000)


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (disk(50 * GIB), Status.PASS),
        (disk(3 * GIB), Status.WARN),
        (disk(3 * GIB, 4 * GIB), Status.PASS),  # a small disk that is mostly free
        (disk(1000), Status.FAIL),
        (disk(50 * GIB, inodes=10), Status.WARN),
        (disk(50 * GIB, inodes=None), Status.PASS),
    ],
)
def test_free_space_is_judged_against_this_run(state: storage.Disk, status: Status) -> None:
    assert storage.disk_free(state, make_plan({}), None).status is status


def test_checkpoints_and_a_disk_cache_count() -> None:
    plan = make_plan({"model": "yolo11x.pt", "epochs": 100, "save_period": 1, "cache": "disk"})
    check = storage.disk_free(disk(50 * GIB), plan, 7 * GIB)
    assert check.facts["need_bytes"] == 102 * 73_000_000 * 8 + 7 * GIB
    assert check.status is Status.FAIL


@pytest.mark.parametrize(
    ("model", "scale"),
    [("yolo11n.pt", "n"), ("yolov8m-seg.pt", "m"), ("a/b/yolo26l.yaml", "l"), ("best.pt", "x"), ("rtdetr-l.pt", "x")],
)
def test_the_scale_is_read_from_the_models_name(model: str, scale: str) -> None:
    assert storage.checkpoint_bytes(model) == storage.MILLION_PARAMETERS[scale] * 8_000_000


def test_a_writable_workspace_passes_and_stays_empty(tmp_path: Path) -> None:
    assert storage.workspace_writable(tmp_path).status is Status.PASS
    assert storage.workspace_writable(tmp_path / "new").status is Status.PASS
    assert list(tmp_path.iterdir()) == []


def test_a_workspace_that_refuses_files_fails_with_the_ids(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for place in (Path("/proc/self/task"), file / "below"):
        check = storage.workspace_writable(place)
        assert (check.status, check.finding) == (Status.FAIL, "env.workspace_unwritable")
        assert "uid" in check.remedy


MOUNTS = r"""
1 0 0:1 / / rw - overlay overlay rw
2 1 0:2 / /data rw - nfs4 server:/x rw
3 1 0:3 / /data/my\040set rw - ext4 /dev/sda rw
4 1 0:4 / /datas rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/x", "nfs4"),
        ("/data/my set/images", "ext4"),
        ("/database", "overlay"),
        ("/datas", "tmpfs"),
        ("/", "overlay"),
    ],
)
def test_the_longest_mount_that_holds_the_path_counts(path: str, kind: str) -> None:
    assert storage.filesystem_of(Path(path), MOUNTS)[0] == kind


@pytest.mark.parametrize(
    ("kind", "status"),
    [("ext4", Status.PASS), ("overlay", Status.WARN), ("nfs4", Status.INFO), ("fuse.sshfs", Status.INFO)],
)
def test_the_data_sets_file_system_is_judged(tmp_path: Path, kind: str, status: Status) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(f"1 0 0:1 / / rw - {kind} x rw\n")
    assert storage.data_filesystem(tmp_path, tmp_path).status is status


def test_a_missing_data_set_fails_and_none_is_skipped(tmp_path: Path) -> None:
    assert storage.data_filesystem(tmp_path / "gone").status is Status.FAIL
    assert storage.data_filesystem(None).status is Status.SKIP


def pictures(folder: Path, count: int) -> tuple[Path, ...]:
    from PIL import Image

    paths = tuple(folder / f"{n}.jpg" for n in range(count))
    for path in paths:
        Image.new("RGB", (64, 32), "red").save(path)
    return paths


def test_the_users_own_images_are_decoded_and_bad_ones_named(tmp_path: Path) -> None:
    good = pictures(tmp_path, 3)
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no image")
    decoding = images.decode([*good, bad, tmp_path / "gone.jpg"], budget_s=0.05)
    assert decoding.failed == ("bad.jpg", "gone.jpg")
    assert (decoding.synthetic, decoding.mean_pixels) == (False, 64 * 32)
    check = images.decode_rate(decoding)
    assert (check.status, check.finding) == (Status.WARN, "data.corrupt_images")


def test_images_that_all_fail_end_the_measurement(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no image")
    check = images.decode_rate(images.decode([bad], budget_s=60))
    assert check.status is Status.FAIL


def test_without_images_a_generated_one_is_told_as_such() -> None:
    check = images.decode_rate(images.decode([], budget_s=0.05))
    assert check.status is Status.INFO
    assert "generated" in check.value


def test_the_cache_is_sized_by_scaled_images_and_the_folders_count(tmp_path: Path) -> None:
    paths = pictures(tmp_path, 4)
    (tmp_path / "labels.txt").touch()
    assert images.cache_bytes(paths[:2], tmp_path, 640) == 4 * 3 * 640 * 320
    assert images.cache_bytes((), tmp_path, 640) is None


LOCK = """# made by a tool
a-package==1.0 \\
    --hash=sha256:00 \\
    --hash=sha256:11
    # via x
B.Package[extra]==2.0 ; sys_platform == 'linux' --hash=sha256:22
opencv-python==4 ; sys_platform == 'never'
"""


def test_a_lock_is_read_with_its_markers() -> None:
    assert stack.read_lock(LOCK) == {"a-package": "1.0", "b-package": "2.0"}


def test_every_lock_of_the_project_is_read_completely() -> None:
    from diag import settings

    for path in settings.STACKS.glob("cu*.lock"):
        text = path.read_text()
        assert len(stack.read_lock(text)) == sum(line[:1].isalnum() for line in text.splitlines())


def test_another_version_is_drift_and_another_package_is_told(tmp_path: Path) -> None:
    (tmp_path / "cu0.lock").write_text(LOCK)
    sha256 = hashlib.sha256(LOCK.encode()).hexdigest()
    built = ("cu0", sha256)
    here = {"a-package": "1.0", "b-package": "2.0", "diag": "0.1", "pip": "26"}
    assert stack.stack_lock(built, tmp_path, here)[0].status is Status.PASS
    assert stack.stack_lock(built, tmp_path, {**here, "wandb": "1"})[0].status is Status.INFO
    check, drift = stack.stack_lock(built, tmp_path, {**here, "a-package": "1.0+cpu"})
    assert (check.status, check.finding) == (Status.WARN, "env.version_drift")
    assert drift.changed == ("a-package: 1.0 -> 1.0+cpu",)
    missing = stack.stack_lock(built, tmp_path, {"b-package": "2.0"})[1]
    assert missing.changed == ("a-package: 1.0 -> missing",)
    assert stack.stack_lock(("cu0", "other"), tmp_path, here)[0].status is Status.WARN
    assert stack.stack_lock(("", ""), tmp_path, here)[0].status is Status.SKIP


def never() -> str:
    raise AssertionError("a connection was tried")


@pytest.mark.parametrize(
    ("model", "offline", "reach", "status"),
    [
        ("yolo11n.yaml", True, never, Status.PASS),
        ("here.pt", True, never, Status.PASS),
        ("yolo11n.pt", True, never, Status.FAIL),
        ("my/best.pt", False, never, Status.FAIL),
        ("best.pt", False, never, Status.FAIL),
        ("yolo11n.pt", False, lambda: "", Status.INFO),
        ("yolo11n.pt", False, lambda: "timed out", Status.FAIL),
    ],
)
def test_a_connection_is_tried_only_when_something_must_be_downloaded(
    tmp_path: Path, model: str, offline: bool, reach: Callable[[], str], status: Status
) -> None:
    (tmp_path / "here.pt").touch()
    check = network.weights(make_plan({"model": model}), (tmp_path,), offline=offline, reachable=reach)
    assert check.status is status
    assert check.finding == ("env.weights_missing" if status is Status.FAIL else "")
