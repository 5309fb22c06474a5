"""Windows of about the target length, one tried from each segment of a recording.

The rules are in docs/curation.md. Every sum runs from left to right over Python floats, so that figures
agree to the last digit with an implementation that adds segment by segment.
"""

import sys
from collections.abc import Callable, Iterable
from functools import reduce
from math import isfinite
from operator import add
from typing import Any

from paceline.curate.alm.segments import NO_SPEAKER, Segments, read_segments
from paceline.curate.errors import BadRecord, PipelineError
from paceline.curate.stage import Stage
from paceline.curate.task import Task

SPEAKER_SLOTS = 5
_PADDING = [0.0] * SPEAKER_SLOTS


class ALMDataBuilderStage(Stage):
    """Adds `windows`, `stats` and `truncation_events` to a manifest entry."""

    name = "alm_data_builder"
    inputs = ("audio_filepath", "segments", "audio_sample_rate")
    outputs = ("windows", "stats", "truncation_events")

    def __init__(
        self,
        *,
        target_window_duration: float = 120.0,
        tolerance: float = 0.1,
        min_sample_rate: int = 16000,
        min_bandwidth: int = 8000,
        min_speakers: int = 2,
        max_speakers: int = 5,
        truncation: bool = True,
        drop_fields: str | Iterable[str] = "words",
        drop_fields_top_level: str | Iterable[str] = "words,segments",
    ) -> None:
        if target_window_duration <= 0 or tolerance < 0:
            raise PipelineError(
                "alm_data_builder: target_window_duration must be positive, tolerance not negative"
            )
        self.lower_s = target_window_duration - target_window_duration * tolerance
        self.upper_s = target_window_duration + target_window_duration * tolerance
        self.min_sample_rate = min_sample_rate
        self.min_bandwidth = min_bandwidth
        self.min_speakers = min_speakers
        self.max_speakers = max_speakers
        self.truncation = truncation
        self.drop_fields = _names(drop_fields)
        self.drop_fields_top_level = _names(drop_fields_top_level)
        if self.drop_fields & {"start", "end"}:
            raise PipelineError(
                "alm_data_builder: drop_fields names start or end, which windows are measured by"
            )

    def process(self, task: Task) -> Task:
        return task.carrying(self.build(task.data))

    def build(self, entry: dict[str, Any]) -> dict[str, Any]:
        """The output entry; the input is left as it is."""
        raw = entry.get("segments", [])
        segments = read_segments(raw)
        rate = entry.get("audio_sample_rate", 0)
        if type(rate) not in (int, float) or not isfinite(rate):
            raise BadRecord("audio_sample_rate is not a number")
        stats = _new_stats(len(raw), segments.total_s, entry.get("swift_audio_filepath", ""), rate)
        if not rate >= self.min_sample_rate:
            stats["lost_sr"], stats["dur_lost_sr"] = len(raw), segments.total_s
            path = entry.get("audio_filepath")
            return {"audio_filepath": path, "windows": [], "stats": stats, "truncation_events": 0}
        windows, truncation_events = _Scan(self, raw, segments, stats).run()
        dropped = self.drop_fields_top_level
        output = {name: value for name, value in entry.items() if name not in dropped}
        output["windows"], output["stats"], output["truncation_events"] = windows, stats, truncation_events
        return output


def _names(given: str | Iterable[str]) -> frozenset[str]:
    parts = given.split(",") if isinstance(given, str) else given
    return frozenset(name for part in parts if (name := part.strip()))


def _new_stats(total: int, total_s: float, swift_path: Any, rate: float) -> dict[str, Any]:
    return {
        "total_segments": total,
        "total_dur": total_s,
        "swift_path": swift_path,
        "audio_sample_rate": rate,
        "lost_bw": 0,
        "dur_lost_bw": 0.0,
        "lost_sr": 0,
        "dur_lost_sr": 0.0,
        "lost_spk": 0,
        "dur_lost_spk": 0.0,
        "lost_win": 0,
        "dur_lost_win": 0.0,
        "lost_no_spkr": 0,
        "dur_lost_no_spkr": 0.0,
        "lost_next_seg_bm": 0,
        "dur_lost_next_seg_bm": 0.0,
        "lost_win_full_data": [],
    }


def _add_in_turn(lengths: list[float]) -> float:
    return reduce(add, lengths)


# From Python 3.12 on `sum` compensates rounding errors, which is not what adding one by one gives.
_add_up: Callable[[list[float]], float] = sum if sys.version_info < (3, 12) else _add_in_turn


class _Scan:
    """One recording: where each scan stops, and what becomes of its window."""

    __slots__ = ("_silent", "kept", "raw", "segments", "stage", "stats", "truncation_events")

    def __init__(
        self, stage: ALMDataBuilderStage, raw: list[dict[str, Any]], segments: Segments, stats: dict[str, Any]
    ) -> None:
        self.stage = stage
        self.raw = raw
        self.segments = segments
        self.stats = stats
        self.truncation_events = 0
        # Windows share their segments: a copy for each window would be ten times the memory.
        self.kept = _strip(raw, stage.drop_fields)
        self._silent: dict[int, dict[str, Any]] = {}

    def run(self) -> tuple[list[dict[str, Any]], int]:
        """Try each segment as a start.

        `heard` keeps the lengths of each speaker's segments in the window, in order, as the window slides:
        their sums are those of adding from left to right, which running totals would not be.
        """
        stage, (starts, ends, lengths, speakers) = self.stage, self.segments.columns()
        lower_s, upper_s, kept, uniform = stage.lower_s, stage.upper_s, self.kept, self.segments.uniform
        may_cut, add_up = len(starts) if stage.truncation else 0, _add_up
        windows: list[dict[str, Any]] = []
        heard: dict[Any, list[float]] = {}
        filled = 0
        for index, stop in enumerate(self._stops()):
            if stop < 0:
                self._lose("lost_bw", "dur_lost_bw", index)
                continue
            if filled < index or filled > stop or not uniform:
                heard.clear()
                filled = index
            elif index and (speaker := speakers[index - 1]):
                own = heard[speaker]
                if len(own) > 1:
                    del own[0]
                else:
                    del heard[speaker]
            while filled < stop:
                if (speaker := speakers[filled]) in heard:
                    heard[speaker].append(lengths[filled])
                elif speaker:
                    heard[speaker] = [lengths[filled]]
                filled += 1
            start, members, voices = starts[index], kept[index:stop], heard
            end = ends[stop - 1] if stop > index else start
            if stop < may_cut and starts[stop] < start + upper_s and ends[stop] - start > upper_s:
                end, voices = self._truncate(stop, start + upper_s, members, end, heard)
            if not lower_s <= end - start <= upper_s or len(members) < 2:
                self._lose_window(index, stop, members)
            elif len(voices) < stage.min_speakers:
                self._lose("lost_spk", "dur_lost_spk", index)
            else:
                ranked = list(map(add_up, voices.values()))
                ranked.sort(reverse=True)
                ranked += _PADDING[len(ranked) :]
                del ranked[SPEAKER_SLOTS:]
                windows.append({"segments": members, "speaker_durations": ranked})
        return windows, self.truncation_events

    def _stops(self) -> list[int]:
        """For each start, the first segment not whole in its window; -1 where the start cannot be one."""
        speakers = self.segments.speakers
        labels = set(speakers)
        if len(labels) > self.stage.max_speakers or not (
            _rises(self.segments.starts) and _rises(self.segments.ends)
        ):
            return [self._walk(index) for index in range(len(speakers))]
        if NO_SPEAKER in labels or min(self.segments.bandwidths, default=0) < self.stage.min_bandwidth:
            return self._stops_before_barriers()
        return self._stops_by_time()

    def _stops_by_time(self) -> list[int]:
        """Times rise, so the stop never moves back: one pass over the segments."""
        ends, upper_s = self.segments.ends, self.stage.upper_s
        count, stop = len(ends), 0
        stops = []
        for index, start in enumerate(self.segments.starts):
            if stop < index:
                stop = index
            while stop < count and ends[stop] - start <= upper_s:
                stop += 1
            stops.append(stop)
        return stops

    def _stops_before_barriers(self) -> list[int]:
        """As by time, but no window reaches over a segment of low bandwidth or of nobody."""
        min_bandwidth = self.stage.min_bandwidth
        bandwidths, speakers = self.segments.bandwidths, self.segments.speakers
        stops = self._stops_by_time()
        barrier = len(stops)
        for index in range(len(stops) - 1, -1, -1):
            if bandwidths[index] < min_bandwidth:
                barrier, stops[index] = index, -1
                continue
            if speakers[index] == NO_SPEAKER:
                barrier = index
            stops[index] = min(stops[index], barrier)
        return stops

    def _walk(self, index: int) -> int:
        """The literal scan, for times out of order and for more speakers than a window may have."""
        ends, bandwidths, speakers = self.segments.ends, self.segments.bandwidths, self.segments.speakers
        min_bandwidth, max_speakers = self.stage.min_bandwidth, self.stage.max_speakers
        if bandwidths[index] < min_bandwidth:
            return -1
        start, upper_s = self.segments.starts[index], self.stage.upper_s
        heard: set[Any] = set()
        for stop in range(index, len(ends)):
            if bandwidths[stop] < min_bandwidth or ends[stop] - start > upper_s:
                return stop
            speaker = speakers[stop]
            if speaker and speaker not in heard:
                if speaker == NO_SPEAKER or len(heard) >= max_speakers:
                    return stop
                heard.add(speaker)
        return len(ends)

    def _truncate(
        self,
        stop: int,
        cut_s: float,
        members: list[dict[str, Any]],
        end: float,
        heard: dict[Any, list[float]],
    ) -> tuple[float, dict[Any, list[float]]]:
        """Let the segment at the stop, which reaches over the cut, join as far as it fits."""
        stage, speaker = self.stage, self.segments.speakers[stop]
        if self.segments.bandwidths[stop] < stage.min_bandwidth:
            return end, heard
        self.truncation_events += 1
        if speaker == NO_SPEAKER or (speaker and speaker not in heard and len(heard) >= stage.max_speakers):
            return end, heard
        start, words = self.segments.starts[stop], self.raw[stop].get("words")
        if words:
            cut = self._shorten(stop, _words_before(words, cut_s, stop))
        elif (known := self._silent.get(stop)) is not None:
            cut = known
        else:
            cut = self._silent[stop] = self._shorten(stop, [])
        members.append(cut)
        end = cut["end"]
        if not speaker or (end == start and speaker in heard and self.segments.uniform):
            return end, heard
        return end, {**heard, speaker: [*heard.get(speaker, ()), end - start]}

    def _shorten(self, stop: int, words: list[dict[str, Any]]) -> dict[str, Any]:
        """A copy that ends with the last word before the cut, or where it starts if no word does."""
        dropped = self.stage.drop_fields
        shortened = self.kept[stop].copy()
        shortened["end"] = words[-1]["end"] if words else self.segments.starts[stop]
        if "text" not in dropped:
            shortened["text"] = (
                " ".join([word["word"] for word in words if word.get("word")]) if words else ""
            )
        if "words" not in dropped:
            shortened["words"] = words
        return shortened

    def _lose(self, counter: str, duration: str, index: int) -> None:
        self.stats[counter] += 1
        self.stats[duration] += self.segments.lengths[index]

    def _lose_window(self, index: int, stop: int, members: list[dict[str, Any]]) -> None:
        self._lose("lost_win", "dur_lost_win", index)
        after = min(stop, len(self.raw) - 1)
        # A label that is there but null or empty does not count as missing here.
        if self.raw[after].get("speaker", NO_SPEAKER) == NO_SPEAKER:
            self._lose("lost_no_spkr", "dur_lost_no_spkr", index)
        elif self.segments.bandwidths[after] < self.stage.min_bandwidth:
            self._lose("lost_next_seg_bm", "dur_lost_next_seg_bm", index)
        record = {
            "index": index,
            "window_segs": members,
            "next_seg": self.kept[after],
            "prev_seg": self.kept[max(index - 1, 0)],
        }
        self.stats["lost_win_full_data"].append(record)


def _rises(times: list[float]) -> bool:
    return times == sorted(times)


def _strip(segments: list[dict[str, Any]], dropped: frozenset[str]) -> list[dict[str, Any]]:
    """The segments without the dropped fields; those that have none of them stay themselves."""
    if not [name for name in dropped for segment in segments if name in segment]:
        return segments
    return [
        segment
        if dropped.isdisjoint(segment)
        else {name: value for name, value in segment.items() if name not in dropped}
        for segment in segments
    ]


def _words_before(words: Any, cut_s: float, index: int) -> list[dict[str, Any]]:
    if not isinstance(words, list):
        raise BadRecord(f"segments[{index}].words is not a list")
    for place, word in enumerate(words):
        if not isinstance(word, dict) or type(word.get("end")) not in (int, float):
            raise BadRecord(f"segments[{index}].words[{place}] has no end time")
    return [word for word in words if word["end"] <= cut_s]
