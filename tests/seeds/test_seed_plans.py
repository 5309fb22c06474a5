"""Suites written for the systems that came before plan unchanged; `examples/` holds them as they were written."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from paceline import plugins
from paceline.config import paths
from paceline.config.load import load
from paceline.model import RUN_DIR, Plan
from paceline.plan import make_plan, plan_errors

EXAMPLES = Path(__file__).parent / "examples"
SCRIPTS = (
    "alm_pipeline_benchmark.py",
    "common_crawl_benchmark.py",
    "my_benchmark.py",
    "my_script.py",
    "removal_benchmark.py",
    "test_benchmark.py",
)
FLAG = ("--benchmark-results-path", f"{RUN_DIR}/benchmark_results")
HOOK = {"SLACK_WEBHOOK_URL": "https://hooks.example/T1"}
MLFLOW = {"MLFLOW_TRACKING_URI": "http://your-mlflow:3569"}


class Repository:
    """A repository with `benchmarking/scripts`, as those suites expect it."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.benchmarking = top / "benchmarking"
        self.scripts = self.benchmarking / "scripts"
        (top / ".git").mkdir(parents=True)
        self.scripts.mkdir(parents=True)
        for name in SCRIPTS:
            (self.scripts / name).write_text("")
        shutil.copytree(EXAMPLES, self.benchmarking, dirs_exist_ok=True)

    def plan(
        self,
        *names: str,
        environ: Mapping[str, str] | None = None,
        datasets: str | None = None,
        sinks: Sequence[str] = (),
        session: str = "nightly",
    ) -> Plan:
        known = environ or {}
        paths = [self.benchmarking / name for name in names]
        file = self.benchmarking / datasets if datasets else None
        loaded = load(paths, datasets=file, sinks=sinks, environ=known)
        return make_plan(loaded, session=session, environ=known)

    def write(self, name: str, text: str) -> str:
        (self.benchmarking / name).write_text(text)
        return name

    def read(self, name: str) -> str:
        return (self.benchmarking / name).read_text()

    def program(self, script: str) -> tuple[str, str]:
        return sys.executable, str(self.scripts / script)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    monkeypatch.setattr(paths, "MARKERS", ())
    monkeypatch.chdir(tmp_path)
    return Repository(tmp_path / "Curator")


def test_every_example_is_used() -> None:
    source = Path(__file__).read_text()
    assert all(f'"{path.name}"' in source for path in EXAMPLES.iterdir())


@pytest.mark.parametrize("sink", ["none", "mlflow", "wandb"])
def test_removal_matrix(repository: Repository, sink: str) -> None:
    plan = repository.plan(
        "removal_matrix.yaml",
        datasets="dataset_paths.json",
        sinks=[sink],
        environ=MLFLOW,
        session="dedup_removal",
    )
    assert plan.directory == Path("/path/to/results/dedup_removal")
    assert plan.artifacts_dir == Path("/path/to/artifacts")
    (case,) = plan.cases
    assert case.name == "removal_curator_dedup_id_xenna"
    assert case.argv == (
        *repository.program("removal_benchmark.py"),
        "--input-path",
        "/path/to/cleaned_common_crawl/",
        "--ids-to-remove-path",
        "/path/to/duplicates",
        "--output-path",
        f"{RUN_DIR}/scratch",
        "--executor",
        "xenna",
        "--id-field",
        "_curator_dedup_id",
        "--files-per-partition",
        "1",
        "--max-files",
        "100",
        *FLAG,
    )
    assert case.timeout_s == 1800
    assert case.cluster == {"num_cpus": 128, "num_gpus": 0, "enable_object_spilling": False}
    assert [spec.type for spec in plan.sinks] == [name for name in [sink] if name != "none"]
    assert not plan_errors(plan)


def test_removal_matrix_tells_slack_when_its_webhook_is_known(repository: Repository) -> None:
    plan = repository.plan("removal_matrix.yaml", datasets="dataset_paths.json", environ=HOOK)
    assert [spec.type for spec in plan.sinks] == ["slack"]
    assert HOOK["SLACK_WEBHOOK_URL"] in plan.secret_values


def test_mlflow_without_its_variable_blocks_the_sink_alone(repository: Repository) -> None:
    plan = repository.plan("removal_matrix.yaml", datasets="dataset_paths.json", sinks=["mlflow"])
    assert plan.cases[0].blocked is None
    assert plan.sinks[0].blocked == "environment variable MLFLOW_TRACKING_URI is not set"
    assert len(plan_errors(plan)) == 1


def test_anchors(repository: Repository) -> None:
    scripts = repository.write("scripts.yaml", "defaults: {script: removal_benchmark.py}\n")
    plan = repository.plan("anchors.yaml", scripts)
    assert [(case.name, case.argv[2:-2], case.cluster) for case in plan.cases] == [
        ("test_small", ("--max-files", "10"), {"num_cpus": 128, "num_gpus": 0}),
        ("test_large", ("--max-files", "1000"), {"num_cpus": 128, "num_gpus": 0}),
    ]


@pytest.mark.parametrize(
    ("example", "name", "iterations", "directory"),
    [
        ("first_benchmark.yaml", "test_benchmark", "100", "/benchmarking/results"),
        ("simple.yaml", "quick_test", "50", "./results"),
    ],
)
def test_smallest(repository: Repository, example: str, name: str, iterations: str, directory: str) -> None:
    plan = repository.plan(example)
    (case,) = plan.cases
    assert case.name == name
    assert case.argv == (*repository.program("test_benchmark.py"), "--iterations", iterations, *FLAG)
    assert case.timeout_s == 300
    assert plan.directory == Path(directory).absolute() / "nightly"
    assert plan.warnings == ()


def test_one_entry(repository: Repository) -> None:
    listed = "".join(f"  {line}\n" for line in repository.read("one_entry.yaml").splitlines())
    (case,) = repository.plan(repository.write("whole.yaml", f"entries:\n{listed}")).cases
    assert case.name == "cc_benchmark"
    assert case.argv[2:] == ("--url_limit", "100", "--executor", "ray_data", *FLAG)
    assert case.cluster == {"num_cpus": 64, "num_gpus": 1}


def test_structure(repository: Repository) -> None:
    hook = {"SLACK_WEBHOOK_URL": "https://hooks.example/services/T1"}
    plan = repository.plan("structure.yaml", environ=hook | MLFLOW)
    (case,) = plan.cases
    assert case.argv[2:-2] == ("--input", "/data/cc_sample.parquet", "--output", f"{RUN_DIR}/output")
    assert (case.timeout_s, case.delete_scratch) == (1800, False)
    assert [spec.name for spec in plan.sinks] == ["mlflow", "slack"]
    assert not plan_errors(plan)
    # The path of a webhook is its secret; the address of MLflow is none.
    assert plan.secret_values == ("services/T1",)


def test_structure_without_variables_runs_its_entry(repository: Repository) -> None:
    plan = repository.plan("structure.yaml")
    assert plan.cases[0].blocked is None
    assert all(spec.blocked for spec in plan.sinks)
    assert len(plan_errors(plan)) == 2


def test_home(repository: Repository) -> None:
    plan = repository.plan("simple.yaml", "home.yaml", environ=HOOK | {"HOME": "/home/me"})
    assert plan.directory == Path("/home/me/benchmarks/results/nightly")
    assert plan.sinks[0].options == {"webhook_url": HOOK["SLACK_WEBHOOK_URL"]}


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        ("args_dataset.yaml", ("--input", "/data/cc_sample.parquet")),
        ("args_output.yaml", ("--output", f"{RUN_DIR}/results")),
    ],
)
def test_arguments(repository: Repository, example: str, expected: tuple[str, ...]) -> None:
    only_args = repository.write(
        "more.yaml", f"entries:\n  - name: my_benchmark\n    {repository.read(example)}"
    )
    (case,) = repository.plan("structure.yaml", only_args).cases
    assert case.argv[2:-2] == expected


def test_script_base_dir(repository: Repository, tmp_path: Path) -> None:
    custom = tmp_path / "custom"
    custom.mkdir()
    (custom / "my_benchmark.py").write_text("")
    text = repository.read("script_base_dir.yaml").replace("/custom/path", str(custom))
    (case,) = repository.plan(repository.write("custom.yaml", text)).cases
    assert case.argv[1] == str(custom / "my_benchmark.py")


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        ("sink_mlflow.yaml", {"tracking_uri": "http://mlflow-server:5000", "experiment": "my-experiment"}),
        ("sink_slack.yaml", {"webhook_url": "https://hooks.slack.com/services/YOUR/WEBHOOK/URL"}),
        ("sink_custom.yaml", {"api_endpoint": "https://api.example.com/benchmarks"}),
        ("sink_gdrive.yaml", None),
        ("slack_off.yaml", None),
    ],
)
def test_sinks(
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
    example: str,
    expected: dict[str, str] | None,
) -> None:
    # A sink of one's own is registered by the package that brings it.
    known = plugins.names("sinks")
    monkeypatch.setattr(plugins, "names", lambda group: (*known, "my_custom"))
    plan = repository.plan("simple.yaml", example)
    assert [spec.options for spec in plan.sinks] == [options for options in [expected] if options]
    assert not plan_errors(plan)


def test_a_webhook_that_is_written_out_is_a_secret(repository: Repository) -> None:
    plan = repository.plan("simple.yaml", "sink_slack.yaml")
    assert "services/YOUR/WEBHOOK/URL" in plan.secret_values


def test_directories(repository: Repository) -> None:
    plan = repository.plan("structure.yaml", "directories.yaml")
    assert plan.directory == Path("/benchmarking/results/nightly")
    assert plan.artifacts_dir == Path("/benchmarking/artifacts")


def test_datasets(repository: Repository) -> None:
    plan = repository.plan("datasets.yaml")
    assert [(case.name, case.argv[2:-2]) for case in plan.cases] == [
        ("benchmark_v1", ("--input", "/data/sample.parquet", "--algorithm", "v1")),
        ("benchmark_v2", ("--input", "/data/sample.parquet", "--algorithm", "v2")),
    ]


def test_production(repository: Repository) -> None:
    plan = repository.plan("production.yaml", environ=HOOK)
    (case,) = plan.cases
    assert case.argv[2:-2] == (
        "--download_path",
        f"{RUN_DIR}/scratch/downloads",
        "--output_path",
        f"{RUN_DIR}/scratch/output",
        "--output_format",
        "parquet",
        "--url_limit",
        "10000",
    )
    assert case.timeout_s == 14400
    assert case.cluster == {"num_cpus": 128, "num_gpus": 8}


def test_audio_pipeline(repository: Repository) -> None:
    plan = repository.plan("alm.yaml", "slack_off.yaml")
    (case,) = plan.cases
    manifest = repository.top / "tests" / "fixtures" / "audio" / "alm" / "sample_input.jsonl"
    assert case.argv[:4] == (
        *repository.program("alm_pipeline_benchmark.py"),
        f"--benchmark-results-path={RUN_DIR}",
        f"--input-manifest={manifest}",
    )
    assert case.argv[-1] == "--repeat-factor=2000"
    assert case.results_path == RUN_DIR
    assert [(one.metric, one.kind, one.bound) for one in case.requirements] == [
        ("is_success", "exact_value", True),
        ("total_builder_windows", "min_value", 1),
        ("total_filtered_windows", "min_value", 1),
    ]


def test_three_files_and_a_session_name(repository: Repository) -> None:
    paths = repository.write("paths.yaml", "results_dir: /fast/results\n")
    machine = repository.write("machine_specific.yaml", "entries: [{name: quick_test, timeout_s: 900}]\n")
    plan = repository.plan("simple.yaml", paths, machine, session="my-experiment-v2")
    assert plan.directory == Path("/fast/results/my-experiment-v2")
    assert plan.cases[0].timeout_s == 900
