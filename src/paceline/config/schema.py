"""What a configuration may hold. `docs/config.md` and `paceline schema config` are made from these models.

A model says what each key may hold; which keys go together is in `rules.py`. The whole of it, with `evals`, is
`WholeConfig` in `evals.py`.
"""

from typing import Any

from pydantic import Field

from paceline.config.sections import (
    EntryRay,
    LimitsOptions,
    Nightly,
    NoRay,
    OpenSection,
    Pool,
    RayOptions,
    ResourcesOptions,
    Section,
    shared,
)
from paceline.config.values import (
    Bound,
    Bytes,
    Count,
    Environment,
    Fraction,
    GraceSeconds,
    Name,
    Number,
    ObjectStoreSize,
    PositiveCount,
    Scalar,
    Seconds,
    TextOrList,
    Tolerance,
    VariableName,
    VariablePattern,
)
from paceline.model import Direction, Disturbed, Severity

DEFAULT_TIMEOUT_S = 7200.0
DEFAULT_GRACE_S = 5.0


class DatasetFormat(Section):
    """One format that a dataset is stored in."""

    type: Name = Field(description="Name of the format, the second part of `{dataset:name,format}`.")
    path: str = Field(description="Where the data lies; may hold variables and path placeholders.")


class Dataset(Section):
    """Data that entries refer to as `{dataset:name,format}`."""

    name: Name = Field(description="Name of the dataset, unique.")
    formats: list[DatasetFormat] = Field(description="The formats it is stored in.")


class PathItem(Section):
    """A directory with a name; `{name}` in a command stands for it."""

    name: Name = Field(description="Name of the placeholder; `results_path` also sets the results directory.")
    host_path: str = Field(description="The directory on the machine itself.")
    container_path: str | None = Field(
        default=None,
        description="The same directory inside a container; used when running in one. Without it, a container that has "
        "a directory `/MOUNT` looks in `/MOUNT/<host_path>`, any other in `host_path` itself.",
    )


class Requirement(Section):
    """A bound on a metric, checked after the benchmark ran."""

    metric: Name = Field(description="Name of the metric.")
    exact_value: Bound | None = Field(
        default=None, description="The metric must equal this number, boolean or string; excludes the others."
    )
    min_value: Number | None = Field(default=None, description="The metric must be at least this.")
    max_value: Number | None = Field(default=None, description="The metric must be at most this.")
    max_regression: Tolerance | None = Field(
        default=None,
        description="The metric may be this much worse than its level in the history: `0.05` or `5%`. "
        "See [regressions](regressions.md#a-requirement).",
    )
    tolerance: Tolerance = Field(
        default=0.0, description="Relative slack that widens the bound: `0.05` or `5%`."
    )
    severity: Severity = Field(
        default="fail", description="`fail` fails the entry, `warn` only adds a warning."
    )


class MetricMeaning(Section):
    """What a metric means, where its name does not say it or says something else."""

    unit: Name | None = Field(default=None, description="Its unit, such as `s` or `bytes`.")
    direction: Direction | None = Field(
        default=None, description="Which way is better, `lower` or `higher`; without it the name decides."
    )
    label: Name | None = Field(default=None, description="What reports call it.")


class Matrix(OpenSection):
    """Parameters of an entry: it runs once for every combination of the axes' values.

    Every key besides `include` and `exclude` is an axis: a list of values.
    """

    __pydantic_extra__: dict[str, list[Scalar]]

    include: list[dict[str, Scalar]] = Field(default=[], description="Combinations to add.")
    exclude: list[dict[str, Scalar]] = Field(
        default=[],
        description="Combinations to leave out; a combination that has all of these values is dropped.",
    )

    @property
    def axes(self) -> dict[str, list[Any]]:
        """The values of each axis, in file order."""
        return dict(self.__pydantic_extra__)


class SinkData(OpenSection):
    """What an entry hands to one sink; keys besides `name` are the sink's own."""

    name: Name = Field(description="The sink's name.")


class Work(Section):
    """What entries and data set-ups have in common."""

    enabled: bool = Field(default=True, description="`false` leaves it out; its variables are not looked up.")
    description: str | None = Field(default=None, description="A sentence for people.")
    script: str | None = Field(
        default=None,
        description="A Python script, looked up in `script_base_dir`, then `scripts/` beside the file, then beside "
        "the file. Give this or `command`.",
    )
    command: TextOrList | None = Field(
        default=None, description="Any program with its arguments, a string or a list. No shell is involved."
    )
    args: TextOrList | None = Field(
        default=None,
        description="Arguments, a string (split as a shell would) or a list. A value put in by a variable or "
        "a placeholder is never split.",
    )
    script_base_dir: str | None = Field(default=None, description="Where `script` is looked up first.")
    interpreter: TextOrList | None = Field(
        default=None,
        description="What runs `script`; the Python that runs paceline by default. A Python that is given starts "
        "the entry's Ray cluster too.",
    )
    timeout_s: Seconds | None = Field(
        default=None, description="Time limit in seconds; `default_timeout_s` by default."
    )
    grace_s: GraceSeconds | None = Field(
        default=None,
        description="Seconds between the polite and the forced end; the top-level one by default.",
    )
    env: Environment = shared({}, "Environment variables, beside those inherited.")
    cwd: str | None = Field(default=None, description="Working directory.")
    version: str = Field(
        default="1",
        description="Change it when the meaning of the benchmark changes: old results stop counting.",
    )
    resources: ResourcesOptions = shared(ResourcesOptions.model_construct(), "What it takes while it runs.")
    limits: LimitsOptions = shared(LimitsOptions.model_construct(), "What it may not exceed.")
    retries: Count = Field(
        default=0,
        description="How often to try again after a fault of the infrastructure, never after a failure.",
    )
    delete_scratch: bool | None = Field(
        default=None, description="Whether `scratch/` is removed afterwards; the top-level one by default."
    )


class EntryDefaults(Work):
    """Values for all entries: merged under each of them as an earlier file would be. Any key of an entry but `name`."""

    pytest: TextOrList | None = Field(
        default=None,
        description="Tests of pytest, each a case: a file, a directory or a test, or a list of them, relative to this "
        "file. `args` go to pytest. See [tests as entries](pytest.md#tests-as-entries).",
    )
    asv: str | None = Field(
        default=None,
        description="Benchmarks of airspeed velocity, each a case: their directory, or that of `asv.conf.json`, "
        "relative to this file. See [for users of asv](for-asv-users.md).",
    )
    share_process: bool = Field(
        default=False,
        description="With `pytest`: all selected tests in one process a repetition. Otherwise each has its own.",
    )
    requirements: list[Requirement] = shared(
        [], "Bounds on metrics: a list, or a mapping from metric to bound."
    )
    ray: EntryRay | None = Field(
        default=None,
        description="A private Ray cluster; merged over the top-level one. None if neither is given; `false` or "
        "`null` refuses the top-level one.",
    )
    matrix: Matrix | None = Field(default=None, description="Parameters to run it with.")
    repeat: PositiveCount = Field(default=1, description="Runs that are measured; they make one record.")
    warmup: Count = Field(default=0, description="Runs before them; kept, not counted.")
    disturbed: Disturbed = Field(
        default="mark",
        description="What becomes of runs that others disturbed. `mark`: the record says so, and nothing is concluded "
        "from its times and rates; `void`: they are not counted, unless all were disturbed; `ignore`: they count.",
    )
    watch: list[Name] = shared(
        [],
        "Names or globs of metrics to raise alarms about, of those that are taken of every case (`exec_time_s`, "
        "`cpu_user_s`, `peak_memory_bytes` and their like). Without it they alarm only where the case has no metric of "
        "its own with a direction, or a requirement names them.",
    )
    metrics: dict[Name, MetricMeaning] = shared(
        {}, "What its metrics mean, by name or glob; wins over the top-level one, key by key."
    )
    tags: list[Name] = shared([], "Words to select by.")
    needs: list[Name] = shared([], "Entries that must have passed before.")
    sink_data: list[SinkData] = shared(
        [], "Options for sinks: a list with `name`, or a mapping from sink to options."
    )
    object_store_size: ObjectStoreSize | None = Field(
        default=None, description="As at the top level, for this entry."
    )
    gpu_mem_use_warning_threshold: Fraction | None = Field(
        default=None, description="As at the top level, for this entry."
    )


class Entry(EntryDefaults):
    """One benchmark."""

    name: Name = Field(description="Its name, unique; one line.")


class DataSetup(Work):
    """A step that prepares data, run before all entries.

    One that entries name in `needs` runs only if one of them does. It has no requirements, `ray`, matrix, repetitions,
    tags or `needs`.
    """

    name: Name = Field(description="Its name, unique; one line.")


class Sink(OpenSection):
    """Where results are sent. Keys besides these are the sink's own options."""

    name: Name = Field(description="Its label; also its type if `type` is not given.")
    type: Name = Field(
        description="A known sink or an import path `module:Class`, else an error; `name` by default."
    )
    enabled: bool = Field(default=True, description="`false` leaves it out; its variables are not looked up.")
    required: bool = Field(
        default=False, description="Whether the session fails if this sink has not got everything at its end."
    )
    only: TextOrList = Field(
        default=[],
        description="Which records it gets: `failures`, `regressions`, `tag:NAME`, names of entries or globs of "
        "names, one or a list; all by default. Where nothing fits, it hears nothing of the session at all.",
    )
    live: bool = Field(
        default=True, description="`false`: it gets everything at the end, and nothing while cases run."
    )
    timeout_s: Seconds = Field(
        default=60.0, description="How long one call may take; its process is ended then."
    )
    wait_s: GraceSeconds = Field(
        default=30.0, description="How long the end of the session waits for it; the rest waits on disk."
    )
    memory: Bytes = Field(
        default=1024**3, description="How much memory its process may take, in bytes or as `1GiB`."
    )


class SinkSection(OpenSection):
    """A sink as a section of its own; its keys are the options of the sink."""


class GpuStatsRecorder(Section):
    """The recorder of GPU use, memory and temperature (`gpustats.csv`)."""

    enabled: bool = Field(
        default=True, description="Whether to record; without a driver nothing is recorded."
    )
    interval_s: Number = Field(default=1.0, ge=0, le=3600, description="Seconds between samples; `0` is off.")

    @property
    def active(self) -> bool:
        return self.enabled and self.interval_s > 0


class History(Section):
    """The database of all results."""

    url: Name | None = Field(
        default=None,
        description="A file, or `postgresql://USER@HOST/DATABASE`; `benchmark.db` beside the results by default. "
        "`--db` and `PACELINE_DB` win.",
    )
    enabled: bool = Field(default=True, description="Whether `paceline run` records its sessions.")
    default_branch: Name | None = Field(
        default=None,
        description="The branch whose results are judged; by default the one that the remote says, else main, master "
        "or trunk. `PACELINE_DEFAULT_BRANCH` wins.",
    )


class Config(Section):
    """A whole configuration."""

    session_name: Name | None = Field(
        default=None,
        description="What sessions are called: `{time}` in it is the UTC time, which otherwise follows it. "
        "By default the suite's name; `--session-name` wins.",
    )
    results_dir: Name = Field(
        default="results",
        description="Where sessions are kept: a directory, or the URL of an object store such as "
        "`s3://bucket/results`. Without it the path named `results_path` is used, if there is one.",
    )
    artifacts_dir: Name | None = Field(
        default=None,
        description="Where logs, scratch data and Ray's files go; beside the results by default.",
    )
    default_timeout_s: Seconds = Field(
        default=DEFAULT_TIMEOUT_S, description="Time limit of entries and data set-ups that give none."
    )
    max_timeout_s: Seconds | None = Field(
        default=None, description="An entry with a longer time limit is an error; data set-ups are exempt."
    )
    grace_s: GraceSeconds = Field(
        default=DEFAULT_GRACE_S, description="Seconds between the polite and the forced end of a process."
    )
    delete_scratch: bool = Field(default=True, description="Whether `scratch/` is removed after an entry.")
    entries: list[Entry] = Field(
        default=[], description="The benchmarks; a suite has some, or `evals`, or both."
    )
    evals: Any = None
    """An `Evals` of `WholeConfig`, whose models only suites that have some are to wait for."""
    defaults: EntryDefaults | None = Field(default=None, description="Values for all entries.")
    data_setups: list[DataSetup] = Field(default=[], description="Steps that run before the entries.")
    datasets: list[Dataset] = Field(
        default=[], description="Data: a list, or a mapping from name to `{format: path}`."
    )
    paths: list[PathItem] = Field(default=[], description="Named directories.")
    sinks: list[Sink] = Field(default=[], description="Where results are sent.")
    mlflow: SinkSection | None = Field(
        default=None, description="Options of the MLflow sink; off unless `--sink mlflow` is given."
    )
    wandb: SinkSection | None = Field(
        default=None, description="Options of the Weights & Biases sink; off unless `--sink wandb` is given."
    )
    slack: SinkSection | None = Field(
        default=None,
        description="Options of the Slack sink; on when the variable named by `webhook_env` is set.",
    )
    metrics: dict[Name, MetricMeaning] = Field(
        default={},
        description="What metrics mean, by name or glob: the unit, which way is better, what reports call them. Wins "
        "over what a script says and what [the name](metrics.md) tells.",
    )
    env: Environment = Field(default={}, description="Environment variables of all entries and data set-ups.")
    ray: RayOptions | None = Field(
        default=None, description="A Ray cluster for every entry; each entry's `ray` is merged over it."
    )
    pool: Pool | None = Field(
        default=None,
        description="A pool of machines to run on, `ray` or a mapping; this machine if there is none. `--on` wins.",
    )
    script_base_dir: str | None = Field(
        default=None, description="Where scripts are looked up, after the entry's own `script_base_dir`."
    )
    object_store_size: ObjectStoreSize | None = Field(
        default=None,
        description="Ray's object store: a fraction of the memory (`0.5`), bytes, a size (`4GiB`) or `default`.",
    )
    gpu_mem_use_warning_threshold: Fraction | None = Field(
        default=None,
        description="Warn in the record if more than this fraction of the memory of one of an entry's GPUs, or of "
        "any if it asks for none, is in use before it begins; no warning without it.",
    )
    gpu_stats_recorder: GpuStatsRecorder = Field(
        default=GpuStatsRecorder.model_construct(), description="The recorder of GPU use."
    )
    viewer_url: str | None = Field(default=None, description="Link to the results, shown in reports.")
    viewer_url_template: str | None = Field(
        default=None,
        description="The same with placeholders such as `{session_name}`; excludes `viewer_url`.",
    )
    run_reason: str | None = Field(default=None, description="Why the session runs; kept with the results.")
    secrets: list[VariableName] = Field(
        default=[],
        description="Environment variables whose values are masked in all that is written, from 4 characters on.",
    )
    not_secrets: list[VariableName] = Field(
        default=[], description="Environment variables that are not secret, though their names say so."
    )
    capture_env: list[VariablePattern] = Field(
        default=[],
        description="Environment variables to keep with the results besides those that are known to decide them; "
        "`*` stands for any letters.",
    )
    private: bool = Field(
        default=False,
        description="Let nobody else enter the session's directory; otherwise the umask decides.",
    )
    history: History | None = Field(default=None, description="The database of all results.")
    nightly: Nightly | None = Field(
        default=None,
        description="What `paceline nightly` measures and how it follows up; other commands ignore it.",
    )
    cleanup_timeout_s: Seconds | None = Field(
        default=None, description="For outside job schedulers only; paceline itself does not use it."
    )
    min_timeout_s: Seconds | None = Field(
        default=None, description="For outside job schedulers only; paceline itself does not use it."
    )

    def ray_for(self, entry: Entry) -> RayOptions | None:
        """The cluster of an entry: its own options over the top-level ones; None if neither is given or it refuses."""
        given = [options for options in (self.ray, entry.ray) if options is not None]
        if not given or isinstance(entry.ray, NoRay):
            return None
        merged = {key: getattr(options, key) for options in given for key in options.model_fields_set}
        return RayOptions.model_construct(set(merged), **merged)
