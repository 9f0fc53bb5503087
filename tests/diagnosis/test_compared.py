"""Of several runs: what differs, and which difference explains the outcome."""

from pathlib import Path

import pytest

from diag.engine import evaluate
from diag.load import load_runs
from diag.model.evidence import Evidence
from diag.model.finding import Report, Value
from diag.model.outcome import Outcome
from diag.render import console, markdown
from diag.rules import outcome

HEAD = "epoch,train/box_loss,val/box_loss,metrics/mAP50(B),metrics/mAP50-95(B),lr/pg0\n"
ARGS = {
    "task": "detect",
    "model": "yolo11n.pt",
    "data": "a.yaml",
    "epochs": 40,
    "batch": 16,
    "imgsz": 640,
    "workers": 8,
}


def run(folder: Path, name: str, *, to: float, epochs: int = 40, start: float = 0.1, **args: object) -> Path:
    """A run whose score rises to `to` and flattens, or goes on rising with `start` near it."""
    path = folder / name
    path.mkdir()
    rows = []
    for i in range(epochs):
        part = min(1.0, (i + 1) / (0.6 * epochs)) if start < 0.2 else (i + 1) / epochs
        score = to * (start + (1 - start) * part)
        loss, lr = 2 - part, 0.01 * (1 - i / epochs)
        rows.append(f"{i + 1},{loss:.4f},{loss:.4f},{min(1.0, score * 1.4):.5f},{score:.5f},{lr:.6f}")
    (path / "results.csv").write_text(HEAD + "\n".join(rows) + "\n")
    given = {**ARGS, "epochs": epochs, **args}
    (path / "args.yaml").write_text("".join(f"{k}: {v}\n" for k, v in given.items()))
    return path


def judged(*paths: Path) -> tuple[Evidence, Report, Outcome]:
    evidence = load_runs(list(paths))
    report = evaluate(evidence)
    assert not report.crashed
    return evidence, report, report.outcomes[0]


def test_the_only_setting_that_differs_is_the_likely_cause(tmp_path: Path) -> None:
    a, b = run(tmp_path, "a", to=0.5), run(tmp_path, "b", to=0.6, imgsz=960)
    evidence, report, outcome = judged(a, b)
    assert (outcome.case, outcome.better, outcome.worse) == ("apart", str(b), str(a))
    assert [(r.why, r.what, r.worse, r.better) for r in outcome.reasons] == [("only", "imgsz", "640", "960")]
    text = console.report(report, evidence)
    assert f"A = {a}" in text
    assert "B reached 0.600, A 0.500 (+20%)" in text
    assert "Likely explained by imgsz 640 → 960" in text
    assert "Likely explained by imgsz 640 → 960" in markdown.report(report, evidence)


def test_several_settings_can_not_be_told_apart(tmp_path: Path) -> None:
    paths = run(tmp_path, "a", to=0.5), run(tmp_path, "b", to=0.6, imgsz=960, batch=8, workers=2)
    outcome = judged(*paths)[2]
    assert [(r.why, r.what) for r in outcome.reasons] == [("one_of", "batch"), ("one_of", "imgsz")]


def test_a_setting_that_was_advised_is_the_cause_and_others_stand_beside_it(tmp_path: Path) -> None:
    short = run(tmp_path, "a", to=0.4, epochs=20, start=0.3)
    long = run(tmp_path, "b", to=0.6, epochs=60, imgsz=960)
    outcome = judged(short, long)[2]
    assert [(r.why, r.what, r.finding) for r in outcome.reasons] == [
        ("finding", "epochs", "train.undertrained"),
        ("besides", "imgsz", ""),
    ]


def test_fewer_epochs_are_not_what_undertrained_asks_for(tmp_path: Path) -> None:
    long = run(tmp_path, "a", to=0.4, epochs=60, start=0.3)
    short = run(tmp_path, "b", to=0.6, epochs=20)
    assert [(r.why, r.what) for r in judged(long, short)[2].reasons] == [("only", "epochs")]


def test_a_fault_of_the_worse_run_alone_explains_it(tmp_path: Path) -> None:
    good, bad = run(tmp_path, "a", to=0.5), run(tmp_path, "b", to=0.5, workers=2)
    rows = (bad / "results.csv").read_text().splitlines()
    broken = [",".join([row.split(",")[0], "nan", "nan", "0", "0", row.split(",")[5]]) for row in rows[1:]]
    (bad / "results.csv").write_text("\n".join([rows[0], *broken]) + "\n")
    evidence, report, outcome = judged(good, bad)
    assert [(r.why, r.finding) for r in outcome.reasons] == [("fault", "num.nan_loss")]
    assert "(?" not in console.report(report, evidence)


@pytest.mark.parametrize(
    ("pair", "asked", "followed"),
    [
        (("200", "100"), 300, True),
        (("50", "100"), 300, False),
        (("SGD", "AdamW"), "AdamW", False),
        (("AdamW", "SGD"), "AdamW", True),
        (("False", "True"), False, True),
        (("yolo11s.pt", "yolo11n.yaml"), "yolo11n.pt", True),
        (("yolo11s.pt", "yolo11n.pt"), "yolo11n.pt", False),
        (("8.3.1", "8.2.9"), None, True),
    ],
)
def test_a_difference_is_advice_only_in_its_direction(pair: tuple[str, str], asked: Value, followed: bool) -> None:
    assert outcome._followed(pair, asked) is followed


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_scores_on_other_data_and_within_the_noise_are_no_success(tmp_path: Path, lang: str) -> None:
    a, b = run(tmp_path, "a", to=0.5), run(tmp_path, "b", to=0.6, data="b.yaml")
    evidence, report, outcome = judged(a, b)
    assert (outcome.case, outcome.reasons) == ("data", ())
    assert "?" not in console.report(report, evidence, lang=lang).split("1.")[0]
    same = run(tmp_path, "c", to=0.5, imgsz=960)
    assert judged(a, same)[2].case == "noise"


def test_a_fault_counts_on_other_data_too(tmp_path: Path) -> None:
    good, bad = run(tmp_path, "a", to=0.5), run(tmp_path, "b", to=0.5, data="b.yaml", extra=1)
    rows = (bad / "results.csv").read_text().splitlines()
    broken = [",".join([row.split(",")[0], "nan", "nan", "0", "0", row.split(",")[5]]) for row in rows[1:]]
    (bad / "results.csv").write_text("\n".join([rows[0], *broken]) + "\n")
    evidence, _, outcome = judged(good, bad)
    assert (outcome.case, [(r.why, r.finding) for r in outcome.reasons]) == ("data", [("fault", "num.nan_loss")])
    assert evidence.peers is not None
    assert {d.what for d in evidence.peers.differences} == {"data", "score"}


def test_what_only_one_run_says_is_no_difference(tmp_path: Path) -> None:
    a, b = run(tmp_path, "a", to=0.5), run(tmp_path, "b", to=0.6, imgsz=960)
    (b / "console.log").write_text(
        "Ultralytics 8.3.130 🚀 Python-3.11.9 torch-2.6.0 CUDA:0 (NVIDIA GeForce RTX 4070, 12282MiB)\n"
    )
    evidence = judged(a, b)[0]
    assert evidence.peers is not None
    assert {d.what for d in evidence.peers.differences} == {"imgsz", "score"}


def _timed(folder: Path, name: str, seconds: float, *, workers: int = 8, batch: int = 16) -> Path:
    path = run(folder, name, to=0.5, workers=workers, batch=batch)
    bars = "".join(
        f"      {i}/40       3.6G      1.015     0.6453      1.106         24        640: 100%|██████████| 100/100 "
        f"[{int(seconds * 100) // 60:02d}:{int(seconds * 100) % 60:02d}<00:00,  {1 / seconds:.2f}it/s]\n"
        for i in range(1, 41)
    )
    (path / "console.log").write_text(
        "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n" + bars
    )
    return path


def test_the_time_of_a_step_has_its_own_cause(tmp_path: Path) -> None:
    outcomes = judged(_timed(tmp_path, "a", 0.2), _timed(tmp_path, "b", 0.4, workers=0))[1].outcomes
    assert [(o.measure, o.case) for o in outcomes] == [("score", "noise"), ("seconds", "apart")]
    assert [(r.why, r.what) for r in outcomes[1].reasons] == [("only", "workers")]


def test_a_larger_batch_may_take_longer(tmp_path: Path) -> None:
    outcomes = judged(_timed(tmp_path, "a", 0.2), _timed(tmp_path, "b", 0.4, batch=32))[1].outcomes
    assert [o.measure for o in outcomes] == ["score"]


def test_an_image_that_takes_longer_is_seen_through_the_batch(tmp_path: Path) -> None:
    outcomes = judged(_timed(tmp_path, "a", 0.2), _timed(tmp_path, "b", 1.0, batch=32))[1].outcomes
    assert [(o.measure, round(o.other / o.best, 1)) for o in outcomes[1:]] == [("image_seconds", 2.5)]


def test_what_is_wrong_with_one_run_neither_explains_nor_contradicts_another(tmp_path: Path) -> None:
    good, bad = run(tmp_path, "a", to=0.5), run(tmp_path, "b", to=0.5)
    rows = (bad / "results.csv").read_text().splitlines()
    broken = [",".join([row.split(",")[0], "nan", "nan", "0", "0", row.split(",")[5]]) for row in rows[1:]]
    (bad / "results.csv").write_text("\n".join([rows[0], *broken]) + "\n")
    report = judged(good, bad)[1]
    ids = {f.id: f for f in report.findings}
    assert {"num.nan_loss", "train.converged_ok", "train.lr_schedule_ok"} <= set(ids)
    assert ids["train.converged_ok"].evidence[0].file == f"{good}/results.csv"
    assert "train.not_learning" in ids["num.nan_loss"].explains  # the same run
    assert not set(ids["num.nan_loss"].explains) & {"train.converged_ok", "train.plateau"}
