"""A configuration in the shape of NeMo Curator's nightly one: its entry on Xenna finds what it asks its cluster for."""

import importlib.util

import pytest

from workplace import Workplace

NIGHTLY = """
paths:
  - {name: datasets_path, host_path: data, container_path: data}
  - {name: results_path, host_path: results, container_path: results}
gpu_stats_recorder:
  interval_s: 1.0
datasets:
  - name: tinystories
    formats:
      - {type: jsonl, path: "{datasets_path}/tinystories"}
default_timeout_s: 7200
max_timeout_s: 14340
sinks:
  - name: slack
    enabled: false
    live_updates: true
    channel_id: ${SLACK_CHANNEL_ID}
    default_metrics: ["exec_time_s"]
delete_scratch: true
object_store_size: 80000000
entries:
  - name: alm_pipeline_xenna
    enabled: true
    script: alm_pipeline_benchmark.py
    args: >-
      --benchmark-results-path={session_entry_dir}
      --input-manifest={curator_repo_dir}/sample_input.jsonl
      --executor=xenna
    timeout_s: 600
    sink_data:
      - name: slack
        additional_metrics: [throughput_entries_per_sec]
        ping_on_failure: [U0]
    ray:
      num_cpus: 8
      num_gpus: 0
    requirements:
      - metric: actors
        min_value: 1
  - name: needs_more
    enabled: false
    script: no_such_script.py
"""

# What Xenna does before and during a pipeline: connect, and list all actors, by the limit that it sets itself.
SCRIPT = """
import argparse, json, os, pathlib
os.environ["RAY_MAX_LIMIT_FROM_API_SERVER"] = os.environ["RAY_MAX_LIMIT_FROM_DATA_SOURCE"] = "40000"
import ray, ray.util.state

parser = argparse.ArgumentParser()
for name in ("--benchmark-results-path", "--input-manifest", "--executor"):
    parser.add_argument(name, required=True)
args = parser.parse_args()
context = ray.init(include_dashboard=True, ignore_reinit_error=True, log_to_driver=False)

@ray.remote(num_cpus=0)
class Stage:
    def ready(self): return True

stage = Stage.remote()
assert ray.get(stage.ready.remote())
found = ray.util.state.list_actors(filters=[("state", "=", "ALIVE")], limit=40000)
cpus = ray.cluster_resources()["CPU"]
out = pathlib.Path(args.benchmark_results_path)
(out / "metrics.json").write_text(json.dumps({"is_success": True, "actors": len(found), "cpus": cpus}))
(out / "params.json").write_text(json.dumps({"lines": pathlib.Path(args.input_manifest).read_text().count("\\n")}))
"""


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed")
def test_an_entry_on_xenna_finds_the_api_that_it_asks(place: Workplace) -> None:
    place.write("nightly-benchmark.yaml", NIGHTLY)
    place.write("scripts/alm_pipeline_benchmark.py", SCRIPT)
    place.write("sample_input.jsonl", "{}\n")
    plan = place.run("plan", "nightly-benchmark.yaml")
    assert plan.returncode == 0, plan.stderr
    done = place.run("run", "nightly-benchmark.yaml", "--session-name", "s", "--no-history")
    assert done.returncode == 0, done.stdout + done.stderr
    record = place.record("s", "alm_pipeline_xenna")
    assert record["metrics"]["actors"]["value"] == 1
    assert record["metrics"]["cpus"]["value"] == 8
    assert record["params"]["lines"] == 1
