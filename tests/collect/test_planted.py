"""Secrets planted in many places of three kinds of runs: none is in the bundle, and it is judged like the run."""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diag import settings
from diag.cli import main
from diag.collect import machine
from diag.collect.files import Absent, Taken, take
from diag.collect.redact import Redactor, load_patterns

PATTERNS = load_patterns(settings.CONFIGS / "redact.yaml")
WORD = "Zx9Kq7Lm2Pw4"
HEX = "0123456789abcdef"
# Each text holds WORD or HEX where the secret is. Put together at run time, so that no scanner takes this for a leak.
TEXTS = {
    "netrc": "machine api.wandb.ai\n  login user\n  pass" + f"word {WORD}{WORD}\n",
    "netrc in a line": "machine api.wandb.ai login user pass" + f"word {WORD}",
    "docker": '{"auths": {"https://index.docker.io/v1/": {"au' + f'th": "{WORD}{WORD}=="}}}}}}',
    "kaggle": '{"username": "bob", "ke' + f'y": "{HEX}{HEX}"}}',
    "azure": "AccountName=x;Account" + f"Key={WORD}{WORD}==;EndpointSuffix=core.windows.net",
    "sshpass": f"sshpass -p '{WORD}' ssh host",
    "curl": f"curl -u bob:{WORD} https://x",
    "proxy": f"https_proxy=http://bob:{WORD}@proxy.corp:3128",
    "proxy, @ in it": f"https_proxy=http://bob:ab@{WORD}@proxy:3128",
    "proxy, / in it": f"https_proxy=http://bob:ab/{WORD}@proxy:3128",
    "yaml block": "pass" + f"word: >\n  {WORD}\n",
    "with spaces": "pass" + f'word: "a b {WORD}"',
    "coloured name": "\x1b[31mpass" + f"word\x1b[0m: {WORD}",
    "coloured key": f"\x1b[34m\x1b[1mwandb\x1b[0m: API key \x1b[1m{HEX}{HEX}01234567\x1b[0m",
    "cookie": f"Set-Cookie: session={WORD}",
    "header": f"x-api-key: {WORD}",
    "bot": "https://api.telegram.org/bot123456789:A" + "AE" + (WORD * 3)[:32] + "/send",
    "putty": f"Private-Lines: 1\n{WORD}{WORD}\n",
    "passphrase": f"passphrase: {WORD}",
    "pwd": f"DB_PWD={WORD}",
    "flag": f"train.py --pw {WORD}",
    "mysql": f"mysql -u root -p{WORD} db",
    "stripe": "sk" + f"_live_{WORD}{WORD}",
    "npm": "np" + f"m_{WORD}{WORD}{WORD}",
    "docker token": "dckr" + f"_pat_{WORD}{WORD}",
    "escaped": '{"cmd": "export API_' + f'KEY=\\"{WORD}\\""}}',
    "chinese": f"密码\uff1a{WORD}",
    "login": f"yolo login {WORD}{WORD}",
    "python": f"hub.login('{WORD}{WORD}')",
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_secret_in_its_usual_wrapping_is_taken_out(name: str) -> None:
    redactor = Redactor(PATTERNS)
    done = redactor.text(f"before\n{TEXTS[name]}\nafter\n")
    assert WORD not in done
    assert HEX not in done
    assert sum(redactor.counts.values()) >= 1
    assert done.startswith("before\n")
    assert done.endswith("after\n")


@pytest.mark.parametrize(
    "line",
    [
        "http://127.0.0.1:8080/static/icon@2x.png",
        "https://host:443/team/repo.git@v1.2",
        "git clone git@github.com:ultralytics/ultralytics.git",
        "PWD=/root/runs",
        "OLDPWD=/root",
        "key: value, login to see more",
        "docker run -u 1000:1000 image",
        "      1/300      5.2G      1.2345      0.987      1.111         60        640: 100%|####| 10/10",
        "wandb login",
        "hub.login()",
        'names: ["key", "password"]',
        "RuntimeError: shape '[2, 3]' is invalid for input of size 7",
    ],
)
def test_what_only_looks_like_one_stays(line: str) -> None:
    redactor = Redactor(PATTERNS)
    assert redactor.text(line) == line
    assert not redactor.counts


def test_a_log_of_powershell_is_taken_and_redacted(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    log.write_text(f"Starting training for 3 epochs...\nAPI_KEY={WORD}\n", encoding="utf-16")
    taken = take("console.log", log, limit=10_000)
    assert isinstance(taken, Taken)
    assert taken.text.startswith("Starting training")
    assert isinstance(take("console.log", log, limit=10), Absent)


def _plant(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten places, the environment among them."""
    places = {
        "ultralytics/args.yaml": "model: yolo11n.pt\ntracker: https://u:" + WORD + "@track.example/x\n",
        "console.log": "wandb: Currently logged in, key " + HEX + HEX + "01234567\n" + TEXTS["proxy"] + "\n",
        "train_stderr.err": TEXTS["curl"] + "\nHF_TO" + "KEN=hf" + "_" + WORD * 2 + "\n",
        "notes/setup.txt": "-----BEGIN OPENSSH PRIVATE"
        + " KEY-----\n"
        + WORD
        + "\n-----END OPENSSH PRIVATE"
        + " KEY-----\n",
        "notes/aws.ini": "[default]\naws_access_key_id = x\naws_secret_access_key = " + WORD * 3 + "\n",
        "data.yaml": "names: [a, b]\ndownload: https://x/y.zip?sig=" + WORD + "\n",
        "kaggle.json": TEXTS["kaggle"],
        "id_rsa": "-----BEGIN RSA PRIVATE" + " KEY-----\n" + WORD + "\n",
        "cmd.txt": "python train.py --epochs 3 --api-key " + WORD + "\nC:\\Users\\Secretname\\runs\n",
    }
    for name, text in places.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", WORD + "-env")
    monkeypatch.setenv("HTTPS_PROXY", f"http://bob:{WORD}@proxy.corp:3128")
    monkeypatch.setenv("WANDB_API_KEY", HEX + HEX + "89abcdef")


def _ended(folder: Path, kind: str) -> None:
    record = json.loads((folder / "run.json").read_text())
    record["exit_cause"] = {"kind": kind, "code": None if kind == "running" else 1, "detail": "ValueError: x"}
    if kind == "running":
        record["ended"] = ""
    (folder / "run.json").write_text(json.dumps(record))


@pytest.mark.parametrize("kind", ["crashed", "running", "foreign"])
def test_nothing_planted_gets_out_and_the_verdict_stays(
    kind: str,
    run_dir: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = run_dir()
    if kind == "foreign":
        for name in ("run.json", "baseline.json", "data.json", "trace/rank0.jsonl"):
            (folder / name).unlink()
    else:
        _ended(folder, "failed" if kind == "crashed" else "running")
    with (folder / "console.log").open("a") as file:
        file.write(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n" if kind != "running" else ""
        )
    _plant(folder, monkeypatch)
    monkeypatch.setattr(machine, "_command", lambda name, command, keep=str: Absent(f"machine/{name}", "not here"))
    out = tmp_path / "help.tar.gz"
    assert (
        main(["collect", str(folder), "--no-check", "--hide-user", "--out", str(out), "--workspace", str(tmp_path)])
        == 0
    )
    capsys.readouterr()
    with tarfile.open(out) as archive:
        members = {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]
    for secret in (WORD, HEX, "Secretname"):
        leaks = [name for name, data in members.items() if secret.encode() in data or secret in name]
        assert not leaks, secret
    assert {"diag-run/console.log", "diag-run/kaggle.json", "diag-run/machine/env.txt"} <= set(members)
    before, after = _judged(folder, capsys), _judged(out, capsys)
    assert {f for f in after if "machine" not in str(after[f]["evidence"])} <= set(before)
    assert set(before) <= set(after)
    for id, finding in before.items():
        assert after[id]["severity"] == finding["severity"]


def _judged(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["analyze", str(path), "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert not document["crashed"]
    return {f["id"]: f for f in document["findings"]}
