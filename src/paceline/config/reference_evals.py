"""What docs/config.md says of the `evals:` section: its parts, and an example of each."""

from pydantic import BaseModel

from paceline.config.evals import (
    Evals,
    EvalsAdapter,
    EvalsAttention,
    EvalsBenchmark,
    EvalsClocks,
    EvalsModel,
    EvalsRetry,
)

SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("Evals", Evals),
    ("Evals model", EvalsModel),
    ("Evals attention", EvalsAttention),
    ("Evals benchmark", EvalsBenchmark),
    ("Evals adapter", EvalsAdapter),
    ("Evals clocks", EvalsClocks),
    ("Evals retry", EvalsRetry),
)

SHORTHANDS = {
    "Evals.models": "list of names or [Evals model](#evals-model)",
    "Evals.attentions": "list of names or [Evals attention](#evals-attention)",
    "Evals.benchmarks": "list of names or [Evals benchmark](#evals-benchmark)",
}

EXAMPLES = {
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
