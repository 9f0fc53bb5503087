"""The two ways of reading step times: fixed thresholds in seconds, and shares of the step."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One line of the threshold view: `name` holds when `value_s` is above `limit_s`.

    `other_s` and `other_limit_s` are the second condition of the compute line (data wait below its limit).
    """

    name: str
    value_s: float
    limit_s: float
    holds: bool
    other_s: float | None = None
    other_limit_s: float | None = None


@dataclass(frozen=True)
class StepViews:
    """Both views of one run. `lines` are data_bound, compute_bound and optimizer_bound, in this order.

    `by_threshold` and `by_share` hold the ids of the speed findings that each view would give;
    the findings of a report follow the shares.
    """

    lines: tuple[Line, ...]
    step_s: float
    data_share: float
    compute_share: float
    optimizer_share: float
    by_threshold: tuple[str, ...]
    by_share: tuple[str, ...]
    unjudged: tuple[str, ...] = ()
    """Ids that the share view could not judge (too few steps, host times on a GPU): no disagreement."""

    @property
    def agree(self) -> bool:
        """True if both views name the same limits, as far as both could judge."""
        return set(self.by_threshold) - set(self.unjudged) == set(self.by_share)
