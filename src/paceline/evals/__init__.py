"""Models × attentions × benchmarks on a pool of GPUs: resumable, and safe against what goes wrong on the way."""

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
from paceline.evals.configs import AdapterConfig, BenchmarkConfig, BenchmarkStub, ModelConfig
from paceline.evals.executor import BenchmarkExecutor, ExecutorOptions
from paceline.evals.faults import Clocks, RetryPolicy
from paceline.evals.planning import Matrix
from paceline.evals.progress import ExecutionProgress
from paceline.evals.results import BenchmarkFailure, BenchmarkResult, ExecutionResults

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
]
