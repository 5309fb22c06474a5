"""Which keys a query may look at: one small frozen class a masker, and the list of them that makes an attention.

Nothing here needs torch: a plan with any attention can be made, keyed and stored on a machine without it. What carries
a masker out is registered under its `kind` in the entry point group `paceline.eval_maskers`.

A size is a number of tokens (`int`, at least 1) or a share of all keys (`float`, over 0 and at most 1); a share never
becomes no token at all.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from paceline import plugins
from paceline.errors import PacelineError
from paceline.model import is_number

Size = int | float
_COUNTS = frozenset({"bits", "page_size"})


class AttentionError(PacelineError):
    """An attention that cannot be: a size that is none, an unknown masker, two samplers."""


def size_in_tokens(size: Size, keys: int) -> int:
    """How many of so many keys a size stands for; at least one, at most all."""
    wanted = math.ceil(size * keys) if isinstance(size, float) else size
    return max(1, min(wanted, keys))


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskerConfig:
    """One rule for keys to keep. A rule of your own is a frozen dataclass that inherits from this one.

    `kind` is its name in files and in the registry; `samples` marks rules that keep keys by chance and weigh them.
    """

    kind: ClassVar[str] = ""
    samples: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(self, field)

    def content(self) -> dict[str, Any]:
        """All that decides what it does: its kind, its parameters, the hash of each file it reads."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        hashes = {f"{name}_sha256": _file_sha256(values[name]) for name in self.files()}
        return {"kind": kind_of(type(self)), **values, **hashes}

    def files(self) -> tuple[str, ...]:
        """The names of those parameters that are paths of files and are set."""
        return ()


def kind_of(config: type[MaskerConfig]) -> str:
    """The name of a masker's class in files: its kind, or the import path of a foreign class without one."""
    return config.kind or f"{config.__module__}:{config.__qualname__}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseConfig(MaskerConfig):
    """Every key: the same as no attention configuration at all."""

    kind: ClassVar[str] = "dense"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkMaskerConfig(MaskerConfig):
    """The first keys."""

    kind: ClassVar[str] = "sink"
    sink_size: Size = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalMaskerConfig(MaskerConfig):
    """The last keys before each query, itself included."""

    kind: ClassVar[str] = "local"
    window_size: Size = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingConfig(MaskerConfig):
    """The first keys and the last ones, as StreamingLLM keeps them."""

    kind: ClassVar[str] = "streaming"
    sink_size: Size = 4
    window_size: Size = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleTopKConfig(MaskerConfig):
    """The keys of the highest exact scores among those that no earlier rule keeps."""

    kind: ClassVar[str] = "oracle_top_k"
    heavy_size: Size = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleTopPConfig(MaskerConfig):
    """The fewest keys that together hold this share of the exact weight no earlier rule keeps."""

    kind: ClassVar[str] = "oracle_top_p"
    top_p: float = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class HashAttentionConfig(MaskerConfig):
    """The keys whose bit signatures agree best with the query's.

    Signatures come from the learned layers in the file `weights`; without one, from random projections.
    """

    kind: ClassVar[str] = "hash_attention"
    heavy_size: Size = 128
    bits: int = 32
    weights: str | None = None
    seed: int = 0

    def files(self) -> tuple[str, ...]:
        return ("weights",) if self.weights is not None else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestConfig(MaskerConfig):
    """The pages of keys whose bounds promise the highest scores, as Quest chooses them."""

    kind: ClassVar[str] = "quest"
    heavy_size: Size = 128
    page_size: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomSamplingConfig(MaskerConfig):
    """Keys drawn uniformly among those no earlier rule keeps, each weighed by the inverse of its chance."""

    kind: ClassVar[str] = "random_sampling"
    samples: ClassVar[bool] = True
    sampling_rate: float = 0.1
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveSamplingConfig(MaskerConfig):
    """As many random keys for each query as an error of `epsilon` with probability `1 - delta` needs."""

    kind: ClassVar[str] = "adaptive_sampling"
    samples: ClassVar[bool] = True
    base_sampling_rate: float = 0.05
    epsilon: float = 0.1
    delta: float = 0.1
    seed: int = 0


BUILT_IN: Mapping[str, type[MaskerConfig]] = {
    config.kind: config
    for config in (
        DenseConfig,
        SinkMaskerConfig,
        LocalMaskerConfig,
        StreamingConfig,
        OracleTopKConfig,
        OracleTopPConfig,
        HashAttentionConfig,
        QuestConfig,
        RandomSamplingConfig,
        AdaptiveSamplingConfig,
    )
}


@dataclass(frozen=True, slots=True)
class SparseAttentionConfig:
    """Maskers in their order: each adds keys to those that the ones before it keep. At most one may sample."""

    maskers: tuple[MaskerConfig, ...]

    def __init__(self, maskers: Iterable[MaskerConfig]) -> None:
        object.__setattr__(self, "maskers", tuple(maskers))
        if not self.maskers:
            raise AttentionError("a sparse attention needs a masker: for a dense one give None")
        foreign = [masker for masker in self.maskers if not isinstance(masker, MaskerConfig)]
        if foreign:
            raise AttentionError(
                f"{foreign[0]!r} is no masker: give the likes of SinkMaskerConfig(sink_size=4)"
            )
        if sum(masker.samples for masker in self.maskers) > 1:
            raise AttentionError("an attention has at most one masker that samples")
        if len(self.maskers) > 1 and any(isinstance(masker, DenseConfig) for masker in self.maskers):
            raise AttentionError("DenseConfig keeps every key already: it stands alone")

    def content(self) -> list[dict[str, Any]]:
        """All that decides what the attention does."""
        return [masker.content() for masker in self.maskers]


AttentionConfig = SparseAttentionConfig | MaskerConfig | Iterable[MaskerConfig] | None
"""What is taken wherever an attention is asked for: None is dense, one masker is a list of one."""


def as_attention(config: AttentionConfig) -> SparseAttentionConfig | None:
    """One form for all of them; None is dense."""
    if config is None or isinstance(config, SparseAttentionConfig):
        found = config
    else:
        found = SparseAttentionConfig([config] if isinstance(config, MaskerConfig) else config)
    return None if found is None or isinstance(found.maskers[0], DenseConfig) else found


def attention_from_content(content: Iterable[Mapping[str, Any]] | None) -> SparseAttentionConfig | None:
    """The attention that `content` tells of; a masker that is not known is an error, never left out."""
    return None if content is None else as_attention([masker_from_content(item) for item in content])


def masker_from_content(content: Mapping[str, Any]) -> MaskerConfig:
    """The masker of one mapping with its `kind`, as in YAML or in a stub's files."""
    if not isinstance(content, Mapping) or "kind" not in content:
        raise AttentionError(
            f"{content!r} is no masker: it needs a kind, such as {{kind: sink, sink_size: 4}}"
        )
    config = _find_config(str(content["kind"]))
    names = {field.name for field in fields(config)}
    given = {
        name: value for name, value in content.items() if name != "kind" and not name.endswith("_sha256")
    }
    unknown = sorted(set(given) - names)
    if unknown:
        known = ", ".join(sorted(names)) or "none"
        raise AttentionError(f"masker {content['kind']}: unknown parameter {unknown[0]!r}; it has: {known}")
    return config(**given)


def _find_config(kind: str) -> type[MaskerConfig]:
    if kind in BUILT_IN:
        return BUILT_IN[kind]
    if ":" not in kind and kind not in plugins.names("eval_masker_configs"):
        known = ", ".join([*BUILT_IN, *plugins.names("eval_masker_configs")])
        raise AttentionError(
            f"unknown masker {kind!r}; known: {known}; or give an import path 'module:Class'"
        )
    found = plugins.find("eval_masker_configs", kind)
    if not (isinstance(found, type) and issubclass(found, MaskerConfig)):
        raise AttentionError(f"{kind!r} is no MaskerConfig")
    return found


def _check(config: MaskerConfig, field: "Field[Any]") -> None:
    """Refuse what would end as NaN, an empty mask or a dense one under another name."""
    value = getattr(config, field.name)
    name = f"{type(config).__name__}({field.name}={value!r})"
    if field.name.endswith("_size") and not _is_size(value):
        raise AttentionError(
            f"{name}: give tokens as an integer from 1, or a share over 0 and at most 1 as a float"
        )
    if isinstance(field.default, float) and not (is_number(value) and 0 < value <= 1):
        raise AttentionError(f"{name}: give a number over 0 and at most 1")
    if field.name in _COUNTS and not (isinstance(value, int) and value >= 1):
        raise AttentionError(f"{name}: give an integer from 1")


def _is_size(value: object) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return value >= 1
    return isinstance(value, float) and 0 < value <= 1


def _file_sha256(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise AttentionError(f"cannot read the weights {path}: {error.strerror or error}") from error
