"""Of several runs: how far their outcomes lie apart, and which difference explains it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """A difference that may have made one run better. `why`: `finding`, `fault`, `only`, `one_of`, `besides`.

    `what` is a name of the comparison (`epochs`, `ultralytics`); `better` and `worse` are its values in the two runs.
    With `finding` the worse run has a finding whose advice this difference is, or a comparison rule found it. With
    `fault` the worse run alone has that finding, and no difference answers to it (`what` is empty). `besides` are
    differences that matter, too, where one of the former was found.
    """

    what: str
    better: str
    worse: str
    why: str
    finding: str = ""


@dataclass(frozen=True)
class Outcome:
    """The best and the worst of the compared runs by one measure: `score`, `seconds` (of a batch) or `image_seconds`.

    `case` is `apart` (they differ, `reasons` say by what), `noise` (no more than the noise of either), `data` (they
    were validated on different data, so their scores can't be compared), `leak` (the better one was validated on images
    that it was trained on) or `unexplained` (nothing known differs).
    """

    measure: str
    case: str
    better: str
    worse: str
    best: float
    other: float
    metric: str = ""
    noise: float = 0.0
    reasons: tuple[Reason, ...] = ()
