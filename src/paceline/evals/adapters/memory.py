"""Where a model's weights lie, and how much memory it will take with its contexts; told without loading anything."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.errors import PacelineError
from paceline.evals.attention.workspace import Shape, cell_bytes, workspace_bytes
from paceline.evals.interfaces import GenerationSpec
from paceline.evals.keys import cached_snapshot

_MARGIN = 1.1
SCRATCH_BYTES = 32 << 20
"""What libraries take for themselves when they compute, however small a model is."""
_CONFIG = "config.json"
_CONFIGS = (_CONFIG, "adapter_config.json")
_BYTES = {"float64": 8, "float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2}


def check_place(name: str) -> None:
    """Refuse a directory that holds no model, or a path where there is none; a name of the hub is taken as it is."""
    place = Path(name)
    if place.is_dir():
        # An adapter's weights, and those of llama.cpp, come without the one file that others have.
        if not any((place / file).is_file() for file in _CONFIGS) and not any(place.glob("*.gguf")):
            raise PacelineError(f"model {name}: the directory has no {_CONFIG}: give one of a saved model")
    elif name.startswith((".", "~", os.sep)):
        raise PacelineError(f"model {name}: there is no such directory; a name of the hub is like org/model")


def find_weights(name: str, revision: str | None) -> Path | None:
    """The directory with a model's files: its own, or the hub's copy on this machine; None if it is elsewhere."""
    if Path(name).is_dir():
        return Path(name)
    place = cached_snapshot("model", name, revision)
    return place if place is not None and place.is_dir() else None


_LARGEST_CHUNK, _SMALLEST_CHUNK = 1024, 16
_QUESTION, _ANSWER = 256, 256
"""Tokens of a question and of an answer, where nobody says."""


def prefill_chunk(batch: int, eager_heads: int, keys: int, budget: int) -> int:
    """How many tokens of contexts are read at once, so that masks and scores stay within a number of bytes.

    Only an eager attention has a score for each of its heads, query and key; others have one mask for all heads.
    """
    cell = _MASK_BYTES + eager_heads * _EAGER_BYTES
    return max(_SMALLEST_CHUNK, min(_LARGEST_CHUNK, budget // max(1, batch * keys * cell)))


_MASK_BYTES, _EAGER_BYTES = 8, 16


def estimate(directory: Path, model_kwargs: Mapping[str, Any], generation: GenerationSpec) -> int | None:
    """Weights in the type they will have, keys and values of all tokens, and what computing takes besides."""
    weights = [*directory.glob("*.safetensors")] or [*directory.glob("*.bin")]
    try:
        config = json.loads((directory / _CONFIG).read_text(encoding="utf-8"))
        weight_bytes = sum(path.stat().st_size for path in weights)
    except (OSError, ValueError):
        return None
    if not weight_bytes:
        return None
    stored = _type_bytes(config.get("dtype") or config.get("torch_dtype"))
    used = _type_bytes(model_kwargs.get("dtype") or model_kwargs.get("torch_dtype"), stored)
    kept = _quantized_bytes(model_kwargs.get("quantization_config")) or used
    config = {**config, **(config.get("text_config") or {})}
    asked = _QUESTION + int(generation.generation_kwargs.get("max_new_tokens") or _ANSWER)
    limit = generation.request_kwargs.get("max_context_length")
    positions = config.get("max_position_embeddings")
    known = [count for count in (limit and limit + asked, positions) if count]
    tokens = min(known) if known else 0
    needed = weight_bytes * kept / stored + generation.batch_size * _cache_bytes(config, tokens, used)
    return int((needed + _work_bytes(config, tokens, used, generation)) * _MARGIN) + SCRATCH_BYTES


def _work_bytes(config: Mapping[str, Any], tokens: int, item: int, generation: GenerationSpec) -> float:
    """What one layer needs for reading a part of the contexts, or for a question under the sparse attention."""
    batch, heads, size = generation.batch_size, config.get("num_attention_heads") or 0, _head_size(config)
    kv_heads = config.get("num_key_value_heads") or heads
    if not heads or not tokens:
        return 0
    budget = generation.attention_bytes
    chunk = min(tokens, prefill_chunk(batch, 0, tokens, budget))
    hidden, wide = config.get("hidden_size") or 0, config.get("intermediate_size") or 0
    rows = batch * chunk * (6 * hidden + 3 * wide + 3 * heads * size) * item
    copies = 2 * batch * heads * tokens * size * item if kv_heads != heads and chunk < tokens else 0
    reading = rows + copies + batch * chunk * tokens * _MASK_BYTES
    if generation.attention is None:
        return reading
    shape = Shape(batch, heads, kv_heads, min(_QUESTION, tokens), tokens, size, item)
    work = workspace_bytes(shape, cell_bytes(generation.attention, item), budget)
    layers = config.get("num_hidden_layers") or 0
    remembered = sum(one.remembered_bytes(heads, kv_heads, size) for one in generation.attention.maskers)
    return max(reading, work) + batch * layers * tokens * remembered


def _cache_bytes(config: Mapping[str, Any], tokens: int, item: int) -> int:
    """Keys and values of so many tokens in all layers; those of a sliding window keep no more than that."""
    layers = config.get("num_hidden_layers") or 0
    window = config.get("sliding_window")
    kinds = config.get("layer_types") or [""] * layers
    kept = sum(min(tokens, window) if window and "sliding" in str(kind) else tokens for kind in kinds)
    heads = config.get("num_key_value_heads") or config.get("num_attention_heads") or 0
    return int(2 * kept * heads * _head_size(config) * item)


def _head_size(config: Mapping[str, Any]) -> int:
    heads = config.get("num_attention_heads") or 0
    return int(config.get("head_dim") or ((config.get("hidden_size") or 0) // heads if heads else 0))


def _type_bytes(name: object, default: int = 2) -> int:
    """The size of a number; of one whose type is not told, 16 bits, as most models have."""
    return _BYTES.get(str(name).removeprefix("torch."), default)


def _quantized_bytes(config: object) -> float | None:
    """The size of a weight that is quantised while it is loaded, by the names that transformers has for it."""
    if not isinstance(config, Mapping):
        return None
    if config.get("load_in_4bit"):
        return 0.5
    return 1.0 if config.get("load_in_8bit") else float(config["bits"]) / 8 if "bits" in config else None
