"""What reading a context once is worth: `python benchmarks/evals_models.py [--tokens 2000] [--rounds 3]`.

Eight short questions about one context of at least so many tokens, asked of a small model built here with random
weights, on one CPU thread: once together, once each on its own. The answers must be the same. Needs torch and
transformers, no GPU, no network. Prints a table, and exits with 1 if the target is missed.
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from figures import is_recorded, make_parser, publish

QUESTIONS = 8
LEAST_SPEEDUP = 3.0


def build(directory: Path) -> None:
    """A Llama of a million random weights that reads bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = {letter: index for index, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab={**alphabet, "</s>": len(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>").save_pretrained(directory)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(alphabet) + 1,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=1 << 15,
        eos_token_id=len(alphabet),
        initializer_range=0.2,
    )
    LlamaForCausalLM(config).save_pretrained(directory)


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    from paceline.evals import StreamingConfig
    from paceline.evals.adapters.huggingface import HuggingFaceAdapter
    from paceline.evals.attention_config import as_attention
    from paceline.evals.interfaces import Device, GenerationSpec, ModelSpec, Sample, group_by_context

    context = "The mill stands at the river, and its wheel has twelve blades. " * (options.tokens // 60 + 1)
    samples = [
        Sample(id=str(number), context=context, question=f" Question {number}?", max_new_tokens=4)
        for number in range(QUESTIONS)
    ]
    with tempfile.TemporaryDirectory() as directory:
        build(Path(directory))
        adapter = HuggingFaceAdapter(ModelSpec(name=directory), Device(name="cpu", id="cpu:0"))
        adapter.load()

        def ask(parts: list[list[Sample]]) -> tuple[float, dict[str, str]]:
            started = time.perf_counter()
            found = {
                prediction.sample_id: prediction.text
                for part in parts
                for prediction in adapter.generate(group_by_context(part), GenerationSpec())
            }
            return time.perf_counter() - started, found

        missed = differ = False
        figures = {}
        print(
            f"{QUESTIONS} questions of one context of {len(context)} tokens, one thread, {options.rounds} rounds"
        )
        for name, attention in (("dense", None), ("streaming", StreamingConfig(sink_size=4, window_size=64))):
            adapter.set_attention(as_attention(attention))
            ask([samples[:1]])
            rounds = [(ask([samples]), ask([[sample] for sample in samples])) for _ in range(options.rounds)]
            if any(together[1] != apart[1] for together, apart in rounds):
                print(f"{name}: the answers differ")
                differ = True
            together_s, apart_s = (median(pair[side][0] for pair in rounds) for side in (0, 1))
            ratio = median(apart[0] / together[0] for together, apart in rounds)
            missed |= ratio < LEAST_SPEEDUP
            figures[f"{name}_speedup"] = (ratio, "x")
            line = f"together {together_s:.2f} s, apart {apart_s:.2f} s: {ratio:.1f}× (at least {LEAST_SPEEDUP:.0f}×)"
            print(f"{name:10} {line}")
        adapter.close()
    publish(options, figures, num_questions=QUESTIONS, num_attentions_alike=0 if differ else len(figures))
    return 1 if differ or (missed and not is_recorded(options)) else 0


if __name__ == "__main__":
    sys.exit(main())
