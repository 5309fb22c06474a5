"""Makes text documents as crawls have them: paragraphs of common and rare words, copies, near copies, and noise.

    python benchmarks/data/make_documents.py --output docs --documents 100000 --format parquet --files 8 \
        --ids-output remove.parquet --remove-rate 0.1

Of the documents `--duplicate-rate` are exact copies of an earlier one and `--near-duplicate-rate` copies with a few
words changed. `--noise-rate` of the rest have what filters and modifiers look for: links, lists, markup, cookie
notices, repeated lines, wrongly decoded characters. The same seed makes the same files.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from paceline import emit

COMMON = (  # noqa: SIM905
    "the of and to in a is that for it was on are as with his they at be this from have or by one had not but what "
    "all were when we there can an your which their said if do will each about how up out them then she many some "
    "so these would other into has more her two like him see time could no make than first been its who now people "
    "my made over did down only way find use may water long little very after words called just where most know"
).split()
SYLLABLES = (  # noqa: SIM905
    "ba co di fe gu ha jo ka li mo na pe qui ra so ti u ver wa xi yo zen str ing tion al er ment"
).split()
NOISE = (
    "Read more at https://www.example.com/news/item?id=1047&ref=home and www.example.org/about today.",
    "• first point\n• second point\n• third point\n• fourth point",
    "This page has **bold words** and *slanted* ones, an _underlined_ part and [a link](https://example.com/x).",
    "We use cookies. See our privacy policy and terms of use.",
    "buy now buy now buy now buy now buy now buy now\nbuy now buy now buy now buy now buy now buy now",
    "It was a cafÃ© on the coast; she said â€œhelloâ€\x9d and left.",
    "### ### ### 1234567890 1234567890 1234567890 {[()]} {[()]}",
    "\n\n\n\n\nAnd so on...\nread more...\n",
)


def main() -> None:
    args = parse_args()
    chance = np.random.default_rng(args.seed)
    documents = make_documents(args, chance)
    args.output.mkdir(parents=True, exist_ok=True)
    per_file = -(-args.documents // args.files)
    for number in range(args.files):
        write(documents, per_file, args.output / f"documents_{number:04d}.{args.format}", args)
    if args.ids_output is not None:
        write_ids(args, chance)
    if args.benchmark_results_path is not None:
        emit.metrics({"is_success": True, "num_documents": args.documents})


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="make text documents", allow_abbrev=False)
    add = parser.add_argument
    add("--benchmark-results-path", help="where a run under `paceline run` writes its results")
    add("--output", type=Path, required=True, help="directory")
    add("--format", choices=("jsonl", "parquet"), default="jsonl")
    add("--documents", type=int, default=10_000)
    add("--files", type=int, default=4)
    add("--mean-words", type=int, default=300)
    add("--duplicate-rate", type=float, default=0.1)
    add("--near-duplicate-rate", type=float, default=0.1)
    add("--noise-rate", type=float, default=0.2)
    add("--string-ids", action="store_true", help="ids like doc-00000017 instead of integers")
    add("--ids-output", type=Path, help="also write a list of ids to remove (Parquet or JSON Lines)")
    add("--remove-rate", type=float, default=0.1)
    add("--seed", type=int, default=1)
    return parser.parse_args()


def make_vocabulary(chance: np.random.Generator) -> list[str]:
    rare = ["".join(chance.choice(SYLLABLES, size=chance.integers(2, 5))) for _ in range(20_000)]
    return COMMON + list(dict.fromkeys(rare))


def make_documents(args: argparse.Namespace, chance: np.random.Generator) -> Iterator[dict[str, Any]]:
    words = make_vocabulary(chance)
    earlier: list[str] = []
    for number in range(args.documents):
        kind = chance.random()
        if earlier and kind < args.duplicate_rate:
            text = earlier[chance.integers(len(earlier))]
        elif earlier and kind < args.duplicate_rate + args.near_duplicate_rate:
            text = change_words(earlier[chance.integers(len(earlier))], words, chance)
        else:
            text = make_text(args, words, chance)
            # Copies are made of the latest thousand documents, so that memory stays small.
            if len(earlier) < 1000:
                earlier.append(text)
            else:
                earlier[int(chance.integers(1000))] = text
        yield {
            "id": make_id(number, args.string_ids),
            "text": text,
            "url": f"https://example.com/{number}",
            "source": "web",
        }


def make_id(number: int, as_string: bool) -> int | str:
    return f"doc-{number:08d}" if as_string else number


def make_text(args: argparse.Namespace, words: list[str], chance: np.random.Generator) -> str:
    size = int(np.clip(chance.lognormal(np.log(args.mean_words), 0.6), 5, 20 * args.mean_words))
    # Zipf's law over the vocabulary, which begins with the commonest words.
    ranks = np.minimum(chance.zipf(1.25, size=size) - 1, len(words) - 1)
    drawn = [words[rank] for rank in ranks.tolist()]
    sentences = [" ".join(drawn[at : at + 12]).capitalize() + "." for at in range(0, size, 12)]
    parts = [" ".join(sentences[at : at + 5]) for at in range(0, len(sentences), 5)]
    if chance.random() < args.noise_rate:
        parts.insert(int(chance.integers(len(parts) + 1)), NOISE[int(chance.integers(len(NOISE)))])
    return "\n\n".join(parts)


def change_words(text: str, words: list[str], chance: np.random.Generator) -> str:
    """A near copy: one to three words replaced."""
    pieces = text.split(" ")
    for _ in range(int(chance.integers(1, 4))):
        pieces[int(chance.integers(len(pieces)))] = words[int(chance.integers(len(words)))]
    return " ".join(pieces)


def write(documents: Iterator[dict[str, Any]], count: int, path: Path, args: argparse.Namespace) -> None:
    taken = [document for _, document in zip(range(count), documents, strict=False)]
    if args.format == "parquet":
        pq.write_table(pa.Table.from_pylist(taken), path, row_group_size=20_000)
    else:
        path.write_bytes(b"".join(orjson.dumps(one, option=orjson.OPT_APPEND_NEWLINE) for one in taken))


def write_ids(args: argparse.Namespace, chance: np.random.Generator) -> None:
    numbers = np.sort(
        chance.choice(args.documents, size=int(args.documents * args.remove_rate), replace=False)
    )
    ids = [make_id(number, args.string_ids) for number in numbers.tolist()]
    args.ids_output.parent.mkdir(parents=True, exist_ok=True)
    if args.ids_output.suffix == ".parquet":
        pq.write_table(pa.table({"id": ids}), args.ids_output)
    else:
        args.ids_output.write_bytes(
            b"".join(orjson.dumps({"id": one}, option=orjson.OPT_APPEND_NEWLINE) for one in ids)
        )


if __name__ == "__main__":
    main()
