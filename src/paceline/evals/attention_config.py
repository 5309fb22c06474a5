"""Which keys a query may look at: one small frozen class a masker, and the list of them that makes an attention.

Nothing here needs torch: a plan with any attention can be made, keyed and stored on a machine without it. What carries
a masker out is registered under its `kind` in the entry point group `paceline.eval_maskers`.

A size is a number of tokens (`int`, at least 1) or a share of the keys that a query sees (`float`, over 0 and at most
1), rounded down as the published programs do; a share never becomes no token at all.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from paceline import plugins
from paceline.errors import PacelineError
from paceline.evals.code import code_sha256, find_part, part_name
from paceline.model import is_number

Size = int | float
_COUNTS = frozenset({"bits", "page_size"})
ACTIVATIONS = ("silu", "relu", "gelu", "tanh")


class AttentionError(PacelineError):
    """An attention that cannot be: a size that is none, an unknown masker, two samplers."""


def size_in_tokens(size: Size, keys: int) -> int:
    """How many of so many keys a size stands for; at least one, at most all."""
    wanted = int(size * keys) if isinstance(size, float) else size
    return max(1, min(wanted, keys))


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskerConfig:
    """One rule for keys to keep. A rule of your own is a frozen dataclass that inherits from this one.

    `kind` is its name in files and in the registry; `samples` marks rules that keep keys by chance and weigh them.
    """

    kind: ClassVar[str] = ""
    version: ClassVar[str] = "1"
    """Changed when the same parameters keep other keys: it is a part of the key that a resume goes by."""
    samples: ClassVar[bool] = False
    cell_bytes: ClassVar[int] = 32
    """The memory that it takes for each head × query × key that it looks at in one go."""
    dense_first_layers: ClassVar[int] = 0
    """How many layers at the bottom its authors leave dense."""

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(self, field)

    def content(self) -> dict[str, Any]:
        """All that decides what it does: its kind, its parameters, the hash of each file it reads."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        hashes = {f"{name}_sha256": _file_sha256(values[name]) for name in self.files()}
        content = {"kind": kind_of(type(self)), **values, **hashes}
        # A share was rounded up by the first version of all that take one.
        shares = [
            name for name, value in values.items() if name.endswith("_size") and isinstance(value, float)
        ]
        version = "2" if shares and self.version == "1" else self.version
        code = code_sha256(type(self), *plugins.modules_of("eval_maskers", self.kind))
        more = {"version": version if version != "1" else None, "code_sha256": code}
        return {**content, **{name: value for name, value in more.items() if value is not None}}

    def files(self) -> tuple[str, ...]:
        """The names of those parameters that are paths of files and are set."""
        return ()

    def remembered_bytes(self, heads: int, kv_heads: int, size: int) -> float:
        """What it keeps of each key in each layer from one step to the next."""
        return 0.0


def kind_of(config: type[MaskerConfig]) -> str:
    """The name of a masker's class in files: its kind, or the import path of a foreign class without one."""
    return config.kind or part_name(config)


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseConfig(MaskerConfig):
    """Every key: the same as no attention configuration at all."""

    kind: ClassVar[str] = "dense"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkMaskerConfig(MaskerConfig):
    """The first keys (Xiao et al., Efficient Streaming Language Models with Attention Sinks, arXiv:2309.17453)."""

    kind: ClassVar[str] = "sink"
    cell_bytes: ClassVar[int] = 1
    sink_size: Size = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalMaskerConfig(MaskerConfig):
    """The last keys before each query, itself included (Beltagy et al., Longformer, arXiv:2004.05150)."""

    kind: ClassVar[str] = "local"
    cell_bytes: ClassVar[int] = 1
    window_size: Size = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingConfig(MaskerConfig):
    """The first keys and the last ones, as StreamingLLM keeps them (Xiao et al., arXiv:2309.17453)."""

    kind: ClassVar[str] = "streaming"
    cell_bytes: ClassVar[int] = 1
    sink_size: Size = 4
    window_size: Size = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleTopKConfig(MaskerConfig):
    """The keys of the highest exact scores among those that no earlier rule keeps (Gupta et al., Memory-efficient
    Transformers via Top-k Attention, arXiv:2106.06899)."""

    kind: ClassVar[str] = "oracle_top_k"
    cell_bytes: ClassVar[int] = 16
    heavy_size: Size = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleTopPConfig(MaskerConfig):
    """The fewest keys that together hold this share of the exact weight no earlier rule keeps (Lin et al., Twilight,
    arXiv:2502.02770); 1.0 is every key."""

    kind: ClassVar[str] = "oracle_top_p"
    version: ClassVar[str] = "2"
    cell_bytes: ClassVar[int] = 32
    top_p: float = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class HashAttentionConfig(MaskerConfig):
    """The keys whose bit signatures agree best with the query's (Desai et al., HashAttention, arXiv:2412.14468).

    Signatures come from the learned layers in the file `weights`, with `activation` between them (`silu` as published,
    `relu`, `gelu` or `tanh`); without a file, from random projections. A file is one of safetensors as docs/evals.md
    describes it, or a `.pt` as the authors publish them.
    """

    kind: ClassVar[str] = "hash_attention"
    version: ClassVar[str] = "2"
    cell_bytes: ClassVar[int] = 16
    heavy_size: Size = 128
    bits: int = 32
    weights: str | None = None
    activation: str = "silu"
    seed: int = 0

    def __post_init__(self) -> None:
        # `super()` does not know a class of slots, which is made anew.
        MaskerConfig.__post_init__(self)
        if self.activation not in ACTIVATIONS:
            raise AttentionError(
                f"HashAttentionConfig(activation={self.activation!r}): it is one of {', '.join(ACTIVATIONS)}"
            )
        if self.weights is not None and Path(self.weights).suffix in (".pkl", ".pickle"):
            raise AttentionError(
                f"{self.weights}: a pickle may run anything when it is read; give the .pt it was made of"
            )

    def files(self) -> tuple[str, ...]:
        return ("weights",) if self.weights is not None else ()

    def remembered_bytes(self, heads: int, kv_heads: int, size: int) -> float:
        return float((kv_heads if self.weights is None else heads) * self.bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestConfig(MaskerConfig):
    """The pages of keys whose bounds promise the highest scores, as Quest chooses them (Tang et al., arXiv:2406.10774):
    at least three pages, and the first two layers dense."""

    kind: ClassVar[str] = "quest"
    version: ClassVar[str] = "2"
    cell_bytes: ClassVar[int] = 8
    dense_first_layers: ClassVar[int] = 2
    heavy_size: Size = 128
    page_size: int = 16

    def remembered_bytes(self, heads: int, kv_heads: int, size: int) -> float:
        return 8 * kv_heads * size / self.page_size


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomSamplingConfig(MaskerConfig):
    """Keys drawn uniformly among those no earlier rule keeps, each weighed by the inverse of its chance, as importance
    sampling does (Horvitz and Thompson, 1952; of attention: Chen et al., MagicPIG, arXiv:2410.16179)."""

    kind: ClassVar[str] = "random_sampling"
    version: ClassVar[str] = "2"
    cell_bytes: ClassVar[int] = 40
    samples: ClassVar[bool] = True
    sampling_rate: float = 0.1
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveSamplingConfig(MaskerConfig):
    """As many random keys for each query as an error of `epsilon` with probability `1 - delta` needs (Desai et al.,
    vAttention: Verified Sparse Attention, arXiv:2510.05688)."""

    kind: ClassVar[str] = "adaptive_sampling"
    version: ClassVar[str] = "2"
    cell_bytes: ClassVar[int] = 56
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


PREFILLS = ("dense", "sparse")


@dataclass(frozen=True, slots=True)
class SparseAttentionConfig:
    """Maskers in their order: each adds keys to those that the ones before it keep. At most one may sample.

    `prefill` is "dense" if a context is read with every key and only question and answer are sparse, as most papers
    measure it; or "sparse" for both. In the first and last so many layers every key is kept: by default in none, or in
    those that the maskers' authors leave dense. `measure_error` also records how far each layer's output is from the
    dense one's, which costs a dense attention for every sparse one.
    """

    maskers: tuple[MaskerConfig, ...]
    prefill: str
    dense_first_layers: int
    dense_last_layers: int
    measure_error: bool

    def __init__(
        self,
        maskers: Iterable[MaskerConfig],
        *,
        prefill: str = "dense",
        dense_first_layers: int | None = None,
        dense_last_layers: int = 0,
        measure_error: bool = False,
    ) -> None:
        maskers = tuple(maskers)
        if not maskers:
            raise AttentionError("a sparse attention needs a masker: for a dense one give None")
        foreign = [masker for masker in maskers if not isinstance(masker, MaskerConfig)]
        if foreign:
            raise AttentionError(
                f"{foreign[0]!r} is no masker: give the likes of SinkMaskerConfig(sink_size=4)"
            )
        if sum(masker.samples for masker in maskers) > 1:
            raise AttentionError("an attention has at most one masker that samples")
        if len(maskers) > 1 and any(isinstance(masker, DenseConfig) for masker in maskers):
            raise AttentionError("DenseConfig keeps every key already: it stands alone")
        if prefill not in PREFILLS:
            raise AttentionError(f"prefill is 'dense' or 'sparse', not {prefill!r}")
        if dense_first_layers is None:
            dense_first_layers = max(masker.dense_first_layers for masker in maskers)
        for name, count in (("first", dense_first_layers), ("last", dense_last_layers)):
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise AttentionError(f"dense_{name}_layers is an integer from 0, not {count!r}")
        for name, value in (
            ("maskers", maskers),
            ("prefill", prefill),
            ("dense_first_layers", dense_first_layers),
            ("dense_last_layers", dense_last_layers),
            ("measure_error", measure_error),
        ):
            object.__setattr__(self, name, value)

    def content(self) -> dict[str, Any]:
        """All that decides what the attention does: its maskers, and options that are not as they are by default."""
        usual = SparseAttentionConfig(self.maskers)
        options = {
            name: getattr(self, name) for name in _OPTIONS if getattr(self, name) != getattr(usual, name)
        }
        return {"maskers": [masker.content() for masker in self.maskers], **options}


AttentionConfig = SparseAttentionConfig | MaskerConfig | Iterable[MaskerConfig] | None
"""What is taken wherever an attention is asked for: None is dense, one masker is a list of one."""


def as_attention(config: AttentionConfig) -> SparseAttentionConfig | None:
    """One form for all of them; None is dense."""
    if config is None or isinstance(config, SparseAttentionConfig):
        found = config
    else:
        found = SparseAttentionConfig([config] if isinstance(config, MaskerConfig) else config)
    return None if found is None or isinstance(found.maskers[0], DenseConfig) else found


def attention_from_content(content: Mapping[str, Any]) -> SparseAttentionConfig | None:
    """The attention of a mapping with `maskers` and options, as in YAML or in a stub's files; None is dense.

    A masker or an option that is not known is an error, never left out.
    """
    if content.get("maskers") is None:
        return None
    options = {name: value for name, value in content.items() if name not in ("name", "maskers")}
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise AttentionError(f"an attention has no option {unknown[0]!r}; it has: {', '.join(_OPTIONS)}")
    maskers = [masker_from_content(item) for item in content["maskers"]]
    return as_attention(SparseAttentionConfig(maskers, **options))


_OPTIONS = ("prefill", "dense_first_layers", "dense_last_layers", "measure_error")


def masker_from_content(content: Mapping[str, Any]) -> MaskerConfig:
    """The masker of one mapping with its `kind`, as in YAML or in a stub's files."""
    if not isinstance(content, Mapping) or "kind" not in content:
        raise AttentionError(
            f"{content!r} is no masker: it needs a kind, such as {{kind: sink, sink_size: 4}}"
        )
    config = _find_config(str(content["kind"]))
    names = {field.name for field in fields(config)}
    given = {
        name: value
        for name, value in content.items()
        if name not in ("kind", "version") and not name.endswith("_sha256")
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
            f"unknown masker {kind!r}; known: {known}; or give an import path 'module:Class' or './file.py:Class'"
        )
    found = find_part("eval_masker_configs", kind)
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
