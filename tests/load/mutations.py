"""Real-looking files, broken as files break: cut, doubled, shuffled, with odd numbers and bytes in them."""

# ruff: noqa: E501 # lines of real logs

import io
import json
import random
import tarfile
import zipfile
from pathlib import Path

from hypothesis import strategies as st

from tests.load.conftest import CSV, laps
from tests.wrappings import WRAPPINGS

CASES = Path(__file__).parents[1] / "data" / "cases"
_JUNK = [
    b"\0", b"\x1b[31m", b"\x1b]0;t\x07", b"\r", b"\n", b"\r\n", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3", b"\xe5\xb7\xb2",
    b"1e999", b"-1e999", b"nan", b"inf", b"-inf", b"-1", b"0", b"00", b"1e-320", b"9" * 400, b"9" * 5000, b"1_0",
    b"\xd9\xa3", b",", b",,,,,", b";", b"\t", b":", b": ", b"- ", b"{", b"}", b"[", b"]", b"[" * 3000, b'{"a":' * 2000,
    b'"', b"'", b"`", b"\\", b"|", b"%", b"%|", b"/", b"../", b"&a ", b"*a", b"<<: *a", b"!!python/object:os.system x",
    b"!!int x", b"!!binary x", b"2026-13-45", b"0o77", b"0x1F", b"1:2:3", b"null", b"true", b"~", b"None", b"s/it",
    b"it/s",
    b"100%|##| 9/0 [00:00<?, ?it/s]", b"all", b"Epoch", b"0/0", b"9/99", b"1/3", b"epoch 0/0 batch 0/0", b"G", b"MiB",
    b"\x85",
    b"\xe2\x80\xa8", b"<script>", b"A" * 9000, b" " * 500,
]  # fmt: skip
_NUMBERS = [b"nan", b"inf", b"-inf", b"-1", b"0", b"1e308", b"1e999", b"-0.0", b"9" * 30, b"9" * 400, b"0.1", b"1e-300"]


def read_cases(*patterns: str, limit: int = 6000) -> list[bytes]:
    """The beginnings of the public cases' files of these names."""
    paths = sorted({path for pattern in patterns for path in CASES.glob(f"*/**/{pattern}")})
    return [path.read_bytes()[:limit] for path in paths if path.is_file()]


def mutate(data: bytes, rng: random.Random, steps: int) -> bytes:
    """So many random changes."""
    for _ in range(steps):
        data = _change(data, rng)
    return data


def _change(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    end = min(len(data), at + rng.choice((1, 3, 10, 50, 300)))
    kind = rng.randrange(9)
    if kind == 0:
        return data[:at] + data[end:]
    if kind == 1:
        return data[:end] + data[at:]
    if kind == 2:
        return data[:at] + rng.choice(_JUNK) + data[at:]
    if kind == 3:
        return data[:at] + rng.choice(_JUNK) + data[end:]
    if kind == 4:
        return data[:at] if rng.random() < 0.3 else data + rng.choice(_JUNK)
    if kind == 5:
        return data[:at] + bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9))) + data[end:]
    if kind == 6:
        return _other_number(data, rng)
    lines = data.split(b"\n")
    one, two = rng.randrange(len(lines)), rng.randrange(len(lines))
    if kind == 7:
        lines[one], lines[two] = lines[two], lines[one]
    else:
        lines.insert(one, lines[two])
    return b"\n".join(lines)


def _other_number(data: bytes, rng: random.Random) -> bytes:
    digits = [i for i, byte in enumerate(data) if 48 <= byte <= 57]
    if not digits:
        return data
    start = end = rng.choice(digits)
    while start > 0 and data[start - 1] in b"0123456789.":
        start -= 1
    while end < len(data) and data[end] in b"0123456789.":
        end += 1
    return data[:start] + rng.choice(_NUMBERS) + data[end:]


def mutated(seeds: list[bytes]) -> st.SearchStrategy[bytes]:
    """One of the seeds after up to twelve changes. One number draws them all: that is ten times as quick."""
    assert seeds
    seed = st.integers(0, len(seeds) - 1)
    return st.builds(
        lambda i, number, steps: mutate(seeds[i], random.Random(number), steps),
        seed,
        st.integers(0, 2**32),
        st.integers(0, 12),
    )


LOG = (
    b"Ultralytics 8.3.0 Python-3.11.9 torch-2.5.0 CUDA:0 (NVIDIA L4, 22491MiB)\n"
    b"engine/trainer: task=detect, mode=train, model=yolo11n.pt, epochs=3, batch=16, imgsz=640, cache=ram\n"
    b"train: Scanning /d/labels/train.cache... 240 images, 3 backgrounds, 1 corrupt: 100%|##| 240/240 [00:01<00:00]\n"
    b"Starting training for 3 epochs...\n"
    b"      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n"
    b"\r        1/3       2.1G       1.31       1.52       1.28         60        640: 50%|##  | 5/10 [00:01<00:03, 3.1it/s]"
    b"\r        1/3       2.1G       1.31       1.52       1.28         60        640: 100%|####| 10/10 [00:02<00:00, 3.1it/s]\n"
    b"                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|##| 1/1 [00:01<00:00]\n"
    b"                   all         10         20      0.500      0.400      0.300      0.200\n"
    b"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 22.00 GiB total capacity; 1.00 GiB free)\n"
)
V5 = b"0/99 3.1G 0.1 0.2 0.3 0.6 17 640 0.1 0.2 0.3 0.4 0.5 0.6 0.7\n 1/99 3.1G 0.1 0.2 0.3 0.6 17 640 0.1 0.2 0.3 0.4 0 0 0\n"
TRAINLOG = b"".join(
    b"2026-01-02 03:04:05.678 | INFO | diag.record | epoch 1/10 batch %d/38 | dataloader: 0.214s, model: 0.189s, "
    b"optimizer: 0.012s\n" % n
    for n in range(12)
)  # fmt: skip
OPT = b"weights: yolov5s.pt\ncfg: ''\ndata: data/coco128.yaml\nhyp:\n  lr0: 0.01\n  lrf: 0.01\nepochs: 300\nbatch_size: 16\nimg: 640\n"
DATA = b"path: ../d\ntrain: images/train\nval: [images/val, more]\nnames:\n  0: person\n  1: 'no'\nnc: 2\nkpt_shape: [17, 3]\n"
NVIDIA = (
    b"| NVIDIA-SMI 550.54.14   Driver Version: 550.54.14   CUDA Version: 12.4 |\n|   0  NVIDIA L4   Off | 00000000:00:04.0 Off |\n"
    b"| N/A   47C    P8    17W /  72W |      1MiB / 23034MiB |      0%      Default |\n"
)
CAPTURE = (
    b"Filesystem Size Used Avail Use% Mounted on\n/dev/sda1 100G 99G 1G 99% /\ntmpfs 64M 64M 0 100% /dev/shm\n"
    b"[12345.678] oom-kill:constraint=CONSTRAINT_MEMCG,task=python,pid=99\n[2026-01-02T03:04:05] NVRM: Xid (PCI:0000:01:00): 79\n"
    b"memory.max 8589934592\nmemory.events oom_kill 1\nCUDA_VISIBLE_DEVICES=0\ntorch==2.5.0\n//nas/data on /data type nfs4 (rw)\n"
)
LOADER = {
    "k": "loader", "e": 0, "n": 3, "b": 2, "ns": {"read": 5, "decode": 9, "augment": 3, "collate": 1}, "images": 8, "loads": 20,
    "hits": 3, "opened": 9, "bytes": 100, "pixels": 900, "workers": {"0": [4, 9], "-1": [4, 9]}, "slow": [["a.jpg", 7]],
}  # fmt: skip
VAL_NS = dict.fromkeys(("setup", "wait", "preprocess", "inference", "loss", "postprocess", "metrics", "plots"), 5)
TRACE = laps(8) + "".join(
    json.dumps(record) + "\n"
    for record in (
        LOADER,
        {"k": "val", "e": 0, "t": 9, "final": False, "images": 10, "batches": 2, "ns": VAL_NS},
        {"k": "device", "e": 0, "n": 3, "laps": 4, "dropped": 0, "ms": {"forward": 1.5, "backward": 2.5}},
        {"k": "alloc", "allocated": 1, "reserved": 2, "peak": 3, "retries": 0, "ooms": 0},
        {"k": "mark", "m": "nan_recovery", "t": 5, "v": {"epoch": 3}},
    )
)
COUNTERS = "".join(
    json.dumps(record) + "\n"
    for record in (
        {"k": "start", "t": 0, "wall": "2026-01-02T03:04:05Z", "pid": 1, "trainer": 2, "version": 1, "every_s": 1},
        {
            "k": "gpus",
            "t": 0,
            "gpus": [{"index": 0, "name": "NVIDIA L4", "uuid": "u", "memory_total_bytes": 24 * 2**30}],
        },
        *(
            {
                "k": "c",
                "t": n * 10**9,
                "v": {
                    "rss_main_bytes": 1e9 + n,
                    "cpu_tree_s_total": n * 1.0,
                    "gpu0_clocks_event_reasons": 64,
                    "gpu0_util": 0.5,
                },
            }
            for n in range(12)
        ),
        {"k": "mark", "m": "stall", "t": 5, "v": {"idle_s": 70.5, "step": 3, "in_batch": True, "stacks": "stall.txt"}},
        {"k": "mark", "m": "end", "t": 9, "v": {"how": "gone", "oom_kills": 0}},
    )
)
RUN = {
    "id": "a", "schema_version": 1, "started": "2026-01-02T03:04:05Z", "ended": "", "overrides": {"epochs": 3},
    "args": {"epochs": 3, "device": "cpu", "workers": 8}, "task": "detect", "pid": 3, "exit_cause": {"kind": "running", "code": None},
}  # fmt: skip
HEALTH = {
    "schema_version": 1, "verdict": "running", "run": {"id": "a", "dir": "/nonexistent", "pid": 3},
    "train": {"status": "unknown", "reason": "running"}, "findings": [{"id": "mem.ram_growth", "severity": "high"}],
    "exit_cause": {"kind": "running"},
}  # fmt: skip


def archives() -> list[bytes]:
    """A zip and two tars of a small run."""
    files = {"run/results.csv": CSV.encode(), "run/args.yaml": b"epochs: 3\n", "run/console.log": LOG}
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    made = [zipped.getvalue()]
    for mode in ("w", "w:gz"):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode=mode) as tar:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        made.append(packed.getvalue())
    return made


def documents() -> list[bytes]:
    """Files in a few wrappings: an issue, a notebook, a recording, charts, tables of other dialects."""
    told = {"args.yaml": OPT, "console.log": LOG, "results.csv": V5}
    names: tuple[str, ...] = (
        "doc.issue_en",
        "doc.notebook",
        "doc.cast",
        "doc.docker_json",
        "doc.paste_md",
        "doc.paste_cat",
        "doc.mail",
    )
    names += ("text.docker_compose", "text.hard_wrap80", "text.utf16_le", "text.gbk", "table.markdown")
    made = [data for name in names for data in WRAPPINGS[name].change(told).values()]
    made.append(b"Wall time,Step,Value\n1714550400.0,1,0.5\n1714550460.0,2,0.4\n")
    made.append(b"key,value,step,timestamp\ntrain/box_loss,0.5,1,1\nval/box_loss,0.4,1,1\n")
    return [data[:6000] for data in made]
