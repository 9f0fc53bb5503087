"""Checks that rest on what the torch child measured. Pure: its sections in, one answer out."""

from diag.model.check import Check, Status
from diag.probe.child import Section
from diag.probe.plan import Plan
from diag.probe.units import number_text


def torch_import(part: Section) -> Check:
    """Can torch be imported? Tells its build and how long that took."""
    values = part.values
    if part.error:
        remedy = "scripts/setup builds the environment again from its lock"
        return Check("torch.import", Status.FAIL, part.error, "imports", "torch can't be imported", remedy)
    cuda = f"CUDA {values['torch_cuda']}" if values.get("torch_cuda") else "CPU build"
    value = f"torch {values['torch']} ({cuda}), {part.seconds:.1f} s"
    return Check("torch.import", Status.PASS, value, facts=dict(values))


def torch_vision(part: Section, torch_cuda: str | None) -> Check:
    """Do torch and torchvision come from one build? Its compiled operators are loaded, NMS is called and its result
    compared, and both must be built for the same CUDA major (torchvision refuses to be imported otherwise).
    """
    remedy, reason = "install both from one lock: scripts/setup", "torch and torchvision come from different builds"
    expected, finding = "one build, NMS correct", "env.torchvision_mismatch"
    if part.error or not part.values.get("nms_ok"):
        value = part.error or "NMS gives a wrong result"
        return Check("torch.vision", Status.FAIL, value, expected, reason, remedy, finding)
    built_for, facts = part.values.get("cuda"), dict(part.values)
    value = f"torchvision {part.values['torchvision']}, NMS correct"
    if built_for and torch_cuda and built_for.partition(".")[0] != torch_cuda.partition(".")[0]:
        value = f"torchvision for CUDA {built_for}, torch for CUDA {torch_cuda}"
        return Check("torch.vision", Status.FAIL, value, expected, reason, remedy, finding, facts=facts)
    return Check("torch.vision", Status.PASS, value, expected, facts=facts)


def torch_numerics(part: Section) -> Check:
    """Is arithmetic right to the last bit? Integer products have one exact result in any order of additions.

    Any wrong number on a GPU fails. On the CPU only FP32 fails: some CPUs add BF16 and FP16 in lower precision.
    """
    if part.error:
        return Check("torch.numerics", Status.UNKNOWN, reason=part.error)
    device, wrong = part.values["device"], part.values["wrong"]
    counts = {name: count for name, count in wrong.items() if isinstance(count, int)}
    bad = {n: c for n, c in counts.items() if c and (device != "cpu" or n == "fp32")}
    facts = dict(part.values)
    if bad:
        value = ", ".join(f"{c} wrong of {part.values['size']}^2 in {n}" for n, c in bad.items())
        reason = "the same sum must give the same bits; a model trained here can't be trusted"
        remedy = "stop using this device; test its memory (GPU: dcgmi diag -r 3; CPU: memtest86)"
        return Check(
            "torch.numerics", Status.FAIL, value, "0 wrong", reason, remedy, "hw.gpu_wrong_result", facts=facts
        )
    if not counts:
        reason = f"{device} multiplies none of {', '.join(wrong)}"
        return Check("torch.numerics", Status.UNKNOWN, reason=reason, facts=facts)
    value = f"bit-exact on {device}: {', '.join(n for n, c in counts.items() if not c)}"
    return Check("torch.numerics", Status.PASS, value, "0 wrong", facts=facts)


def torch_step(part: Section, *, busy: float = 0.7) -> Check:
    """How many images per second does a training step take in, without any data loading? Fails on a loss that is
    not a number; there is no threshold for the speed. Below `busy` of the CPUs it is said that they were shared."""
    if part.error:
        remedy = "run the same training with a small model and batch to see the whole error"
        return Check(
            "torch.step",
            Status.FAIL,
            part.error,
            "a training step",
            "a synthetic training step failed",
            remedy,
            _step_finding(part.error),
        )
    v, facts = part.values, dict(part.values)
    what = f"{v['model']}, {v['imgsz']} px, batch {v['batch']}"
    if v["device"] == "cpu" and v.get("cpu_share", 1.0) < busy:
        what += f", while other work held the CPUs: it got {v['cpu_share']:.0%} of them"
    value = f"{number_text(v['images_per_s'])} images/s on {v['device']} ({what})"
    if not v["finite"]:
        reason, remedy = "the loss of a synthetic step is not a number", "try amp=False; if that helps, keep it"
        return Check(
            "torch.step", Status.FAIL, value, "a finite loss", reason, remedy, "hw.gpu_wrong_result", facts=facts
        )
    return Check("torch.step", Status.PASS, value, "a finite loss", facts=facts)


def bottleneck(step: Section, decode_per_cpu_s: float, plan: Plan, cpus_visible: int, cpus: float) -> Check:
    """What will limit the training: reading images or computing? Decode rate x CPUs of the loader against the step.

    Counts one decode for each image (mosaic takes its others from memory) and no augmentation: the data side is
    an upper bound, so a warning here is certain to come true.
    """
    if step.error:
        return Check("predict.bottleneck", Status.SKIP, reason="no synthetic step was measured")
    gpu = step.values["device"] != "cpu"
    compute = step.values["images_per_s"] * plan.ranks
    workers = plan.loader_workers(cpus_visible, gpu=gpu) * plan.ranks
    data = decode_per_cpu_s * max(1.0, min(float(workers), cpus))
    facts = {
        "data_images_per_s": round(data, 1),
        "step_images_per_s": round(compute, 2),
        "ratio": round(data / compute, 2),
    }
    value = f"data up to {number_text(data)} images/s, step {number_text(compute)} images/s"
    if data >= compute:
        which = "the GPU" if gpu else "the CPU's arithmetic"
        return Check(
            "predict.bottleneck", Status.PASS, f"{value}: {which} will be the limit", "data >= step", facts=facts
        )
    more = workers < cpus - 1
    remedy = (
        f"pass workers={int(cpus) // plan.ranks}"
        if more
        else "pass cache=ram or cache=disk, store smaller images, or use more CPUs"
    )
    return Check(
        "predict.bottleneck",
        Status.WARN,
        f"{value}: the GPU will wait",
        "data >= step",
        "decoding is slower than the GPU",
        remedy,
        "speed.decode_bound",
        facts=facts,
    )


def _step_finding(error: str) -> str:
    text = error.lower()
    if "out of memory" in text:
        return "mem.gpu_oom"
    return "env.no_kernel" if "no kernel image" in text else ""
