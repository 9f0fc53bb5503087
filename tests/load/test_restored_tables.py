"""Tables, columns and charts of other programs, each as the one table that the rules read."""

from pathlib import Path

import pytest

from diag.load import load_run
from diag.load.dialect import canonical, grid
from diag.load.exports import column, merged, records
from diag.load.listings import is_listing, listing_tables
from diag.load.tables import parse_table
from tests.load.conftest import CSV
from tests.load.test_restored import LOG


@pytest.mark.parametrize(
    "text",
    [
        "a;b\n1,5;2,5\n3,5;4,5\n",
        "a\tb\n1.5\t2.5\n3.5\t4.5\n",
        "| a | b |\n|---|---|\n| 1.5 | 2.5 |\n| 3.5 | 4.5 |\n",
        "sep=,\na,b\n1.5,2.5\n3.5,4.5\n",
    ],
)
def test_dialects_of_tables_are_one(text: str) -> None:
    assert grid(text) == [["a", "b"], ["1.5", "2.5"], ["3.5", "4.5"]]
    assert canonical(text) == "a,b\n1.5,2.5\n3.5,4.5\n"


def test_nvidia_smi_is_no_table_and_plain_csv_stays() -> None:
    assert canonical(CSV) is None
    assert grid("| 0  Tesla T4  Off | 0 |\n| N/A  45C | 0MiB |\n") is None


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("GPU-Util", ("gpu_util_pct", "50")),
        ("gpu_utilization", ("gpu_util_pct", "50")),
        ("system.gpu.0.gpu", ("gpu_util_pct", "50")),
        ("DCGM_FI_DEV_GPU_UTIL", ("gpu_util_pct", "50")),
        ("system.gpu.0.memoryAllocatedBytes", ("gpu_mem_mib", "4.76837e-05")),
        ("gpu_mem_gb", ("gpu_mem_mib", "51200")),
        ("Power Draw (W)", ("power_w", "50")),
        ("system.gpu.0.enforcedPowerLimitWatts", ("power_limit_w", "50")),
        ("clocks.current.graphics", ("sm_clock_mhz", "50")),
        ("IO Wait (%)", ("iowait_pct", "50")),
        ("ram_used_mib", ("ram_used_gb", "0.048828125")),
        ("node_memory_MemTotal_bytes", ("ram_total_gb", "4.65661e-08")),
        ("nvidia_smi_utilization_gpu_ratio", ("gpu_util_pct", "5000")),
        ("MEMUSED_GIB", ("ram_used_gb", "50")),
        ("kbmemused", ("ram_used_gb", "4.76837e-05")),
        ("cpu_percent", ("cpu_util_pct", "50")),
        ("gpu_mem_g", ("gpu_mem_mib", "51200")),
        ("gpu", ("gpu", "50")),
        ("gpu_power_pct", ("gpu_power_pct", "50")),
        ("lr/pg0", ("lr/pg0", "50")),
    ],
)
def test_a_column_has_one_name_and_unit(name: str, told: tuple[str, str]) -> None:
    table = parse_table(f"other,{name}\n1,50\n2,60\n", name="t.csv")
    assert table is not None
    assert table.columns[1] == told[0]
    assert float(table.rows[0][1]) == pytest.approx(float(told[1]), rel=1e-5)


def _cells(text: str) -> tuple[tuple[str, ...], ...]:
    table = parse_table(text, name="t.csv")
    assert table is not None
    return table.rows


def test_shares_become_percent_only_where_they_are_shares() -> None:
    assert _cells("gpu_util,iowait\n0.95,0.02\n0.4,0.5\n") == (("95", "2"), ("40", "50"))
    assert _cells("gpu_util,iowait\n1,0.5\n0,0.1\n90,0.4\n")[0] == ("1", "0.5")
    assert _cells("gpu_util,iowait\n0,0.5\n1,0.1\n")[1] == ("1", "0.1")


def test_memory_without_a_unit_is_bytes_only_where_it_must_be() -> None:
    table = parse_table("ram_used,x\n17179869184,1\n", name="t.csv")
    assert table is not None
    assert (table.columns[0], table.rows[0][0]) == ("ram_used_gb", "16")
    assert _cells("ram_used,x\n60.5,1\n") == (("60.5", "1"),)


def test_charts_of_trackers_become_one_table() -> None:
    chart = "Wall time,Step,Value\n1.0,1,{}\n2.0,2,{}\n"
    files = {
        "run-.-tag-train_box_loss.csv": chart.format(1.5, 1.2),
        "run-.-tag-metrics_mAP50-95_B_.csv": chart.format(0.1, 0.2),
        "run-.-tag-something.csv": chart.format(7, 8),
    }
    made = merged(files)
    assert made is not None
    assert made.text == "epoch,train/box_loss,metrics/mAP50-95(B)\n1,1.5,0.1\n2,1.2,0.2\n"
    assert made.used == {"run-.-tag-train_box_loss.csv", "run-.-tag-metrics_mAP50-95_B_.csv"}
    assert merged({"a.csv": "Wall time,Step,Value\n1,1,2\n"}) is None


def test_values_that_have_no_place_are_named(tmp_path: Path) -> None:
    rows = "".join(
        f"{k},{v},{s},0\n" for k in ("train/box_loss", "val/box_loss") for s in (1, 2, 3, 2) for v in (s / 7,)
    )
    (tmp_path / "mlflow.csv").write_text("key,value,step,timestamp\n" + rows)
    evidence = load_run(tmp_path)
    assert evidence.epochs is not None
    assert len(evidence.epochs.rows) == 3
    assert any("1 values for steps" in s for s in evidence.skipped_files)


def test_names_of_charts_are_those_of_results() -> None:
    assert column("glad-sun-7 - val/dfl_loss") == "val/dfl_loss"
    assert column("metrics/mAP50B") == "metrics/mAP50(B)"
    assert column("train/new_loss") == "train/new_loss"
    assert column("system/gpu") == ""


def test_records_are_tables_and_settings_are_none() -> None:
    assert records('[{"a": 1, "b": 2}, {"a": 3, "b": null}]') == "a,b\n1,2\n3,nan\n"
    assert records('{"a": 1, "b": 2, "c": 3}\n{"a": 1, "b": 2, "c": 4}\n') == "a,b,c\n1,2,3\n1,2,4\n"
    assert records('{"tensorboard": false, "wandb": true}') is None
    assert records("[" * 100_000) is None


def test_samples_of_system_tools_are_tables() -> None:
    sar = (
        "Linux 6.8 (gpu) \t05/01/2024\n\n12:00:00 PM     CPU     %user  %nice  %system  %iowait  %steal  %idle\n"
        "12:00:05 PM     all      5.00   0.00     0.00    48.00     0.00   47.00\n"
        "12:00:10 PM     all      6.00   0.00     0.00    40.00     0.00   54.00\n"
        "Average:        all      5.50   0.00     0.00    44.00     0.00   50.50\n"
    )
    (table,) = listing_tables([("sar.txt", sar)])
    assert table.numbers("iowait_pct") == (48.0, 40.0)
    assert table.numbers("cpu_util_pct") == (5.0, 6.0)
    dmon = (
        "# gpu    pwr  gtemp     sm    mem\n# Idx      W      C      %      %\n"
        "    0    120     71     99     40\n    0      -     72     98      4\n"
    )
    (table,) = listing_tables([("dmon.txt", dmon)])
    assert table.numbers("gpu_util_pct") == (99.0, 98.0)
    assert table.numbers("power_w")[0] == 120.0
    assert is_listing(sar) and is_listing(dmon)
    assert not is_listing("\n".join(LOG)) and not listing_tables([("a.log", "\n".join(LOG))])


def test_a_prefix_with_a_bar_makes_no_table() -> None:
    told = "".join(f"trainer-1  | {i}0:21:01 all 4.1 58.1\n" for i in range(1, 5))
    assert grid(told) is None
    assert grid("a|b\n1|2\n3|4\n") is not None


def test_milliseconds_of_stages_are_seconds() -> None:
    assert _cells("epoch,phase,iters,data_wait_ms,wall_ms\n1,train,9,291000,352000\n")[0][3:] == ("291", "352")
    table = parse_table("epoch,phase,iters,data_wait_ms,wall_ms\n1,train,9,291000,352000\n", name="t.csv")
    assert table is not None and table.columns[3:] == ("data_wait_s", "wall_s")


def test_the_memory_in_the_box_of_nvidia_smi_is_the_gpus() -> None:
    table = parse_table("GPU-Util,Memory-Usage,RAM Used (GB)\n91%,11020MiB,148\n92%,11120MiB,149\n", name="t.csv")
    assert table is not None
    assert table.columns == ("gpu_util_pct", "gpu_mem_mib", "ram_used_gb")
