"""`diag collect`: what is in the bundle, what is not, and that it is judged like the run."""

# ruff: noqa: E501 # a table of secrets

import json
import re
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from diag import settings
from diag.cli import main
from diag.collect import machine
from diag.collect.files import Absent, Taken, run_files, take
from diag.collect.redact import Redactor, known_secrets, load_patterns
from diag.errors import ConfigError

PATTERNS = load_patterns(settings.CONFIGS / "redact.yaml")
HEX = "0123456789abcdef" * 4
# Put together at run time, so that no scanner takes this file for a leak.
SECRETS = {
    "aws_key_id": ("key id AK" + "IAIOSFODNN7EXAMPLE used", "AK" + "IAIOSFODNN7EXAMPLE"),
    "github_token": ("cloning with gh" + "p_" + "a1B2" * 9, "gh" + "p_" + "a1B2" * 9),
    "gitlab_token": ("gl" + "pat-" + "x" * 20, "gl" + "pat-" + "x" * 20),
    "huggingface_token": ("login hf" + "_" + "AbCd" * 8 + " ok", "hf" + "_" + "AbCd" * 8),
    "wandb_key": ("wandb: logged in with " + HEX[:40], HEX[:40]),
    "google_key": ("AI" + "za" + "s" * 35, "AI" + "za" + "s" * 35),
    "slack_token": ("xo" + "xb-123456789012-abcdef", "xo" + "xb-123456789012-abcdef"),
    "openai_key": ("s" + "k-" + "Ab1" * 10, "s" + "k-" + "Ab1" * 10),
    "roboflow_key": ("rf" + "_" + "Zz9" * 8, "rf" + "_" + "Zz9" * 8),
    "jwt": ("ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxMjM0In0.c2lnbmF0dXJl", "ey" + "JzdWIiOiIxMjM0In0"),
    "url_password": ("git clone https://bob:hunter22@git.example/x.git", "hunter22"),
    "url_user_token": ("pip install git+https://0123456789abcdef0123@git.example/x", "0123456789abcdef0123"),
    "url_parameter": ("open http://127.0.0.1:8888/lab?token=" + HEX[:48] + "&x=1", HEX[:48]),
    "authorization": ("Authorization: Bearer abc.def-ghi", "abc.def-ghi"),
    "flag": ("train.py --api-key s3cr3tvalue --epochs 3", "s3cr3tvalue"),
    "named": ('  "password": "correct-horse",', "correct-horse"),
    "private_key": ("-----BEGIN OPENSSH PRIVATE" + " KEY-----\nb3BlbnNzaC1rZXk\nAAAA\n-----END OPENSSH PRIVATE" + " KEY-----", "b3BlbnNzaC1rZXk"),
}  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_each_kind_of_secret_is_taken_out_and_counted(name: str) -> None:
    text, secret = SECRETS[name]
    redactor = Redactor(PATTERNS)
    done = redactor.text(f"before\n{text}\nafter\n")
    assert secret not in done
    assert f"<redacted:{name}>" in done
    assert redactor.counts[name] == 1
    assert done.startswith("before\n")
    assert done.endswith("after\n")
    assert redactor.text(done) == done  # nothing is taken out twice


@pytest.mark.parametrize(
    "line",
    [
        "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
        "export HUB_API_KEY='abcd1234efgh'",
        "db_password: hunter22",
        "comet: api_key=AbCdEf123456",
        "secret_key = 'x7x7x7x7'",
        "JUPYTER_TOKEN: 5f5f5f5f5f",
    ],
)
def test_named_values_are_taken_out(line: str) -> None:
    done = Redactor(PATTERNS).text(line)
    assert re.search(r"<redacted:\w+>", done)
    assert (
        done.partition("<")[0].rstrip("'\"= :") == re.split(r"[=:] ?'?(?=[\w'])", line)[0].rstrip(" ")
        or "api_key" in line
    )


def test_what_a_run_says_of_itself_is_left_alone() -> None:
    kept = (
        "epoch,train/box_loss,metrics/mAP50(B)\n1,2.0,0.1\nasttokens==3.0.1\nkeypoints: 17\nkpt_shape: [17, 3]\n"
        "max_tokens: 512\ntoken: null\nhttps://docs.ultralytics.com/modes/train/?h=key\nTransferred 448/499 items\n"
        "engine/trainer: task=detect, model=yolo11n.pt, key=None, password=None\nmonkey: 3.1\n"
    )
    redactor = Redactor(PATTERNS)
    assert redactor.text(kept) == kept
    assert not redactor.counts


def test_secrets_of_the_environment_and_of_token_files_go_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("file-token-123\n")
    env = {
        "MY_PASSWORD": "pw-from-env",
        "JUPYTER_TOKEN_FILE": str(tmp_path / "token"),
        "HOME": "/root",
        "API_TOKEN": "short",
    }
    found = known_secrets(env)
    assert set(found) == {"pw-from-env", "file-token-123"}
    done = Redactor((), found).text("it said pw-from-env and file-token-123, short")
    assert done == "it said <redacted:environment> and <redacted:environment>, short"


def test_the_user_is_hidden_when_asked_for() -> None:
    text = "/home/alice/runs C:\\Users\\Bob\\x /Users/carol /home/alice"
    assert Redactor(()).text(text) == text
    assert (
        Redactor((), hide_user=True).text(text) == "/home/<user>/runs C:\\Users\\<user>\\x /Users/<user> /home/<user>"
    )


def test_a_broken_pattern_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("- {name: a, words: [x], pattern: '('}\n")
    with pytest.raises(ConfigError, match="entry 1"):
        load_patterns(tmp_path / "r.yaml")


def test_of_a_huge_log_head_and_tail_are_kept_at_whole_lines(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    log.write_text("".join(f"line {n}\n" for n in range(100_000)))
    taken = take("console.log", log, limit=10_000)
    assert isinstance(taken, Taken)
    lines = taken.text.splitlines()
    assert (lines[0], lines[-1]) == ("line 0", "line 99999")
    assert [line for line in lines if not re.fullmatch(r"line \d+", line)] == [
        f"[diag collect: {taken.left_out} bytes left out here]"
    ]
    assert len(taken.text) < 10_100
    data = tmp_path / "data.json"
    data.write_text("{" + " " * 20_000 + "}")
    assert isinstance(take("data.json", data, limit=10_000), Absent)


def test_weights_images_and_links_stay_out(tmp_path: Path) -> None:
    for name in (
        "results.csv",
        "weights/best.pt",
        "labels.jpg",
        "best.pt",
        "events.out.tfevents.1.x",
        "weights/notes.txt",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "link.txt").symlink_to("/etc/passwd")
    found = list(run_files(tmp_path))
    assert [f[0] for f in found if not isinstance(f, Absent)] == ["results.csv"]
    assert [f.name for f in found if isinstance(f, Absent)] == ["link.txt"]


def test_only_the_kernels_words_since_the_run_began_count(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "2026-01-01T00:00:00,1+00:00 oom-kill: old\n2026-01-02T00:00:00,1+00:00 oom-kill: new\n"
    monkeypatch.setattr(machine, "_command", lambda name, command, keep=str: Taken(name, keep(text)))
    taken = machine._dmesg(datetime(2026, 1, 1, 12, tzinfo=UTC))
    assert isinstance(taken, Taken)
    assert taken.text == "2026-01-02T00:00:00,1+00:00 oom-kill: new\n"


def test_variables_that_training_does_not_depend_on_are_only_counted() -> None:
    taken = machine._env({"CUDA_VISIBLE_DEVICES": "0", "MY_COMPANY": "secret corp", "OMP_NUM_THREADS": "1"})
    assert taken.text == "CUDA_VISIBLE_DEVICES=0\nOMP_NUM_THREADS=1\n# 1 other variables left out\n"


def _members(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        return {m.name: archive.extractfile(m).read().decode() for m in archive}  # type: ignore[union-attr]


def _analyze(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["analyze", str(path), "--format", "json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_bundle_is_judged_like_the_run(
    run_dir: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    console = "Ultralytics 8.4.190 Python-3.11.9 torch-2.9.0 CPU (Xeon)\nStarting training for 3 epochs...\n"
    console += "wandb: key " + HEX[:40] + "\nMemoryError: no memory\n"
    run = run_dir(console_log=console)
    monkeypatch.setattr(machine, "_command", lambda name, command, keep=str: Absent(f"machine/{name}", "not here"))
    out = tmp_path / "help.tar.gz"
    assert main(["collect", str(run), "--no-check", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "taken out: wandb_key 1" in said
    assert "missing: machine/nvidia-smi.txt: not here" in said
    assert "missing: machine/check.json: --no-check" in said
    files = _members(out)
    assert HEX[:40] not in "".join(files.values())
    manifest = json.loads(files["diag-run/MANIFEST.json"])
    assert {f"diag-run/{f['name']}" for f in manifest["files"]} | {"diag-run/MANIFEST.json"} == set(files)
    assert manifest["redacted"] == {"wandb_key": 1}
    sizes = {f["name"]: f["bytes"] for f in manifest["files"]}
    assert sizes["train.log"] if "train.log" in sizes else sizes["console.log"] == len(files["diag-run/console.log"])
    assert out.stat().st_mode & 0o777 == 0o600
    before, after = _analyze(run, capsys), _analyze(out, capsys)
    own = [
        f
        for f in after["findings"]
        if not all(s["file"].startswith("machine/") for s in f["evidence"] or [{"file": ""}])
    ]
    assert [(f["id"], f["severity"], f["values"]) for f in own] == [
        (f["id"], f["severity"], f["values"]) for f in before["findings"]
    ]
    assert before["findings"]
    assert not after["crashed"]


def test_the_check_of_a_foreign_runs_machine_counts(tmp_path: Path) -> None:
    from diag.load import load_run

    (tmp_path / "machine").mkdir()
    (tmp_path / "results.csv").write_text("epoch,train/box_loss\n1,2\n2,1\n")
    answer = {"verdict": "pass", "checks": [], "baseline": {"host": {"cpus_effective": 3.0}, "gpu_triage": "none"}}
    (tmp_path / "machine" / "check.json").write_text(json.dumps(answer))
    baseline = load_run(tmp_path).baseline
    assert baseline is not None
    assert baseline.host.cpus_effective == 3.0
    (tmp_path / "machine" / "check.json").write_text('{"baseline": {"host": 3}}')
    evidence = load_run(tmp_path)
    assert evidence.baseline is None
    assert any("check.json" in item for item in evidence.skipped_files)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["nowhere"], "no such file"),
        (["{tmp}", "--max-file", "0"], "--max-file"),
        (["{tmp}", "--out", "/proc/x/y.tar.gz"], "can't be written"),
    ],
)
def test_bad_input_is_a_clear_line(
    tmp_path: Path, argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["collect", *(a.format(tmp=tmp_path) for a in argv), "--no-check"]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


def test_missing_evidence_names_collect(run_dir: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    run = run_dir()
    for form in ("text", "markdown"):
        assert main(["analyze", str(run), "--format", form]) == 0
        assert "diag collect" in capsys.readouterr().out
