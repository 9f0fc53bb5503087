"""Child process of `diag check`: all work that needs torch, in one process with a time limit of its parent.

    python -m diag.record.bench '{"device": "cuda:0", "imgsz": 640, "batch": 16, "model": "yolo11n.yaml"}'

Writes JSON lines to stdout, so that what was measured survives a crash or a hang of what follows:
`{"begin": SECTION}` and then `{"section": SECTION, "seconds": s, "error": "", "values": {...}}`.
Everything else that libraries print goes to stderr.
"""

import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

Values = dict[str, Any]
LAST_RESORT_S = 180
"""The kernel ends this process after so many seconds, should its parent be killed and unable to."""


def main(argv: list[str]) -> int:
    """Run all sections. Always 0: a section that fails says so in its own line."""
    ask = {"device": "", "imgsz": 640, "batch": 16, "model": "yolo11n.yaml", "budget_s": 3.0, **json.loads(argv[0])}
    signal.alarm(LAST_RESORT_S)
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # Ultralytics and torch print to stdout; only our lines may arrive there
    os.environ["YOLO_AUTOINSTALL"] = "false"
    versions = _section(out, "torch", _versions)
    if versions is None:
        return 0
    _section(out, "torchvision", _torchvision)
    device = ask["device"] or ("cuda:0" if versions["cuda_available"] else "cpu")
    if device != "cpu" or versions["cuda_available"]:
        gpu = "cuda:0" if device == "cpu" else device
        if _section(out, "cuda", lambda: _cuda(gpu)) is None:
            device = "cpu"  # then these figures say what training on the CPU would be
    if device != "cpu":
        _section(out, "copy", lambda: _copy(device))
    _section(out, "numerics", lambda: _numerics(device))
    _section(out, "step", lambda: _step(ask, device))
    return 0


def _section(out: TextIO, name: str, work: Callable[[], Values]) -> Values | None:
    print(json.dumps({"begin": name}), file=out)
    started, values, error = time.perf_counter(), None, ""
    try:
        values = work()
    except Exception as problem:
        error = f"{type(problem).__name__}: {str(problem).strip().partition(chr(10))[0]}"
    line = {"section": name, "seconds": time.perf_counter() - started, "error": error, "values": values or {}}
    print(json.dumps(line), file=out)
    return values


def _versions() -> Values:
    import torch

    try:
        archs = torch.cuda.get_arch_list() or torch._C._cuda_getArchFlags().split()
    except (AttributeError, RuntimeError):  # a CPU build has no flags
        archs = []
    return {
        "torch": torch.__version__,
        "torch_cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "cudnn": torch.backends.cudnn.version() if torch.version.cuda else None,
        "arch_list": archs,
        "cuda_available": torch.cuda.is_available(),
        "device_count": torch.cuda.device_count(),
        "threads": torch.get_num_threads(),
    }


def _torchvision() -> Values:
    """Load torchvision's compiled operators and call one: both fail when torch and torchvision are of two builds.

    The package itself is not imported: it takes 3 s more (it pulls in torch._dynamo), and it hides a failed load.
    """
    import importlib.util
    from importlib.metadata import version
    from pathlib import Path

    import torch

    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'torchvision'")
    libraries = sorted(Path(spec.origin).parent.glob("_C*.so"))  # _C.so, from 0.29 on _C_stable.so
    for library in libraries:
        torch.ops.load_library(str(library))
    if not libraries:
        import torchvision  # noqa: F401  # a layout that is not known here: the slow way
    boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 4.1], [8.0, 8.0, 9.0, 9.0]])
    kept = torch.ops.torchvision.nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5).tolist()
    built_for = int(torch.ops.torchvision._cuda_version())  # 13000 for CUDA 13.0, -1 for a CPU build
    return {
        "torchvision": version("torchvision"),
        "nms_ok": kept == [0, 2],
        "cuda": f"{built_for // 1000}.{built_for % 1000 // 10}" if built_for > 0 else None,
    }


def _cuda(device: str) -> Values:
    """Only an allocation, a matmul and a synchronize prove that a GPU works; `is_available` can be wrong both ways."""
    import torch

    started = time.perf_counter()
    a = torch.ones(256, 256, device=device)
    total = float((a @ a).sum().item())
    torch.cuda.synchronize(device)
    free, whole = torch.cuda.mem_get_info(device)
    properties = torch.cuda.get_device_properties(device)
    return {
        "init_s": time.perf_counter() - started,
        "matmul_ok": total == 256.0**3,
        "name": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "uuid": str(getattr(properties, "uuid", "")),
        "free_bytes": free,
        "total_bytes": whole,
        "device_count": torch.cuda.device_count(),
    }


def _copy(device: str) -> Values:
    """Host-to-device bandwidth from pinned memory, and the PCIe link as it is while data moves."""
    import torch

    from diag.probe.watch import LinkWatch

    size = 256 * 1024**2
    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    target = torch.empty(size, dtype=torch.uint8, device=device)
    stream = torch.cuda.current_stream(device)
    uuid = str(getattr(torch.cuda.get_device_properties(device), "uuid", ""))
    with LinkWatch(uuid, int(device.partition(":")[2] or 0)) as watch:
        rates = []
        for _ in range(8):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record(stream)
            target.copy_(host, non_blocking=True)
            end.record(stream)
            watch.look()
            end.synchronize()
            rates.append(size / (begin.elapsed_time(end) / 1000) / 1e9)
    return {"h2d_gb_s": sorted(rates)[len(rates) // 2], **watch.values()}


def _numerics(device: str) -> Values:
    """Products of small integers: exact in any order of additions, so every bit of the result is known.

    Sums stay below 2**24 (exact in FP32), the last rounding to BF16/FP16 is to nearest even on both sides.
    """
    import torch

    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    size = 384 if device == "cpu" else 2048
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randint(-3, 4, (size, size), generator=generator).double() for _ in range(2))
    exact = a @ b
    wrong: dict[str, int | str] = {}
    for name, kind in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)):
        try:
            got = (a.to(kind).to(device) @ b.to(kind).to(device)).cpu()
        except RuntimeError as error:  # a device without this type
            wrong[name] = f"not supported: {str(error).partition(chr(10))[0]}"
            continue
        wrong[name] = int((got != exact.float().to(kind)).sum().item())
    return {"device": device, "size": size, "wrong": wrong, "reference_ok": bool((exact == exact.round()).all())}


def _step(ask: Values, device: str) -> Values:
    """Training steps of the model on made-up images: forward, loss, backward, optimizer. No data, no loader."""
    import torch
    from ultralytics.cfg import get_cfg
    from ultralytics.nn.tasks import DetectionModel

    from diag.probe.watch import LinkWatch

    gpu = device != "cpu"
    torch.manual_seed(0)
    model = DetectionModel(ask["model"], nc=80, verbose=False).to(device).train()
    model.args = get_cfg()
    weights = [p for p in model.parameters() if p.requires_grad]
    first_batch = _batch(torch, 1 if not gpu else ask["batch"], ask["imgsz"], device)

    def step(batch: Values) -> float:
        with torch.autocast("cuda", enabled=gpu and bool(ask.get("amp", True))):
            loss = model(batch)[0].sum()
        loss.backward()
        # A bare gradient step: torch.optim would import torch._dynamo, which takes 2 to 3 s.
        with torch.no_grad():
            torch._foreach_add_(weights, [w.grad for w in weights], alpha=-1e-6)
        for weight in weights:
            weight.grad = None
        return float(loss.item())  # also waits for the GPU

    # The first step also pays for late imports, memory and kernel choice: a tiny one on the CPU, a real one on a GPU.
    step(_batch(torch, 1, 64, device) if not gpu else first_batch)
    uuid = str(getattr(torch.cuda.get_device_properties(device), "uuid", "")) if gpu else ""
    batch, size, steps = first_batch, first_batch["img"].shape[0], 1
    with LinkWatch(uuid, int(device.partition(":")[2] or 0), enabled=gpu) as watch:
        started, cpu = time.perf_counter(), time.process_time()
        loss = last = step(batch)
        seconds = time.perf_counter() - started
        if seconds < ask["budget_s"] / 2:
            if not gpu:
                batch = _batch(torch, min(ask["batch"], 2), ask["imgsz"], device)
            size, steps = batch["img"].shape[0], 0
            started, cpu = time.perf_counter(), time.process_time()
            while steps == 0 or (time.perf_counter() - started < ask["budget_s"] * 0.7 and steps < 200):
                last, steps = step(batch), steps + 1
                watch.look()
            seconds = time.perf_counter() - started
        cpu = time.process_time() - cpu
    return {
        "device": device,
        "model": ask["model"],
        "imgsz": ask["imgsz"],
        "batch": size,
        "steps": steps,
        "images_per_s": size * steps / seconds,
        "cpu_share": cpu / seconds / torch.get_num_threads(),
        "first_loss": loss if math.isfinite(loss) else str(loss),
        "finite": math.isfinite(loss) and math.isfinite(last),
        "peak_bytes": torch.cuda.max_memory_reserved(device) if gpu else None,
        **watch.values(),
    }


def _batch(torch: Any, size: int, imgsz: int, device: str) -> Values:
    """Made-up images with four boxes each, the same in every run."""
    generator = torch.Generator().manual_seed(size)
    side = max(32, imgsz // 32 * 32)  # the model's largest stride
    batch = {
        "img": torch.rand(size, 3, side, side, generator=generator),
        "cls": torch.randint(0, 80, (size * 4, 1), generator=generator).float(),
        "bboxes": 0.1 + 0.3 * torch.rand(size * 4, 4, generator=generator),
        "batch_idx": torch.arange(size).repeat_interleave(4).float(),
    }
    return {name: value.to(device) for name, value in batch.items()}


if __name__ == "__main__":
    sys.stdout.flush()
    raise SystemExit(main(sys.argv[1:]))
