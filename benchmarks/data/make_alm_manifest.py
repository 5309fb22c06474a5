"""Makes an ALM manifest: recordings of about ten minutes in which two to four people talk in bursts.

    python benchmarks/data/make_alm_manifest.py --output manifest.jsonl --entries 10000 --seed 1

Talk begins every two minutes and fills a part of them, so that windows of two minutes end in the next burst
and must be truncated. No two entries are alike. `--hard` adds what real manifests have too: words, low
bandwidth, segments of nobody, labels that are missing, low sample rates.
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from paceline import emit

WORDS = tuple(
    "the plan for this quarter looks sound but we need more data before anyone signs it off today so let us "  # noqa: SIM905
    "hear from the field team about delays costs and what customers said about new service levels".split()
)
BURSTS_S = (0, 120, 240, 360, 480, 600)
RATES = (16000, 16000, 22050, 44100, 48000)


def main() -> None:
    parser = argparse.ArgumentParser(description="make an ALM manifest", allow_abbrev=False)
    parser.add_argument(
        "--benchmark-results-path", help="where a run under `paceline run` writes its results"
    )
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--entries", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--hard", action="store_true", help="also what real manifests have: gaps, noise, words"
    )
    args = parser.parse_args()
    args.output.parent.mkdir(parents=True, exist_ok=True)
    draft = args.output.with_name(f".{args.output.name}.draft")
    with draft.open("wb") as file:
        for entry in make_entries(args.entries, args.seed, hard=args.hard):
            file.write(orjson.dumps(entry, option=orjson.OPT_APPEND_NEWLINE))
    draft.rename(args.output)
    if args.benchmark_results_path is not None:
        emit.metrics(
            {"is_success": True, "num_entries": args.entries, "size_bytes": args.output.stat().st_size}
        )


def make_entries(count: int, seed: int, *, hard: bool) -> Iterator[dict[str, Any]]:
    """The same entries for the same seed."""
    chance = random.Random(seed)
    for number in range(count):
        segments = make_segments(chance)
        if hard:
            roughen(chance, segments)
        rate = chance.choice((*RATES, 8000) if hard else RATES)
        yield {
            "audio_filepath": f"/data/audio/recording_{number:06d}.wav",
            "audio_sample_rate": rate,
            "duration": round(segments[-1]["end"] + chance.uniform(0.2, 9.0), 1),
            "segments": segments,
        }


def make_segments(chance: random.Random) -> list[dict[str, Any]]:
    speakers = chance.randrange(2, 5)
    leads = chance.random() < 0.4
    segments: list[dict[str, Any]] = []
    for place, begin in enumerate(BURSTS_S):
        now = float(begin)
        size = chance.randrange(5, 12) if place < 3 else chance.randrange(2, 8)
        for _ in range(size):
            turn = 0 if leads and chance.random() < 0.5 else len(segments) % speakers
            segments.append(make_segment(chance, now, turn))
            now = round(segments[-1]["end"] + chance.choice((0.3, 0.5, 0.5, 0.8, 0.8, 1.0)), 1)
    return segments


def make_segment(chance: random.Random, start: float, speaker: int) -> dict[str, Any]:
    return {
        "text": " ".join(chance.choices(WORDS, k=chance.randrange(4, 11))),
        "start": start,
        "end": round(start + chance.uniform(2.6, 5.8), 1),
        "speaker": f"speaker_{speaker}",
        "metrics": {"bandwidth": chance.randrange(8200, 8901, 50)},
    }


def roughen(chance: random.Random, segments: list[dict[str, Any]]) -> None:
    for segment in segments:
        what = chance.random()
        if what < 0.02:
            segment["metrics"]["bandwidth"] = 4000
        elif what < 0.03:
            segment["speaker"] = "no-speaker"
        elif what < 0.05:
            del segment["speaker"]
        elif what < 0.6:
            segment["words"] = spell(segment)


def spell(segment: dict[str, Any]) -> list[dict[str, Any]]:
    """The words of a segment, spread evenly over its time."""
    words = segment["text"].split()
    step = (segment["end"] - segment["start"]) / len(words)
    starts = [segment["start"] + step * place for place in range(len(words))]
    return [
        {"word": word, "start": round(start, 2), "end": round(start + step, 2)}
        for word, start in zip(words, starts, strict=True)
    ]


if __name__ == "__main__":
    main()
