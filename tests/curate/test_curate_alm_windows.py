"""Builder and overlap filter against a slow reference that follows the written rules word by word."""

import copy
import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from paceline.curate import BadRecord, PipelineError, Task
from paceline.curate.alm import ALMDataBuilderStage, ALMDataOverlapStage

Entry = dict[str, Any]


def reference_build(entry: Entry, rules: dict[str, Any]) -> Entry:
    target, tolerance = rules["target_window_duration"], rules["tolerance"]
    lower, upper = target - target * tolerance, target + target * tolerance
    drop, drop_top = rules["drop_fields"].split(","), rules["drop_fields_top_level"].split(",")
    segments = entry.get("segments", [])
    total = sum(segment["end"] - segment["start"] for segment in segments)
    stats: Entry = {"total_segments": len(segments), "total_dur": total}
    stats |= {"swift_path": entry.get("swift_audio_filepath", "")}
    stats |= {"audio_sample_rate": entry.get("audio_sample_rate", 0)}
    for cause in ("bw", "sr", "spk", "win", "no_spkr", "next_seg_bm"):
        stats[f"lost_{cause}"], stats[f"dur_lost_{cause}"] = 0, 0.0
    stats["lost_win_full_data"] = []

    def length(segment: Entry) -> float:
        return segment["end"] - segment["start"]

    def bandwidth(segment: Entry) -> float:
        return segment.get("metrics", {}).get("bandwidth", 0)

    def speakers(window: list[Entry]) -> list[Any]:
        return [s for s in dict.fromkeys(segment.get("speaker") for segment in window) if s]

    def speakers_pass(window: list[Entry]) -> bool:
        return len(speakers(window)) <= rules["max_speakers"] and "no-speaker" not in speakers(window)

    def bare(segment: Entry) -> Entry:
        return {key: value for key, value in segment.items() if key not in drop}

    def lose(cause: str, segment: Entry) -> None:
        stats[f"lost_{cause}"] += 1
        stats[f"dur_lost_{cause}"] += length(segment)

    if entry.get("audio_sample_rate", 0) < rules["min_sample_rate"]:
        stats["lost_sr"], stats["dur_lost_sr"] = len(segments), total
        path = entry["audio_filepath"]
        return {"audio_filepath": path, "windows": [], "stats": stats, "truncation_events": 0}

    windows, events = [], 0
    for index, first in enumerate(segments):
        if bandwidth(first) < rules["min_bandwidth"]:
            lose("bw", first)
            continue
        window: list[Entry] = []
        begin, end, last = first["start"], first["start"], index
        for last in range(index, len(segments)):
            candidate = segments[last]
            if bandwidth(candidate) < rules["min_bandwidth"]:
                break
            if candidate["end"] - begin > upper:
                if not rules["truncation"] or candidate["start"] >= begin + upper:
                    break
                events += 1
                words = [word for word in candidate.get("words", []) if word["end"] <= begin + upper]
                short = dict(candidate)
                short["end"] = words[-1]["end"] if words else candidate["start"]
                short["text"] = " ".join(word["word"] for word in words if word.get("word"))
                short["words"] = words
                if speakers_pass([*window, short]):
                    window.append(short)
                    end = short["end"]
                break
            if not speakers_pass([*window, candidate]):
                break
            window.append(candidate)
            end = candidate["end"]
        if (
            not lower <= end - begin <= upper
            or len(window) < 2
            or any(bandwidth(segment) < rules["min_bandwidth"] for segment in window)
        ):
            lose("win", first)
            after = segments[last]
            if after.get("speaker", "no-speaker") == "no-speaker":
                lose("no_spkr", first)
            elif bandwidth(after) < rules["min_bandwidth"]:
                lose("next_seg_bm", first)
            record = {"index": index, "window_segs": [bare(segment) for segment in window]}
            record |= {"next_seg": bare(after), "prev_seg": bare(segments[max(index - 1, 0)])}
            stats["lost_win_full_data"].append(record)
        elif not rules["min_speakers"] <= len(speakers(window)) <= rules["max_speakers"]:
            lose("spk", first)
        else:
            spoken = []
            for speaker in speakers(window):
                seconds: float = 0
                for segment in window:
                    if segment.get("speaker") == speaker:
                        seconds += length(segment)
                spoken.append(seconds)
            durations = (sorted(spoken, reverse=True) + [0.0] * 5)[:5]
            windows.append({"segments": [bare(s) for s in window], "speaker_durations": durations})
    output = {key: value for key, value in entry.items() if key not in drop_top}
    return output | {"windows": windows, "stats": stats, "truncation_events": events}


def reference_filter(entry: Entry, percentage: float, target: float) -> Entry:
    windows = entry["windows"]
    if not windows:
        nothing = {"filtered_windows": [], "filtered_dur": 0.0, "filtered_dur_list": []}
        nothing |= {"total_dur_window": 0.0, "total_dur_list_window": []}
        nothing |= {"total_dur_list_window_timestamps": [], "filtered": []}
        return nothing | {"manifest_filepath": None, "swift_filepath": None} | entry
    pairs = [(window["segments"][-1]["end"], window["segments"][0]["start"]) for window in windows]
    ranked = sorted(pairs, key=lambda pair: (pair[1], pair[0]))
    gone: set[int] = set()
    for i, (end_i, start_i) in enumerate(ranked):
        if i in gone:
            continue
        for j in range(i + 1, len(ranked)):
            if j in gone:
                continue
            end_j, start_j = ranked[j]
            if start_j >= end_i:
                break
            length_i, length_j = end_i - start_i, end_j - start_j
            shorter = min(length_i, length_j)
            ratio = (min(end_i, end_j) - max(start_i, start_j)) / shorter if shorter else 0
            if ratio < percentage / 100:
                continue
            far_i, far_j = abs(length_i - target), abs(length_j - target)
            if far_i < far_j or (far_i == far_j and length_i >= length_j):
                gone.add(j)
            else:
                gone.add(i)
                break
    filtered = [pair for place, pair in enumerate(ranked) if place not in gone]
    stamps = [(round(end, 6), round(start, 6)) for end, start in filtered]
    kept = [
        w
        for w, (end, start) in zip(windows, pairs, strict=True)
        if (round(end, 6), round(start, 6)) in stamps
    ]
    return entry | {
        "total_dur_window": sum(end - start for end, start in pairs),
        "total_dur_list_window": [end - start for end, start in pairs],
        "total_dur_list_window_timestamps": pairs,
        "filtered": filtered,
        "filtered_windows": kept,
        "filtered_dur": sum(end - start for end, start in filtered),
        "filtered_dur_list": [end - start for end, start in filtered],
        "manifest_filepath": entry["stats"].get("manifest_path"),
        "swift_filepath": entry["stats"].get("swift_path"),
    }


def random_words(chance: random.Random, start: float, end: float) -> list[Entry]:
    words, here = [], start
    for _ in range(chance.randrange(6)):
        there = here + (end - start) / 6 * chance.choice([0, 0.5, 1, 1.4])
        words.append({"word": chance.choice(["so", "well", ""]), "start": here, "end": there})
        here = there
    if chance.random() < 0.2:
        chance.shuffle(words)
    if words and chance.random() < 0.1:
        del words[0]["word"]
    return words


def random_segment(chance: random.Random, after: float, voices: int, strange: bool, whole: float) -> Entry:
    if chance.random() < 0.5:
        start = round(after + chance.choice([0, 0, 0.3, 0.5, 1, 3, 20]), 1)
        end = round(start + chance.choice([0, 0, 1, 2.5, 4, 6, 11, 30]), 1)
    else:
        start = after + chance.random() * chance.choice([0, 1, 10])
        end = start + chance.random() * chance.choice([0, 5, 12, 40])
    if chance.random() < whole:
        start, end = int(start), int(end)
    segment: Entry = {"start": start, "end": end, "speaker": f"voice{chance.randrange(voices)}"}
    segment["metrics"] = {"bandwidth": chance.choice([8000, 8500, 9000])}
    if chance.random() < 0.8:
        segment["text"] = "so well then"
    if chance.random() < 0.5:
        segment["words"] = random_words(chance, start, end)
    if strange:
        make_strange(chance, segment)
    return segment


def make_strange(chance: random.Random, segment: Entry) -> None:
    what = chance.randrange(60)
    if what == 0:
        segment["speaker"] = "no-speaker"
    elif what == 1:
        segment["speaker"] = chance.choice([None, ""])
    elif what == 2:
        del segment["speaker"]
    elif what == 3:
        segment["metrics"]["bandwidth"] = 7999
    elif what == 4:
        del segment[chance.choice(["metrics", "speaker"])]
    elif what == 5:
        segment["speaker"] = chance.choice([0, 7, 7.5, True])
    elif what == 6:
        segment["end"] = segment["start"] - chance.choice([1, 0.5, 4])


def random_entry(chance: random.Random) -> Entry:
    voices, strange, now = chance.choice([1, 2, 3, 5, 7, 9]), chance.random() < 0.5, 0.0
    whole = chance.choice([0, 0, 0, 0, 0, 0.1, 0.5, 1])
    segments: list[Entry] = []
    for _ in range(chance.choice([0, 1, 2, 5, 12, 30, 60])):
        segments.append(random_segment(chance, now, voices, strange, whole))
        now = segments[-1]["end" if chance.random() < 0.95 else "start"]
    if chance.random() < 0.1:
        chance.shuffle(segments)
    if chance.random() < 0.2 and len(segments) > 3:
        at = chance.randrange(len(segments) - 2)
        segments[at], segments[at + 2] = segments[at + 2], segments[at]
    if chance.random() < 0.2:
        segments = [segment for segment in segments for _ in range(chance.choice([1, 1, 2]))]
    rate = chance.choice([16000, 16000, 22050, 48000, 15999])
    entry: Entry = {"audio_filepath": "talk.wav", "audio_sample_rate": rate, "segments": segments}
    if chance.random() < 0.3:
        entry |= {"swift_audio_filepath": "swift://talk", "words": ["x"], "duration": now, "note": {"a": 1}}
    return entry


def random_rules(chance: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    build = {
        "target_window_duration": chance.choice([10.0, 20.0, 30.0, 120.0]),
        "tolerance": chance.choice([0.1, 0.1, 0.3, 0.0, 0.5]),
        "min_sample_rate": 16000,
        "min_bandwidth": 8000,
        "min_speakers": chance.choice([0, 1, 2, 2, 3, 6]),
        "max_speakers": chance.choice([0, 2, 5, 5, 5, 7]),
        "truncation": chance.random() < 0.8,
        "drop_fields": chance.choice(["words"] * 6 + ["", "text", "words,text"]),
        "drop_fields_top_level": chance.choice(["words,segments"] * 5 + ["segments"]),
    }
    target = chance.choice([build["target_window_duration"], 120.0])
    return build, {
        "overlap_percentage": chance.choice([0, 1, 25, 50, 50, 75, 99, 100]),
        "target_duration": target,
    }


def canonical(entry: Entry) -> str:
    return json.dumps(entry, sort_keys=True)


@pytest.mark.parametrize("seed", range(30))
def test_random_manifests_equal_the_reference_in_every_field(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(100):
        build_rules, filter_rules = random_rules(chance)
        entry = random_entry(chance)
        untouched = copy.deepcopy(entry)
        expected = reference_build(copy.deepcopy(entry), build_rules)
        built = ALMDataBuilderStage(**build_rules).process(Task(data=entry))
        # As text, so that 1 and 1.0 are told apart.
        assert canonical(built.data) == canonical(expected)
        expected = reference_filter(
            expected, filter_rules["overlap_percentage"], filter_rules["target_duration"]
        )
        found = ALMDataOverlapStage(**filter_rules).process(built)
        assert canonical(found.data) == canonical(expected)
        assert found.data["filtered"] == expected["filtered"]
        assert entry == untouched


def test_the_random_manifests_reach_every_rule() -> None:
    chance, seen = random.Random(0), dict.fromkeys(("bw", "sr", "spk", "win", "no_spkr", "next_seg_bm"), 0)
    windows = truncations = duplicates = 0
    shapes: Counter[str] = Counter()
    for _ in range(2000):
        build_rules, filter_rules = random_rules(chance)
        stage, entry = ALMDataBuilderStage(**build_rules), random_entry(chance)
        built = stage.process(Task(data=entry))
        if built.data["windows"]:
            shapes.update(shapes_of(entry["segments"], build_rules["max_speakers"]))
        found = ALMDataOverlapStage(**filter_rules).process(built).data
        for cause in seen:
            seen[cause] += found["stats"][f"lost_{cause}"]
        windows += len(found["windows"])
        truncations += found["truncation_events"]
        duplicates += len(found["filtered_windows"]) > len(found["filtered"])
    assert min(seen.values()) > 50 and windows > 2000 and truncations > 500 and duplicates > 10
    assert len(shapes) == 6 and min(shapes.values()) > 30, shapes


def shapes_of(segments: list[Entry], most: int) -> Iterator[str]:
    starts = [segment["start"] for segment in segments]
    kinds = {type(segment["end"] - segment["start"]) for segment in segments}
    yield "in order" if starts == sorted(starts) else "out of order"
    if kinds != {float}:
        yield "whole" if kinds == {int} else "mixed"
    if any(segment["end"] < segment["start"] for segment in segments):
        yield "ends early"
    if len({segment.get("speaker") for segment in segments}) > most:
        yield "many voices"


def seg(start: float, end: float, speaker: str = "a", **more: Any) -> Entry:
    return {"start": start, "end": end, "speaker": speaker, "metrics": {"bandwidth": 9000}, **more}


def build(*segments: Entry, **rules: Any) -> Entry:
    entry = {"audio_filepath": "talk.wav", "audio_sample_rate": 16000, "segments": list(segments)}
    stage = ALMDataBuilderStage(target_window_duration=10.0, **rules)
    built: Entry = stage.process(Task(data=entry)).data
    return built


def test_window_lengths_are_inclusive_at_both_ends() -> None:
    assert len(build(seg(0, 4), seg(4, 9.0, "b"))["windows"]) == 1
    assert len(build(seg(0, 4), seg(4, 8.99, "b"))["windows"]) == 0
    assert len(build(seg(0, 4), seg(4, 11.0, "b"))["windows"]) == 1
    assert build(seg(0, 4), seg(4, 11.0, "b"))["truncation_events"] == 0


def test_a_truncated_segment_ends_with_its_last_word_in_reach() -> None:
    words = [{"word": "one", "end": 9.5}, {"word": "", "end": 10.5}, {"word": "two", "end": 12}]
    (window, *_) = build(seg(0, 4), seg(4, 9, "b"), seg(9, 14, "c", words=words, text="one two"))["windows"]
    last = window["segments"][-1]
    assert (last["end"], last["text"]) == (10.5, "one")
    assert "words" not in last


def test_a_truncated_segment_without_words_ends_where_it_starts() -> None:
    (window, *_) = build(seg(0, 4), seg(4, 9, "b"), seg(9, 14, "c", text="lost"))["windows"]
    assert window["segments"][-1] == {**seg(9, 9, "c"), "text": ""}
    assert window["speaker_durations"] == [5, 4, 0, 0.0, 0.0]


def test_overlap_at_the_threshold_is_a_conflict() -> None:
    windows = [{"segments": [seg(0, 10)]}, {"segments": [seg(5, 15)]}]
    for percentage, left in ((50, 1), (51, 2)):
        stage = ALMDataOverlapStage(overlap_percentage=percentage, target_duration=10.0)
        assert len(stage.process(Task(data={"windows": windows})).data["filtered_windows"]) == left


def test_windows_with_the_same_rounded_times_as_a_survivor_come_back() -> None:
    near = 10 + 2e-7
    windows = [{"segments": [seg(0, 10)]}, {"segments": [seg(0, near)]}, {"segments": [seg(0, 10.1)]}]
    found = ALMDataOverlapStage(overlap_percentage=50, target_duration=10.0).process(
        Task(data={"windows": windows})
    )
    assert found.data["filtered"] == [(10, 0)]
    assert found.data["filtered_windows"] == windows[:2]


def test_windows_without_times_give_nothing_rather_than_an_error() -> None:
    windows = [{"segments": [{"start": 1}]}, {"segments": []}]
    found = ALMDataOverlapStage().process(Task(data={"windows": windows})).data
    assert (found["filtered"], found["filtered_windows"], found["total_dur_window"]) == ([], [], 0.0)


BAD_SEGMENTS = [
    ([{"end": 1}], "segments[0].start is missing"),
    ([seg(0, 1), {"start": 1}], "segments[1].end is missing"),
    ([seg(0, "1")], "segments[0].end is not a number"),  # type: ignore[arg-type]
    ([seg(0, True)], "segments[0].end is not a number"),
    ([seg(0, None)], "segments[0].end is not a number"),  # type: ignore[arg-type]
    ([seg(float("nan"), 1)], "segments[0].start is not a finite number"),
    ([seg(0, 1), seg(0, float("inf"))], "segments[1].end is not a finite number"),
    ([seg(float("inf"), float("inf"))], "segments[0].start is not a finite number"),
    ([seg(0.5, 10**400)], "segments[0].end is not a finite number"),
    ([seg(-1e308, 1e308)], "the segments' times are too large to add up"),
    ([{**seg(0, 1), "metrics": None}], "segments[0].metrics is not an object"),
    (
        [{**seg(0, 1), "metrics": {"bandwidth": 10**400}}],
        "segments[0].metrics.bandwidth is not a finite number",
    ),
    (
        [
            seg(0, 1),
            {**seg(0, 1), "metrics": {"bandwidth": 0.5}},
            {**seg(0, 1), "metrics": {"bandwidth": 10**400}},
        ],
        "segments[2].metrics.bandwidth is not a finite number",
    ),
    ([{**seg(0, 1), "metrics": {"bandwidth": "wide"}}], "segments[0].metrics.bandwidth is not a number"),
    (
        [{**seg(0, 1), "metrics": {"bandwidth": float("nan")}}],
        "segments[0].metrics.bandwidth is not a finite number",
    ),
    ([{**seg(0, 1), "speaker": ["a"]}], "segments[0].speaker is not a label"),
    ([seg(0, 4), seg(4, 9, "b"), seg(9, 14, words=[{"word": "x"}])], "segments[2].words[0] has no end time"),
    ([seg(0, 4), seg(4, 9, "b"), seg(9, 14, words="x y")], "segments[2].words is not a list"),
    (["talk"], "segments is not a list of objects"),
    ({"0": 1}, "segments is not a list of objects"),
]


@pytest.mark.parametrize(("segments", "reason"), BAD_SEGMENTS, ids=[reason for _, reason in BAD_SEGMENTS])
def test_bad_segments_are_refused_with_a_reason(segments: Any, reason: str) -> None:
    entry = {"audio_filepath": "talk.wav", "audio_sample_rate": 16000, "segments": segments}
    with pytest.raises(BadRecord) as refused:
        ALMDataBuilderStage(target_window_duration=10.0).process(Task(data=entry))
    assert str(refused.value) == reason


@pytest.mark.parametrize(
    "rate", ["high", None, True, float("nan"), 10**400], ids=["text", "null", "true", "nan", "huge"]
)
def test_a_sample_rate_that_is_no_number_is_refused(rate: Any) -> None:
    with pytest.raises(BadRecord, match="audio_sample_rate is not a number"):
        ALMDataBuilderStage().process(Task(data={"audio_sample_rate": rate, "segments": []}))


@pytest.mark.parametrize("percentage", [-1, 101, float("nan")])
def test_an_overlap_percentage_out_of_range_is_refused(percentage: float) -> None:
    with pytest.raises(PipelineError, match="overlap_percentage"):
        ALMDataOverlapStage(overlap_percentage=percentage)


def test_other_parameters_out_of_range_are_refused() -> None:
    with pytest.raises(PipelineError, match="target_duration"):
        ALMDataOverlapStage(target_duration=0)
    for wrong in ({"target_window_duration": float("inf")}, {"tolerance": -0.1}, {"tolerance": float("nan")}):
        with pytest.raises(PipelineError, match="positive and finite"):
            ALMDataBuilderStage(**wrong)  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="start or end"):
        ALMDataBuilderStage(drop_fields=["end"])
