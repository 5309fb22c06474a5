"""Where a model's weights lie, and how much memory they and a context will take; told without loading anything."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.errors import PacelineError
from paceline.evals.interfaces import GenerationSpec

_MARGIN = 1.2
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
    copies = _hub_cache() / f"models--{name.replace('/', '--')}"
    wanted = revision or "main"
    try:
        commit = (copies / "refs" / wanted).read_text(encoding="utf-8").strip()
    except OSError:
        commit = wanted
    place = copies / "snapshots" / commit
    return place if place.is_dir() else None


def _hub_cache() -> Path:
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub")).expanduser()


def estimate(directory: Path, model_kwargs: Mapping[str, Any], generation: GenerationSpec) -> int | None:
    """Weights in the type they will have, and keys and values of as many contexts as are read at once."""
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
    tokens = generation.request_kwargs.get("max_context_length") or config.get("max_position_embeddings") or 0
    kept_bytes = generation.batch_size * tokens * _values_per_token(config) * used
    return int((weight_bytes * used / stored + kept_bytes) * _MARGIN)


def _type_bytes(name: object, default: int = 2) -> int:
    """The size of a number; of one whose type is not told, 16 bits, as most models have."""
    return _BYTES.get(str(name).removeprefix("torch."), default)


def _values_per_token(config: Mapping[str, Any]) -> int:
    """Keys and values of one token in all layers."""
    heads = config.get("num_attention_heads") or 0
    size = config.get("head_dim") or ((config.get("hidden_size") or 0) // heads if heads else 0)
    return (
        2 * (config.get("num_hidden_layers") or 0) * (config.get("num_key_value_heads") or heads) * int(size)
    )
