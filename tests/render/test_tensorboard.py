"""TensorBoard events: TensorBoard itself reads back what was written."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from diag import settings
from diag.render.tensorboard import thin
from tests.load.conftest import run_dir as run_dir  # noqa: PLC0414  # the fixture

Make = Callable[..., Path]


def export(run: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, which fails if it imports torch."""
    code = (
        "import sys; from diag.cli import main; code = main(['export', '--tensorboard', *sys.argv[1:]]);"
        "raise SystemExit(99 if {'torch', 'tensorflow'} & set(sys.modules) else code)"
    )
    command = [sys.executable, "-c", code, str(run), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=settings.ROOT)


def read(run: Path) -> EventAccumulator:
    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    return events


def test_what_was_written_is_read_back(run_dir: Make) -> None:
    run = run_dir()
    samples = [
        {"k": "c", "t": s * 10**9, "v": {"rss_main_bytes": 100 + s, "cpu_tree_s_total": 2 * s}} for s in range(9)
    ]
    (run / "trace/counters.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))
    assert export(run).returncode == 0
    events = read(run)
    waits = events.Scalars("step_seconds/data_wait")
    assert [(e.step, round(e.value, 6)) for e in waits] == [(n, 0.05) for n in range(60)]
    assert waits[1].wall_time - waits[0].wall_time == pytest.approx(0.1, abs=1e-3)
    assert waits[0].wall_time == pytest.approx(1767323045 + 1.1, abs=0.02)  # 1 s after 2026-01-02T03:04:05Z, one step
    assert [(e.step, e.value) for e in events.Scalars("share_of_step/data_wait")] == [(1, 0.5)]
    assert [(e.step, round(e.value, 4)) for e in events.Scalars("lr/pg0")] == [(1, 0.001), (2, 0.002), (3, 0.001)]
    assert [round(e.value, 4) for e in events.Scalars("metrics/mAP50-95(B)")] == [0.1, 0.2, 0.3]
    assert [(e.step, e.value) for e in events.Scalars("machine/rss_main_bytes")][:2] == [(0, 100.0), (1, 101.0)]
    assert {e.value for e in events.Scalars("machine/cpu_tree_s_per_s")} == {2.0}
    texts = [tag for tag in events.Tags()["tensors"] if tag.startswith("findings/")]
    told = {tag: events.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in texts}
    assert "speed.loader_bound" in told["findings/01_speed.loader_bound"]
    assert events.SummaryMetadata(texts[0]).plugin_data.plugin_name == "text"


def test_a_second_export_replaces_the_first(run_dir: Make) -> None:
    run = run_dir()
    assert export(run).returncode == 0
    assert export(run, "--lang", "zh").returncode == 0
    assert len(list((run / "tensorboard").iterdir())) == 1
    assert len(read(run).Scalars("step_seconds/all")) == 60


def test_a_folder_that_is_no_run_is_one_clear_line(tmp_path: Path) -> None:
    done = export(tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_long_curves_are_means_of_equal_parts() -> None:
    points = [(float(n), n, float(n % 2)) for n in range(10_000)]
    shown = thin(points, limit=100)
    assert len(shown) == 100
    assert {value for *_, value in shown} == {0.5}
    assert shown[-1][1] == 9999
    assert thin([], limit=5) == []
