"""What is held back while a run trains."""

from dataclasses import replace

from diag.engine import evaluate
from diag.load.curves import curves
from diag.load.results import parse_results
from diag.model.evidence import Evidence
from diag.model.run import TrainArgs
from diag.rules import load_rules
from diag.rules.living import AT_THE_END, FROM_SHARE

FINDINGS = {rule.finding for rule in load_rules()}
AT_ONCE = {
    # train.* that an argument, the log or one row already proves, or that harms from its first epoch on
    "batch_too_small", "close_mosaic_step", "cls_val_loss_floor", "ddp_metrics_broken", "eval_mismatch",
    "frozen_untrained", "lr0_ignored", "lr_restart", "lr_stuck", "lr_too_low", "mixed_runs", "no_augmentation",
    "partial_transfer", "rect_no_shuffle", "resume_fresh_lr", "resumed", "val_loss_placeholder",
}  # fmt: skip


def test_every_rule_on_curves_is_sorted() -> None:
    """A new train.* rule has to say when it may speak of a run that still trains."""
    assert set(FROM_SHARE) | AT_THE_END <= FINDINGS
    assert not set(FROM_SHARE) & AT_THE_END
    train = {id.removeprefix("train.") for id in FINDINGS if id.startswith("train.")}
    waiting = {id.removeprefix("train.") for id in (*FROM_SHARE, *AT_THE_END)}
    assert train - waiting == AT_ONCE


def _run(rows: int, planned: int) -> Evidence:
    """A run whose score falls and whose validation loss rises after its twelfth epoch."""
    lines = ["epoch,train/box_loss,val/box_loss,metrics/mAP50(B),metrics/mAP50-95(B),lr/pg0"]
    for n in range(1, rows + 1):
        score = 0.04 * n if n <= 12 else 0.48 - 0.02 * (n - 12)
        val = 3.0 - 0.1 * n if n <= 12 else 1.8 + 0.1 * (n - 12)
        lines.append(f"{n},{4.0 / (n + 1)},{val},{score + 0.1},{score},{0.01 * (1 - n / planned)}")
    epochs = parse_results("\n".join(lines) + "\n")
    return Evidence(epochs=epochs, curves=curves(epochs), args=TrainArgs({"epochs": planned, "patience": 0}))


def test_overfitting_is_said_from_half_of_the_epochs_on() -> None:
    def ids(rows: int, *, living: bool) -> set[str]:
        return {f.id for f in evaluate(_run(rows, 40), living=living).findings}

    assert "train.overfit" in ids(19, living=False)
    assert "train.overfit" not in ids(19, living=True)
    assert "train.overfit" in ids(21, living=True)
    assert "train.incomplete" in ids(21, living=False)
    assert "train.incomplete" not in ids(21, living=True)


def test_without_a_plan_only_the_end_can_tell() -> None:
    evidence = replace(_run(30, 40), args=None)
    report = evaluate(evidence, living=True)
    assert "train.overfit" not in {f.id for f in report.findings}
    assert "still_running" in {s.reason for s in report.skipped if s.id == "train.overfit"}
