"""Every fact that a rule may ask for. A rule's positional parameter names are field names of Evidence."""

from collections.abc import Mapping
from dataclasses import dataclass

from diag.model.curves import Curves
from diag.model.foreign import DataYaml, Difference, LabelFiles, Notes, Tables, TrainLog
from diag.model.hardware import Baseline
from diag.model.run import Epochs, RunRecord, TrainArgs
from diag.model.trace import Stage


@dataclass(frozen=True)
class StepStats:
    """Seconds per training step and stage, from the trace or, without one, from train.log.

    `mean_s` is over all recorded batches (what a one-liner over train.log gives); the steady figures
    leave out the first steps of the run and the first step of each epoch (`stats.steady_steps`).
    """

    steps: int
    steady_steps: int
    mean_s: Mapping[Stage, float]
    steady_mean_s: Mapping[Stage, float]
    steady_median_s: Mapping[Stage, float]
    step_s: float
    """Mean length of a steady step."""
    file: str
    """Where the figures come from, relative to the run directory."""

    def share(self, stage: Stage) -> float:
        """Share (0..1) of a steady step that this stage takes."""
        return self.steady_mean_s.get(stage, 0.0) / self.step_s if self.step_s > 0 else 0.0

    @property
    def dataloader_s(self) -> float:
        """Mean `dataloader:` seconds of train.log: waiting for the batch."""
        return self.mean_s.get(Stage.DATA_WAIT, 0.0)

    @property
    def model_s(self) -> float:
        """Mean `model:` seconds of train.log: transfer, forward and backward."""
        return sum(self.mean_s.get(s, 0.0) for s in (Stage.TRANSFER, Stage.FORWARD, Stage.BACKWARD))

    @property
    def optimizer_s(self) -> float:
        """Mean `optimizer:` seconds of train.log, over all batches (many make no optimizer step)."""
        return self.mean_s.get(Stage.OPTIMIZER, 0.0)


@dataclass(frozen=True)
class Ledger:
    """Seconds of the whole recorded time by stage; the sum of `seconds` is `wall_s`."""

    seconds: Mapping[Stage, float]
    wall_s: float


@dataclass(frozen=True)
class ConsoleLine:
    """A line of console.log that says something known. `line` counts from 1."""

    kind: str
    line: int
    text: str
    file: str = ""
    """Set when the line is of another file than the console log itself."""


@dataclass(frozen=True)
class Console:
    """What console.log tells: marked lines (see diag/load/console.py for the kinds) and banner facts."""

    lines: tuple[ConsoleLine, ...] = ()
    device: str = ""
    """`cpu`, `cuda` or `mps` from the banner; empty when there is no banner."""
    banner: str = ""
    file: str = "console.log"
    tensorboard_files: bool = False
    """TensorBoard event files lie in the run folder."""

    def of(self, kind: str) -> tuple[ConsoleLine, ...]:
        """All lines of one kind."""
        return tuple(line for line in self.lines if line.kind == kind)


@dataclass(frozen=True)
class SplitCounts:
    """Counts of one split of the data set. `background` images have an empty label file."""

    images: int = 0
    labelled: int = 0
    background: int = 0
    missing_labels: int = 0
    instances: int = 0
    bad_rows: int = 0
    class_oob: int = 0
    coord_oob: int = 0


@dataclass(frozen=True)
class Dataset:
    """What the data stage found (data.json). `problems` are readable lines with file and line."""

    yaml: str
    task: str
    names: Mapping[int, str]
    splits: Mapping[str, SplitCounts]
    class_counts: Mapping[int, int]
    problems: tuple[str, ...] = ()
    scanned_all: bool = True
    cache_writable: bool = True


@dataclass(frozen=True)
class Phase:
    """A row of stages.csv: one phase of one epoch and where its seconds went."""

    epoch: int
    name: str
    iters: int
    seconds: Mapping[str, float]
    """Column without its unit -> seconds (`data_wait`, `forward`, `postproc`)."""
    wall_s: float

    def share(self, *columns: str) -> float:
        """Share of the phase's wall time in these columns."""
        return sum(self.seconds.get(c, 0.0) for c in columns) / self.wall_s if self.wall_s > 0 else 0.0


@dataclass(frozen=True)
class Phases:
    """All rows of a stages.csv."""

    rows: tuple[Phase, ...]
    file: str = "stages.csv"

    def of(self, pattern: str) -> tuple[Phase, ...]:
        """The phases whose name starts so."""
        return tuple(row for row in self.rows if row.name.startswith(pattern))


@dataclass(frozen=True)
class Peers:
    """Several runs side by side; each has its own evidence."""

    runs: Mapping[str, "Evidence"]
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """All facts of one run; every field may be missing (None)."""

    baseline: Baseline | None = None
    run: RunRecord | None = None
    args: TrainArgs | None = None
    steps: StepStats | None = None
    ledger: Ledger | None = None
    epochs: Epochs | None = None
    curves: Curves | None = None
    """Derived from `epochs`."""
    console: Console | None = None
    dataset: Dataset | None = None
    log: TrainLog | None = None
    """The training as the console log tells it."""
    tables: Tables | None = None
    """Telemetry and other tables of foreign tools."""
    phases: Phases | None = None
    """stages.csv of a foreign tool."""
    notes: Notes | None = None
    """Captured texts of a foreign tool."""
    labels: LabelFiles | None = None
    """Label files without an audit of the images."""
    data: DataYaml | None = None
    peers: Peers | None = None
    """The runs of a comparison; their own facts are in there."""
    skipped_files: tuple[str, ...] = ()
    """Artifacts that could not be read, as `file: reason`."""
    path: str = ""
    """The folder or file that was analyzed, as the user gave it."""
