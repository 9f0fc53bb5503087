"""A pure-Python libnvidia-ml: set as `pynvml.nvmlLib`, it is called by pynvml's own wrappers with its own structs."""

import ctypes
from collections.abc import Callable
from typing import Any

from tests.fakes.scenarios import Fails, Scenario

NOT_SUPPORTED, INSUFFICIENT_SIZE, INVALID_ARGUMENT, NOT_FOUND = 3, 7, 2, 6


class FakeNvml:
    """Answers every NVML function by its name from a scenario. `asked` lists the names in order."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., int]:
        if name.startswith("_") or name in self.scenario.missing:
            raise AttributeError(name)

        def function(*args: Any) -> int:
            self.asked.append(name)
            return self._answer(name, args)

        function.restype = None  # type: ignore[attr-defined]  # pynvml sets it on real functions
        return function

    def _answer(self, name: str, args: tuple[Any, ...]) -> int:
        match name:
            case "nvmlInitWithFlags":
                return self.scenario.init
            case "nvmlShutdown":
                return 0
            case "nvmlDeviceGetCount_v2":
                return _write(args, len(self.scenario.gpus))
            case "nvmlSystemGetDriverVersion":
                return _write(args, self.scenario.driver)
            case "nvmlSystemGetCudaDriverVersion_v2":
                return _write(args, self.scenario.cuda)
            case "nvmlDeviceGetHandleByIndex_v2":
                return self._handle(args)
        # The handle is index + 1 in the pointer's own bytes; following it would crash.
        gpu = self.scenario.gpus[(ctypes.cast(args[0], ctypes.c_void_p).value or 1) - 1]
        value = gpu.get("*", gpu.get(name))
        if value is None:
            return NOT_SUPPORTED
        if isinstance(value, Fails):
            return value.code
        if name == "nvmlDeviceGetComputeRunningProcesses_v3":
            return _processes(args, value)
        if name == "nvmlDeviceGetFieldValues":
            return _fields(args, value)
        return _write(args, value)

    def _handle(self, args: tuple[Any, ...]) -> int:
        index = args[0].value
        if index >= len(self.scenario.gpus):
            return INVALID_ARGUMENT
        ctypes.c_void_p.from_address(ctypes.addressof(args[1]._obj)).value = index + 1
        return 0


def _write(args: tuple[Any, ...], value: Any) -> int:
    """Write one value, several, a struct's fields or a text into the output arguments."""
    targets = [a._obj for a in args if hasattr(a, "_obj")]
    if isinstance(value, str):
        next(a for a in args if isinstance(a, ctypes.Array)).value = value.encode()
    elif isinstance(value, dict):
        for field, content in value.items():
            setattr(targets[0], field, content.encode() if isinstance(content, str) else content)
    else:
        for target, content in zip(targets, value if isinstance(value, tuple) else (value,), strict=True):
            target.value = content
    return 0


def _processes(args: tuple[Any, ...], processes: tuple[tuple[int, int], ...]) -> int:
    count, array = args[1]._obj, args[2]
    capacity, count.value = count.value, len(processes)
    if not processes:
        return 0
    if array is None or capacity < len(processes):
        return INSUFFICIENT_SIZE
    for entry, (pid, used) in zip(array, processes, strict=False):
        entry.pid, entry.usedGpuMemory = pid, used
    return 0


def _fields(args: tuple[Any, ...], values: dict[int, int]) -> int:
    for entry in args[2]._obj:
        known = entry.fieldId in values
        entry.nvmlReturn = 0 if known else NOT_SUPPORTED
        if known:
            entry.value.ullVal = values[entry.fieldId]  # a union: small numbers read the same as uiVal
    return 0
