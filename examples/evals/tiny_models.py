"""Two language models of a few thousand random weights, built here: they answer nonsense, and need no network."""

from pathlib import Path

LETTERS_A_TOKEN_AT_MOST = 8
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "initializer_range": 0.3,
}


def tiny_models(directory: Path) -> list[str]:
    """The directories of a Phi and a Llama with a tokenizer each; built unless they are there."""
    return [
        str(_build(directory / name, kind)) for name, kind in (("tiny-phi", "Phi3"), ("tiny-llama", "Llama"))
    ]


def _build(directory: Path, kind: str) -> Path:
    if (directory / "model.safetensors").exists():
        return directory
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=LETTERS_A_TOKEN_AT_MOST,
        show_progress=False,
    )
    tokenizer.train_from_iterator([Path(__file__).read_text(encoding="utf-8")], trainer)
    ends = {"bos_token": "<s>", "eos_token": "</s>"}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **ends)
    fast.save_pretrained(directory)
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(fast), bos_token_id=0, eos_token_id=1, pad_token_id=None, **SIZES
    )
    getattr(transformers, f"{kind}ForCausalLM")(config).save_pretrained(directory)
    return directory
