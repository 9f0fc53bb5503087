"""Count images, labels and faults of a data set: the audit at its quickest level."""

from collections.abc import Callable

from diag.dataset.audit import audit
from diag.dataset.resolve import DataSpec
from diag.model.evidence import Dataset


def scan(spec: DataSpec, *, progress: Callable[[str], None] = lambda line: None) -> Dataset:
    """The evidence of a resolved data set; `progress` gets a line now and then."""
    return audit(spec, progress=progress).dataset
