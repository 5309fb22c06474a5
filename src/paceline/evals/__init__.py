"""Models × attentions × benchmarks on a pool of GPUs: resumable, and safe against what goes wrong on the way."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.evals.attention_config import (
        AdaptiveSamplingConfig,
        AttentionConfig,
        DenseConfig,
        HashAttentionConfig,
        LocalMaskerConfig,
        MaskerConfig,
        OracleTopKConfig,
        OracleTopPConfig,
        QuestConfig,
        RandomSamplingConfig,
        SinkMaskerConfig,
        SparseAttentionConfig,
        StreamingConfig,
    )
    from paceline.evals.comparison import Comparison, compare
    from paceline.evals.configs import AdapterConfig, BenchmarkConfig, BenchmarkStub, ModelConfig
    from paceline.evals.executor import BenchmarkExecutor, ExecutorOptions
    from paceline.evals.jobs import Clocks, RetryPolicy
    from paceline.evals.planning import Matrix
    from paceline.evals.results import BenchmarkFailure, BenchmarkResult, ExecutionProgress, ExecutionResults
    from paceline.evals.table import load_results

# Module → its public names. Loaded when asked for: a worker needs few of them, and starts the sooner.
_HOMES = {
    "attention_config": (
        "AdaptiveSamplingConfig",
        "AttentionConfig",
        "DenseConfig",
        "HashAttentionConfig",
        "LocalMaskerConfig",
        "MaskerConfig",
        "OracleTopKConfig",
        "OracleTopPConfig",
        "QuestConfig",
        "RandomSamplingConfig",
        "SinkMaskerConfig",
        "SparseAttentionConfig",
        "StreamingConfig",
    ),
    "comparison": ("Comparison", "compare"),
    "configs": ("AdapterConfig", "BenchmarkConfig", "BenchmarkStub", "ModelConfig"),
    "executor": ("BenchmarkExecutor", "ExecutorOptions"),
    "jobs": ("Clocks", "RetryPolicy"),
    "planning": ("Matrix",),
    "results": ("BenchmarkFailure", "BenchmarkResult", "ExecutionProgress", "ExecutionResults"),
    "table": ("load_results",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AdapterConfig",
    "AdaptiveSamplingConfig",
    "AttentionConfig",
    "BenchmarkConfig",
    "BenchmarkExecutor",
    "BenchmarkFailure",
    "BenchmarkResult",
    "BenchmarkStub",
    "Clocks",
    "Comparison",
    "DenseConfig",
    "ExecutionProgress",
    "ExecutionResults",
    "ExecutorOptions",
    "HashAttentionConfig",
    "LocalMaskerConfig",
    "MaskerConfig",
    "Matrix",
    "ModelConfig",
    "OracleTopKConfig",
    "OracleTopPConfig",
    "QuestConfig",
    "RandomSamplingConfig",
    "RetryPolicy",
    "SinkMaskerConfig",
    "SparseAttentionConfig",
    "StreamingConfig",
    "compare",
    "load_results",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
