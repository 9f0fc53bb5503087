"""`diag profile`: what can be said without a training."""

import json
import subprocess
from pathlib import Path

import pytest

from diag.errors import DiagError
from diag.model.profile import LayerTime, OperatorTime, Profile
from diag.render import profile as render
from diag.stages.profile import check_trace
from tests.e2e.conftest import DIAG, environment


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["epoch=3"], "did you mean epochs=?"),
        (["/nope"], "no run.json"),
        (["--steps", "0"], "--steps: 1 to 100"),
        (["a", "b"], "a"),
    ],
)
def test_wrong_input_is_one_line_and_leaves_the_summary_alone(tmp_path: Path, words: list[str], said: str) -> None:
    done = subprocess.run(
        [str(DIAG), "profile", *words], capture_output=True, text=True, check=False, env=environment(tmp_path)
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "health").exists()


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"traceEvents": []}', '{"traceEvents": [1]}', '{"traceEvents": [{}']
)
def test_what_is_no_chrome_trace_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(DiagError, match="not a Chrome trace"):
        check_trace(tmp_path / "t.json")
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": [{"ph": "X", "ts": 1, "dur": 2}]}))
    assert check_trace(tmp_path / "t.json") == 1


def test_on_a_gpu_the_tables_follow_its_time_and_not_the_hosts() -> None:
    operators = (
        OperatorTime("aten::host", 2, 0.5, 0.5),
        OperatorTime("conv", 4, 0.1, 0.1, self_device_s=0.03, flops=2e9),
    )
    layers = (LayerTime(0, "Conv", 10, 1.0, 1.0), LayerTime(1, "Detect", 20, 0.1, 0.1, 0.01, 0.02))
    gpu = Profile(5, 0.2, 0.6, 0.03, 2e9, operators, layers, device="cuda:0")
    assert render.operator_rows(gpu)[0] == ("conv", "4", "100.00 ms", "30.00 ms", "100.0%", "2.00 G")
    assert render.layer_rows(gpu)[0][:4] == ("1 Detect", "10.00 ms", "20.00 ms", "100.0%")
    cpu = Profile(5, 0.2, 0.6, 0.0, 2e9, operators, layers)
    assert render.operator_rows(cpu)[0][:4] == ("aten::host", "2", "500.00 ms", "-")
    assert render.layer_rows(cpu)[0][0] == "0 Conv"
