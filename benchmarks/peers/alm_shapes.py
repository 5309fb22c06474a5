"""What entries of other shapes cost: the same talk with whole numbers as times, segments out of order, more voices …

    python benchmarks/peers/alm_shapes.py [--manifest sample.jsonl]

Each shape is made of the same entries, and goes through both stages in this process, in turns with its plain twin: the
same times as broken numbers, in order. Exit code 1: one takes longer than its twin by more than the bound.
"""

import argparse
import copy
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from alm_runs import make_manifest

from paceline.curate.alm import ALMDataBuilderStage, ALMDataOverlapStage

BOUND = 1.3
ROUNDS = 15
ENTRIES = 300
Entry = dict[str, Any]
Change = Callable[[list[Entry]], object]


def first_start_whole(segments: list[Entry]) -> None:
    segments[0]["start"] = 0


def all_whole(segments: list[Entry]) -> None:
    for segment in segments:
        segment["start"], segment["end"] = int(segment["start"]), int(segment["end"])


def some_whole(segments: list[Entry]) -> None:
    all_whole(segments[::3])


def swap_two(segments: list[Entry]) -> None:
    segments[6], segments[7] = segments[7], segments[6]


def swap_many(segments: list[Entry]) -> None:
    for at in range(0, len(segments) - 1, 6):
        segments[at], segments[at + 1] = segments[at + 1], segments[at]


def end_early(segments: list[Entry]) -> None:
    segments[5]["end"] = segments[5]["start"] - 0.5


def seven_voices(segments: list[Entry]) -> None:
    for at, segment in enumerate(segments):
        segment["speaker"] = f"voice{at % 7 if at > len(segments) // 2 else at % 2}"


def some_nobody(segments: list[Entry]) -> None:
    for segment in segments[::9]:
        segment["speaker"] = None


def numbered_voices(segments: list[Entry]) -> None:
    for segment in segments:
        segment["speaker"] = int(segment["speaker"][-1:].encode().hex(), 16)


SHAPES: dict[str, Change] = {
    "the first start is 0, not 0.0": first_start_whole,
    "all times whole": all_whole,
    "every third segment whole": some_whole,
    "two segments swapped": swap_two,
    "every sixth pair swapped": swap_many,
    "a segment that ends before it starts": end_early,
    "seven voices, five allowed": seven_voices,
    "every ninth segment without a label": some_nobody,
    "labels that are numbers": numbered_voices,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="what entries of other shapes cost")
    parser.add_argument("--manifest", type=Path, help="take these entries, not made ones")
    args = parser.parse_args()
    plain = read_entries(args.manifest)
    print("| shape | µs an entry | its twin | ratio | bound |\n|---|---|---|---|---|")
    met = True
    for name, change in SHAPES.items():
        shaped = [copy.deepcopy(entry) for entry in plain]
        for entry in shaped:
            change(entry["segments"])
        ours_us, twin_us = in_turns(shaped, [twin_of(entry) for entry in shaped])
        met &= ours_us / twin_us <= BOUND
        print(f"| {name} | {ours_us:.1f} | {twin_us:.1f} | {ours_us / twin_us:.2f} | {BOUND} |", flush=True)
    return 0 if met else 1


def twin_of(entry: Entry) -> Entry:
    """The same entry as most are: broken numbers, in order, no more voices than are allowed, all with a label."""
    segments = [
        {**segment, "start": float(segment["start"]), "end": float(max(segment["start"], segment["end"]))}
        for segment in entry["segments"]
    ]
    segments.sort(key=lambda segment: segment["start"])
    voices = {segment["speaker"]: f"voice{at % 5}" for at, segment in enumerate(segments)}
    return {**entry, "segments": [{**one, "speaker": voices[one["speaker"]]} for one in segments]}


def read_entries(manifest: Path | None) -> list[Entry]:
    with tempfile.TemporaryDirectory() as home:
        path = manifest or make_manifest(Path(home) / "plain.jsonl", ENTRIES)
        found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return found * (-(-ENTRIES // len(found)))


def in_turns(left: list[Entry], right: list[Entry]) -> tuple[float, float]:
    """The least times of both, a round each in turn: on a busy machine others only add to them."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for place, entries in enumerate((left, right)):
            times[place].append(run(entries))
    return min(times[0]), min(times[1])


def run(entries: list[Entry]) -> float:
    """Microseconds of CPU an entry."""
    builder, overlap = ALMDataBuilderStage(), ALMDataOverlapStage(overlap_percentage=50)
    gc.collect()
    gc.disable()
    started = time.process_time()
    kept = [overlap.filter(builder.build(entry)) for entry in entries]
    taken_s = time.process_time() - started
    gc.enable()
    return taken_s / len(kept) * 1e6


if __name__ == "__main__":
    sys.exit(main())
