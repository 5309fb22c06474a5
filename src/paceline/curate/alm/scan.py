"""The scan over one recording that makes its windows."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

from paceline.curate.alm.segments import NO_SPEAKER, Segments
from paceline.curate.errors import BadRecord

SPEAKER_SLOTS = 5
_PADDING = [[0.0] * (SPEAKER_SLOTS - count) for count in range(SPEAKER_SLOTS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRules:
    """What a window must be like."""

    lower_s: float
    upper_s: float
    min_bandwidth: float
    min_speakers: int
    max_speakers: int
    truncation: bool
    drop_fields: frozenset[str]


def _add_in_turn(lengths: list[float]) -> float:
    return reduce(add, lengths)


# From Python 3.12 on `sum` compensates rounding errors, which is not what adding one by one gives.
_add_up: Callable[[list[float]], float] = sum if sys.version_info < (3, 12) else _add_in_turn


class Scan:
    """One recording: where each scan stops, and what becomes of its window."""

    __slots__ = (
        "bandwidths",
        "kept",
        "raw",
        "rules",
        "segments",
        "silent",
        "speakers",
        "starts",
        "stats",
        "truncation_events",
    )

    def __init__(
        self, rules: WindowRules, raw: list[dict[str, Any]], segments: Segments, stats: dict[str, Any]
    ) -> None:
        self.rules = rules
        self.raw = raw
        self.segments = segments
        self.starts, self.speakers, self.bandwidths = segments.starts, segments.speakers, segments.bandwidths
        self.stats = stats
        self.truncation_events = 0
        # Windows share their segments: a copy for each window would be ten times the memory.
        self.kept = _strip(raw, rules.drop_fields)
        self.silent: dict[int, dict[str, Any]] = {}

    def run(self) -> tuple[list[dict[str, Any]], int]:
        """Try each segment as a start.

        `spoken` sums up how long each speaker is heard in the window. Sums must be those of adding from left
        to right: adding on the right keeps that, and taking away on the left disturbs only the speaker that
        leaves, whose sum is made anew from `heard`.
        """
        rules, segments, kept = self.rules, self.segments, self.kept
        lower_s, upper_s, uniform, padding = rules.lower_s, rules.upper_s, segments.uniform, _PADDING
        starts, ends, lengths, speakers = segments.starts, segments.ends, segments.lengths, segments.speakers
        may_cut = len(starts) if rules.truncation else 0
        windows: list[dict[str, Any]] = []
        spoken: dict[Any, float] = {}
        heard: dict[Any, list[float]] = {}
        filled = 0
        for index, stop in enumerate(self._stops()):
            if stop < 0:
                self._lose("lost_bw", "dur_lost_bw", index)
                continue
            if filled < index or filled > stop or not uniform:
                spoken.clear()
                heard.clear()
                filled = index
            elif index and (speaker := speakers[index - 1]):
                own = heard[speaker]
                del own[0]
                if own:
                    spoken[speaker] = _add_up(own)
                else:
                    del spoken[speaker], heard[speaker]
            while filled < stop:
                if (speaker := speakers[filled]) in spoken:
                    spoken[speaker] += lengths[filled]
                    heard[speaker].append(lengths[filled])
                elif speaker:
                    spoken[speaker] = lengths[filled]
                    heard[speaker] = [lengths[filled]]
                filled += 1
            start, members, sums = starts[index], kept[index:stop], spoken
            end = ends[stop - 1] if stop > index else start
            if stop < may_cut and starts[stop] < start + upper_s and ends[stop] - start > upper_s:
                end, sums = self._truncate(stop, start + upper_s, members, end, spoken)
            if not lower_s <= end - start <= upper_s or len(members) < 2:
                self._lose_window(index, stop, members)
            elif len(sums) < rules.min_speakers:
                self._lose("lost_spk", "dur_lost_spk", index)
            else:
                ranked = sorted(sums.values(), reverse=True)
                if (count := len(ranked)) < SPEAKER_SLOTS:
                    ranked += padding[count]
                elif count > SPEAKER_SLOTS:
                    del ranked[SPEAKER_SLOTS:]
                windows.append({"segments": members, "speaker_durations": ranked})
        return windows, self.truncation_events

    def _stops(self) -> list[int]:
        """For each start, the first segment not whole in its window; -1 where the start cannot be one."""
        speakers = self.segments.speakers
        labels = set(speakers)
        if len(labels) > self.rules.max_speakers or not (
            _rises(self.segments.starts) and _rises(self.segments.ends)
        ):
            return [self._walk(index) for index in range(len(speakers))]
        if NO_SPEAKER in labels or min(self.segments.bandwidths, default=0) < self.rules.min_bandwidth:
            return self._stops_before_barriers()
        return self._stops_by_time()

    def _stops_by_time(self) -> list[int]:
        """Times rise, so the stop never moves back: one pass over the segments."""
        ends, upper_s = self.segments.ends, self.rules.upper_s
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
        min_bandwidth = self.rules.min_bandwidth
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
        min_bandwidth, max_speakers = self.rules.min_bandwidth, self.rules.max_speakers
        if bandwidths[index] < min_bandwidth:
            return -1
        start, upper_s = self.segments.starts[index], self.rules.upper_s
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
        self, stop: int, cut_s: float, members: list[dict[str, Any]], end: float, spoken: dict[Any, float]
    ) -> tuple[float, dict[Any, float]]:
        """Let the segment at the stop, which reaches over the cut, join as far as it fits."""
        rules, speaker = self.rules, self.speakers[stop]
        if self.bandwidths[stop] < rules.min_bandwidth:
            return end, spoken
        self.truncation_events += 1
        is_new = speaker and speaker not in spoken
        if speaker == NO_SPEAKER or (is_new and len(spoken) >= rules.max_speakers):
            return end, spoken
        if (cut := self.silent.get(stop)) is None:
            cut = self._cut(stop, cut_s)
        members.append(cut)
        end, start = cut["end"], self.starts[stop]
        if not speaker or (end == start and not is_new and self.segments.uniform):
            return end, spoken
        return end, {**spoken, speaker: spoken.get(speaker, 0) + (end - start)}

    def _cut(self, stop: int, cut_s: float) -> dict[str, Any]:
        words = self.raw[stop].get("words")
        if words:
            return self._shorten(stop, _words_before(words, cut_s, stop))
        # Without words the copy is the same for every window that it ends.
        self.silent[stop] = cut = self._shorten(stop, [])
        return cut

    def _shorten(self, stop: int, words: list[dict[str, Any]]) -> dict[str, Any]:
        """A copy that ends with the last word before the cut, or where it starts if no word does."""
        dropped = self.rules.drop_fields
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
        elif self.segments.bandwidths[after] < self.rules.min_bandwidth:
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
