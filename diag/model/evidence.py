"""Every fact that a rule may ask for. A rule's positional parameter names are field names of Evidence."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

from diag.model.audit import Fault
from diag.model.check import Checks
from diag.model.counters import Counters
from diag.model.curves import Curves
from diag.model.foreign import DataYaml, Difference, LabelFiles, Notes, Phases, Tables, TrainLog
from diag.model.hardware import Baseline
from diag.model.profile import Profile
from diag.model.run import Epochs, RunRecord, TrainArgs
from diag.model.trace import Stage


@dataclass(frozen=True)
class StepStats:
    """Seconds per training step and stage, from the trace or, without one, from train.log.

    `mean_s` is over all recorded batches (what a one-liner over train.log gives); the steady figures
    leave out the first steps of the run and the first step of each epoch (`stats.StepTable.steady`).
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
    wait_p50_s: float = 0.0
    wait_p99_s: float = 0.0
    """Data wait of a steady step: the median and what 99 % of the steps stay below."""
    sampled: bool = False
    """Some steps that another tool timed: how many the training made is not known from them."""
    line: int | None = None
    """Where the table begins in a text that holds more."""

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
class LoaderStats:
    """What the loader does with its time, measured in the processes that load.

    `mean_s` is seconds per sample by part: read, decode (with the resize to imgsz), augment, collate.
    """

    images: int
    batches: int
    workers: int
    """Processes that loaded; 0 when the training process loads itself."""
    mean_s: Mapping[str, float]
    images_per_s: Mapping[int, float]
    """What each worker loads while it works; -1 is the training process."""
    hit_share: float
    """Share of the images that came from memory (RAM cache, mosaic buffer)."""
    bytes_per_file: float
    """0 when files were opened in a way that doesn't tell reading from decoding (cv2.imread of old releases)."""
    pixels_per_image: float
    """Size of the decoded source images; 0 when none was decoded (cached arrays)."""
    slowest: tuple[tuple[str, float], ...]
    """Files that took longest to load (read, decode, resize) with their seconds, slowest first."""
    file: str

    @property
    def sample_s(self) -> float:
        """Seconds that a worker needs for one sample."""
        return sum(self.mean_s.values())

    @property
    def load_s(self) -> float:
        """Seconds of it for reading and decoding."""
        return self.mean_s.get("read", 0.0) + self.mean_s.get("decode", 0.0)

    def share(self, part: str) -> float:
        """Share (0..1) of a worker's time that this part takes."""
        return self.mean_s.get(part, 0.0) / self.sample_s if self.sample_s > 0 else 0.0


@dataclass(frozen=True)
class DeviceStats:
    """Times on the GPU itself from CUDA events, and its allocator. Host times say where Python waits instead."""

    mean_s: Mapping[Stage, float]
    """Seconds per recorded step by stage; data_wait is the time the GPU had nothing of this step to do."""
    steps: int
    allocated_bytes: int
    reserved_bytes: int
    peak_bytes: int
    alloc_retries: int
    """Times that the allocator had to empty its cache to serve a request."""
    file: str


@dataclass(frozen=True)
class ValidationStats:
    """The validations during training, each split into its parts: seconds of a mean validation.

    The parts are setup, wait, preprocess, inference, loss, postprocess, metrics and plots.
    """

    runs: int
    images: int
    """Of the last validation."""
    mean_s: Mapping[str, float]
    file: str

    @property
    def val_s(self) -> float:
        """Seconds of a mean validation."""
        return sum(self.mean_s.values())


@dataclass(frozen=True)
class SaveStats:
    """The checkpoints of a run: how often, and what writing them to the disk took (packing them left out)."""

    saves: int
    write_s: float
    """Seconds in all."""
    bytes: int
    file: str


BEFORE_BACKWARD = (Stage.DATA_WAIT, Stage.TRANSFER, Stage.FORWARD)


@dataclass(frozen=True)
class Ranks:
    """The ranks of a run on several GPUs. Gradients are exchanged in backward: who is early waits there for the last.

    So all ranks take equally long for a step, and a straggler shows in what lies before: data wait, transfer, forward.
    """

    steps: Mapping[int, StepStats]

    def before_s(self, rank: int, *, median: bool = False) -> float:
        """Seconds of a step until backward on one rank."""
        steps = self.steps[rank]
        seconds = steps.steady_median_s if median else steps.steady_mean_s
        return sum(seconds.get(stage, 0.0) for stage in BEFORE_BACKWARD)

    @property
    def slowest(self) -> int:
        """The rank that comes to backward last."""
        return max(self.steps, key=self.before_s)

    def lost_s(self, *, median: bool = False) -> float:
        """Seconds of each step that the typical other rank waits for the slowest one."""
        slowest = self.slowest
        others = [self.before_s(rank, median=median) for rank in self.steps if rank != slowest]
        return self.before_s(slowest, median=median) - statistics.median(others)

    def excess_s(self, stage: Stage) -> float:
        """Seconds that a stage takes longer on the slowest rank than on the typical other."""
        others = [s.steady_mean_s.get(stage, 0.0) for rank, s in self.steps.items() if rank != self.slowest]
        return self.steps[self.slowest].steady_mean_s.get(stage, 0.0) - statistics.median(others)


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
    faults: Mapping[str, Fault] = field(default_factory=dict)
    """What the audit found, by the part of the finding's id after `data.`."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """Figures over the whole set (`imgsz`, `dropped_images`, `kpt_visible` ...); docs/contracts.md names them all."""
    split_classes: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Instances by split and class."""
    faults_file: str = ""
    """Where all places are listed, one JSON object a line; empty if nothing was found."""


@dataclass(frozen=True)
class Peers:
    """Several runs side by side; each has its own evidence."""

    runs: Mapping[str, "Evidence"]
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """All facts of one run; every field may be missing (None)."""

    baseline: Baseline | None = None
    checks: Checks | None = None
    """What `diag check` answered before the run, or when a bundle was made."""
    run: RunRecord | None = None
    args: TrainArgs | None = None
    steps: StepStats | None = None
    ledger: Ledger | None = None
    ranks: Ranks | None = None
    """Of a run on several GPUs; everything else here is of rank 0."""
    loader: LoaderStats | None = None
    validation: ValidationStats | None = None
    saves: SaveStats | None = None
    device: DeviceStats | None = None
    epochs: Epochs | None = None
    curves: Curves | None = None
    """Derived from `epochs`."""
    console: Console | None = None
    dataset: Dataset | None = None
    counters: Counters | None = None
    profile: Profile | None = None
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
