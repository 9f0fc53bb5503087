"""The classic three lines over train.log as fixed thresholds, beside the shares that correct them."""

from diag.model.evidence import StepStats
from diag.model.trace import Stage
from diag.model.views import Line, StepViews

ID = "steps"
"""The name under which a rules profile changes the thresholds of `step_views`."""
BY_LINE = {
    "data_bound": "speed.loader_bound",
    "compute_bound": "speed.gpu_bound",
    "optimizer_bound": "speed.optimizer_bound",
}


def compute_share(steps: StepStats) -> float:
    """Share of a steady step spent on transfer, forward and backward."""
    return sum(steps.share(stage) for stage in (Stage.TRANSFER, Stage.FORWARD, Stage.BACKWARD))


def step_views(
    steps: StepStats,
    by_share: tuple[str, ...],
    unjudged: tuple[str, ...] = (),
    *,
    data_bound_s: float = 0.15,
    compute_bound_s: float = 0.25,
    compute_max_wait_s: float = 0.12,
    optimizer_bound_s: float = 0.02,
) -> StepViews:
    """The fixed thresholds on the mean seconds of all batches; `by_share` are the speed findings of the report,
    `unjudged` the ids of those that could not be judged.

    The defaults are the usual one-liner over a train.log: data-bound above 0.15 s of dataloader,
    compute-bound above 0.25 s of model with less than 0.12 s of dataloader, optimizer-bound above 0.02 s.
    """
    wait, model, optimizer = steps.dataloader_s, steps.model_s, steps.optimizer_s
    computing = model > compute_bound_s and wait < compute_max_wait_s
    lines = (
        Line("data_bound", wait, data_bound_s, wait > data_bound_s),
        Line("compute_bound", model, compute_bound_s, computing, wait, compute_max_wait_s),
        Line("optimizer_bound", optimizer, optimizer_bound_s, optimizer > optimizer_bound_s),
    )
    return StepViews(
        lines=lines,
        step_s=steps.step_s,
        data_share=steps.share(Stage.DATA_WAIT),
        compute_share=compute_share(steps),
        optimizer_share=steps.share(Stage.OPTIMIZER),
        by_threshold=tuple(BY_LINE[item.name] for item in lines if item.holds),
        by_share=by_share,
        unjudged=unjudged,
    )
