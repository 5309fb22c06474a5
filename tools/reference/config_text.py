"""What docs/config.md says besides the tables, and an example for every table; a test loads each of them."""

SHORTHANDS = {
    "WholeConfig.datasets": "list of [Dataset](#dataset), or mapping",
    "WholeConfig.object_store_size": "number or string",
    "Entry.requirements": "list of [Requirement](#requirement), or mapping",
    "Entry.sink_data": "list of [Sink data](#sink-data), or mapping",
    "Entry.object_store_size": "number or string",
    "WholeConfig.pool": "`ray` or [Pool](#pool)",
    "Requirement.tolerance": "number ≥ 0 or percentage",
    "Requirement.max_regression": "number ≥ 0 or percentage",
    "Evals.models": "list of names or [Evals model](#evals-model)",
    "Evals.attentions": "list of names or [Evals attention](#evals-attention)",
    "Evals.benchmarks": "list of names or [Evals benchmark](#evals-benchmark)",
}

INTRODUCTION = """\
# Configuration

<!-- Made by `make reference`; do not edit. -->

A suite is one or more YAML or JSON files. `paceline plan` shows what they come to, `paceline plan --explain` which file
and line set each value, and `paceline schema config` prints a JSON Schema for your editor.

```yaml
results_dir: results
entries:
  - name: sort_small
    script: sort.py
    args: --rows 1000
    timeout_s: 300
    requirements:
      is_success: {exact_value: true}
      rows_per_s: {min_value: 50000, tolerance: 5%}
```

Files are UTF-8 and follow YAML 1.2: `true` and `false` are the only booleans (`no` is a string), `010` is 10 and `1e3`
is a number. Anchors, aliases and the merge key `<<` work. A key that is written twice is an error, and so is an unknown
key, unless it is at the top and begins with `x-`, or its value carries an anchor that others refer to.

All mistakes of all files are told at once, each as `file:line: path: message`.

## Several files

Files are merged in the order in which they are given; the documents of one file likewise. Later ones win:

| what | becomes |
|---|---|
| mapping over mapping | merged key by key |
| list of mappings over another | items with the same `name` (else `metric`, else `type`) are merged, others are added |
| any other list over a list, or an empty one | replaced |
| `!replace` before a list or a mapping | replaced as a whole |
| `!append` before a list | its items are added; what was there must be a list, too |
| `null` | the key is unset; what it held is forgotten |
| a scalar | replaced |

```yaml
entries:
  - name: sort_small                       # the entry of an earlier file
    timeout_s: 60
    requirements:
      - metric: is_success
        exact_value: null                  # not this bound any more,
        min_value: 1                       # but this one
    tags: !append [slow]
sinks: !replace []
```

`enabled: false` leaves an entry, a data set-up or a sink out. `defaults` is laid under every entry as an earlier file
would be.

## Variables

`${VAR}` is the value of an environment variable, `${VAR:-default}` has a default and `${VAR:?message}` a message for
when it is not set (or empty); `$$` is a dollar. An unquoted value is read as YAML once its variables are in, so that
`timeout_s: ${T}` is a number. In quotes, as JSON demands them, `"${T}"` is a number too where the key takes no string,
if the variable stands alone. A variable that is not set never becomes an empty string: in an entry, a data set-up or
a sink it blocks that one, in a dataset or a path the entries that use it, and anywhere else it is an error. Variables
of what is disabled are not looked up.

## Placeholders

In `args`, `command`, `script`, `interpreter`, `cwd`, `script_base_dir` and `env`, in the paths of `datasets` and
`paths`, and in `results_dir` and `artifacts_dir`, placeholders work too. `{{name}}` is `{name}` itself, and other
braces are left alone. What a variable or a placeholder puts in is never split into words.
"""

PLACEHOLDERS = {
    "session_entry_dir": "The directory of this run; `{session}` is the same.",
    "session": "The directory of this run, by the name it had before.",
    "benchmark_results_path": "Where the run leaves its results: `benchmark_results` in its directory, or what "
    "`--benchmark-results-path` in `args` says.",
    "scratch_dir": "The directory of this run for what is not kept.",
    "session_dir": "The directory of the whole session.",
    "session_name": "The name of the session.",
    "results_dir": "Where sessions are written; for an object store, the directory on this machine.",
    "artifacts_dir": "Where logs and scratch data go; `artifacts` in the results directory by default.",
    "python": "The Python that runs paceline.",
    "config_dir": "The directory of the file that the placeholder is written in.",
    "repo_dir": "The top of the git working tree around that directory, else, with a warning, the directory itself.",
    "curator_repo_dir": "The same as `{repo_dir}`.",
    "dataset:name,format": "The path of a [dataset](#dataset) in one of its formats.",
    "matrix.axis": "The value of an axis of the entry's [matrix](#matrix).",
    "needs:name": "The directory of a case or data set-up that the entry lists in `needs`.",
    "name of a path": "The directory of that item of [`paths`](#path).",
}
"""All placeholders; those after `curator_repo_dir` are patterns."""

PLACES = """\
Of these, `results_dir` and `artifacts_dir` take only those that do not depend on the session. They are relative to the
directory in which paceline runs; `script`, `script_base_dir` and `cwd` to the file that they are written in. A `~` at
the start of one of these directories, of a dataset's path or of an item of `paths` is the home directory. Paths are
written without `..`, so that a suite is the same from wherever it is run.

In a container an item of `paths` is its `container_path`. One that has none is `/MOUNT/<host_path>` if the container
has a directory `/MOUNT`, and `host_path` itself if it has not.

A session that is resumed runs a case again when anything that decides its result has changed: its command, environment
and settings, the content of its script or of the program file that `command` names by a path, or any case that it
`needs`.
"""

EXAMPLES = {
    "WholeConfig": """
results_dir: ${HOME}/benchmarks
default_timeout_s: 3600
run_reason: nightly
datasets:
  reviews:
    parquet: /data/reviews.parquet
entries:
  - name: count_words
    script: count_words.py
    args: --input {dataset:reviews,parquet}
x-note: keys that begin with x- are ignored
""",
    "Entry": """
entries:
  - name: tokenize
    command: [./tokenize, --threads, 8]
    env: {OMP_NUM_THREADS: 8}
    repeat: 5
    warmup: 1
    tags: [text, nightly]
    resources: {cpus: 8, exclusive: true}
  - name: train
    script: train.py
    args: --tokens {session_entry_dir}/../tokenize
    needs: [tokenize]
""",
    "Requirement": """
entries:
  - name: dedup
    script: dedup.py
    requirements:
      - metric: is_success
        exact_value: true
      - metric: exec_time_s
        max_value: 120
        tolerance: 10%
        severity: warn
      - metric: throughput_mb_per_s
        max_regression: 5%
""",
    "MetricMeaning": """
metrics:
  quality: {direction: higher, label: mean quality}
entries:
  - name: dedup
    script: dedup.py
    metrics:
      leftover: {unit: documents, direction: lower}
      "cache_*": {direction: lower}
""",
    "Matrix": """
entries:
  - name: sort
    script: sort.py
    args: --algorithm {matrix.algorithm} --rows {matrix.rows}
    matrix:
      algorithm: [quick, merge]
      rows: [1000, 1000000]
      exclude:
        - {algorithm: merge, rows: 1000000}
      include:
        - {algorithm: radix, rows: 1000}
""",
    "RayOptions": """
ray:
  num_cpus: 16
entries:
  - name: shuffle
    script: shuffle.py
    ray:
      num_gpus: 0
      object_store_memory: 8GiB
""",
    "ResourcesOptions": """
entries:
  - name: embed
    script: embed.py
    resources: {cpus: 4, gpus: 1, memory: 16GiB}
""",
    "PoolOptions": """
pool:
  address: ray-head.example:6379
  exclude: ["*.parquet"]
entries:
  - name: embed
    script: embed.py
    resources: {cpus: 4, gpus: 1, labels: {accelerator: A100}}
  - name: sort
    script: sort.py
    resources: {exclusive: true}           # nothing else of the session on its node
""",
    "LimitsOptions": """
entries:
  - name: parse
    script: parse.py
    limits: {processes: 64, memory: 8GiB}
""",
    "DataSetup": """
data_setups:
  - name: download
    script: download.py
    args: --to /data
entries:
  - name: read
    script: read.py
""",
    "Dataset": """
datasets:
  - name: reviews
    formats:
      - {type: jsonl, path: /data/reviews.jsonl}
      - {type: parquet, path: /data/reviews.parquet}
entries:
  - name: read
    script: read.py
    args: --input {dataset:reviews,jsonl}
""",
    "DatasetFormat": """
datasets:
  reviews: {jsonl: "${DATA:-/data}/reviews.jsonl"}     # the short form
entries:
  - name: read
    script: read.py
    args: --input {dataset:reviews,jsonl}
""",
    "PathItem": """
paths:
  - {name: results_path, host_path: /srv/results, container_path: /results}
  - {name: models, host_path: /srv/models}
entries:
  - name: load
    script: load.py
    args: --model {models}/small.bin
""",
    "Sink": """
sinks:
  - name: mlflow
    tracking_uri: http://localhost:5000
    experiment: nightly
  - name: alerts
    type: my_package.sinks:Webhook
    url: https://example.com/hook
    required: true
entries:
  - name: read
    script: read.py
""",
    "SinkData": """
entries:
  - name: read
    script: read.py
    sink_data:
      - name: slack
        additional_metrics: [rows_per_s]
""",
    "GpuStatsRecorder": """
gpu_stats_recorder: {interval_s: 0.5}
entries:
  - name: embed
    script: embed.py
""",
    "History": """
history: {url: sqlite:///benchmarks.db}
entries:
  - name: read
    script: read.py
""",
    "Nightly": """
nightly:
  repo: ../library
  ref: main
  setup: make build
  metrics: ["*_s", peak_memory_bytes]
  budget: 2h
entries:
  - name: read
    script: read.py
""",
    "Evals": """
evals:
  models: [meta-llama/Llama-3.1-8B-Instruct]
  attentions: [dense, streaming]
  benchmarks: [mock_benchmark]
  gpu_ids: [0, 1]
  max_concurrent_runs: 4
  generation_kwargs: {max_new_tokens: 256}
""",
    "EvalsModel": """
evals:
  models:
    - name: meta-llama/Llama-3.1-8B-Instruct
      revision: 0e9e39f249a16976918f6564b8830bc894c89659
      memory: 17GiB
  benchmarks: [mock_benchmark]
""",
    "EvalsAttention": """
evals:
  models: [small]
  attentions:
    - dense
    - name: sink_local
      maskers:
        - {kind: sink, sink_size: 4}
        - {kind: local, window_size: 0.1}
  benchmarks: [mock_benchmark]
""",
    "EvalsBenchmark": """
evals:
  models: [small]
  benchmarks:
    - name: mock_benchmark
      subsets: [reading_comprehension]
      params: {repeat: 4}
""",
    "EvalsAdapter": """
evals:
  models: [small]
  benchmarks: [mock_benchmark]
  adapter:
    name: huggingface
    model_kwargs: {torch_dtype: bfloat16}
    tokenizer_kwargs: {padding_side: left}
""",
    "EvalsEarlyStop": """
evals:
  models: [small]
  attentions: [dense, streaming]
  benchmarks: [mock_benchmark]
  early_stop: {baseline: dense, looks: 5}
""",
    "EvalsClocks": """
evals:
  models: [small]
  benchmarks: [mock_benchmark]
  clocks: {startup_timeout_s: 1800, stall_timeout_s: 600}
""",
    "EvalsRetry": """
evals:
  models: [small]
  benchmarks: [mock_benchmark]
  retry: {crash: 5, network: 10}
""",
}
