"""speed.ddp_straggler: one rank is slower than the others."""

from diag.model.evidence import BEFORE_BACKWARD, Ranks
from diag.model.finding import Confidence, Fix, Hit, Severity, Skip, Source, Verdict
from diag.model.trace import Stage
from diag.rules.base import rule


@rule("speed.ddp_straggler", Severity.HIGH)
def ddp_straggler(
    ranks: Ranks, *, min_share: float = 0.10, high_share: float = 0.20, min_steps: int = 20, sure_steps: int = 100
) -> Verdict:
    """One rank is slower than the others, and all wait for it.

    min_share, high_share: 10 % and 20 % of the step, TraceML's two levels for a straggler; in the mean and, so that a
    few hiccups are not taken for a slow rank, half of it in the median. sure_steps: confidence is medium below.
    """
    have = min(steps.steady_steps for steps in ranks.steps.values())
    if have < min_steps:
        return Skip("too_few_steps", {"have": have, "need": min_steps})
    slowest = ranks.slowest
    step_s = ranks.steps[slowest].step_s
    lost = ranks.lost_s() / step_s if step_s > 0 else 0.0
    steadily = ranks.lost_s(median=True) / step_s if step_s > 0 else 0.0
    if lost < min_share or steadily < min_share / 2:
        return None
    stage = max(BEFORE_BACKWARD, key=ranks.excess_s)
    return Hit(
        values={
            "rank": slowest,
            "ranks": len(ranks.steps),
            "lost": lost,
            "slow_s": ranks.before_s(slowest),
            "others_s": ranks.before_s(slowest) - ranks.lost_s(),
            "stage": stage.value,
            "case": stage.value,
            "excess_s": ranks.excess_s(stage),
        },
        fixes=(Fix("check_loader"),) if stage is Stage.DATA_WAIT else (Fix("check_gpu"),),
        evidence=(Source(f"trace/rank{slowest}.jsonl"),),
        confidence=Confidence.HIGH if have >= sure_steps else Confidence.MEDIUM,
        headroom=lost,
        severity=Severity.HIGH if lost >= high_share else Severity.MEDIUM,
    )
