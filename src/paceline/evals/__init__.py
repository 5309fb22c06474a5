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

__all__ = [
    "AdapterConfig",
    "AdaptiveSamplingConfig",
    "AttentionConfig",
    "BenchmarkConfig",
    "BenchmarkStub",
    "DenseConfig",
    "HashAttentionConfig",
    "LocalMaskerConfig",
    "MaskerConfig",
    "ModelConfig",
    "OracleTopKConfig",
    "OracleTopPConfig",
    "QuestConfig",
    "RandomSamplingConfig",
    "SinkMaskerConfig",
    "SparseAttentionConfig",
    "StreamingConfig",
]
