"""The same windows as `scan` makes, in one pass, for segments that are in order.

As starts rise, the stop of the scan never moves back. How long each speaker is heard must be the sum from left
to right: adding on the right keeps that, and taking away on the left disturbs only the speaker that leaves,
whose sum is made anew.
"""

import sys
from collections.abc import Callable
from functools import reduce
from math import inf
from operator import add
from typing import Any

from paceline.curate.alm.recording import SPEAKER_SLOTS, Recording, Window, rank
from paceline.curate.alm.segments import NO_SPEAKER, Segments


def _add_in_turn(lengths: list[float]) -> float:
    return reduce(add, lengths)


# From Python 3.12 on `sum` compensates rounding errors, which is not what adding one by one gives.
_add_up: Callable[[list[float]], float] = sum if sys.version_info < (3, 12) else _add_in_turn


_NOBODY = frozenset((None, "", NO_SPEAKER))


def find_slots(recording: Recording) -> dict[Any, int] | None:
    """The place of each speaker among the sums, or nothing if `scan_in_order` cannot take the recording."""
    rules, segments = recording.rules, recording.segments
    voices = segments.labels - _NOBODY
    if not segments.regular or len(voices) > min(SPEAKER_SLOTS, rules.max_speakers) or not all(voices):
        return None
    if not 0 < rules.min_speakers <= SPEAKER_SLOTS:
        return None
    return dict(zip(voices, range(SPEAKER_SLOTS), strict=False))


def scan_in_order(recording: Recording, slots: dict[Any, int]) -> tuple[list[Window], int]:
    """The windows, and how many segments were truncated on the way to them or to lost ones."""
    rules, segments, kept = recording.rules, recording.segments, recording.kept
    lower_s, upper_s, enough = rules.lower_s, rules.upper_s, rules.min_speakers - 1
    reach_s = upper_s if rules.truncation else -inf
    starts, ends, nobodies = _with_barriers(recording)
    voices, lengths = _voices(segments, slots)
    heard: list[list[float]] = [[] for _ in range(SPEAKER_SLOTS)]
    sums = [0.0] * SPEAKER_SLOTS
    windows: list[Window] = []
    lost: list[tuple[int, int, list[dict[str, Any]]]] = []
    # In the row a segment that was cut stands in place of the whole one. Without words it is the same for every window.
    row, cut_at, worded = kept.copy(), -1, recording.is_worded()
    events = stop = 0
    for index, start, voice in zip(range(len(voices)), starts, voices, strict=False):
        while ends[stop] - start <= upper_s:
            added, length = voices[stop], lengths[stop]
            heard[added].append(length)
            sums[added] += length
            stop += 1
        end, ranked = starts[stop], None
        if end < start + reach_s:
            events += 1
            if worded or stop != cut_at:
                row[cut_at] = kept[cut_at]
                row[stop] = cut = (
                    recording.cut(stop, start + upper_s) if worded else _silence(kept[stop], end)
                )
                cut_at = stop
                if cut["end"] != end:
                    end, ranked = cut["end"], _rank_cut(recording, index, stop, cut["end"])
            members = row[index : stop + 1]
        else:
            members = kept[index:stop]
            end = ends[stop - 1] if stop > index else start
            if nobodies and stop in nobodies:
                events += _reaches_over(segments, index, stop, upper_s)
        if not (lower_s <= end - start <= upper_s and len(members) > 1):
            lost.append((index, stop, members))
        else:
            if ranked is None:
                ranked = [*sums]
                ranked.sort(reverse=True)
            # Slots over zero are speakers; only where they are too few are those heard for no time counted.
            if ranked[enough] > 0.0 or _count_speakers(segments, index, len(members)) > enough:
                windows.append({"segments": members, "speaker_durations": ranked})
            else:
                recording.lose("spk", index)
        if stop > index:
            own = heard[voice]
            del own[0]
            sums[voice] = _add_up(own) if own else 0.0
        else:
            stop = index + 1
    _lose(recording, lost)
    return windows, events


def _with_barriers(recording: Recording) -> tuple[list[float], list[float], set[int]]:
    """Starts and ends in which no window reaches over a barrier or the end, and where the barriers of nobody are.

    Barriers are segments of low bandwidth and of nobody. Infinite times there end each scan, without a test of its own.
    """
    speakers, bandwidths = recording.segments.speakers, recording.segments.bandwidths
    starts, ends = [*recording.segments.starts, inf], [*recording.segments.ends, inf]
    nobodies: set[int] = set()
    min_bandwidth = recording.rules.min_bandwidth
    if min(bandwidths, default=min_bandwidth) < min_bandwidth or NO_SPEAKER in recording.segments.labels:
        for place, speaker in enumerate(speakers):
            if bandwidths[place] < min_bandwidth:
                starts[place] = ends[place] = inf
            elif speaker == NO_SPEAKER:
                starts[place] = ends[place] = inf
                nobodies.add(place)
    return starts, ends, nobodies if recording.rules.truncation else set()


def _voices(segments: Segments, slots: dict[Any, int]) -> tuple[list[int], list[float]]:
    """The slot of each segment's speaker, and what it adds there: nothing where nobody speaks."""
    speakers, lengths = segments.speakers, segments.lengths
    try:
        return [slots[speaker] for speaker in speakers], lengths
    except KeyError:
        spoken = [
            length if speaker in slots else 0.0 for speaker, length in zip(speakers, lengths, strict=True)
        ]
        return [slots.get(speaker, 0) for speaker in speakers], spoken


def _silence(segment: dict[str, Any], end: float) -> dict[str, Any]:
    cut = segment.copy()
    cut["end"], cut["text"] = end, ""
    return cut


def _reaches_over(segments: Segments, index: int, stop: int, upper_s: float) -> bool:
    start = segments.starts[index]
    return segments.starts[stop] < start + upper_s and segments.ends[stop] - start > upper_s


def _rank_cut(recording: Recording, index: int, stop: int, end: float) -> list[float]:
    """The durations where words of the segment at the stop are left."""
    spoken, speaker = recording.spoken(index, stop), recording.segments.speakers[stop]
    if speaker:
        spoken[speaker] = spoken.get(speaker, 0) + (end - recording.segments.starts[stop])
    return rank(spoken)


def _count_speakers(segments: Segments, index: int, count: int) -> int:
    return len({speaker for speaker in segments.speakers[index : index + count] if speaker})


def _lose(recording: Recording, lost: list[tuple[int, int, list[dict[str, Any]]]]) -> None:
    """Account for starts that no window came of; each cause has counters of its own, so none is out of turn."""
    bandwidths, min_bandwidth = recording.segments.bandwidths, recording.rules.min_bandwidth
    for index, stop, members in lost:
        if bandwidths[index] < min_bandwidth:
            recording.lose("bw", index)
        else:
            recording.lose_window(index, stop, members)
