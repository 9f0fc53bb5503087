"""NVML through pynvml's real wrappers: every gap has a reason and takes no other value with it."""

from collections.abc import Callable

import pytest

from diag.model.hardware import Gpu
from diag.probe.nvml import Gap, query, read_nvml
from tests.fakes.nvml import FakeNvml
from tests.fakes.scenarios import A100, GEFORCE, GIB, NO_PERMISSION, SCENARIOS, Fails, Scenario

Use = Callable[[Scenario], FakeNvml]


def read(use: Use, scenario: Scenario) -> Gpu:
    use(scenario)
    return read_nvml(pause_s=0).gpus[0]


def test_a_healthy_gpu_is_read_completely(fake_nvml: Use) -> None:
    fake_nvml(A100)
    state = read_nvml(pause_s=0)
    assert (state.error, state.driver, state.driver_cuda) == ("", "580.65.06", "13.0")
    assert state.gpus == (
        Gpu(
            index=0,
            name="NVIDIA A100-SXM4-80GB",
            uuid="GPU-11111111-2222-3333-4444-555555555555",
            compute_capability="8.0",
            memory_total_bytes=80 * GIB,
            memory_used_bytes=GIB // 64,
            temperature_c=34,
            power_w=28.0,
            power_limit_w=400.0,
            power_default_w=400.0,
            pcie_gen=4,
            pcie_gen_max=4,
            pcie_width=16,
            pcie_width_max=16,
            mig=False,
            pci_bus_id="00000000:65:00.0",
            clocks_event_reasons=1,
            ecc_uncorrected=0,
            ecc_uncorrected_total=0,
            remapped_uncorrectable=0,
            remap_pending=False,
            remap_failed=False,
            retired_pending=False,
            recovery_action=0,
            compute_mode=0,
            persistence=True,
            virtualization=0,
            processes=(),
        ),
    )


def test_what_a_geforce_does_not_report_leaves_the_rest_whole(fake_nvml: Use) -> None:
    gpu = read(fake_nvml, GEFORCE)
    expected = ("remapped_rows", "mig", "ecc", "ecc_total", "retired_pages", "recovery_action")
    assert set(gpu.not_supported) == set(expected)
    assert gpu.unknown == ()
    assert (gpu.ecc_uncorrected, gpu.remap_pending, gpu.temperature_c, gpu.power_w) == (None, None, 34, 28.0)


def test_one_refused_value_is_named_and_takes_no_other_with_it(fake_nvml: Use) -> None:
    gpu = read(fake_nvml, A100.gpu(nvmlDeviceGetRemappedRows=Fails(NO_PERMISSION)))
    assert [text.split(": ")[:2] for text in gpu.unknown] == [["remapped_rows", "no_permission"]]
    assert (gpu.remap_pending, gpu.ecc_uncorrected, gpu.lost) == (None, 0, "")


def test_an_old_driver_without_newer_functions_is_read_with_their_predecessors(fake_nvml: Use) -> None:
    gpu = read(fake_nvml, SCENARIOS["old driver"])
    assert (gpu.memory_used_bytes, gpu.clocks_event_reasons) == (GIB // 64, 1)
    assert (gpu.not_supported, gpu.unknown) == ((), ())


def test_a_lost_gpu_is_said_to_be_lost(fake_nvml: Use) -> None:
    gpu = read(fake_nvml, SCENARIOS["lost GPU"])
    assert "GpuIsLost" in gpu.lost or "GPU is lost" in gpu.lost


@pytest.mark.parametrize(
    ("name", "error"), [("library and driver differ", "version_mismatch"), ("access lost", "unknown")]
)
def test_nvml_that_does_not_start_says_why(fake_nvml: Use, name: str, error: str) -> None:
    fake_nvml(SCENARIOS[name])
    assert (read_nvml().error, read_nvml().gpus) == (error, ())


def test_without_the_library_nothing_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    import pynvml

    def absent(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", absent)
    assert read_nvml().error == "no_library"


def test_the_mismatch_error_that_is_no_nvml_error_is_caught() -> None:
    import pynvml

    def call() -> int:
        raise pynvml.NVMLLibraryMismatchError("Unversioned function called and the pyNVML version does not match")

    assert query(call).gap is Gap.FUNCTION_MISSING


def test_clock_bits_count_only_when_two_looks_agree(fake_nvml: Use) -> None:
    looks = iter((0x40 | 0x4, 0x4))
    fake = fake_nvml(A100)
    answer = fake._answer

    def changing(name: str, args: tuple[object, ...]) -> int:
        if name == "nvmlDeviceGetCurrentClocksEventReasons":
            args[-1]._obj.value = next(looks)  # type: ignore[attr-defined]
            return 0
        return answer(name, args)

    fake._answer = changing  # type: ignore[method-assign]
    assert read_nvml(pause_s=0).gpus[0].clocks_event_reasons == 0x4


def test_the_link_watch_keeps_the_best_link_and_lasting_clock_bits(fake_nvml: Use) -> None:
    from diag.probe.watch import LinkWatch

    fake_nvml(A100.gpu(nvmlDeviceGetCurrentClocksEventReasons=0x40))
    with LinkWatch("", 0) as watch:
        watch.look()
        watch.look()
    assert watch.values() == {"link_gen": 4, "link_width": 16, "clocks_event_reasons": 0x40}
