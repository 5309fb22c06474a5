"""Command lines and files written for the frameworks we grew out of run as they are."""

import json
import re
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import pytest

from workplace import Workplace

SCRIPT = """
#!/usr/bin/env python3
import argparse, json, pickle
from pathlib import Path

def write_results(results, output_path):
    Path(output_path).mkdir(parents=True, exist_ok=True)
    for name in ("params", "metrics"):
        with open(f"{output_path}/{name}.json", "w") as f:
            json.dump(results[name], f, indent=2)
    with open(f"{output_path}/tasks.pkl", "wb") as f:
        pickle.dump(results["tasks"], f)

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--benchmark-results-path", required=True)
    for name in ("input-path", "ids-to-remove-path", "output-path", "executor", "id-field"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--files-per-partition", type=int)
    parser.add_argument("--max-files", type=int)
    args = parser.parse_args()
    Path(args.output_path, "removed.txt").write_text("x")
    metrics = {"is_success": True, "time_taken": 45.2, "num_removed": 87932, "num_output_tasks": 100}
    write_results({"params": vars(args), "metrics": metrics, "tasks": []}, args.benchmark_results_path)
    return 0

if __name__ == "__main__":
    raise SystemExit(main())
"""

MATRIX = """
default_timeout_s: 3600
results_dir: {results}
artifacts_dir: {artifacts}

mlflow:
  tracking_uri: ${{MLFLOW_TRACKING_URI}}
  experiment: ray-curator-removal

slack:
  webhook_env: SLACK_WEBHOOK_URL_FOR_TESTS

entries:
  - name: removal_curator_dedup_id_xenna
    script: removal_benchmark.py
    args: >-
      --input-path {{dataset:cleaned_cc,jsonl}}
      --ids-to-remove-path /path/to/duplicates
      --output-path {{session}}/scratch
      --executor xenna
      --id-field _curator_dedup_id
      --files-per-partition 1
      --max-files 100
    timeout_s: 1800
"""


def test_matrix_with_dataset_paths_and_no_sink(place: Workplace) -> None:
    place.write("scripts/removal_benchmark.py", SCRIPT.lstrip())
    results, artifacts = place.path / "results", place.path / "large"
    matrix = place.write("removal_benchmark_matrix.yaml", MATRIX.format(results=results, artifacts=artifacts))
    datasets = place.write(
        "dataset_paths.json",
        json.dumps(
            {"cleaned_cc": {"jsonl": "/path/to/cleaned cc/", "parquet": "/p"}, "other": {"jsonl": "/o"}}
        ),
    )
    done = place.run(
        *("run", "--matrix", matrix, "--datasets", datasets, "--sink", "none"),
        *("--session-name", "dedup_removal", "--log", "plain"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = place.record("dedup_removal", "removal_curator_dedup_id_xenna")
    assert record["metrics"]["num_removed"]["value"] == 87932
    assert record["params"]["input_path"] == "/path/to/cleaned cc/"
    assert record["params"]["max_files"] == 100
    entry = results / "dedup_removal/removal_curator_dedup_id_xenna"
    assert record["params"]["output_path"] == f"{entry}/scratch"
    assert {path.name for path in (entry / "benchmark_results").iterdir()} == {
        "params.json",
        "metrics.json",
        "tasks.pkl",
    }
    assert not (entry / "scratch").exists()
    lines = done.stdout.splitlines()
    assert lines[0] == "Started session dedup_removal..."
    assert "\tRunning removal_curator_dedup_id_xenna" in lines


def test_merged_configs_override_by_name(place: Workplace) -> None:
    place.write(
        "scripts/my_script.py",
        textwrap.dedent("""
            import argparse, json, pathlib
            parser = argparse.ArgumentParser()
            parser.add_argument("--benchmark-results-path", type=pathlib.Path, required=True)
            parser.add_argument("--input")
            parser.add_argument("--output")
            args = parser.parse_args()
            (args.benchmark_results_path / "metrics.json").write_text(json.dumps({"input_seen": args.input}))
        """),
    )
    place.write(
        "config.yaml",
        """
results_dir: "/nowhere/at/all"
default_timeout_s: 7200
delete_scratch: true
datasets:
  - name: common_crawl
    formats:
      - {type: json, path: /data/cc_sample.jsonl}
      - {type: parquet, path: /data/cc_sample.parquet}
entries:
  - name: my_benchmark
    script: my_script.py
    args: >-
      --input {dataset:common_crawl,parquet}
      --output {session_entry_dir}/output
    timeout_s: 1800
    delete_scratch: false
""",
    )
    place.write(
        "paths.yaml",
        """
results_dir: results
datasets:
  - name: common_crawl
    formats: [{type: parquet, path: "/big disk/cc.parquet"}]
""",
    )
    done = place.run(
        "run", "--config", "config.yaml", "--config", "paths.yaml", "--session-name", "my-experiment-v2"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = place.record("my-experiment-v2", "my_benchmark")
    assert record["metrics"]["input_seen"]["value"] == "/big disk/cc.parquet"
    entry = place.path / "results/my-experiment-v2/my_benchmark"
    assert record["command"][-1].endswith("benchmark_results") and f"{entry}/output" in record["command"]
    assert (entry / "scratch").is_dir()


def test_results_may_go_into_the_entry_directory_itself(place: Workplace) -> None:
    """The audio benchmark's entry passes `--benchmark-results-path={session_entry_dir}`."""
    place.write(
        "scripts/alm.py",
        "import pathlib, sys\n"
        "where = next(word.partition('=')[2] for word in sys.argv if word.startswith('--benchmark-results-path='))\n"
        'pathlib.Path(where, "metrics.json").write_text(\'{"is_success": true, "total_builder_windows": 181}\')\n',
    )
    place.write(
        "suite.yaml",
        """
entries:
  - name: alm_pipeline
    script: alm.py
    args: >-
      --benchmark-results-path={session_entry_dir}
      --input-manifest={curator_repo_dir}/tests/sample_input.jsonl
      --repeat-factor=2000
    requirements:
      - {metric: is_success, exact_value: true}
      - {metric: total_builder_windows, min_value: 1}
""",
    )
    done = place.run("run", "suite.yaml", "--session-name", "s")
    assert done.returncode == 0, done.stdout + done.stderr
    record = place.record("s", "alm_pipeline")
    assert f"--input-manifest={place.path}/tests/sample_input.jsonl" in record["command"]
    assert [check["ok"] for check in record["requirements"]] == [True, True]
    assert (place.path / "results/s/alm_pipeline/metrics.json").is_file()


def test_the_time_in_a_session_name_is_utc(place: Workplace) -> None:
    place.write("suite.yaml", "entries:\n  - {name: a, command: ['true']}\n")
    before = datetime.now(UTC).replace(microsecond=0)
    assert place.run("run", "--matrix", "suite.yaml", TZ="Pacific/Kiritimati").returncode == 0
    (name,) = (path.name for path in (place.path / "results").iterdir() if path.is_dir())
    named = datetime.strptime(name, "nightly-run-%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    assert before <= named <= datetime.now(UTC)


def test_a_selection_that_matches_nothing_is_an_error(place: Workplace) -> None:
    place.write("suite.yaml", "entries:\n  - {name: a, command: ['true']}\n")
    done = place.run("run", "suite.yaml", "--only", "b*")
    assert done.returncode == 2 and "b*" in done.stderr
    assert not (place.path / "results").exists()


def test_an_image_takes_the_options_of_a_run(place: Workplace) -> None:
    """`docker run IMAGE --config X`: what the image runs, with those words after it."""
    dockerfile = (Path(__file__).parents[2] / "docker/Dockerfile").read_text()
    (entry_point,) = re.findall(r"^ENTRYPOINT (.*)$", dockerfile, re.MULTILINE)
    assert json.loads(entry_point) == ["paceline"]
    place.write("suite.yaml", "entries:\n  - {name: a, command: ['true']}\n")
    for words in (["--config", "suite.yaml"], ["--session-name", "t", "--no-history", "--config=suite.yaml"]):
        done = place.run(*words)
        assert done.returncode == 0, done.stderr
        assert "1 passed of 1 case" in done.stdout
    assert (place.path / "results/t/a/record.json").is_file()
    assert place.run("--no-such-option", "--config", "suite.yaml").returncode == 2
    assert "Usage: paceline [OPTIONS] COMMAND" in place.run("--help").stdout


@pytest.mark.parametrize(
    ("word", "ours"),
    [
        ("--entries", "--only"),
        ("--list", "`paceline plan`"),
        ("--reason", "`run_reason:` in a configuration"),
    ],
)
def test_options_that_are_called_otherwise_here_are_named(place: Workplace, word: str, ours: str) -> None:
    place.write("suite.yaml", "entries:\n  - {name: a, command: ['true']}\n")
    for words in (["run", "suite.yaml", word, "a"], ["--config", "suite.yaml", word], ["plan", f"{word}=a"]):
        done = place.run(*words)
        assert done.returncode == 2
        assert f"No such option: {word}; use " in done.stderr and ours in done.stderr
    assert not (place.path / "results").exists()


def test_a_session_name_may_hold_the_time(place: Workplace) -> None:
    place.write("suite.yaml", "entries:\n  - {name: a, command: ['true']}\n")
    before = datetime.now(UTC).replace(microsecond=0)
    for _ in range(2):
        done = place.run("run", "--matrix", "suite.yaml", "--session-name", "night-{time}-x", "--no-history")
        assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in (place.path / "results").iterdir())
    assert len(names) == 2
    named = datetime.strptime(names[0], "night-%Y%m%d-%H%M%S-x").replace(tzinfo=UTC)
    assert before <= named <= datetime.now(UTC)


def test_what_a_session_printed_is_kept_beside_its_records(place: Workplace) -> None:
    place.write(
        "suite.yaml",
        "secrets: [MY_TOKEN]\nrun_reason: why\nentries:\n"
        '  - {name: a, command: [sh, -c, \'exit 3\', "${MY_TOKEN}", "x\\e[31my"]}\n'
        "  - {name: logs, command: ['true']}\n",
    )
    words = ("run", "suite.yaml", "--session-name", "s", "--no-history", "--log", "plain")
    done = place.run(*words, MY_TOKEN="planted-7f1a")
    assert done.returncode == 1, done.stderr
    log = place.path / "results/s/logs/console.log"
    first = log.read_text()
    kept, printed = (re.sub("cases in .*", "cases", text) for text in (first, done.stdout))
    assert kept == printed
    assert "❌ Run Failed" in done.stdout and "1 passed, 1 failed of 2 cases" in done.stdout
    assert "planted" not in first and "\x1b" not in first
    again = ("run", "suite.yaml", "--resume", "s", "--rerun-failed", "--quiet", "--no-history")
    printed = place.run(*again, MY_TOKEN="planted-7f1a").stdout
    added = log.read_text().removeprefix(first)
    assert added.startswith("Started session s...") and "Running command sh" in added
    assert "Running command sh" not in printed
