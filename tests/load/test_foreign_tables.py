"""Columns, listings and profiles of other tools become the same evidence, whatever they are called."""

import pytest

from diag.load.console import parse_log
from diag.load.foreign import assemble
from diag.load.listings import listing_tables
from diag.load.tables import parse_table
from diag.model.columns import plain, standard
from diag.model.evidence import Evidence
from diag.model.foreign import Table
from diag.model.trace import Stage


def _column(table: Table | None, name: str) -> tuple[float, ...]:
    assert table is not None
    return table.numbers(f"^{name}$")


@pytest.mark.parametrize(
    ("column", "name", "unit"),
    [
        ("GPU-Util", "gpu_util", ""),
        ("Epoch Time (min)", "epoch_time", "min"),
        ("MemUsed_GiB", "mem_used", "gib"),
        ("img/s", "img_per_s", ""),
        ("CPU %", "cpu", "pct"),
        ("s_per_it", "s_per_it", ""),
        ("hours", "time", "hours"),
        ("pcie_rx_MBps", "pcie_rx", "mbps"),
    ],
)
def test_a_name_and_its_unit(column: str, name: str, unit: str) -> None:
    assert plain(column) == (name, unit)


@pytest.mark.parametrize(
    ("header", "cell", "name", "number"),
    [
        ("VRAM (GiB)", "2", "gpu_mem_mib", 2048),
        ("memory.used [MiB]", "88 MiB", "gpu_mem_mib", 88),
        ("GPU memory", "5.5GiB", "gpu_mem_mib", 5632),
        ("fb_used_mib", "70", "gpu_mem_mib", 70),
        ("sm_util", "97", "gpu_util_pct", 97),
        ("GPU-Util", "97%", "gpu_util_pct", 97),
        ("mem_used_mb", "2048", "ram_used_gb", 2),
        ("GPU_MemUsed_GiB", "1", "gpu_mem_mib", 1024),
        ("epoch_min", "1.5", "epoch_s", 90),
        ("time (hours)", "2", "total_s", 7200),
        ("num_workers", "8", "workers", 8),
        ("bs", "16", "batch", 16),
        ("img/s", "151", "images_per_s", 151),
        ("n_gpu", "4", "gpus", 4),
        ("clock_sm_ghz", "1.5", "sm_clock_mhz", 1500),
        ("DCGM_FI_DEV_GPU_UTIL", "97", "gpu_util_pct", 97),
        ("DCGM_FI_DEV_FB_USED", "9011", "gpu_mem_mib", 9011),
        ("DCGM_FI_DEV_SM_CLOCK", "1410", "sm_clock_mhz", 1410),
        ("system.gpu.0.gpu", "97", "gpu_util_pct", 97),
        ("system.gpu.0.powerWatts", "297", "power_w", 297),
        ("system.cpu", "41", "cpu_util_pct", 41),
        ("gpu0_util", "97", "gpu_util_pct", 97),
        ("GPU 1 Utilization (%)", "97", "gpu_util_pct", 97),
        ("system/gpu_0_utilization_percentage", "97", "gpu_util_pct", 97),
        ("system/system_memory_usage_megabytes", "2048", "ram_used_gb", 2),
        ("GPU Core Load [%]", "97", "gpu_util_pct", 97),
        ("GPU Temperature [°C]", "71", "gpu_temp_c", 71),
        ("Physical Memory Used [MB]", "1024", "ram_used_gb", 1),
    ],
)
def test_a_column_gets_the_name_and_the_unit_used_here(header: str, cell: str, name: str, number: float) -> None:
    assert _column(parse_table(f"x,{header}\n1,{cell}\n2,{cell}", name="t.csv"), name) == (number, number)


@pytest.mark.parametrize(
    "column", ["epoch", "gpu", "memory", "val_loss", "cpu_temp_c", "wall_s", "metrics/mAP50(B)", "t_s"]
)
def test_a_column_that_says_nothing_known_stays(column: str) -> None:
    assert standard([column], [["1"]]) == ((column,), [])


def test_a_second_column_of_a_kind_keeps_its_name() -> None:
    table = parse_table("gpu_util_pct,sm_util\n1,2", name="t.csv")
    assert table is not None
    assert table.columns == ("gpu_util_pct", "sm_util")


def test_cells_bring_their_own_units() -> None:
    table = parse_table("ts,MemUsage\n0,512MiB / 8GiB\n1,1.5GiB / 8GiB", name="t.csv")
    assert _column(table, "ram_used_gb") == (0.5, 1.5)
    assert _column(table, "ram_total_gb") == (8, 8)


def test_memory_in_percent_of_its_size() -> None:
    assert _column(parse_table("sec,ram_used_pct,ram_total_gb\n0,50,32\n1,75,32", name="t.csv"), "ram_used_gb") == (
        16,
        24,
    )


def test_dmon_and_vmstat_and_top() -> None:
    dmon = (
        "# gpu    pwr  gtemp  mtemp     sm    mem   pclk\n# Idx      W      C      C      %      %    MHz\n"
        "    0    118     47      -    100      0   1695\n"
    )
    vmstat = (
        " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
        " 2 9 1048576 1 2 3 611 18 6 1 9 2  7  9 21 63  0\n"
    )
    top = "top - 14:02\n%Cpu(s):  8.1 us,  4.0 sy,  0.0 ni, 16.6 id, 71.2 wa\n"
    made = listing_tables([("d.txt", "a note\n" + dmon), ("v.txt", vmstat), ("t.txt", top), ("x.txt", "r b\nhello")])
    assert [(t.file, t.line) for t in made] == [("d.txt", 2), ("v.txt", 1), ("t.txt", 2)]
    assert _column(made[0], "gpu_util_pct") == (100,)
    assert _column(made[0], "sm_clock_mhz") == (1695,)
    assert _column(made[1], "iowait_pct") == (63,)
    assert _column(made[1], "swap_used_gb") == (1,)
    assert _column(made[2], "iowait_pct") == (71.2,)


def test_steps_in_columns_or_in_rows_are_the_same() -> None:
    wide = assemble(
        Evidence(), tables={"s.csv": "iter,dataload_ms,fwd_ms,bwd_ms,opt_ms,iter_ms\n1,10,20,30,5,70\n2,10,20,30,5,70"}
    )
    long = assemble(
        Evidence(), tables={"p.csv": "stage,ms_per_it\ndataloader,10\nforward,20\nbackward,30\noptimizer,5"}
    )
    assert wide.steps is not None
    assert long.steps is not None
    assert wide.steps.share(Stage.DATA_WAIT) == pytest.approx(10 / 70)
    assert long.steps.share(Stage.DATA_WAIT) == pytest.approx(10 / 65)
    assert wide.steps.sampled
    assert long.steps.steady_mean_s[Stage.BACKWARD] == pytest.approx(0.03)


def test_a_table_of_ranks_is_no_step() -> None:
    made = assemble(Evidence(), tables={"r.csv": "rank,data_ms,forward_ms,backward_ms\n0,1,2,3\n1,1,2,3"})
    assert made.steps is None


def test_an_epoch_ledger_is_a_stage_table() -> None:
    made = assemble(Evidence(), tables={"e.csv": "epoch,train_min,val_min,save_sec\n1,2,0.5,30\n2,2,0.5,30"})
    assert made.phases is not None
    assert [(r.name, r.wall_s) for r in made.phases.rows[:3]] == [("train", 120), ("val", 30), ("save", 30)]


@pytest.mark.parametrize(
    "text", ["a,b\n1e999,nan\n", "epoch,train_min,val_min\nx,y,z\n", "stage,ms\na,1\nb,-\n", "x\n", "%,%\n1,2"]
)
def test_odd_tables_are_no_error(text: str) -> None:
    assemble(Evidence(), tables={"t.csv": text})


def test_a_resumed_log_that_died_goes_on_where_the_first_one_ended() -> None:
    epoch = " 1/9 5.1G 1.31 1.52 1.28 60 640: 100%|███| 400/400 [04:00<00:00,  1.6it/s]\n"
    later = (
        "Resuming training from last.pt from epoch 2 to 9 total epochs\n"
        " 2/9 5.1G 1.31 1.52 1.28 60 640:  50%|█  | 200/400 [02:00<02:00,  1.6it/s]\n"
        "Traceback (most recent call last):\n"
        "RuntimeError: CUDA out of memory. Tried to allocate 6.73 GiB (GPU 0; 47.54 GiB total capacity)\n"
    )
    made = assemble(Evidence(), logs=[parse_log(epoch, name="a.log"), parse_log(later, name="b.log")])
    assert made.log is not None
    assert (made.log.oom_phase, made.log.ended, len(made.log.epochs)) == ("train", "error", 1)


def test_semicolons_with_decimal_commas_and_tabs() -> None:
    german = parse_table("Zeit;GPU Power [W];GPU Core Load [%]\n10:00;297,5;98\n10:01;301,2;97", name="t.csv")
    assert _column(german, "power_w") == (297.5, 301.2)
    assert _column(parse_table("t\tgpu_util_pct\n1\t50\n2\t51", name="t.tsv"), "gpu_util_pct") == (50, 51)


def test_markdown_and_grids() -> None:
    text = (
        "My timings:\n\n| epoch | train (s) | val (s) |\n|---|---|---|\n| 1 | 61 | 143 |\n| 2 | 62 | 140 |\n\nThanks\n"
    )
    grid = "+---+---+\n| workers | it/s |\n+=======+======+\n| 2 | 1.1 it/s |\n+---+---+\n| 8 | 7.0 it/s |\n+---+---+\n"
    made = listing_tables([("a.md", text), ("b.md", grid)])
    assert [t.columns for t in made] == [("epoch", "train (s)", "val (s)"), ("workers", "it_per_s")]
    assert _column(made[1], "it_per_s") == (1.1, 7.0)
    phases = assemble(Evidence(), texts=[("a.md", text)]).phases
    assert phases is not None
    assert sum(r.wall_s for r in phases.of("val")) == 283


def test_the_table_of_nvidia_smi_is_no_markdown() -> None:
    text = (
        "| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15 |\n|------+------|\n"
        "| Fan Temp | Memory-Usage |\n|====+====|\n| 0%  31C | 12MiB / 24564MiB |\n"
    )
    assert listing_tables([("s.txt", text)]) == ()


@pytest.mark.parametrize(
    "row",
    [
        "10:21:01 AM     all      4.11      0.00      1.91     58.12      0.00     34.31",
        "                 all       128       929      64.1      12.1       33.2      20.0",
    ],
)
def test_other_programs_have_a_row_called_all(row: str) -> None:
    console, log = parse_log(row + "\n")
    assert not log.epochs
    assert not console.banner


@pytest.mark.parametrize(("iters", "seconds"), [("100,101,102", 0.065), ("100,100,100", 0.00065)])
def test_a_column_of_iterations_numbers_them_or_counts_them(iters: str, seconds: float) -> None:
    rows = "\n".join(f"{n},10,20,30,5" for n in iters.split(","))
    made = assemble(Evidence(), tables={"s.csv": f"iter,dataload_ms,fwd_ms,bwd_ms,opt_ms\n{rows}"})
    assert made.steps is not None
    assert made.steps.step_s == pytest.approx(seconds)


def test_a_table_in_a_document_is_cited_with_its_line() -> None:
    text = "My timings:\n\n| epoch | train (s) | val (s) |\n|---|---|---|\n| 1 | 62 | 144 |\n| 2 | 61 | 145 |\n"
    made = assemble(Evidence(), texts=[("t.md", text)])
    assert made.phases is not None
    assert (made.phases.file, made.phases.line) == ("t.md", 3)
