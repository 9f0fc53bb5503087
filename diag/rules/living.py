"""What may be said of a run that still trains. No rules here.

Tried on 1239 prefixes of the 96 public runs of docs/benchmarks.md (results.csv cut after 2, 3, 4, 5 ... epochs): a
rule whose prefixes of healthy runs hit, or whose hits most other runs outgrew, waits for the end or for a share of
the planned epochs. See docs/diagnosis.md, "While it trains".
"""

from collections.abc import Mapping

from diag.model.evidence import Evidence
from diag.model.finding import Skip
from diag.rules.ending import planned_epochs

AT_THE_END = frozenset({
    # how it ended, and what the whole schedule brought
    "train.best_not_last", "train.converged_ok", "train.early_stopped_ok", "train.es_early_spike",
    "train.es_on_saturated_metric", "train.es_premature", "train.incomplete", "train.lr_not_annealed",
    "train.lr_schedule_ok", "train.patience_saves", "train.plateau", "train.saturated", "train.underfit",
    "train.undertrained", "train.warmup_too_long",
    # final scores: early ones are low and noisy in every run
    "train.localisation_weak", "train.loss_gain_imbalance", "train.low_precision", "train.low_recall",
    "train.dfl_volatile", "train.mask_gap", "train.oscillation", "train.pose_gap", "train.seg_loss_high",
    "data.val_too_small",
    # overflow of the first validations goes away in most runs that have it
    "num.val_fp16_inf", "num.val_fp16_nan",
    # a dip is one only when it is over
    "train.finetune_dip",
})  # fmt: skip
"""Findings that a living run can't have yet."""

FROM_SHARE: Mapping[str, float] = {
    # At this share of the planned epochs no prefix of a healthy run hit any more.
    "num.collapse": 0.5,
    "train.early_peak": 0.5,
    "train.map_stuck": 0.5,
    "train.not_learning": 0.5,
    "train.overfit": 0.5,
    "train.val_gap": 0.5,
}
"""Findings of a living run only from this share (0..1) of its planned epochs on."""


def too_early(finding: str, evidence: Evidence) -> Skip | None:
    """Why this finding can't be judged while the run is living; None if it can."""
    if finding in AT_THE_END:
        return Skip("still_running")
    share = FROM_SHARE.get(finding)
    if share is None:
        return None
    planned = planned_epochs(evidence.args)
    rows = evidence.curves.rows if evidence.curves else 0
    return None if planned is not None and rows >= share * planned else Skip("still_running")
