"""The facts of one machine check, each read at most once, and the table of questions over them."""

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from diag import settings
from diag.model.check import Check, Status
from diag.model.hardware import Baseline, Gpu, Software
from diag.probe import check_cuda, check_gpu, check_host, check_torch, images, listeners, network, stack, storage
from diag.probe.child import Section
from diag.probe.gpu import TRAINABLE, Diagnosis, GpuSigns, Triage, see_gpu, triage
from diag.probe.host import HostState
from diag.probe.nvml import NvmlState
from diag.probe.once import Once, UnreadableError
from diag.probe.plan import CheckRequest, Kind, make_plan

NVML_LIMIT_S = 15.0  # starting NVML takes about 2 s a GPU when persistence is off; a sick GPU never answers


@dataclass(frozen=True)
class Question:
    """One check: its id, and what answers it. `limit_s` counts from when it is asked."""

    id: str
    ask: Callable[[], Check]
    limit_s: float = 15.0


class Sections(Protocol):
    """What hands out the measurements of the torch child."""

    def section(self, name: str) -> Section:
        """Wait for one; raises UnreadableError when it will not come."""


class Machine:
    """Reads facts lazily; every reader gets the same value, or the reason why there is none."""

    def __init__(
        self,
        request: CheckRequest,
        child: Sections,
        nvml: Once[NvmlState],
        host: Once[HostState],
        *,
        see: Callable[[], GpuSigns] = see_gpu,
    ) -> None:
        self._see = see
        self.request = request
        self.plan = make_plan(request.args)
        self.child = child
        self.nvml = nvml
        self.host = host
        self.signs: Once[GpuSigns] = Once("GPU signs", self._signs, timeout_s=NVML_LIMIT_S + 5)
        self.decoding = Once("decode", lambda: images.decode(request.images), timeout_s=20)
        self.cache_bytes: Once[int | None] = Once("image cache", self._cache_bytes, timeout_s=10)
        self.stack: Once[tuple[Check, stack.Drift]] = Once("stack", self._stack, timeout_s=10)

    def nvml_state(self) -> NvmlState:
        """What NVML says. That it hangs is an answer, too: the sickest GPU must not hide the rest of the machine."""
        try:
            return self.nvml()
        except UnreadableError as error:
            return NvmlState(error="unknown", detail=str(error))

    def _signs(self) -> GpuSigns:
        return replace(self._see(), nvml_gpus=len(self.nvml_state().gpus))

    def _cache_bytes(self) -> int | None:
        if not self.plan.cache:
            return None
        return images.cache_bytes(self.request.images, self.request.dataset_dir, self.plan.imgsz)

    def _stack(self) -> tuple[Check, stack.Drift]:
        return stack.stack_lock(settings.stack(), settings.STACKS, stack.installed())

    def diagnosis(self) -> Diagnosis:
        """How far a GPU gets towards this process."""
        return triage(self.signs())

    def gpu(self) -> bool:
        """True if this training will use a GPU, as far as can be told without torch."""
        if self.plan.kind in {Kind.CPU, Kind.OTHER}:
            return False
        return self.diagnosis().state in TRAINABLE

    def gpus(self) -> list[Gpu]:
        """The GPUs that this training would use, as NVML describes them."""
        return check_gpu.used_gpus(self.nvml_state().gpus, self.plan, self.signs().cuda_visible_devices)

    def torch(self) -> Mapping[str, Any]:
        """Versions and abilities of torch, from the child."""
        part = self.child.section("torch")
        if part.error:
            raise UnreadableError(f"torch can't be imported: {part.error}")
        return part.values

    def cuda(self) -> Section | None:
        """The child's work on the GPU; None when torch did not even try."""
        if not self.torch()["cuda_available"] and self.plan.kind is not Kind.CUDA:
            return None
        return self.child.section("cuda")

    def skipped(self, name: str) -> Check | None:
        """Why a question about the GPU is not asked; None when it is."""
        if self.plan.kind in {Kind.CPU, Kind.OTHER}:
            return Check(name, Status.SKIP, reason=f"device={self.plan.device}: no GPU is used")
        if self.diagnosis().state is Triage.NONE:
            return Check(name, Status.SKIP, reason="no NVIDIA GPU")
        return None

    def each(self, name: str, judge: Callable[[Gpu], Check]) -> Check:
        """Ask about every GPU that will be used and give one answer."""
        problem, _ = check_gpu.nvml_problem(self.nvml_state())
        gpus = self.gpus()
        if problem or not gpus:
            return Check(name, Status.SKIP, reason=problem or "NVML lists no GPU to use")
        return check_gpu.of_each([judge(gpu) for gpu in gpus], gpus)

    def baseline(self) -> Baseline:
        """Everything that could be read; what could not be stays unknown."""
        state = self.nvml_state()
        host, stack_facts = _or_none(self.host), _or_none(self.stack)
        versions, vision = _or_none(self.torch) or {}, self._section("torchvision")
        decoding, step, cuda = _or_none(self.decoding), self._section("step"), self._section("cuda")
        name, sha256 = settings.stack()
        packages = _or_none(stack.installed) or {}
        found = _or_none(self.diagnosis)
        return Baseline(
            host=host.host if host else Baseline().host,
            gpus=state.gpus,
            software=Software(
                python=platform.python_version(),
                torch=versions.get("torch") or packages.get("torch"),
                torch_cuda=versions.get("torch_cuda"),
                cudnn=str(versions["cudnn"]) if versions.get("cudnn") else None,
                torchvision=vision.values.get("torchvision") if vision else packages.get("torchvision"),
                ultralytics=packages.get("ultralytics"),
                driver=state.driver,
                driver_cuda=state.driver_cuda,
                stack=name,
                lock_sha256=sha256,
                drift=stack_facts[1].changed if stack_facts else (),
            ),
            gpu_triage=found.state.value if found else "unknown",
            cuda_usable=None if not versions else bool(cuda and not cuda.error and cuda.values.get("matmul_ok")),
            images_per_s=step.values.get("images_per_s") if step else None,
            decode_images_per_cpu_s=decoding.per_cpu_s if decoding and not decoding.synthetic else None,
        )

    def _section(self, name: str) -> Section | None:
        part = _or_none(lambda: self.child.section(name))
        return part if part and not part.error else None


def _or_none(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception:  # the check of this fact has already said why it is missing
        return None


def questions(m: Machine) -> list[Question]:
    """All checks in the order in which they are shown: what is quick first, what needs torch last."""
    plan, request = m.plan, m.request
    places = (Path.cwd(), request.workspace, request.workspace / "weights")

    def gpu_check(name: str, ask: Callable[[], Check], limit_s: float = 15.0) -> Question:
        return Question(name, lambda: m.skipped(name) or ask(), limit_s)

    def capability() -> str | None:
        gpus = m.gpus()
        if gpus and gpus[0].compute_capability:
            return gpus[0].compute_capability
        part = _or_none(m.cuda)
        return part.values.get("capability") if part else None

    def driver() -> str:
        return m.nvml_state().driver or m.signs().kernel_driver

    def clocks(gpu: Gpu) -> Check:
        step = _or_none(lambda: m.child.section("step"))
        loaded = step.values.get("clocks_event_reasons") if step and gpu is m.gpus()[0] else None
        return check_cuda.gpu_clocks(gpu.clocks_event_reasons, loaded, gpu.temperature_c)

    def pcie() -> Check:
        gpus = m.gpus()
        part = m.cuda()
        if part is None or part.error:
            return Check(
                "gpu.pcie", Status.SKIP, reason="CUDA does not work: no copy to look at; idle figures prove nothing"
            )
        return check_cuda.gpu_pcie(m.child.section("copy"), gpus[0] if gpus else Gpu(0))

    def bottleneck() -> Check:
        host = m.host().host
        return check_torch.bottleneck(
            m.child.section("step"),
            m.decoding().per_cpu_s,
            plan,
            host.cpus_visible or 1,
            host.cpus_effective or 1.0,
        )

    def heard() -> Check:
        declared = listeners.declared_ports(os.environ)
        return listeners.net_listeners(listeners.read(), declared, container=bool(m.host().host.container))

    long_s = 180.0
    return [
        Question("gpu.visible", lambda: check_gpu.gpu_visible(m.signs(), m.diagnosis(), plan, m.nvml_state().gpus), 30),
        gpu_check("gpu.memory", lambda: m.each("gpu.memory", check_gpu.gpu_memory), 30),
        gpu_check("gpu.health", lambda: m.each("gpu.health", check_gpu.gpu_health), 30),
        gpu_check("gpu.power", lambda: m.each("gpu.power", check_gpu.gpu_power), 30),
        gpu_check("gpu.mode", lambda: m.each("gpu.mode", check_gpu.gpu_mode), 30),
        Question("cpu.effective", lambda: check_host.cpu_effective(m.host(), plan, gpu=m.gpu())),
        Question("cpu.pressure", lambda: check_host.cpu_pressure(m.host())),
        Question("memory.limit", lambda: check_host.memory_limit(m.host(), plan, m.cache_bytes())),
        Question("shm.size", lambda: check_host.shm_size(m.host(), plan, gpu=m.gpu())),
        Question("limits.pids", lambda: check_host.limits_pids(m.host(), plan, gpu=m.gpu())),
        Question("limits.nofile", lambda: check_host.limits_nofile(m.host())),
        Question("workspace.writable", lambda: storage.workspace_writable(request.workspace)),
        Question("disk.free", lambda: storage.disk_free(storage.read_disk(request.workspace), plan, m.cache_bytes())),
        Question("data.filesystem", lambda: storage.data_filesystem(request.dataset_dir)),
        Question("data.decode_rate", lambda: images.decode_rate(m.decoding()), 30),
        Question("stack.lock", lambda: m.stack()[0]),
        Question(
            "network.weights",
            lambda: network.weights(plan, places, offline=settings.offline(), reachable=network.reach),
        ),
        Question("net.listeners", heard),
        Question("torch.import", lambda: check_torch.torch_import(m.child.section("torch")), long_s),
        Question(
            "torch.vision",
            lambda: check_torch.torch_vision(m.child.section("torchvision"), m.torch()["torch_cuda"]),
            long_s,
        ),
        gpu_check(
            "gpu.driver",
            lambda: check_cuda.gpu_driver(m.torch(), m.nvml_state(), m.signs().kernel_driver, capability()),
            long_s,
        ),
        gpu_check("gpu.arch", lambda: check_cuda.gpu_arch(m.torch(), capability(), _name(m), driver()), long_s),
        gpu_check("gpu.compute", lambda: check_cuda.gpu_compute(m.torch(), m.cuda(), len(m.nvml_state().gpus)), long_s),
        gpu_check("gpu.pcie", pcie, long_s),
        Question("torch.numerics", lambda: check_torch.torch_numerics(m.child.section("numerics")), long_s),
        Question("torch.step", lambda: check_torch.torch_step(m.child.section("step")), long_s),
        gpu_check("gpu.clocks", lambda: m.each("gpu.clocks", clocks), long_s),
        Question("predict.bottleneck", bottleneck, long_s),
    ]


def _name(m: Machine) -> str:
    gpus = m.gpus()
    return (gpus[0].name if gpus else None) or "GPU"
