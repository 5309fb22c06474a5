"""Suites as they were written for the systems that came before load unchanged."""

from pathlib import Path

import pytest

from config.config_files import ConfigFiles
from paceline.config import paths

MATRIX = """\
# Example: removal_benchmark_matrix.yaml
default_timeout_s: 3600
results_dir: /path/to/results
artifacts_dir: /path/to/artifacts

# MLflow configuration
mlflow:
  tracking_uri: ${MLFLOW_TRACKING_URI}
  experiment: ray-curator-removal

# Optional Slack notifications
slack:
  webhook_env: SLACK_WEBHOOK_URL

entries:
  - name: removal_curator_dedup_id_xenna
    script: removal_benchmark.py
    args: >-
      --input-path {dataset:cleaned_cc,jsonl}
      --ids-to-remove-path /path/to/duplicates
      --output-path {session}/scratch
      --executor xenna
      --id-field _curator_dedup_id
      --files-per-partition 1
      --max-files 100
    timeout_s: 1800
    ray:
      num_cpus: 128
      num_gpus: 0
      enable_object_spilling: false
"""

DATASET_PATHS = """\
{
  "cleaned_cc": {
    "jsonl": "/path/to/cleaned_common_crawl/",
    "parquet": "/path/to/cleaned_common_crawl_parquet/"
  },
  "another_dataset": {
    "jsonl": "/path/to/other/data/"
  }
}
"""

ANCHORS = """\
# Define reusable configs
ray_config: &default_ray
  num_cpus: 128
  num_gpus: 0

entries:
  - name: test_small
    ray: *default_ray
    args: --max-files 10

  - name: test_large
    ray: *default_ray
    args: --max-files 1000
"""

STRUCTURE = """\
results_dir: "/path/to/results"
artifacts_dir: "/path/to/artifacts"
default_timeout_s: 7200
delete_scratch: true
sinks:
  - name: mlflow
    tracking_uri: ${MLFLOW_TRACKING_URI}
    experiment: my-experiment
    enabled: true
  - name: slack
    webhook_url: ${SLACK_WEBHOOK_URL}
    enabled: true
datasets:
  - name: common_crawl
    formats:
      - type: json
        path: /data/cc_sample.jsonl
      - type: parquet
        path: /data/cc_sample.parquet
entries:
  - name: my_benchmark
    script: my_script.py
    script_base_dir: /custom/path
    args: >-
      --input {dataset:common_crawl,parquet}
      --output {session_entry_dir}/output
    timeout_s: 1800
    ray:
      num_cpus: 32
      num_gpus: 1
    delete_scratch: false  # Override global setting
"""

ALM = """\
entries:
  - name: alm_pipeline_xenna
    script: alm_pipeline_benchmark.py
    args: >-
      --benchmark-results-path={session_entry_dir}
      --input-manifest={curator_repo_dir}/tests/fixtures/audio/alm/sample_input.jsonl
      --executor=xenna
      --repeat-factor=2000
    requirements:
      - metric: is_success
        exact_value: true
      - metric: total_builder_windows
        min_value: 1
      - metric: total_filtered_windows
        min_value: 1
"""

NO_SLACK = """\
sinks:
  - name: slack
    enabled: false   # <-- change from true to false
    live_updates: true
    channel_id: ${SLACK_CHANNEL_ID}
    default_metrics: ["exec_time_s"]
"""

NIGHTLY = """\
paths:
  - name: results_path
    host_path: /srv/results
    container_path: /MOUNT/results
  - name: datasets_path
    host_path: ${HOME}/datasets
default_timeout_s: 7200
max_timeout_s: 14340
cleanup_timeout_s: 600
min_timeout_s: 1800
object_store_size: 0.5
gpu_mem_use_warning_threshold: 0.1
viewer_url_template: https://viewer.example/{session_name_url}
run_reason: nightly
gpu_stats_recorder:
  interval_s: 2.0
ray:
  num_cpus: 64
  enable_object_spilling: false
datasets:
  - name: arxiv
    formats:
      - type: tar
        path: "{datasets_path}/arxiv"
data_setups:
  - name: fetch
    script: fetch.py
    args: --out {datasets_path}
    timeout_s: 20000
entries:
  - name: arxiv_e2e
    enabled: true
    script: arxiv.py
    args: >-
      --input {dataset:arxiv,tar}
      --json '{"a": {"b": [1, 2]}}'
    sink_data:
      - name: slack
        additional_metrics: [num_documents]
        ping_on_failure: [U123]
    object_store_size: default
    requirements:
      - metric: throughput
        min_value: 0.2
        max_value: 5
"""


@pytest.fixture(autouse=True)
def _on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "MARKERS", ())


def test_matrix_and_dataset_file(files: ConfigFiles, tmp_path: Path) -> None:
    (tmp_path / "dataset_paths.json").write_text(DATASET_PATHS)
    loaded = files.load(MATRIX, datasets=tmp_path / "dataset_paths.json")
    (entry,) = loaded.config.entries
    ray = loaded.config.ray_for(entry)
    assert ray is not None
    assert (ray.num_cpus, ray.num_gpus, ray.enable_object_spilling) == (128, 0, False)
    assert isinstance(entry.args, str)
    assert entry.args.startswith("--input-path {dataset:cleaned_cc,jsonl} --ids-to-remove-path ")
    assert [dataset.name for dataset in loaded.config.datasets] == ["cleaned_cc", "another_dataset"]
    assert loaded.config.sinks == [], "no --sink, no webhook: the variables are not needed"


@pytest.mark.parametrize(("sink", "names"), [("mlflow", ["mlflow"]), ("wandb", ["wandb"]), ("none", [])])
def test_matrix_with_a_sink(files: ConfigFiles, sink: str, names: list[str]) -> None:
    loaded = files.load(MATRIX, sinks=[sink], environ={"MLFLOW_TRACKING_URI": "http://your-mlflow:3569"})
    assert [one.name for one in loaded.config.sinks] == names
    assert not loaded.unset


def test_anchors_at_the_top(files: ConfigFiles) -> None:
    scripts = "entries: [{name: test_small, script: s.py}, {name: test_large, script: s.py}]\n"
    for texts in ((ANCHORS, scripts), (ANCHORS, "defaults: {script: s.py}\n")):
        loaded = files.load(*texts)
        assert [entry.ray.num_cpus for entry in loaded.config.entries if entry.ray] == [128, 128]
        assert loaded.warnings == ()


def test_structure(files: ConfigFiles) -> None:
    environ = {"MLFLOW_TRACKING_URI": "http://m", "SLACK_WEBHOOK_URL": "https://s"}
    loaded = files.load(STRUCTURE, environ=environ)
    assert [(sink.name, sink.options) for sink in loaded.config.sinks] == [
        ("mlflow", {"tracking_uri": "http://m", "experiment": "my-experiment"}),
        ("slack", {"webhook_url": "https://s"}),
    ]
    assert loaded.used_variables_in_sinks == ("MLFLOW_TRACKING_URI", "SLACK_WEBHOOK_URL")
    assert loaded.config.entries[0].delete_scratch is False
    blocked = files.load(STRUCTURE)
    assert set(blocked.unset) == {("sinks", 0), ("sinks", 1)}


def test_home_in_a_path(files: ConfigFiles) -> None:
    text = 'results_dir: "${HOME}/benchmarks/results"\n' + ALM
    assert files.load(text, environ={"HOME": "/home/me"}).config.results_dir == "/home/me/benchmarks/results"


def test_several_files(files: ConfigFiles) -> None:
    machine = (
        "results_dir: ./results\ndatasets: [{name: common_crawl, formats: [{type: json, path: /here}]}]\n"
    )
    config = files.load(STRUCTURE, machine, NO_SLACK, environ={"MLFLOW_TRACKING_URI": "u"}).config
    assert config.results_dir == "./results"
    assert [one.path for one in config.datasets[0].formats] == ["/here", "/data/cc_sample.parquet"]
    assert [sink.name for sink in config.sinks] == ["mlflow"]


def test_audio_pipeline_without_slack(files: ConfigFiles) -> None:
    loaded = files.load(ALM, NO_SLACK)
    assert loaded.config.sinks == []
    assert not loaded.unset
    assert [
        (item.metric, item.exact_value, item.min_value) for item in loaded.config.entries[0].requirements
    ] == [
        ("is_success", True, None),
        ("total_builder_windows", None, 1),
        ("total_filtered_windows", None, 1),
    ]


def test_nightly(files: ConfigFiles) -> None:
    loaded = files.load(NIGHTLY)
    config = loaded.config
    assert config.results_dir == "/srv/results"
    assert not loaded.warnings
    assert not loaded.unset, "a path's variable is looked up where the path is used"
    (entry,) = config.entries
    assert (entry.object_store_size, config.object_store_size) == ("default", 0.5)
    assert entry.sink_data[0].options == {
        "additional_metrics": ["num_documents"],
        "ping_on_failure": ["U123"],
    }
    assert config.data_setups[0].timeout_s == 20000


def test_an_empty_google_drive_sink_is_off(files: ConfigFiles) -> None:
    assert files.load(ALM + "sinks:\n  - name: gdrive\n    enabled: false\n").config.sinks == []
