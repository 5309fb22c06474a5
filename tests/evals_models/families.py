"""A tiny model of random weights for each family of transformers, by its configuration: nothing is downloaded."""

from typing import Any

SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.5,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
SLIDING = ["sliding_attention", "full_attention", "sliding_attention"]
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}

# Family → its configuration, with what it has of its own: windows, soft caps, sinks, biases by distance.
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {}),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", {"head_dim": 8}),
    "mistral": ("MistralConfig", {"sliding_window": 7}),
    "mixtral": ("MixtralConfig", {**EXPERTS, "sliding_window": None}),
    "gemma2": (
        "Gemma2Config",
        {"head_dim": 8, "sliding_window": 7, "attn_logit_softcapping": 1.0, "layer_types": SLIDING},
    ),
    "gemma3": ("Gemma3TextConfig", {"head_dim": 8, "sliding_window": 7, "layer_types": SLIDING}),
    "gpt_oss": (
        "GptOssConfig",
        {**EXPERTS, "head_dim": 8, "sliding_window": 7, "layer_types": SLIDING},
    ),
    "phi3": ("Phi3Config", {}),
    "gpt_neox": ("GPTNeoXConfig", {}),
    "cohere": ("CohereConfig", {}),
    "olmo2": ("Olmo2Config", {}),
    "granite": ("GraniteConfig", {"attention_multiplier": 0.4}),
    "starcoder2": ("Starcoder2Config", {"sliding_window": 7}),
    "inkling": ("InklingTextConfig", {}),
}


def build(family: str, dtype: str = "float32") -> Any:
    """A model in evaluation, eager; the same weights every time."""
    import torch
    import transformers

    name, own = FAMILIES[family]
    torch.manual_seed(3)
    config = getattr(transformers, name)(**{**SIZES, **own})
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)).eval()
    for parameter_name, parameter in model.named_parameters():
        if "sinks" in parameter_name:
            torch.nn.init.normal_(parameter, std=2.0)
    return model
