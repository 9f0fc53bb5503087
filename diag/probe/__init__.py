"""Facts about this machine now, and what they mean for a training. Never imports torch."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diag.probe.checks import CheckRequest, ask, run_checks

__all__ = ["CheckRequest", "ask", "run_checks"]


def __getattr__(name: str) -> Any:
    # Late: the counters process takes cgroup and NVML readers from this package and must stay small.
    if name in __all__:
        from diag.probe import checks

        return getattr(checks, name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
